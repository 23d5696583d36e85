"""One driver for every kind of run: how it begins, goes on, is paused, stopped and recorded.

A kind is a subclass of `Run`, which says what its graph is, what its nodes are given and what its end means. All else
is here, so that hosts and people take up, pause and stop the runs of every kind alike. It is one file because what a
row may say at each moment is one table: whoever changes one change of status has to see the others.
"""

from __future__ import annotations

import asyncio
import json
import sys
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from hive_agents import approvals, events
from hive_agents.errors import HiveError, Outage, RightsWithdrawn, WorkerFault
from hive_agents.events import Event, EventType, derived_id
from hive_agents.llm import waited
from hive_agents.runs import (
    ENDED,
    LOST,
    WEIGHT,
    Hold,
    Lease,
    LeaseLost,
    Leases,
    RunCost,
    RunRow,
    RunStore,
    let_go,
    take,
    taken,
)
from hive_agents.store import briefly
from hive_agents.telemetry import span, tracing
from hive_agents.text import encodable
from hive_agents.workspace import Workspace

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.types import StateSnapshot

    from hive_agents.events import Bus, EventSource

T = TypeVar("T")
STEPS = 100_000
GRACE = 5.0
"""Seconds that a step may take after somebody asked its run to stop."""

_EVENTS = {
    "done": EventType.RUN_COMPLETED,
    "failed": EventType.RUN_FAILED,
    "waiting": EventType.RUN_WAITING,
    "paused": EventType.RUN_PAUSED,
    "stopped": EventType.RUN_STOPPED,
    "queued": EventType.RUN_QUEUED,
}
_RESTS = {"pause": "paused", "stop": "stopped", "drain": "queued"}


def leases_of(workspace: Workspace) -> Leases:
    return Leases(workspace, seconds=workspace.settings.runs.lease_seconds)


@dataclass(frozen=True)
class RunOutcome:
    """What a graph at rest comes to: the status of its run, "waiting" for a person included, and what is kept of it."""

    status: str
    result: dict[str, Any] | None
    stopped_by: str | None = None
    error: dict[str, str] | None = None


