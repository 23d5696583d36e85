"""Our tables of checkpoints beside those of langgraph-checkpoint-sqlite, in the same file."""

from __future__ import annotations

import operator
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from threading import RLock
from typing import Annotated, Any, TypedDict

import pytest
from langgraph.checkpoint.base import ERROR, INTERRUPT
from langgraph.checkpoint.sqlite import SqliteSaver as Theirs
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

from hive_agents.runs.checkpoint_tables import SqliteSaver as Ours, make_tables
from hive_agents.runs.checkpoints import _serializer

CONFIG: Any = {"configurable": {"thread_id": "t"}}


class State(TypedDict):
    said: Annotated[list[str], operator.add]


def graph(saver: Any) -> Any:
    """Two nodes at once, then one that asks."""
    builder = StateGraph(State)
    builder.add_node("left", lambda _: {"said": ["left"]})
    builder.add_node("right", lambda _: {"said": ["right"]})
    builder.add_node("asks", lambda _: {"said": [interrupt("who?")]})
    for side in ("left", "right"):
        builder.add_edge(START, side)
        builder.add_edge(side, "asks")
    builder.add_edge("asks", END)
    return builder.compile(checkpointer=saver)


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    opened = sqlite3.connect(tmp_path / "checkpoints.db", check_same_thread=False)
    make_tables(opened)
    yield opened
    opened.close()


class Committing(Ours):
    """As a saver that holds a lease: one thread at a time, and who calls `put` and `put_writes` commits."""

    _turn = RLock()

    def put(self, *arguments: Any) -> Any:
        with self._turn, self.conn:
            return super().put(*arguments)

    def put_writes(self, *arguments: Any) -> None:
        with self._turn, self.conn:
            super().put_writes(*arguments)


def savers(connection: sqlite3.Connection) -> tuple[Any, Any]:
    return Committing(connection, serde=_serializer()), Theirs(connection, serde=_serializer())


@pytest.mark.parametrize("begun_by", ["ours", "theirs"])
def test_a_thread_that_one_began_goes_on_with_the_other(connection: sqlite3.Connection, begun_by: str) -> None:
    ours, theirs = savers(connection)
    first, second = (ours, theirs) if begun_by == "ours" else (theirs, ours)
    graph(first).invoke({"said": []}, CONFIG, durability="sync")
    done = graph(second).invoke(Command(resume="dana"), CONFIG, durability="sync")
    assert done == {"said": ["left", "right", "dana"]}


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"limit": 2},
        {"limit": 0},
        {"filter": {"source": "loop"}},
        {"filter": {"source": "loop"}, "limit": 1},
        {"filter": {"step": -1, "source": "input"}},
        {"filter": {"nothing": 1}},
        {"before": 1},
    ],
)
def test_both_list_the_same(connection: sqlite3.Connection, asked: dict[str, Any]) -> None:
    ours, theirs = savers(connection)
    graph(ours).invoke({"said": []}, CONFIG, durability="sync")
    other: Any = {"configurable": {"thread_id": "u"}}
    graph(theirs).invoke({"said": ["x"]}, other, durability="sync")
    if "before" in asked:
        asked = {"before": [*theirs.list(CONFIG)][asked["before"]].config}
    for config in (CONFIG, other, None, {"configurable": {"thread_id": "t", "checkpoint_ns": "none"}}):
        assert [*ours.list(config, **asked)] == [*theirs.list(config, **asked)]


def test_versions_of_either_sort_in_the_order_in_which_they_were_made(connection: sqlite3.Connection) -> None:
    ours, theirs = savers(connection)
    versions: list[str] = []
    for number in range(24):
        versions.append((ours, theirs)[number % 2].get_next_version(versions[-1] if versions else None, None))
    assert versions == sorted(versions)
    assert len({ours.get_next_version(versions[-1], None) for _ in range(50)}) == 50


def test_both_find_the_newest_and_any_other(connection: sqlite3.Connection) -> None:
    ours, theirs = savers(connection)
    graph(theirs).invoke({"said": []}, CONFIG, durability="sync")
    every = [one.config for one in theirs.list(CONFIG)]
    assert len(every) == 3
    for config in (CONFIG, *every, {"configurable": {"thread_id": "nobody"}}):
        mine, other = ours.get_tuple(config), theirs.get_tuple(config)
        assert mine == other
    assert ours.get_tuple(every[1]).config == every[1]


def test_results_of_a_task_are_kept_and_its_question_is_replaced(connection: sqlite3.Connection) -> None:
    place: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": "c"}}
    for saver in savers(connection):
        task = type(saver).__name__
        for round in ("first", "second"):
            saver.put_writes(place, [("said", round)], task, "path")
            saver.put_writes(place, [(INTERRUPT, round)], task, "path")
            saver.put_writes(place, [(ERROR, round), ("more", round)], f"{task} fails", "path")
    rows = connection.execute("SELECT task_id, task_path, idx, channel, value FROM writes").fetchall()
    by_task = {name: sorted(row[1:] for row in rows if row[0].startswith(name)) for name in ("Committing", "Sqlite")}
    assert by_task["Committing"] == by_task["Sqlite"]
    assert len(by_task["Committing"]) == 4


def test_a_thread_is_deleted_with_its_writes_and_no_other(connection: sqlite3.Connection) -> None:
    ours, _ = savers(connection)
    other: Any = {"configurable": {"thread_id": "u"}}
    for config in (CONFIG, other):
        graph(ours).invoke({"said": []}, config, durability="sync")
    ours.delete_thread("t")
    for table in ("checkpoints", "writes"):
        assert {thread for (thread,) in connection.execute(f"SELECT thread_id FROM {table}")} == {"u"}


def test_a_file_of_an_earlier_release_is_given_the_column_it_lacks(tmp_path: Path) -> None:
    opened = sqlite3.connect(tmp_path / "old.db")
    opened.execute(
        "CREATE TABLE writes (thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '', checkpoint_id TEXT NOT"
        " NULL, task_id TEXT NOT NULL, idx INTEGER NOT NULL, channel TEXT NOT NULL, type TEXT, value BLOB,"
        " PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id, task_id, idx))"
    )
    for _ in range(2):
        make_tables(opened)
    ours = Ours(opened, serde=_serializer())
    place: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": "c"}}
    ours.put_writes(place, [("said", "x")], "task", "path")
    assert opened.execute("SELECT task_path, channel FROM writes").fetchall() == [("path", "said")]
    opened.close()
