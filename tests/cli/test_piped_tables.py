"""A table that no terminal bounds: whole values in columns, no rules, and no line longer than what it says."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.table import Table

from hive_agents import Workspace
from hive_agents.cli.terminal import console
from tests.conftest import make_workspace, write_document
from tests.sample import hive

LONG = "guides/" + "a-rather-long-name-" * 6 + "of-a-document.md"


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    place = make_workspace(tmp_path / "workspace", embedding=False)
    for n in range(60):
        write_document(place, f"more/{n}.md", f"---\nstatus: a status that is called number {n}\n---\nText {n}.\n")
    return place


def test_no_line_is_filled_up_and_none_is_ruled(place: Workspace) -> None:
    lines = hive("fields", "-w", place.root).out.splitlines()
    assert not {sign for line in lines for sign in line} & set("│┃━─┏└")
    assert all(line == line.rstrip() for line in lines)
    assert any("a status that is called number 17 (1)" in line for line in lines)
    by_name = {line.split()[0]: line for line in lines if line.strip()}
    assert len(by_name["title"]) < 60 < len(by_name["status"])


def test_a_long_value_stands_whole_on_its_line_and_moves_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table("document", "rank", "why", title="found")
    table.columns[1].justify = "right"
    table.add_row("a.md", "1", "has it")
    table.add_row(LONG, "12", "has it, too")
    table.add_row("日本.md", "3", "")
    console().print(table)
    short, long, wide = capsys.readouterr().out.splitlines()[2:]
    assert short == f"{'a.md':48}     1  has it"
    assert long == f"{LONG}    12  has it, too"
    assert wide == f"日本.md{'':41}     3"


def test_what_a_terminal_would_obey_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table("document")
    table.add_row("a\x1b[31m.md")
    console().print(table)
    assert "\x1b" not in capsys.readouterr().out


def test_lines_of_a_cell_stay_below_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table("document", "why")
    table.add_row("a.md", "first\nsecond")
    console().print(table)
    assert {line.split("│")[-2].strip() for line in capsys.readouterr().out.splitlines() if "│" in line} >= {"second"}
