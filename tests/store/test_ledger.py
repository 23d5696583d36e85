"""A ledger over a table of its own, as configs and agents have theirs."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.errors import HiveError
from hive_agents.store import Ledger, audit, connected, made_by, transaction
from tests.records import log_lines, rewrite_log


@dataclass(frozen=True)
class Decree:
    id: int
    town: str
    text: str
    at: str
    evaluation: dict[str, Any] | None


TABLE = (
    "CREATE TABLE decrees"
    " (id INTEGER PRIMARY KEY AUTOINCREMENT, town TEXT, text TEXT, at TEXT NOT NULL, evaluation TEXT)"
)
BELIEVED = Ledger(Decree, "decrees", "decree", lambda row: row.text, logged_as={"id": "number"}, subject="town")
VOUCHED = replace(BELIEVED, logged_as={"id": "number", "at": "decreed_at"}, vouched_only=True)


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    (tmp_path / "collections").mkdir()
    made = Workspace(tmp_path)
    with connected(made.records) as connection:
        connection.execute(TABLE)
    return made


def decree(place: Workspace, text: str, town: str = "Hive", ledger: Ledger[Decree] = BELIEVED, **known: Any) -> Decree:
    return ledger.append(place, lambda number: Decree(number, town, text, "2025-03-01", known or None))


def execute(place: Workspace, sql: str, *values: Any) -> None:
    with connected(place.records) as connection:
        connection.execute(sql, values)


def rows(place: Workspace) -> list[tuple[int, str]]:
    with connected(place.records) as connection:
        return connection.execute("SELECT id, text FROM decrees ORDER BY id").fetchall()


def texts(place: Workspace, ledger: Ledger[Decree], town: str | None = None) -> list[str]:
    return [row.text for row in ledger.history(place, town).rows]


def edit_line(place: Workspace, number: int, **values: Any) -> None:
    lines = log_lines(place)
    lines[number - 1] = json.dumps(json.loads(lines[number - 1]) | values)
    rewrite_log(place, lines)


def refused(place: Workspace, ledger: Ledger[Decree]) -> str:
    with pytest.raises(HiveError) as raised:
        ledger.history(place)
    (found,) = raised.value.diagnostics
    assert (found.code, found.file, raised.value.exit_code) == ("HIVE-413", audit.FILE, 1)
    return found.message


@pytest.mark.parametrize("ledger", [BELIEVED, VOUCHED])
def test_an_entry_is_a_line_and_a_row(place: Workspace, ledger: Ledger[Decree]) -> None:
    first = decree(place, "one", ledger=ledger, n=40)
    second = decree(place, "two", ledger=ledger)
    assert ledger.history(place).rows == [second, first]
    assert (first.id, first.evaluation, second.evaluation) == (1, {"n": 40}, None)
    assert rows(place) == [(1, "one"), (2, "two")]
    line = audit.recorded(place, "decree")[0]
    assert (line["number"], line["town"], line["evaluation"]) == (1, "Hive", {"n": 40})
    assert "id" not in line


@pytest.mark.sqlite_file
def test_a_history_without_entries_makes_no_database(tmp_path: Path) -> None:
    (tmp_path / "collections").mkdir()
    place = Workspace(tmp_path)
    assert BELIEVED.history(place).rows == VOUCHED.history(place).rows == []
    assert not place.database.exists()


def test_what_is_written_with_an_entry_happens_with_it_or_not_at_all(place: Workspace) -> None:
    def fails(connection: Any, row: Decree) -> None:
        connection.execute("INSERT INTO terms (term) VALUES (?)", (row.text,))
        raise RuntimeError("killed")

    with pytest.raises(RuntimeError):
        BELIEVED.append(place, lambda number: Decree(number, "Hive", "one", "2025-03-01", None), fails)
    assert rows(place) == []
    assert texts(place, BELIEVED) == ["one"]  # the line was written: it decides
    assert rows(place) == [(1, "one")]


@pytest.mark.parametrize("ledger", [BELIEVED, VOUCHED])
@pytest.mark.parametrize("damage", ["DELETE FROM decrees", "UPDATE decrees SET text = 'forged'"])
def test_rows_that_are_lost_or_changed_come_back_from_the_log(
    place: Workspace, ledger: Ledger[Decree], damage: str
) -> None:
    decree(place, "one", ledger=ledger, n=1)
    decree(place, "two", ledger=ledger)
    execute(place, damage)
    assert texts(place, ledger) == ["two", "one"]
    assert rows(place) == [(1, "one"), (2, "two")]


def test_numbers_go_on_after_those_of_the_log(place: Workspace) -> None:
    decree(place, "one")
    decree(place, "two")
    execute(place, "DELETE FROM decrees")
    execute(place, "DELETE FROM sqlite_sequence")
    assert decree(place, "three").id == 3


@pytest.mark.parametrize("ledger", [BELIEVED, VOUCHED])
def test_a_newer_row_that_the_log_does_not_know_is_not_believed(place: Workspace, ledger: Ledger[Decree]) -> None:
    decree(place, "one", ledger=ledger)
    execute(place, "INSERT INTO decrees VALUES (7, 'Hive', 'forged', 'x', NULL)")
    history = ledger.history(place)
    assert ([row.text for row in history.rows], [row.text for row in history.unlogged]) == (["one"], ["forged"])


def test_rows_older_than_the_log_hold_unless_only_the_log_vouches(place: Workspace) -> None:
    execute(place, "INSERT INTO decrees VALUES (1, 'Hive', 'old', 'x', NULL)")
    assert texts(place, BELIEVED) == ["old"]
    assert refused(place, VOUCHED) == "the database has old, and the audit log knows of none"
    assert decree(place, "new").id == 2
    assert texts(place, BELIEVED) == ["new", "old"]


def test_histories_of_several_subjects_share_a_table(place: Workspace) -> None:
    decree(place, "one", ledger=VOUCHED)
    decree(place, "two", town="Comb", ledger=VOUCHED)
    decree(place, "three", ledger=VOUCHED)
    assert texts(place, VOUCHED, "Hive") == ["three", "one"]
    assert texts(place, VOUCHED, "Comb") == ["two"]
    assert texts(place, VOUCHED, "Nowhere") == []


def test_a_broken_log_restores_nothing(place: Workspace) -> None:
    decree(place, "one")
    decree(place, "two")
    edit_line(place, 1, text="edited")
    assert "the audit log is broken at line 1" in refused(place, BELIEVED)
    assert rows(place) == [(1, "one"), (2, "two")]


def test_only_the_lines_before_a_break_are_vouched_for(place: Workspace) -> None:
    for text in ("one", "two", "three"):
        decree(place, text, ledger=VOUCHED)
    edit_line(place, 2, text="edited")
    execute(place, "DELETE FROM decrees")
    assert texts(place, VOUCHED) == ["one"]
    assert rows(place) == []
    edit_line(place, 1, text="edited")
    assert "line 1 was edited" in refused(place, VOUCHED)


def test_the_moment_of_a_line_may_differ_from_that_of_its_row(place: Workspace) -> None:
    made = decree(place, "one")
    assert audit.recorded(place, "decree")[0]["at"] != made.at
    assert BELIEVED.history(place).rows == [made]
    with connected(place.records) as connection, transaction(connection):
        connection.execute("DELETE FROM decrees")
    assert BELIEVED.history(place).rows[0].at == audit.recorded(place, "decree")[0]["at"]


@pytest.mark.parametrize("ledger", [BELIEVED, VOUCHED])
def test_a_line_without_a_value_is_told(place: Workspace, ledger: Ledger[Decree]) -> None:
    audit.append(place, "decree", number=1, town="Hive")
    assert refused(place, ledger) == "an entry in the audit log has no text at line 1"


def test_the_entry_that_an_approval_made_is_found(place: Workspace) -> None:
    decree(place, "one", approval_id="a1")
    again = decree(place, "two", approval_id="a1")
    decree(place, "three")
    found = BELIEVED.history(place).rows
    assert made_by(found, "a1") == again
    assert made_by(found, "a2") is None
