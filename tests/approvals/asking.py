"""Filings that tests make, and what they expect of a refusal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from hive_agents.approvals import Filing
from hive_agents.base.errors import HiveError

SCHEMA = {
    "type": "object",
    "properties": {"to": {"type": "string", "pattern": "@example"}, "n": {"type": "integer", "maximum": 3}},
    "required": ["to"],
}


def filing(**parts: Any) -> Filing:
    base: dict[str, Any] = {"kind": "ticket", "title": "may I?", "requester": "agent:worker"}
    return Filing(**base | parts)


def editable(**parts: Any) -> Filing:
    base: dict[str, Any] = {
        "kind": "tool_call",
        "context": {"tool": "send_mail", "args": {"to": "a@example.org", "n": 1}},
        "args_schema": SCHEMA,
        "allowed_decisions": ["approve", "edit", "reject", "respond"],
    }
    return filing(**base | parts)


@contextmanager
def refused(code: str, exit_code: int = 1) -> Iterator[None]:
    with pytest.raises(HiveError) as raised:
        yield
    assert (raised.value.diagnostics[0].code, raised.value.exit_code) == (code, exit_code)
    assert raised.value.diagnostics[0].fix
