"""The ledger of a run: each model turn, judgement and tool call under its key, carried out and paid for once."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from hive_agents.agents.guards.budget import Budget, BudgetExhausted, BudgetSpent, Measure
from hive_agents.agents.sent import Sent
from hive_agents.base import Busy, HiveError, Unwritable, encodable
from hive_agents.memory import run_folder
from hive_agents.models import Tell, Usage
from hive_agents.runs import LeaseLost, RunStore, run_turn
from hive_agents.store import RecordsConnection, audit, briefly, connected, database, transaction

if TYPE_CHECKING:
    from hive_agents.runs import Lease, Limits
    from hive_agents.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Done:
    """The result of an effect, as plain JSON, and what its models cost."""

    result: Any
    usage: Usage = field(default_factory=Usage)


T = TypeVar("T")
COSTLY = ("model", "tool")
"""Kinds of effects that need room in the budget."""

_VISIT = "#"
"""Part of each visit's key; the keys of work that is delegated in the visit have a second one."""

PATIENCE = 5.0
"""Seconds after the first failure in which recording a result is tried again."""
_PAUSE = 0.2

Do = Callable[[bool], Awaitable[Done]]
"""Carries out an effect; its argument says whether a process that died may have done so before."""


class Effects:
    """The effects of one run; `budget` counts what they cost, with what an earlier process spent.

    A result is recorded before it is used, so that a step that is done again finds it. An effect that was begun and
    not recorded is done again under the same key. A model call counts by its estimate until its usage is known, also
    when its process died: the server has counted what was sent, see `sending`. Once the call was made again, each lost
    request counts as much as one that was answered.

    `permitted` raises where the run's principal has lost its rights; it is called before each effect. `mark` gives the
    position of models that have one, such as a script; it is recorded with each effect. `recorded` gives the result of
    an effect in another run, by its key and kind, in place of carrying it out; None where it is to be carried out.
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
        recorded: Callable[[str, str], Done | None] | None = None,
    ) -> None:
        self.run_id = run_id
        self._lease = lease
        self._permitted = permitted
        self._mark = mark
        self._recorded = recorded
        self._workspace = workspace
        self._lock = threading.Lock()
        self._sent = Sent(partial(run_folder, workspace, run_id))
        self._own: Counter[str] = Counter()
        """Requests of effects in progress in this process; `_sent` also counts those of other processes."""
        self.held_before_writing: AbstractContextManager[object] = nullcontext()
        """A lock that `also` and the work of `write` take, too."""
        self.before_commit: Callable[[], object] = lambda: None
        """Called at the end of each transaction in which more than the ledger is written."""
        self._turn = asyncio.Lock()
        """Keeps the event loop from waiting for `_lock`, which a thread holds while another process writes."""
        self.budget = Budget(budget.limits, self._spent())
        self._scopes: dict[str, Budget] = {}
        self._delegated: dict[str, Budget] = {}
        stored = self._stored()
        self._reserved = {key: tokens for key, (status, tokens) in stored.items() if status == "started" and tokens}
        """Estimated tokens, by key, of calls that are in progress or whose processes died."""
        self._known = set(stored)
        """The keys in the ledger, and those that may be: only who has the lease adds to it."""
        self._foreseen = self._counted = 0
        for raised in self._raised():
            self.budget.raise_limit(raised["measure"], raised["limit"])

    def find(self, key: str) -> Any:
        """Return the recorded result; None where there is none."""
        if self._is_new(key):
            return None
        with connected(self._workspace.records) as connection:
            query = "SELECT result FROM effects WHERE key = ? AND status = 'done'"
            row = connection.execute(query, (self._key(key),)).fetchone()
        return None if row is None else json.loads(row[0])

    def succeeded_calls(self) -> list[str]:
        """Return the names of the tools that a call of succeeded, those of sub-agents too."""
        with connected(self._workspace.records) as connection:
            query = "SELECT name, result FROM effects WHERE run_id = ? AND status = 'done' AND kind <> 'model'"
            rows = connection.execute(query, (self.run_id,)).fetchall()
        results = [(str(name), json.loads(result)) for name, result in rows]
        return sorted({name for name, one in results if isinstance(one, dict) and one.get("is_error") is False})

    def first_parts(self, prefix: str) -> list[str]:
        """Return the keys below a prefix up to their next "/", in the order in which they were begun."""
        query = "SELECT substr(key, ?) FROM effects WHERE run_id = ? AND substr(key, 1, ?) = ? ORDER BY rowid"
        start = self._key(prefix)
        with connected(self._workspace.records) as connection:
            rows = connection.execute(query, (len(start) + 1, self.run_id, len(start), start)).fetchall()
        return list(dict.fromkeys(prefix + row[0].partition("/")[0] for row in rows))

    def limit(self, scope: str, limits: Limits) -> None:
        """Limit a delegation: all effects below its key also count towards its budget."""
        if scope not in self._scopes:
            self._scopes[scope] = Budget(limits, self._spent(scope))

    def limit_delegated(self, visit: str, limits: Limits) -> None:
        """Limit all delegations of a visit together: the effects of its sub-agents also count towards this budget."""
        if visit not in self._delegated:
            self._delegated[visit] = Budget(limits, self._spent(visit, delegated=True))

    def left(self, key: str, measure: Measure) -> float | None:
        """Return what the budgets leave for the effect at `key`; None where none limits it."""
        amounts = [budget.left(measure) for budget in (self.budget, *self._above(key).values())]
        return min((amount for amount in amounts if amount is not None), default=None)

    def waited(self, key: str) -> float:
        """Return the seconds since the effect at `key` was first tried, and reset its count of attempts."""
        with connected(self._workspace.records) as connection, transaction(connection, run_turn(self.run_id)):
            row = connection.execute("SELECT started_at FROM effects WHERE key = ?", (self._key(key),)).fetchone()
            # It broke off because nothing answered, and not because its worker died.
            connection.execute("UPDATE effects SET attempts = 0 WHERE key = ?", (self._key(key),))
        begun = dt.datetime.fromisoformat(row[0]) if row is not None else dt.datetime.now(dt.UTC)
        return (dt.datetime.now(dt.UTC) - begun).total_seconds()

    def sending(self, key: str) -> Tell:
        """Return a counter of the requests of the effect at `key`, for `llm.sending`.

        Requests without an answer when the process dies are paid for when the effect is done again, at its price then.
        """

        def tell(number: int) -> None:
            self._own[key] += number
            self._sent.add(key, number)

        return tell

    async def raise_limit(self, measure: str, limit: float, to: float) -> None:
        """Let the run use more of a measure than `limit`, now and whenever it is opened again."""
        await self.note(f"BUDGET/{measure}/{limit:g}", {"measure": measure, "limit": to}, kind="budget")
        self.budget.raise_limit(cast("Measure", measure), to)

    async def note(self, key: str, value: Any, *, kind: str = "synthetic") -> str:
        """Record a value once, and return its key."""

        async def do(_: bool) -> Done:
            return Done(value)

        await self.once(key, kind, "note", do)
        return key

    def last_mark(self) -> str | None:
        """Return the mark of the effect that was recorded last; None where none has one."""
        query = "SELECT mark FROM effects WHERE run_id = ? AND mark IS NOT NULL ORDER BY ended DESC LIMIT 1"
        with connected(self._workspace.records) as connection:
            row = connection.execute(query, (self.run_id,)).fetchone()
        return None if row is None else str(row[0])

    async def once(
        self,
        key: str,
        kind: str,
        name: str,
        do: Do,
        *,
        node: str | None = None,
        steps: int = 0,
        tool_calls: int = 0,
        tokens: int = 0,
        rate: float = 0.0,
        also: Callable[[Any], object] | None = None,
    ) -> Any:
        """Return the result of `do`, or the recorded one. `also` gets a new result in the transaction that records it.

        `tokens` is an estimate, which has to fit beside those of calls in progress and of lost ones; it is corrected
        by the ratio of counted to estimated tokens so far. Each token costs `rate` dollars at least.

        Raises: BudgetExhausted before it begins where the budget leaves no room; LeaseLost where another worker has
        taken the run: nothing is begun or recorded then; what `permitted` and `do` raise.
        """
        needed = self._corrected(tokens)
        needs = {"steps": steps, "tool_calls": tool_calls, "tokens": needed, "rate": rate}
        async with self._turn:
            recorded, again = await briefly(partial(self._begun, key, kind, name, node, needs))
        if recorded is not None:
            return recorded
        started = time.monotonic()
        self._own.pop(key, None)  # of an attempt without a result
        try:
            done = self._recorded(key, kind) if self._recorded is not None else None
            kept = self._sent.outcome(key) if again and done is None else None
            if kept is not None:
                done = Done(kept["result"], Usage.model_validate(kept["usage"]))
            if done is None:
                done = await do(again)
            if tokens:
                self._foreseen += tokens
                self._counted += done.usage.input_tokens + done.usage.output_tokens
            answered = self._own.pop(key, 0)
            # Counted only now: a worker that lost the run may have sent a request while this one was in progress.
            lost = self._sent.count(key) - answered if again and kept is None and kind != "tool" else 0
            if lost > 0:
                estimate = Usage(input_tokens=lost * needed, estimated=True)
                done = replace(done, usage=done.usage + (done.usage.share(lost, answered) if answered else estimate))
            await self._record(key, done, time.monotonic() - started, also)
        except LeaseLost:
            raise
        except BaseException:
            if needed:
                with suppress(HiveError):  # a failure to record the cost must not hide the first error
                    await briefly(partial(self._broken_off, key, needed))
            raise
        return done.result

    async def write(self, work: Callable[[], T]) -> T:
        """Return the result of `work`, which reads and writes nothing but the records, in one transaction.

        Unlike what `once` does, it needs no record before: a process that dies in it has done nothing. Raises:
        LeaseLost, and what `work` raises.
        """
        async with self._turn:
            return await briefly(partial(self._written, work))

    def _written(self, work: Callable[[], T]) -> T:
        with self._lock, self._together() as connection:
            self._require_lease(connection)
            return work()

    async def within(self, key: str, kind: str, name: str, work: Callable[[], Done], *, node: str | None = None) -> Any:
        """Return the result of `work`, or the recorded one: both in one transaction, as by `write`.

        Raises: LeaseLost, and what `permitted` and `work` raise.
        """
        found = self.find(key)
        if found is not None:
            return found
        self.require_permission()
        played = self._recorded(key, kind) if self._recorded is not None else None
        return await self.write(
            partial(self._settled, key, kind, name, work if played is None else lambda: played, node)
        )

    def settle(self, key: str, kind: str, name: str, work: Callable[[], Done], *, node: str) -> Any:
        """Return what `within` does, in the transaction of `write` or of `also`, whose caller has the permission."""
        played = self._recorded(key, kind) if self._recorded is not None else None
        return self._settled(key, kind, name, work if played is None else lambda: played, node)

    def _settled(self, key: str, kind: str, name: str, work: Callable[[], Done], node: str | None) -> Any:
        found = self.find(key)
        if found is not None:
            return found
        self._known.add(key)  # before the commit, whose answer may be lost
        started = time.monotonic()
        done = work()
        seconds, now = time.monotonic() - started, audit.now()
        with connected(self._workspace.records) as connection:
            connection.execute(
                "INSERT INTO effects (key, run_id, node_id, kind, name, status, seconds, started_at, ended_at, result,"
                " mark, ended) VALUES (?, ?, ?, ?, ?, 'done', ?, ?, ?, ?, ?,"
                " (SELECT count(*) FROM effects WHERE run_id = ? AND status = 'done'))"
                # Begun by an earlier release, which recorded that.
                " ON CONFLICT (key) DO UPDATE SET status = excluded.status, seconds = excluded.seconds,"
                " ended_at = excluded.ended_at, result = excluded.result, mark = excluded.mark, ended = excluded.ended",
                (
                    self._key(key),
                    self.run_id,
                    node,
                    kind,
                    name,
                    seconds,
                    now,
                    now,
                    _as_json(done.result),
                    self._mark() if self._mark is not None else None,
                    self.run_id,
                ),
            )
        self._spend(key, seconds=seconds)
        return done.result

    def require_permission(self) -> None:
        """Raise what `permitted` raises where the run's principal has lost its rights."""
        if self._permitted is not None:
            self._permitted()

    async def _record(self, key: str, done: Done, seconds: float, also: Callable[[Any], object] | None) -> None:
        """Record a result. While the records can't be written it is tried again for a while; a result that could not be
        recorded is kept in the run's folder, so that whoever goes on there needs nobody to say what came of it."""
        until: float | None = None
        while True:
            try:
                async with self._turn:
                    return await briefly(partial(self._end, key, done, seconds, also))
            except (Busy, Unwritable) as error:
                if until is None:
                    self._sent.keep(key, {"result": done.result, "usage": done.usage.model_dump()})
                    until = time.monotonic() + PATIENCE
                if isinstance(error, Unwritable) or time.monotonic() > until:
                    raise
            await asyncio.sleep(_PAUSE)

    async def require(self, key: str, *, tokens: int, rate: float) -> None:
        """Raise BudgetExhausted where a call within the effect at `key` has no room for what it needs, see `once`."""

        def look() -> None:
            with self._lock:
                self._require(key, 0, 0, self._corrected(tokens), rate)

        await briefly(look)

    def _corrected(self, tokens: int) -> int:
        return -(-tokens * self._counted // self._foreseen) if self._foreseen else tokens

    def _begun(self, key: str, kind: str, name: str, node: str | None, needs: dict[str, Any]) -> tuple[Any, bool]:
        """Return the recorded result, or None once the effect is begun; and whether it had been begun before."""
        recorded = self.find(key)
        if recorded is None:
            self.require_permission()
        return recorded, recorded is None and self._begin(key, kind, name, node, **needs)

    def _begin(
        self, key: str, kind: str, name: str, node: str | None, steps: int, tool_calls: int, tokens: int, rate: float
    ) -> bool:
        with self._lock, connected(self._workspace.records) as connection:
            new = self._is_new(key)
            self._known.add(key)  # before the commit, whose answer may be lost
            with transaction(connection, run_turn(self.run_id)):
                self._require_lease(connection)
                update = "UPDATE effects SET attempts = attempts + 1, tokens = tokens + ? WHERE key = ?"
                again = not new and connection.execute(update, (tokens, self._key(key))).rowcount > 0
                if again:
                    steps = tool_calls = 0
                if kind in COSTLY and (tokens or not again):
                    self._require(key, steps, tool_calls, tokens, rate)
                if not again:
                    connection.execute(
                        "INSERT INTO effects"
                        " (key, run_id, node_id, kind, name, status, steps, tool_calls, tokens, estimated, started_at)"
                        " VALUES (?, ?, ?, ?, ?, 'started', ?, ?, ?, ?, ?)",
                        (
                            self._key(key),
                            self.run_id,
                            node,
                            kind,
                            name,
                            steps,
                            tool_calls,
                            tokens,
                            tokens > 0,
                            audit.now(),
                        ),
                    )
                if tokens or not again:
                    at = None if kind == "budget" or key.startswith("GOAL#") else key.partition("#")[0]
                    RunStore.spend(connection, self.run_id, node=at, steps=steps, tokens=tokens)
            # Reserved under the lock: the next thread's check of the budget has to see it.
            self._reserved[key] = self._reserved.get(key, 0) + tokens
            self._spend(key, steps=steps, tool_calls=tool_calls)
        return again

    def _require(self, key: str, steps: int, tool_calls: int, tokens: int, rate: float) -> None:
        """Raise BudgetExhausted for the run's budget, or for that of a delegation that the effect is a part of."""
        needed = tokens and tokens + sum(self._reserved.values())
        self.budget.require(steps=steps, tool_calls=tool_calls, tokens=needed, rate=rate)
        for scope, budget in self._above(key).items():
            reserved = sum(amount for other, amount in self._reserved.items() if scope in self._above(other))
            try:
                budget.require(steps=steps, tool_calls=tool_calls, tokens=tokens and tokens + reserved, rate=rate)
            except BudgetExhausted as error:
                raise BudgetExhausted(error.measure, str(error), scope, needed=error.needed) from None

    def _broken_off(self, key: str, each: int) -> None:
        """Charge a call that ended without a result `each` tokens for every request that was sent."""
        tokens = each * self._sent.count(key)
        with self._lock, connected(self._workspace.records) as connection:
            with transaction(connection, run_turn(self.run_id)):
                self._require_lease(connection)
                # Recording the result may have succeeded although the answer to it was lost.
                query = "SELECT 1 FROM effects WHERE key = ? AND status = 'started'"
                if connection.execute(query, (self._key(key),)).fetchone() is not None:
                    self._count(connection, key, tokens)
                    connection.execute("UPDATE effects SET tokens = ? WHERE key = ?", (tokens, self._key(key)))
            self._reserved[key] = tokens

    @staticmethod
    def forget(connection: RecordsConnection, run_id: str) -> None:
        """Delete the effects of a run, in the transaction of whoever deletes the run."""
        connection.execute("DELETE FROM effects WHERE run_id = ?", (run_id,))

    def _count(self, connection: RecordsConnection, key: str, tokens: int, usd: float = 0.0) -> None:
        """Count the cost of an effect in place of its estimate, before it is recorded with the effect."""
        (before,) = connection.execute("SELECT tokens FROM effects WHERE key = ?", (self._key(key),)).fetchone()
        if tokens != before or usd:
            RunStore.spend(connection, self.run_id, tokens=tokens - before, usd=usd)

    def _spend(self, key: str, **used: Any) -> None:
        for budget in (self.budget, *self._above(key).values()):
            budget.spend(**used)

    def _above(self, key: str) -> dict[str, Budget]:
        """Return the budgets of delegations that the effect at `key` counts towards."""
        budgets = {scope: budget for scope, budget in self._scopes.items() if key.startswith(f"{scope}/")}
        for visit, budget in self._delegated.items():
            if key.startswith(f"{visit}/") and _VISIT in key[len(visit) :]:
                budgets[visit] = budget
        return budgets

    def _end(self, key: str, done: Done, seconds: float, also: Callable[[Any], object] | None) -> None:
        usage = done.usage
        tokens = usage.input_tokens + usage.output_tokens
        text = _as_json(done.result)
        with self._lock:
            with self._together() as connection:
                self._require_lease(connection)
                self._count(connection, key, tokens, usage.usd)
                connection.execute(
                    "UPDATE effects SET status = 'done', tokens = ?, usd = ?, unpriced = ?, estimated = ?, seconds = ?,"
                    " ended_at = ?, result = ?, mark = ?,"
                    " ended = (SELECT count(*) FROM effects WHERE run_id = ? AND status = 'done') WHERE key = ?",
                    (
                        tokens,
                        usage.usd,
                        not usage.priced,
                        usage.estimated,
                        seconds,
                        audit.now(),
                        text,
                        self._mark() if self._mark is not None else None,
                        self.run_id,
                        self._key(key),
                    ),
                )
                if also is not None:
                    also(done.result)
            self._reserved.pop(key, None)
            self._spend(key, seconds=seconds, usage=usage)

    @contextmanager
    def _together(self) -> Iterator[RecordsConnection]:
        # The lock first: its other holders wait for the database.
        with self.held_before_writing, database.together(self._workspace.records, run_turn(self.run_id)) as connection:
            yield connection
            self.before_commit()

    def _spent(self, scope: str = "", *, delegated: bool = False) -> BudgetSpent:
        """Return what was spent below a key, by default by the whole run; with `delegated` by sub-agents alone."""
        names = list(BudgetSpent.model_fields)
        # The tokens of effects that aren't recorded yet are in `_reserved`.
        counted = {
            name: f"CASE WHEN status = 'started' THEN 0 ELSE {name} END" if name in ("tokens", "estimated") else name
            for name in names
        }
        sums = ", ".join(f"COALESCE(sum({counted[name]}), 0)" for name in names)
        query = (
            f"SELECT {sums} FROM effects WHERE run_id = ? AND substr(key, 1, ?) = ? AND instr(substr(key, ?), ?) > 0"
        )
        prefix = self._key(f"{scope}/" if scope else "")
        inside = (len(prefix) + 1, _VISIT) if delegated else (1, "")
        with connected(self._workspace.records) as connection:
            row = connection.execute(query, (self.run_id, len(prefix), prefix, *inside)).fetchone()
        return BudgetSpent.model_validate(dict(zip(names, row, strict=True)))

    def _stored(self) -> dict[str, tuple[str, int]]:
        """Return the status and the tokens of each effect in the ledger, by key."""
        query = "SELECT substr(key, ?), status, tokens FROM effects WHERE run_id = ?"
        with connected(self._workspace.records) as connection:
            rows = connection.execute(query, (len(self._key("")) + 1, self.run_id)).fetchall()
        return {key: (status, tokens) for key, status, tokens in rows}

    def _is_new(self, key: str) -> bool:
        """Return whether the ledger has no effect of that key, as long as this worker has the lease."""
        return self._lease is not None and key not in self._known

    def _raised(self) -> list[Any]:
        """Return the limits that people have raised."""
        query = "SELECT result FROM effects WHERE run_id = ? AND kind = 'budget' AND status = 'done'"
        with connected(self._workspace.records) as connection:
            return [json.loads(row[0]) for row in connection.execute(query, (self.run_id,))]

    def _require_lease(self, connection: RecordsConnection) -> None:
        if self._lease is not None:
            self._lease.require(connection)

    def _key(self, key: str) -> str:
        return f"{self.run_id}/{key}"


def _as_json(result: Any) -> str:
    return encodable(json.dumps(result, ensure_ascii=False, allow_nan=False))
