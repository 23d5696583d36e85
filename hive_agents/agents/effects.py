"""The ledger of a run: every model turn, judgement and tool call under its key, done once and paid once."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hive_agents.agents.guards import Budget, BudgetSpent
from hive_agents.llm import Usage
from hive_agents.store import audit, connected, transaction
from hive_agents.text import encodable

if TYPE_CHECKING:
    from sqlite3 import Connection

    from hive_agents.runs import Lease
    from hive_agents.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Done:
    """What came of an effect, as plain JSON, and what its models cost."""

    result: Any
    usage: Usage = field(default_factory=Usage)


COSTLY = ("model", "tool")
"""Kinds of effects that a budget has to have room for."""

Do = Callable[[bool], Awaitable[Done]]
"""Gets whether it was started before, by a process that died: then it may have happened, or not."""


class Effects:
    """The effects of one run; `budget` counts what they cost, with what an earlier process spent.

    A result is recorded before anybody builds on it, so that whoever comes by again finds it and does nothing. What
    was begun and not recorded is done again under the same key. `permitted` raises where the one for whom the run works
    may go no further; it is asked before each effect. `mark` says where models are that have a position,
    such as a script; it is recorded with each effect.
    """

    def __init__(
        self,
        workspace: Workspace,
        run_id: str,
        budget: Budget,
        *,
        lease: Lease | None = None,
        permitted: Callable[[], object] | None = None,
        mark: Callable[[], str | None] | None = None,
    ) -> None:
        self.run_id = run_id
        self._lease = lease
        self._permitted = permitted
        self._mark = mark
        self._workspace = workspace
        self._lock = threading.Lock()
        self.budget = Budget(budget.limits, self._spent())

    def find(self, key: str) -> Any:
        """The recorded result; None where there is none."""
        with connected(self._workspace.database) as connection:
            query = "SELECT result FROM effects WHERE key = ? AND status = 'done'"
            row = connection.execute(query, (self._key(key),)).fetchone()
        return None if row is None else json.loads(row[0])

    def last_mark(self) -> str | None:
        """The mark of the effect that was recorded last; None where none has one."""
        query = "SELECT mark FROM effects WHERE run_id = ? AND mark IS NOT NULL ORDER BY ended DESC LIMIT 1"
        with connected(self._workspace.database) as connection:
            row = connection.execute(query, (self.run_id,)).fetchone()
        return None if row is None else str(row[0])

    async def once(
        self, key: str, kind: str, name: str, do: Do, *, node: str | None = None, steps: int = 0, tool_calls: int = 0
    ) -> Any:
        """The result of `do`, or the recorded one.

        Raises: BudgetExhausted before it begins where the budget leaves no room; LeaseLost where another worker has
        the run by now: nothing is begun, or recorded, in its stead; what `permitted` and `do` raise.
        """
        # In threads: a database that is locked for a while holds up no other run.
        found, again = await asyncio.to_thread(self._begun, key, kind, name, node, steps, tool_calls)
        if found is not None:
            return found
        started = time.monotonic()
        done = await do(again)
        await asyncio.to_thread(self._end, key, done, time.monotonic() - started)
        return done.result

    def _begun(self, key: str, kind: str, name: str, node: str | None, steps: int, tool_calls: int) -> tuple[Any, bool]:
        """The recorded result, or None after it was begun; and whether it was begun before."""
        found = self.find(key)
        if found is None and self._permitted is not None:
            self._permitted()
        return found, found is None and self._begin(key, kind, name, node, steps, tool_calls)

    def _begin(self, key: str, kind: str, name: str, node: str | None, steps: int, tool_calls: int) -> bool:
        with self._lock, connected(self._workspace.database) as connection:
            with transaction(connection):
                self._require_lease(connection)
                update = "UPDATE effects SET attempts = attempts + 1 WHERE key = ?"
                if connection.execute(update, (self._key(key),)).rowcount:
                    return True
                if kind in COSTLY:
                    self.budget.require(steps=steps, tool_calls=tool_calls)
                connection.execute(
                    "INSERT INTO effects (key, run_id, node_id, kind, name, status, steps, tool_calls, started_at)"
                    " VALUES (?, ?, ?, ?, ?, 'started', ?, ?, ?)",
                    (self._key(key), self.run_id, node, kind, name, steps, tool_calls, audit.now()),
                )
                update = "UPDATE runs SET node = COALESCE(NULLIF(?, 'GOAL'), node), steps = steps + ? WHERE run_id = ?"
                connection.execute(update, (key.partition("#")[0], steps, self.run_id))
            # Before the next thread gets the lock: it asks the budget for room, too.
            self.budget.spend(steps=steps, tool_calls=tool_calls)
        return False

    def _end(self, key: str, done: Done, seconds: float) -> None:
        usage = done.usage
        tokens = usage.input_tokens + usage.output_tokens
        text = encodable(json.dumps(done.result, ensure_ascii=False, allow_nan=False))
        with self._lock, connected(self._workspace.database) as connection:
            with transaction(connection):
                self._require_lease(connection)
                connection.execute(
                    "UPDATE effects SET status = 'done', tokens = ?, usd = ?, unpriced = ?, seconds = ?, ended_at = ?,"
                    " result = ?, mark = ?, ended = (SELECT count(*) FROM effects WHERE run_id = ? AND status = 'done')"
                    " WHERE key = ?",
                    (
                        tokens,
                        usage.usd,
                        not usage.priced,
                        seconds,
                        audit.now(),
                        text,
                        self._mark() if self._mark is not None else None,
                        self.run_id,
                        self._key(key),
                    ),
                )
                update = "UPDATE runs SET tokens = tokens + ?, usd = usd + ? WHERE run_id = ?"
                connection.execute(update, (tokens, usage.usd, self.run_id))
            self.budget.spend(seconds=seconds, usage=usage)

    def _spent(self) -> BudgetSpent:
        query = (
            "SELECT sum(steps), sum(tool_calls), sum(tokens), sum(usd), sum(seconds), sum(unpriced) FROM effects"
            " WHERE run_id = ?"
        )
        with connected(self._workspace.database) as connection:
            row = [value or 0 for value in connection.execute(query, (self.run_id,)).fetchone()]
        return BudgetSpent(
            steps=row[0], tool_calls=row[1], tokens=row[2], usd=float(row[3]), seconds=float(row[4]), unpriced=row[5]
        )

    def _require_lease(self, connection: Connection) -> None:
        if self._lease is not None:
            self._lease.require(connection)

    def _key(self, key: str) -> str:
        return f"{self.run_id}/{key}"
