"""The life cycle of every kind of run: start, resume, pause, stop, and the record of each change.

A kind is a subclass of `Run` that defines its graph, the context of its nodes and the meaning of its final state. The
rest is here, so that hosts and people resume, pause and stop runs of every kind alike. It is one file because the
changes of a run's status depend on each other.
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
from hive_agents.base import HiveError, Outage, RightsWithdrawn, WorkerFault, encodable
from hive_agents.events import Event, EventType, derived_id
from hive_agents.models import span, tracing, waited
from hive_agents.runs.leases import LOST, WEIGHT, Hold, Lease, LeaseLost, Leases, let_go, take, taken
from hive_agents.runs.store import ENDED, RunCost, RunRow, RunStore
from hive_agents.store import briefly
from hive_agents.workspace import Workspace

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.types import StateSnapshot

    from hive_agents.events import Bus, EventSource

T = TypeVar("T")
STEPS = 100_000
GRACE = 5.0
"""Seconds that the current step may take after a request to stop."""

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
    """The status of a run whose graph is at rest, "waiting" for a person included, and the result to store."""

    status: str
    result: dict[str, Any] | None
    stopped_by: str | None = None
    error: dict[str, str] | None = None


@dataclass
class Run(ABC):
    """One run and the code that executes it; its row is stored before its graph starts.

    Events go to `bus`, by default to a new one that logs them; `on_event` gets each event of this run. A `hosted` run
    isn't resumed while it is paused or stopped, and returns to the queue when it is interrupted or cancelled.
    """

    GRAPH: ClassVar[str]
    SOURCE: ClassVar[EventSource]
    """The namespace of its events' ids."""
    CUT: ClassVar[bool] = True
    """Whether a step is cancelled `GRACE` seconds after a request to stop; else it is always completed."""
    BRIEF: ClassVar[bool] = False
    """Whether `open`, `begin` and `outcome` are fast and may be called twice."""
    BROKEN_OFF: ClassVar[str] = "stopped"
    """The status of a run without a host after an error."""

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
    def resume(cls, workspace: Workspace, run_id: str, **options: Any) -> Self:
        """Return the run as it was started. Raises: HIVE-409 for an unknown one, and why it can't be resumed."""

    @staticmethod
    @abstractmethod
    def result_of(row: RunRow) -> dict[str, Any]:
        """Return the result of `work` according to the stored row."""

    @staticmethod
    def checkpoints(row: RunRow) -> str:
        """Return the thread id of its graph's checkpoints."""
        return row.thread_id

    def checkpointer(self, lease: Lease) -> AbstractAsyncContextManager[BaseCheckpointSaver[str] | None]:
        """Open the checkpointer of its graph; None for a graph that always starts from the beginning."""
        from hive_agents.runs.checkpoints import async_checkpointer

        return async_checkpointer(self.workspace, lease)

    async def aside(self, work: Callable[[], T], *, brief: bool = True) -> T:
        """Return the result of `open`, `begin` or `outcome`, called in a thread where they may take long."""
        return await (briefly(work) if brief and self.BRIEF else asyncio.to_thread(work))

    @abstractmethod
    def open(self, lease: Lease, bus: Bus | None) -> Any:
        """Return the context of its graph's nodes."""

    @abstractmethod
    def compile(self, saver: BaseCheckpointSaver[str] | None) -> Any:
        """Return its graph."""

    @abstractmethod
    def begin(self, context: Any) -> dict[str, Any]:
        """Return the graph's input."""

    @abstractmethod
    def outcome(self, context: Any, state: Mapping[str, Any], pending: list[str]) -> RunOutcome:
        """Return the outcome of its graph's state at rest; `pending` are the ids of requests that it waits for."""

    def kept(self, context: Any, state: Mapping[str, Any], status: str) -> dict[str, Any] | None:
        """Return the result to store while the run isn't over."""
        return None

    def spent(self, result: Mapping[str, Any] | None) -> RunCost | None:
        """Return its cost so far; None where its ledger counts that."""
        return None

    def overtaken(self) -> dict[str, Any]:
        """Return the result of `work` for a run that was at rest already when its lease was acquired."""
        return self.result_of(self.row)

    async def advance(self, graph: Any, value: Any, options: dict[str, Any]) -> Any:
        """Run the graph until it rests; return its state if it has no checkpoints, or if the caller needn't read it."""
        return await graph.ainvoke(value, **options)

    @property
    def tells(self) -> bool:
        """Whether changes of its status are published as events."""
        return True

    @property
    def run_id(self) -> str:
        return self.row.run_id

    @property
    def store(self) -> RunStore:
        return RunStore(self.workspace)

    def go(self, *, wait: float = 30.0) -> dict[str, Any]:
        """Call `work` from synchronous code, also in a notebook; Ctrl-C leaves the run stopped, to be resumed."""
        try:
            return waited(self.work(wait=wait))
        except KeyboardInterrupt:
            if self._lease is not None:  # `work` had not begun
                let_go(self._lease)
                self._lease = None
            self.row = self.store.get(self.run_id)
            # No attempt has recorded the interruption, and a host would resume the run.
            if self.row.status == "queued" or self._is_abandoned():
                self.row, _ = self.store.move(self.run_id, self.row.status, "interrupted", to="stopped")
            return self.result_of(self.row)

    def _is_abandoned(self) -> bool:
        """Return whether its status is "running" though no worker holds its lease."""
        return self.row.status == "running" and not leases_of(self.workspace).is_held(self.row.thread_id)

    async def work(self, *, wait: float = 30.0, lease: Lease | None = None) -> dict[str, Any]:
        """Run to the end, or until people have to answer; return the result, also of a run that has ended already.

        Meanwhile `runs.pause` and `runs.stop`, from any process, and `drain` interrupt it, also while this waits for
        another process. `lease` is the lease of its thread, if the caller holds it.

        Raises: HIVE-402 where another process still works on it after `wait` seconds; HIVE-425 where one took it over.
        """
        loop, worker = asyncio.get_running_loop(), asyncio.current_task()
        assert worker is not None
        initial_lease = self._lease
        lease = await self._require_lease(lease, wait)
        new = lease is initial_lease and self.checkpoints(self.row) == self.run_id
        attempt = Attempt(self, lease, worker, new=new)

        def ask(control: str) -> None:
            loop.call_soon_threadsafe(attempt.ask, control)

        self._ask = ask
        async with Hold(lease, ask):
            try:
                # Under the lease of its start the row is unchanged, but for a control, which `_begun` sees.
                if lease is not initial_lease and await briefly(self._rests):
                    return self.overtaken()
                if self._drained:
                    attempt.ask("drain")
                name = f"run {self.row.agent or self.GRAPH}"
                with span(name, workspace=self.workspace, hive__run_id=self.run_id) as trace:
                    async with self._open_bus() as bus:
                        await attempt.go(bus)
                    trace.note(hive__status=self.row.status)
            except BaseException:
                self.row = await asyncio.to_thread(self.store.get, self.run_id)
                raise
            finally:
                self._ask = None
        return self.result_of(self.row)

    def drain(self) -> None:
        """Return the run to the queue after its current step; from any thread."""
        self._drained = True
        if self._ask is not None:
            self._ask("drain")

    @classmethod
    async def give_up(cls, workspace: Workspace, run_id: str, bus: Bus, status: str, fault: HiveError) -> None:
        """Record that a run is `failed` or `stopped` because no worker can execute it, unless one does by now.

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
            error = _error_record(fault)
            stopped_by = "fault" if isinstance(fault, WorkerFault) else error["code"]
            id = derived_id("given_up", run_id, status, lease.fence)
            event = _event(row, _EVENTS[status], id, error=error)
            result = None
            if status == "failed":
                result = cls.result_of(row) | {"status": status, "stopped_by": stopped_by, "error": error}
            changes: dict[str, Any] = {"result": result, "stopped_by": stopped_by, "error": error, "told": event}
            if await asyncio.to_thread(partial(store.update, run_id, status, **changes, lease=lease, seen=row)):
                with suppress(HiveError):  # it is in the log
                    await bus.announce(event)
        finally:
            with suppress(HiveError):
                await asyncio.to_thread(lease.release)

    async def _require_lease(self, lease: Lease | None, wait: float) -> Lease:
        lease, self._lease = lease or self._lease, None
        if lease is not None and (lease.lasts or await asyncio.to_thread(lease.renew)):
            return lease
        return await take(leases_of(self.workspace), self.row.thread_id, self.run_id, wait)

    def _rests(self) -> bool:
        """Return whether there is nothing to do: the run is over, paused, stopped, or has no answer yet."""
        before, self.row = self.row.status, self.store.get(self.run_id)
        if self.row.status in ("paused", "stopped") and (self.hosted or self.row.status != before):
            return True
        if self.hosted and self.row.status in ENDED:
            return True
        if self.row.result is None:
            return False
        return self.row.status in ENDED or (self.row.status == "waiting" and not self._answered(self.row.result))

    def _answered(self, result: dict[str, Any]) -> bool:
        store, ids = approvals.ApprovalStore(self.workspace), _requests(result)
        return not ids or any(store.get(id).decided for id in ids)

    @asynccontextmanager
    async def _open_bus(self) -> AsyncIterator[Bus | None]:
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
    """One execution of a run by a worker: to its end, to a question, or until it is interrupted.

    `control` is what the worker was asked to do: "pause", "stop", "drain", or "lost" when its lease is another's.
    """

    def __init__(self, run: Run, lease: Lease, worker: asyncio.Task[Any], *, new: bool) -> None:
        from langgraph.runtime import RunControl

        self.control: str | None = None
        self._run, self._lease, self._worker, self._store = run, lease, worker, run.store
        self._new = new
        """Whether the run was under this lease since its start, so that it has no checkpoints yet."""
        self._taken = run.row
        """The row as it was when the worker began."""
        self._run_control = RunControl()
        self._working = False
        self._tells = run.tells
        self._context: Any = None
        self._last: StateSnapshot | None = None
        """The graph's state when it was interrupted."""

    def ask(self, control: str) -> None:
        """Interrupt the graph after its current step, on "stop" after `GRACE` seconds at most, on "lost" at once."""
        if self.control is not None and WEIGHT.index(control) < WEIGHT.index(self.control):
            return
        self.control = control
        self._run_control.request_drain(control)
        if control == LOST:
            self._cut()
        elif control == "stop" and self._run.CUT:
            asyncio.get_running_loop().call_later(GRACE, self._cut)

    async def go(self, bus: Bus | None) -> None:
        """Run the graph as far as it goes. Raises: LeaseLost (HIVE-425), and whatever error interrupts the graph."""
        from langgraph.errors import GraphDrained

        self._bus, self._working, self._taken = bus, True, self._run.row
        try:
            # A control that a dead worker was sent applies to its successor.
            if self._taken.control is not None:
                self.ask(self._taken.control)
            if self.control is not None and self.control != LOST:
                return await self._rested(_RESTS[self.control])
            with tracing(self._run.workspace):
                rest = await self._graph()
            if rest is not None:
                await self._ended(*rest)
        except GraphDrained:
            if self.control == LOST:
                raise self._lease.lost from None
            await self._rested(_RESTS[self.control or "drain"])
        except asyncio.CancelledError:
            if self.control not in (LOST, "stop"):
                await self._rested("queued" if self._run.hosted else "stopped")
                raise
            self._worker.uncancel()
            if self.control == LOST:
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
        """A key that distinguishes events of this attempt from those of other attempts in the same second."""
        return f"run/{self._lease.fence}"

    def _cut(self) -> None:
        if self._working:
            self._worker.cancel()

    async def _begun(self, again: bool) -> bool:
        row = self._taken
        if row.status == "running" and not self._tells:
            return True  # `insert` stored that status
        kind, at = (EventType.RUN_RESUMED, self._at) if again else (EventType.RUN_STARTED, "run")
        result = self._run.kept(self._context, {}, "running")
        return await self._record(kind, at, "running", {"agent": row.agent}, result=result, among=row.status)

    async def _graph(self) -> tuple[dict[str, Any], list[str]] | None:
        """Return the graph's state at rest, and the requests that it waits for; None if the run was stopped before it
        began."""
        from langgraph.errors import GraphDrained

        run = self._run
        config: Any = {"configurable": {"thread_id": run.checkpoints(run.row)}, "recursion_limit": STEPS}
        async with run.checkpointer(self._lease) as saver:
            self._context, graph = await run.aside(
                lambda: (run.open(self._lease, self._bus), run.compile(saver)),
                brief=f"graphs.{run.GRAPH}" in sys.modules,  # else its import takes a second
            )
            options = {"config": config, "context": self._context, "control": self._run_control}
            if saver is None:
                begun = await self._begun(again=False)
                return (await run.advance(graph, run.begin(self._context), options), []) if begun else None
            options["durability"] = "sync"
            snapshot = _nothing(config) if self._new else await graph.aget_state(config)
            if not await self._begun(again=bool(snapshot.values)):
                return None
            while True:
                answer, pending = await asyncio.to_thread(self._answer, snapshot) if snapshot.interrupts else (None, [])
                if snapshot.values and (not snapshot.tasks or (snapshot.interrupts and answer is None)):
                    return dict(snapshot.values), pending
                # Not `next`: it is empty, too, where a process died between a node's writes and its checkpoint.
                value = answer
                if answer is None and not snapshot.tasks:
                    value = await run.aside(partial(run.begin, self._context))
                try:
                    state = await run.advance(graph, value, options)
                except (GraphDrained, asyncio.CancelledError):
                    with suppress(Exception):  # without it only the progress is unknown
                        self._last = await graph.aget_state(config)
                    raise
                if state is not None and "__interrupt__" not in state:
                    return state, []
                snapshot = await graph.aget_state(config)

    def _answer(self, snapshot: StateSnapshot) -> tuple[Any, list[str]]:
        """Return the command that resumes each branch whose requests are all decided, or None, and the open requests.

        Each request is read once: one that is decided a moment later counts as open, and its decision wakes the run.
        """
        from langgraph.types import Command

        store = approvals.ApprovalStore(self._run.workspace)
        requests = {interrupt.id: _requests(interrupt.value) for interrupt in snapshot.interrupts}
        ids = dict.fromkeys(id for of_branch in requests.values() for id in of_branch)  # branches may share one
        pending = [id for id in ids if not store.get(id).decided]
        ready = {branch: "answered" for branch, of_branch in requests.items() if not set(of_branch) & set(pending)}
        return Command(resume=ready) if ready else None, pending

    async def _ended(self, state: Mapping[str, Any], pending: list[str]) -> None:
        self._working = False  # the graph is at rest: nothing remains to be cancelled

        def read() -> tuple[RunOutcome, RunRow]:
            return self._run.outcome(self._context, state, pending), self._store.get(self._run.run_id)

        outcome, row = await self._run.aside(read)
        self._tells = self._tells or row.status != "running"  # an event has announced that it was given up
        status, by = outcome.status, outcome.stopped_by
        if status == "waiting" and row.control is not None:
            status, by = _RESTS[row.control], row.control_by
        at = f"end/{','.join(pending)}" if status not in _RESTS.values() else self._at
        payload = {"approval_ids": pending, "error": outcome.error}
        changes = {"result": outcome.result, "stopped_by": by, "error": outcome.error}
        seen = None if status in ENDED else row
        if not await self._record(_EVENTS[status], at, status, payload, **changes, seen=seen):
            await self._rested("queued")  # a control arrived in that moment

    async def _rested(self, status: str) -> None:
        """Record a run that was interrupted before its end."""
        self._working = False
        state = dict(self._last.values) if self._last is not None else {}
        if state and self._last is not None and not self._last.tasks:
            return await self._ended(state, [])  # its last step was completed before it could be cancelled
        while True:
            row = await asyncio.to_thread(self._store.get, self._run.run_id)
            to = _RESTS[row.control] if row.control is not None else status
            # The status was changed before this worker began.
            if to == row.status or row.status not in ("running", self._taken.status):
                self._run.row = row
                return None
            result = await asyncio.to_thread(self._run.kept, self._context, state, to)
            stopped_by = (row.control_by or "interrupted") if to == "stopped" else None
            payload = {"by": row.control_by, "agent": row.agent}
            changes = {"result": result, "stopped_by": stopped_by, "seen": row}
            if await self._record(_EVENTS[to], self._at, to, payload, **changes):
                return None

    async def _waits(self, outage: Outage) -> None:
        """Record that the run waits for a model that can't be reached, and is due again after a pause."""
        self._working = False
        error = _error_record(outage)
        changes: dict[str, Any] = {"error": error, "unasked": True}
        changes["wake_at"] = self._lease.leases.clock() + outage.pause
        if not await self._record(EventType.RUN_WAITING, self._at, "waiting", {"error": error}, **changes):
            await self._rested("queued")

    async def _broken_off(self, fault: Exception) -> None:
        """Record an error outside of the run, after whose repair it can be resumed.

        A hosted run returns to the queue, since no person is there to resume it.
        """
        self._working = False
        error = _error_record(fault)
        again = self._run.hosted and not isinstance(fault, RightsWithdrawn)
        status = "queued" if again else self._run.BROKEN_OFF
        stopped_by = None if status == "queued" else error["code"] if isinstance(fault, HiveError) else "fault"
        changes: dict[str, Any] = {"result": self._run.kept(self._context, {}, "queued"), "stopped_by": stopped_by}
        changes |= {"error": error, "unasked": True, "among": ("running", self._taken.status)}
        with suppress(HiveError):
            if not await self._record(_EVENTS[status], self._at, status, {"error": error}, **changes):
                await self._rested(status)

    async def _record(self, kind: EventType, at: str, status: str, payload: dict[str, Any], **changes: Any) -> bool:
        """Store the run's status and its event in one transaction, then publish the event; return whether it did."""
        row, event = self._run.row, None
        if self._tells:
            event = _event(row, kind, derived_id(self._run.SOURCE, row.run_id, at, kind), **payload)
        done, logged = False, event

        def write() -> None:
            nonlocal done, logged
            spent = self._run.spent(changes.get("result"))
            done = self._store.update(row.run_id, status, **changes, lease=self._lease, told=event, spent=spent)
            self._run.row = self._store.get(row.run_id)
            if done and event is not None:  # with its number in the log, which the bus then need not look up
                logged = events.EventLog(self._run.workspace).recorded(event.id) or event

        # A failed run's requests are withdrawn with it, which may take a while.
        await (asyncio.to_thread(write) if status == "failed" else briefly(write))
        if done and logged is not None and self._bus is not None:
            with suppress(HiveError):  # it is in the log
                await self._bus.announce(logged)
        return done


def _nothing(config: Any) -> StateSnapshot:
    from langgraph.types import StateSnapshot

    return StateSnapshot({}, (), config, None, None, None, (), ())


def _event(row: RunRow, kind: EventType, id: str, **payload: Any) -> Event:
    if kind not in (EventType.RUN_STARTED, EventType.RUN_RESUMED):
        payload = {"agent": row.agent, "by": None, "approval_ids": [], "error": None} | payload
    payload = json.loads(encodable(json.dumps(payload, ensure_ascii=False)))
    return Event(kind, row.run_id, row.thread_id, None, row.thread_id, row.tenant, payload, id=id)


def _requests(value: Mapping[str, Any]) -> list[str]:
    """Return the ids of requests that a result or an interrupt names."""
    id = value.get("approval_id")
    return list(value.get("approval_ids") or ([id] if id else []))


def _error_record(error: Exception) -> dict[str, str]:
    if isinstance(error, HiveError):
        return {"code": error.diagnostics[0].code, "message": error.diagnostics[0].message}
    return {"code": "HIVE-422", "message": f"{type(error).__name__}: {error}"[:500]}