@dataclass
class Run(ABC):
    """One run, in the hands of whoever works on it; its row is in the store before its graph starts.

    `bus` gets the events, one of the run's own by default, which logs them; `on_event` gets each event of the run. A
    `hosted` run is worked on only while nobody wants it to rest, and goes back into the queue where it breaks off or is
    cancelled.
    """

    GRAPH: ClassVar[str]
    SOURCE: ClassVar[EventSource]
    """The namespace of its events' ids."""
    CUT: ClassVar[bool] = True
    """Whether a step is cut off `GRACE` seconds after somebody asked to stop; else it always ends first."""
    BRIEF: ClassVar[bool] = False
    """Whether `open`, `begin` and `outcome` are short work, which may be done twice."""
    BROKEN_OFF: ClassVar[str] = "stopped"
    """What becomes of a run that breaks off where nobody hosts it."""

    workspace: Workspace
    row: RunRow
    bus: Bus | None = field(default=None, kw_only=True)
    on_event: Callable[[Event], object] | None = field(default=None, kw_only=True)
    hosted: bool = field(default=False, kw_only=True)
    _lease: Lease | None = field(default=None, repr=False, kw_only=True)
    _drained: bool = field(default=False, repr=False, init=False)
    _ask: Callable[[str], object] | None = field(default=None, repr=False, init=False)

    @classmethod
    @abstractmethod
    def resume(cls, workspace: Workspace, run_id: str, **how: Any) -> Self:
        """Return the run as it was started. Raises: HIVE-409 for an unknown one, and why it can't be worked on."""

    @staticmethod
    @abstractmethod
    def result_of(row: RunRow) -> dict[str, Any]:
        """Return what `work` gives for a run as its row stands."""

    @staticmethod
    def checkpoints(row: RunRow) -> str:
        """Return the thread that its graph's checkpoints are kept under."""
        return row.thread_id

    def checkpointer(self, lease: Lease) -> AbstractAsyncContextManager[BaseCheckpointSaver[str] | None]:
        """Open what keeps the graph's checkpoints; None where it keeps none and begins anew each time."""
        from hive_agents.runtime.checkpoints import async_checkpointer

        return async_checkpointer(self.workspace, lease)

    async def aside(self, work: Callable[[], T], *, brief: bool = True) -> T:
        """Return what `open`, `begin` and `outcome` give, in a thread where they may take long."""
        return await (briefly(work) if brief and self.BRIEF else asyncio.to_thread(work))

    @abstractmethod
    def open(self, lease: Lease, bus: Bus | None) -> Any:
        """Return what the nodes of its graph are given."""

    @abstractmethod
    def compile(self, saver: BaseCheckpointSaver[str] | None) -> Any:
        """Return its graph."""

    @abstractmethod
    def begin(self, context: Any) -> dict[str, Any]:
        """Return the graph's input."""

    @abstractmethod
    def outcome(self, context: Any, state: Mapping[str, Any], asked: list[str]) -> RunOutcome:
        """Return what its graph at rest comes to; `asked` are the requests that it waits for."""

    def kept(self, context: Any, state: Mapping[str, Any], status: str) -> dict[str, Any] | None:
        """Return the result of a run that goes on, or rests before its end."""
        return None

    def spent(self, result: Mapping[str, Any] | None) -> RunCost | None:
        """Return what it has used up by now; None where its ledger counts that."""
        return None

    def overtaken(self) -> dict[str, Any]:
        """Return what `work` gives for a run that was at rest already when it was taken."""
        return self.result_of(self.row)

    async def advance(self, graph: Any, value: Any, how: dict[str, Any]) -> Any:
        """Run the graph until it rests; return its state where no checkpoint has it."""
        return await graph.ainvoke(value, **how)

    @property
    def tells(self) -> bool:
        """Whether events tell how it stands."""
        return True

    @property
    def run_id(self) -> str:
        return self.row.run_id

    @property
    def store(self) -> RunStore:
        return RunStore(self.workspace)

    def go(self, *, wait: float = 30.0) -> dict[str, Any]:
        """`work` for code that doesn't await, in a notebook too; Ctrl-C leaves the run stopped, to be resumed."""
        try:
            return waited(self.work(wait=wait))
        except KeyboardInterrupt:
            if self._lease is not None:  # it was never taken up
                let_go(self._lease)
                self._lease = None
            self.row = self.store.get(self.run_id)
            # Nothing had begun that could record it, and a host would take it up.
            if self.row.status == "queued" or self._left():
                self.row, _ = self.store.move(self.run_id, self.row.status, "interrupted", to="stopped")
            return self.result_of(self.row)

    def _left(self) -> bool:
        """Return whether it stands there as running, and nobody works on it."""
        return self.row.status == "running" and not leases_of(self.workspace).is_held(self.row.thread_id)

    async def work(self, *, wait: float = 30.0, lease: Lease | None = None) -> dict[str, Any]:
        """Run to the end, or until people have to answer; a run that has ended gives its result again.

        Somebody may pause or stop it meanwhile (`runs.pause`, `runs.stop`, from any process), or `drain` it. Where they
        did so while this waited for another process, that holds. `lease` is the thread's, where the caller has it.

        Raises: HIVE-402 where another process still works on it after `wait` seconds; HIVE-425 where one took it over.
        """
        loop, worker = asyncio.get_running_loop(), asyncio.current_task()
        assert worker is not None
        begun_with = self._lease
        lease = await self._leased(lease, wait)
        attempt = Attempt(self, lease, worker)

        def ask(asked: str) -> None:
            loop.call_soon_threadsafe(attempt.ask, asked)

        self._ask = ask
        async with Hold(lease, ask):
            try:
                # With the lease that it was started with the row is as it was then, but for what `begun` finds.
                if lease is not begun_with and await asyncio.to_thread(self._rests):
                    return self.overtaken()
                if self._drained:
                    attempt.ask("drain")
                name = f"run {self.row.agent or self.GRAPH}"
                with span(name, workspace=self.workspace, hive__run_id=self.run_id) as told:
                    async with self._listened() as bus:
                        await attempt.go(bus)
                    told.note(hive__status=self.row.status)
            except BaseException:
                self.row = await asyncio.to_thread(self.store.get, self.run_id)
                raise
            finally:
                self._ask = None
        return self.result_of(self.row)

    def drain(self) -> None:
        """Let the run rest after its present step and go back into the queue; from any thread."""
        self._drained = True
        if self._ask is not None:
            self._ask("drain")

    @classmethod
    async def give_up(cls, workspace: Workspace, run_id: str, bus: Bus, status: str, fault: HiveError) -> None:
        """Record that a run is `failed` or `stopped` because nobody can work on it, unless somebody does by now.

        Raises: HIVE-402, HIVE-403, HIVE-407 when the database fails.
        """
        store = RunStore(workspace)
        thread_id = (await asyncio.to_thread(store.get, run_id)).thread_id
        lease = await taken(partial(leases_of(workspace).acquire, thread_id, run_id))
        if lease is None:
            return
        try:
            row = await asyncio.to_thread(store.get, run_id)
            if row.status not in ("queued", "running", "waiting"):
                return
            why = _error_record(fault)
            stopped_by = "fault" if isinstance(fault, WorkerFault) else why["code"]
            id = derived_id("given_up", run_id, status, lease.fence)
            told = _event(row, _EVENTS[status], id, error=why)
            end = None
            if status == "failed":
                end = cls.result_of(row) | {"status": status, "stopped_by": stopped_by, "error": why}
            how: dict[str, Any] = {"result": end, "stopped_by": stopped_by, "error": why, "told": told}
            if await asyncio.to_thread(partial(store.update, run_id, status, **how, lease=lease, seen=row)):
                with suppress(HiveError):  # it is in the log
                    await bus.announce(told)
        finally:
            with suppress(HiveError):
                await asyncio.to_thread(lease.release)

    async def _leased(self, given: Lease | None, wait: float) -> Lease:
        lease, self._lease = given or self._lease, None
        if lease is not None and (lease.lasts or await asyncio.to_thread(lease.renew)):
            return lease
        return await take(leases_of(self.workspace), self.row.thread_id, self.run_id, wait)

    def _rests(self) -> bool:
        """Return whether there is nothing to do as the row stands now: it has ended, or nobody has answered what it
        asked."""
        known, self.row = self.row.status, self.store.get(self.run_id)
        if self.row.status in ("paused", "stopped") and (self.hosted or self.row.status != known):
            return True
        if self.hosted and self.row.status in ENDED:
            return True
        if self.row.result is None:
            return False
        return self.row.status in ENDED or (self.row.status == "waiting" and not self._answered(self.row.result))

    def _answered(self, result: dict[str, Any]) -> bool:
        store, asked = approvals.ApprovalStore(self.workspace), _requests(result)
        return not asked or any(store.get(id).decided for id in asked)

    @asynccontextmanager
    async def _listened(self) -> AsyncIterator[Bus | None]:
        if not self.tells:
            yield None
            return
        async with AsyncExitStack() as stack:
            bus = self.bus or events.EventBus(events.EventLog(self.workspace))
            if isinstance(bus, events.EventBus) and bus is not self.bus:
                await stack.enter_async_context(bus)
            if self.on_event is not None:
                stack.callback(bus.unsubscribe, bus.subscribe(self.on_event, run_id=self.run_id))
                stack.push_async_callback(bus.drain)
            yield bus


