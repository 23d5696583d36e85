"""What a run asks of its database: a count of statements and of commits, which only grows on purpose."""

from __future__ import annotations

import sqlite3
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from benchmarks.runtime import make_workspace
from hive_agents.agents.run import AgentRun

STATEMENTS, COMMITS = 193, 20
"""Whoever saves some writes the new figures here."""


class Counted(sqlite3.Connection):
    """A connection that counts its statements in `counts`, and each commit, also of a statement by itself."""

    counts: Counter[str] = Counter()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.set_trace_callback(self._count)

    def _count(self, sql: str) -> None:
        if threading.current_thread().name.startswith("hold "):
            return  # the heartbeat, which a run that takes longer has more of
        verb = sql.split()[0].upper()
        self.counts["statements"] += 1
        alone = verb in ("INSERT", "UPDATE", "DELETE") and not self.in_transaction
        self.counts["commits"] += verb == "COMMIT" or alone


async def test_a_run_of_three_nodes_takes_no_more_statements_and_commits_than_it_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def connect(*args: Any, **kwargs: Any) -> sqlite3.Connection:
        return sqlite3.dbapi2.connect(*args, **kwargs, factory=Counted)  # type: ignore[attr-defined,no-any-return]

    monkeypatch.setattr(sqlite3, "connect", connect)
    place = make_workspace(tmp_path / "ws")
    for _ in range(2):  # the first also makes the schema, and opens connections
        Counted.counts.clear()
        assert (await AgentRun.start(place, "worker", {}).work())["status"] == "done"
    assert Counted.counts["statements"] <= STATEMENTS
    assert Counted.counts["commits"] <= COMMITS
