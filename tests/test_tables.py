"""Each table of the records is written by one room; another one calls a function of that room, in its transaction."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache

import pytest

from tests.parsed import modules, nodes
from tests.test_budget import room_of

pytestmark = pytest.mark.static

CREATE = re.compile(r"CREATE (?:VIRTUAL )?TABLE (?:IF NOT EXISTS )?\"?([a-z_]+)")
WRITE = re.compile(r"\b(?:INSERT (?:OR [A-Z]+ )?INTO|REPLACE INTO|UPDATE|DELETE FROM)\s+\"?([a-z_]+)")
WRITE_OF_A_VALUE = re.compile(r"\b(?:INSERT (?:OR [A-Z]+ )?INTO|REPLACE INTO|UPDATE|DELETE FROM) {2}")
STORE = "store"
"""The schema's room: its migrations write every table."""
NAMED_BY_A_VALUE = {
    "hive_agents.host.moving": "its mark of a move that isn't over, and the writes of LangGraph's checkpoints",
    "hive_agents.index.generation": "the tables of a generation, all of the index's own database",
}
"""Modules outside the store with a statement whose table is a value, and which tables those are."""


@cache
def sql_texts(module: str) -> list[str]:
    """Return the string constants of a module; the values within an f-string become one space."""
    there = nodes(modules()[module])
    formatted = [node for node in there if isinstance(node, ast.JoinedStr)]
    joined = {id(part) for node in formatted for part in node.values}
    texts = [
        " ".join(str(part.value) if isinstance(part, ast.Constant) else " " for part in node.values)
        for node in formatted
    ]
    return texts + [
        node.value
        for node in there
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in joined
    ]


@cache
def tables() -> set[str]:
    return {name for module in modules() for text in sql_texts(module) for name in CREATE.findall(text)}


@cache
def writers() -> dict[str, set[str]]:
    """Return the rooms that write each table, without the store."""
    known = tables()
    rooms: dict[str, set[str]] = defaultdict(set)
    for module in modules():
        for text in sql_texts(module):
            for table in known.intersection(WRITE.findall(text)):
                rooms[table].add(room_of(module))
    return {table: found - {STORE} for table, found in rooms.items()}


def test_each_table_is_written_by_one_room() -> None:
    assert {table: rooms for table, rooms in writers().items() if len(rooms) > 1} == {}


def test_statements_name_their_tables() -> None:
    unnamed = {module for module in modules() for text in sql_texts(module) if WRITE_OF_A_VALUE.search(text)}
    assert {module for module in unnamed if room_of(module) != STORE} == NAMED_BY_A_VALUE.keys()


def test_statements_in_parts_are_read() -> None:
    assert {"runs", "approvals"} <= writers().keys()