class Attempt:
    """One worker's work on a run: to its end, to a question, or until somebody asks it to rest.

    `asked` is what somebody wants of the worker: "pause", "stop", "drain", or "lost" when it has to let go.
    """

    def __init__(self, run: Run, lease: Lease, worker: asyncio.Task[Any]) -> None:
        from langgraph.runtime import RunControl

        self.asked: str | None = None
        self._run, self._lease, self._worker, self._store = run, lease, worker, run.store
        self._taken = run.row
        """The row as it was when the worker began."""
        self._control = RunControl()
        self._working = False
        self._tells = run.tells
        self._context: Any = None
        self._last: StateSnapshot | None = None
        """The graph where it was left before its end."""

    def ask(self, asked: str) -> None:
        """Rest before the next step; the step of a run that is stopped has a few seconds, that of a lost one none."""
        if self.asked is not None and WEIGHT.index(asked) < WEIGHT.index(self.asked):
            return
        self.asked = asked
        self._control.request_drain(asked)
        if asked == LOST:
            self._cut()
        elif asked == "stop" and self._run.CUT:
            asyncio.get_running_loop().call_later(GRACE, self._cut)

    async def go(self, bus: Bus | None) -> None:
        """Drive the graph as far as it goes. Raises: LeaseLost (HIVE-425), and what the graph stands on fails with."""
        from langgraph.errors import GraphDrained

        self._bus, self._working, self._taken = bus, True, self._run.row
        try:
            # What a worker that died was asked holds for the next one.
            if self._taken.control is not None:
                self.ask(self._taken.control)
            if self.asked is not None and self.asked != LOST:
                return await self._rested(_RESTS[self.asked])
            with tracing(self._run.workspace):
                rest = await self._graph()
            if rest is not None:
                await self._ended(*rest)
        except GraphDrained:
            if self.asked == LOST:
                raise self._lease.lost from None
            await self._rested(_RESTS[self.asked or "drain"])
        except asyncio.CancelledError:
            if self.asked not in (LOST, "stop"):
                await self._rested("queued" if self._run.hosted else "stopped")
                raise
            self._worker.uncancel()
            if self.asked == LOST:
                raise self._lease.lost from None
            await self._rested("stopped")
        except LeaseLost:
            raise
        except Outage as error:
            await self._waits(error)
        except Exception as error:
            await self._broken_off(error)
            raise
        finally:
            self._working = False

    @property
    def _at(self) -> str:
        """What tells this attempt's events from those of the run's others, which may be of the same second."""
        return f"run/{self._lease.fence}"

    def _cut(self) -> None:
        if self._working:
            self._worker.cancel()

    async def _begun(self, again: bool) -> bool:
        row = self._taken
        if row.status == "running" and not self._tells:
            return True  # as it was written down
        kind, at = (EventType.RUN_RESUMED, self._at) if again else (EventType.RUN_STARTED, "run")
        result = self._run.kept(self._context, {}, "running")
        told = {"agent": row.agent}
        return await self._record(kind, at, "running", told, result=result, among=[row.status])

    async def _graph(self) -> tuple[dict[str, Any], list[str]] | None:
        """Return the graph's state at rest, and the requests that it waits for; None where somebody was quicker to
        stop it."""
        from langgraph.errors import GraphDrained

        run = self._run
        config: Any = {"configurable": {"thread_id": run.checkpoints(run.row)}, "recursion_limit": STEPS}
        async with run.checkpointer(self._lease) as saver:
            self._context, graph = await run.aside(
                lambda: (run.open(self._lease, self._bus), run.compile(saver)),
                brief=f"graphs.{run.GRAPH}" in sys.modules,  # else its import takes a second
            )
            how = {"config": config, "context": self._context, "control": self._control}
            if saver is None:
                begun = await self._begun(again=False)
                return (await run.advance(graph, run.begin(self._context), how), []) if begun else None
            how["durability"] = "sync"
            now = await graph.aget_state(config)
            if not await self._begun(again=bool(now.values)):
                return None
            while True:
                answer, pending = await asyncio.to_thread(self._answer, now) if now.interrupts else (None, [])
                if now.values and (not now.tasks or (now.interrupts and answer is None)):
                    return dict(now.values), pending
                # Not `next`: it is empty, too, where a process died between a node's writes and its checkpoint.
                value = answer
                if answer is None and not now.tasks:
                    value = await run.aside(partial(run.begin, self._context))
                try:
                    await run.advance(graph, value, how)
                except (GraphDrained, asyncio.CancelledError):
                    with suppress(Exception):  # it only says how far the graph came
                        self._last = await graph.aget_state(config)
                    raise
                now = await graph.aget_state(config)

    def _answer(self, known: StateSnapshot) -> tuple[Any, list[str]]:
        """What wakes the branches whose requests were all answered, None where there are none; and the other requests.

        Both of one look: a request that is decided a moment later is one that the run waits for, which wakes it.
        """
        from langgraph.types import Command

        store = approvals.ApprovalStore(self._run.workspace)
        asked = {one.id: _requests(one.value) for one in known.interrupts}
        pending = {id for ids in asked.values() for id in ids if not store.get(id).decided}
        ready = {branch: "answered" for branch, ids in asked.items() if not pending.intersection(ids)}
        left = dict.fromkeys(id for ids in asked.values() for id in ids if id in pending)  # branches may share one
        return Command(resume=ready) if ready else None, list(left)

    async def _ended(self, state: Mapping[str, Any], asked: list[str]) -> None:
        self._working = False  # what is left is to record how it ended

        def look() -> tuple[RunOutcome, RunRow]:
            return self._run.outcome(self._context, state, asked), self._store.get(self._run.run_id)

        found, now = await self._run.aside(look)
        self._tells = self._tells or now.status != "running"  # somebody told that it was given up
        status, by = found.status, found.stopped_by
        if status == "waiting" and now.control is not None:
            status, by = _RESTS[now.control], now.control_by
        at = f"end/{','.join(asked)}" if status not in _RESTS.values() else self._at
        told = {"approval_ids": asked, "error": found.error}
        how = {"result": found.result, "stopped_by": by, "error": found.error}
        if not await self._record(_EVENTS[status], at, status, told, **how, seen=None if status in ENDED else now):
            await self._rested("queued")  # somebody asked it to rest in that moment

    async def _rested(self, status: str) -> None:
        """Not at its end: somebody wanted it to rest, or it was interrupted."""
        self._working = False
        state = dict(self._last.values) if self._last is not None else {}
        if state and self._last is not None and not self._last.tasks:
            return await self._ended(state, [])  # its last step was done before it could be cut off
        while True:
            row = await asyncio.to_thread(self._store.get, self._run.run_id)
            to = _RESTS[row.control] if row.control is not None else status
            # Somebody was quicker, before this worker began.
            if to == row.status or row.status not in ("running", self._taken.status):
                self._run.row = row
                return None
            result = await asyncio.to_thread(self._run.kept, self._context, state, to)
            stopped_by = (row.control_by or "interrupted") if to == "stopped" else None
            told = {"by": row.control_by, "agent": row.agent}
            at = self._at
            if await self._record(_EVENTS[to], at, to, told, result=result, stopped_by=stopped_by, seen=row):
                return None

    async def _waits(self, outage: Outage) -> None:
        """For a model that can't be reached: the run rests, and is due again after a pause."""
        self._working = False
        why = _error_record(outage)
        how: dict[str, Any] = {"error": why, "wake_at": self._lease.leases.clock() + outage.pause, "unasked": True}
        at = self._at
        if not await self._record(EventType.RUN_WAITING, at, "waiting", {"error": why}, **how):
            await self._rested("queued")

    async def _broken_off(self, error: Exception) -> None:
        """Not the run failed but what it stands on: it can be resumed when that is mended.

        That of a host goes back into the queue: nobody is there to resume it.
        """
        self._working = False
        why = _error_record(error)
        again = self._run.hosted and not isinstance(error, RightsWithdrawn)
        status = "queued" if again else self._run.BROKEN_OFF
        stopped_by = None if status == "queued" else why["code"] if isinstance(error, HiveError) else "fault"
        how: dict[str, Any] = {"result": self._run.kept(self._context, {}, "queued"), "stopped_by": stopped_by}
        how |= {"error": why, "unasked": True, "among": ("running", self._taken.status)}
        with suppress(HiveError):
            if not await self._record(_EVENTS[status], self._at, status, {"error": why}, **how):
                await self._rested(status)

    async def _record(self, kind: EventType, at: str, status: str, told: dict[str, Any], **how: Any) -> bool:
        """How the run stands and that it is told of, in one transaction; then those who listen hear of it."""
        row, event = self._run.row, None
        if self._tells:
            event = _event(row, kind, derived_id(self._run.SOURCE, row.run_id, at, kind), **told)
        done, told_as = False, event

        def write() -> None:
            nonlocal done, told_as
            spent = self._run.spent(how.get("result"))
            done = self._store.update(row.run_id, status, **how, lease=self._lease, told=event, spent=spent)
            self._run.row = self._store.get(row.run_id)
            if done and event is not None:  # with the number of its record, which the bus then need not look up
                told_as = events.EventLog(self._run.workspace).recorded(event.id) or event

        # What a failed run asked is withdrawn with it, which may take a while.
        await (asyncio.to_thread(write) if status == "failed" else briefly(write))
        if done and told_as is not None and self._bus is not None:
            with suppress(HiveError):  # it is in the log
                await self._bus.announce(told_as)
        return done


def _event(row: RunRow, kind: EventType, id: str, **told: Any) -> Event:
    if kind not in (EventType.RUN_STARTED, EventType.RUN_RESUMED):
        told = {"agent": row.agent, "by": None, "approval_ids": [], "error": None} | told
    payload = json.loads(encodable(json.dumps(told, ensure_ascii=False)))
    return Event(kind, row.run_id, row.thread_id, None, row.thread_id, row.tenant, payload, id=id)


def _requests(asking: Mapping[str, Any]) -> list[str]:
    """Return the requests that a result or an interrupt names."""
    one = asking.get("approval_id")
    return list(asking.get("approval_ids") or ([one] if one else []))


def _error_record(error: Exception) -> dict[str, str]:
    if isinstance(error, HiveError):
        return {"code": error.diagnostics[0].code, "message": error.diagnostics[0].message}
    return {"code": "HIVE-422", "message": f"{type(error).__name__}: {error}"[:500]}
