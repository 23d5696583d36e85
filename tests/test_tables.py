"""Each table of the records is written by one room; what is not yet so is listed, and the list only shrinks."""

from __future__ import annotations

import ast
import re
from collections import defaultdict

from tests.test_budget import modules, room_of

CREATE = re.compile(r"CREATE (?:VIRTUAL )?TABLE (?:IF NOT EXISTS )?\"?([a-z_]+)")
WRITE = re.compile(r"\b(?:INSERT (?:OR [A-Z]+ )?INTO|REPLACE INTO|UPDATE|DELETE FROM)\s+\"?([a-z_]+)")
STORE = "store"
"""The schema's room: its migrations write every table."""
WRITTEN_FROM_TWO_ROOMS = {
    "buffers": {"memory", "runs"},
    "messages": {"host", "memory"},
    "queen_actions": {"host", "supervision"},
    "runs": {"agents", "runs"},
}


def sql_texts(module: str) -> list[str]:
    """Return the string constants of a module; the values within an f-string become one space."""
    tree = ast.parse(modules()[module].read_text(encoding="utf-8"))
    joined = {id(part): None for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    texts = [
        " ".join(str(part.value) if isinstance(part, ast.Constant) else " " for part in node.values)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
    ]
    return texts + [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in joined
    ]


def tables() -> set[str]:
    return {name for module in modules() for text in sql_texts(module) for name in CREATE.findall(text)}


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
    shared = {table: rooms for table, rooms in writers().items() if len(rooms) > 1}
    assert shared == WRITTEN_FROM_TWO_ROOMS


def test_statements_in_parts_are_read() -> None:
    assert {"runs", "approvals"} <= writers().keys()
