"""The dispatcher: takes runs from the queue, by turns of tenants and users, and executes several at once."""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from hive_agents.base import AuditFault, Busy, Damaged, EngineFault, HiveError, NoModel, Unwritable, WorkerFault
from hive_agents.base.files import read_bytes
from hive_agents.events import Bell, EventLog, EventType
from hive_agents.models import Chain
from hive_agents.runs import (
    AGENT_GRAPH,
    CHAT_GRAPH,
    OPTIMIZER_GRAPH,
    DueRun,
    Lease,
    LeaseLost,
    Run,
    RunQueue,
    RunStore,
    in_turns,
    leases_of,
    taken_each,
)
from hive_agents.store import briefly, notices
from hive_agents.workspace.settings import FILE, Role

if TYPE_CHECKING:
    from hive_agents.agents import ToolRegistry
    from hive_agents.events import Bus
    from hive_agents.ranking import SearchEngine
    from hive_agents.workspace import Workspace


PATIENCE = 0.25
"""Seconds after which work begins nevertheless."""


class Precedence:
    """Counts short requests in progress; meanwhile at most one question begins in `PATIENCE` seconds.

    So a burst of questions is accepted and acknowledged before the first is computed, since only one thread of the
    interpreter runs at a time. `on_idle` is called when no request is in progress any more, if work had to wait. Not
    thread-safe.
    """

    def __init__(self, on_idle: Callable[[], object], now: Callable[[], float] = time.monotonic) -> None:
        self._on_idle, self._now = on_idle, now
        self._count = 0
        self._since = 0.0
        self._waiting = False

    @contextmanager
    def first(self) -> Iterator[None]:
        """Give the block precedence over new work."""
        if not self._count:
            self._since = self._now()
        self._count += 1
        try:
            yield
        finally:
            self._count -= 1
            if not self._count and self._waiting:
                self._waiting = False
                self._on_idle()

    def wait(self) -> float:
        """Return how many seconds new work should wait, unless `on_idle` is called before; 0 without requests."""
        seconds = max(0.0, self._since + PATIENCE - self._now()) if self._count else 0.0
        self._waiting = self._waiting or seconds > 0
        return seconds

    def begun(self) -> None:
        """Record that work has begun: the next has to wait again."""
        self._since = self._now()


KINDS = {AGENT_GRAPH: "agents:AgentRun", OPTIMIZER_GRAPH: "optimizer:OptimizeRun", CHAT_GRAPH: "copilot:QuestionRun"}
"""The runs of each graph, as a package and a class in it, which is imported when there is one."""


COMPUTING = 2
"""Questions at once where no model is configured: more would only compete for the processor."""
_QUESTION_ROLES: tuple[Role, ...] = ("planner", "answer", "judge")
TAKES = 3
"""A run fails after so many errors in a row without progress."""
DEATHS = 20
"""A run fails after so many workers died at the same effect: it may be the cause."""
POLL_SECONDS = 1.0
LONGEST_PAUSE = 60.0
TAKEN_AT_ONCE = 8
KEPT = 4
"""One of so many places is kept for questions: a reader doesn't wait until a batch of runs is done."""
ASIDE = dt.timedelta(seconds=10)
"""So long a new running row is left alone: a process stores the row just before it holds the lease. One that is
further ahead of this host's clock isn't new: a clock was set back."""
_WAKE = (EventType.RUN_QUEUED, EventType.TRIGGER_FIRED)
_PASSES = (Busy, Unwritable, Damaged, AuditFault, EngineFault, LeaseLost)
"""Temporary faults that the run didn't cause."""
_log = logging.getLogger("hive_agents.host")


@dataclass
class _Backoff:
    """The pause of a run that was interrupted by errors, and their number so far."""

    pause: float
    until: float = 0.0
    faults: int = 0
    progress: int = -1


@dataclass
class _Worker:
    due: DueRun
    task: asyncio.Task[None]
    lease: Lease
    run: Run | None = field(default=None)


class Dispatcher:
    """Executes the runs of a workspace that are queued, whose worker died, or whose request was answered.

    At most `parallel` run at once, each in its own task. Runs that were started with the caller's tools or models are
    skipped, unless `tools` or `models` are given, which all agents then get. A run that is interrupted by an error is
    resumed after `pause` seconds, then after twice as many each time.
    """

    def __init__(
        self,
        workspace: Workspace,
        bus: Bus,
        *,
        parallel: int = 32,
        tools: ToolRegistry | None = None,
        models: Callable[[Role], Chain] | None = None,
        pause: float = 1.0,
    ) -> None:
        self.workspace, self.bus, self.parallel = workspace, bus, parallel
        self._given: dict[str, Any] = {"tools": tools, "models": models}
        self._first_pause = pause
        self._settings = _settings_text(workspace)
        self._leases = leases_of(workspace)
        self._queue = RunQueue(self._leases)
        waits = any(workspace.settings.models.of(role) for role in _QUESTION_ROLES)
        self._questions = parallel if waits else COMPUTING
        self._workers: dict[str, _Worker] = {}
        self._backoffs: dict[str, _Backoff] = {}
        self._brought: set[str] = set()
        self._cleared: set[str] = set()
        self._bell = Bell(bus, _WAKE)
        self.precedence = Precedence(self.wake)
        """Requests that take precedence over new questions."""
        self.taken_over = 0
        """Runs whose worker was found dead by this process."""
        self.looked = asyncio.Event()
        """Set after the first look at the queue, which finds the runs of dead workers."""
        self._draining = False

    @cached_property
    def engine(self) -> SearchEngine:
        """The engine that all questions share, so that an index is read once."""
        from hive_agents.ranking import SearchEngine

        return SearchEngine(self.workspace)

    @property
    def _asked_at_once(self) -> int:
        return sum(worker.due.graph == CHAT_GRAPH for worker in self._workers.values())

    @property
    def active(self) -> frozenset[str]:
        """The runs that this process executes."""
        return frozenset(self._workers)

    def wake(self) -> None:
        """Check the queue now."""
        self._bell.ring()

    async def run(self) -> None:
        """Take runs until cancelled; runs already taken go on, see `drain`."""
        loop = asyncio.get_running_loop()
        with self._bell, notices.listening(self.workspace.records, lambda: loop.call_soon_threadsafe(self.wake)):
            while True:
                try:
                    queue = await asyncio.to_thread(self._queue.due)
                    await asyncio.to_thread(self._clear, queue)
                    self.looked.set()
                    await self._take([due for due in queue if await self._is_ours(due)])
                except HiveError as error:
                    _log.warning("the queue can't be read: %s", error.diagnostics[0].message)
                await self._bell.wait(self.precedence.wait() or POLL_SECONDS)

    async def drain(self, grace: float) -> bool:
        """Return every run to the queue after its current step; return whether all were within `grace` seconds.

        The others are cancelled then, and return to the queue as well. Called when `run` is over.
        """
        self._draining = True
        for worker in self._workers.values():
            if worker.run is not None:
                worker.run.drain()
        tasks = [worker.task for worker in self._workers.values()]
        if not tasks:
            return True
        _, late = await asyncio.wait(tasks, timeout=grace)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late, timeout=5.0)
        return not late

    def _clear(self, queue: list[DueRun]) -> None:
        """Clear the leases of dead workers: their runs are queued like all others, and don't count as lost."""
        abandoned = {due.run_id: due for due in queue if due.status == "running" and due.graph in KINDS}
        for due in (abandoned[run_id] for run_id in abandoned.keys() - self._cleared):
            with suppress(HiveError):  # a damaged run is reported when it is taken
                if not self._is_brought(due):
                    self.taken_over += self._leases.clear(due.thread_id)
        self._cleared = set(abandoned)

    async def _is_ours(self, due: DueRun) -> bool:
        """Return whether the run may be taken now, as far as this process knows."""
        if self._draining or due.run_id in self._brought:
            return False
        if any(due.thread_id == worker.due.thread_id for worker in self._workers.values()):
            return False
        backoff = self._backoffs.get(due.run_id)
        if backoff is not None and backoff.until > asyncio.get_running_loop().time():
            return False
        just_begun = due.status == "running" and due.graph != AGENT_GRAPH and abs(_age(due)) <= ASIDE
        if due.graph not in KINDS or just_begun:
            return False
        if due.graph == CHAT_GRAPH and due.status == "running":  # whoever had it is dead
            if self._has_room(due):
                await asyncio.to_thread(self._left_question, due)
            return False
        return True

    def _left_question(self, due: DueRun) -> None:
        """Queue a question of a dead host again: its reader follows it by another one. One that a dead process asked
        for itself is stopped, since nobody waits for it, and so is one that several hosts died of."""
        queued = EventLog(self.workspace).replay(run_id=due.run_id, types=(EventType.RUN_QUEUED,))
        deaths = sum(event.payload.get("by") == "interrupted" for event in queued)
        to = "queued" if queued and deaths + 1 < TAKES else "stopped"
        RunStore(self.workspace).move(due.run_id, due.status, "interrupted", to=to)

    def _has_room(self, due: DueRun, questions: int = 0, others: int = 0) -> bool:
        if due.graph != CHAT_GRAPH:
            taken = len(self._workers) - self._asked_at_once + others
            return taken < self.parallel - self.parallel // KEPT and len(self._workers) < self.parallel
        if self._asked_at_once + questions >= self._questions or self.precedence.wait():
            return False
        return len(self._workers) < self.parallel

    async def _take(self, queue: list[DueRun]) -> None:
        """Start as many runs as there is room for; a few at once, since other hosts have room, too."""
        chosen: dict[str, DueRun] = {}
        for due in in_turns(queue, [worker.due for worker in self._workers.values()]):
            questions = sum(other.graph == CHAT_GRAPH for other in chosen.values())
            if len(chosen) >= min(TAKEN_AT_ONCE, self.parallel - len(self._workers)):
                break
            if due.thread_id not in chosen and self._has_room(due, questions, len(chosen) - questions):
                chosen[due.thread_id] = due
        if not chosen:
            return

        def take() -> list[Lease]:
            return self._queue.take([due for due in chosen.values() if not self._is_left_alone(due)])

        for lease in await taken_each(take):
            due = chosen[lease.thread_id]
            task = asyncio.create_task(self._work(due, lease), name=f"run {due.run_id}")
            self._workers[due.run_id] = _Worker(due, task, lease)
            if due.graph == CHAT_GRAPH:
                self.precedence.begun()
        if len(queue) > len(chosen):
            self.wake()  # without this the rest would wait for the next poll

    def _is_left_alone(self, due: DueRun) -> bool:
        with suppress(HiveError):  # a damaged run is reported when it is taken
            if self._is_brought(due):
                self._brought.add(due.run_id)
                return True
        return False

    async def _work(self, due: DueRun, lease: Lease) -> None:
        try:
            try:
                await self._execute(due, lease)
            finally:
                await lease.give_back()
        except HiveError as error:
            is_held = False
            with suppress(HiveError):
                is_held = await asyncio.to_thread(self._leases.is_held, due.thread_id)
            if not is_held:  # otherwise another host took it first
                self._pause(due, error.diagnostics[0].code)
        except Exception as error:
            self._pause(due, type(error).__name__)
        finally:
            del self._workers[due.run_id]
            self.wake()

    async def _execute(self, due: DueRun, lease: Lease) -> None:
        """Resume and execute a run. Raises: HiveError for temporary faults."""
        try:
            run = await asyncio.to_thread(self._resumed, due)
        except (Busy, Unwritable):
            raise
        except HiveError as error:
            await self._give_up(due, "stopped", error)
            return
        if await briefly(partial(self._queue.attempts, due.run_id)) >= DEATHS:
            why = f"its worker died or was cut off {DEATHS} times at the same step"
            await self._give_up(due, "failed", WorkerFault.of("HIVE-422", why))
            return
        self._workers[due.run_id].run = run
        if self._draining:  # the run of a dead worker returns to the queue, too
            run.drain()
        waits = due.status == "waiting"
        before = await asyncio.to_thread(self._queue.progress, due.run_id) if waits else 0
        try:
            await run.work(wait=0, lease=lease)
            self._backoffs.pop(due.run_id, None)
            if waits and before == await asyncio.to_thread(self._queue.progress, due.run_id):
                self._pause(due, "no answer")  # the approval store contradicts the request's row
        except _PASSES:
            raise
        except HiveError as error:
            await self._broke_off(due, error)
        except Exception as error:
            await self._broke_off(due, WorkerFault.of("HIVE-422", f"{type(error).__name__}: {error}"[:500]))

    def _resumed(self, due: DueRun) -> Run:
        options: dict[str, Any] = self._given if due.graph == AGENT_GRAPH else {}
        if due.graph == CHAT_GRAPH:
            options = {"engine": self.engine}
        return kind_of(due.graph).resume(self.workspace, due.run_id, bus=self.bus, hosted=True, **options)

    async def _broke_off(self, due: DueRun, error: HiveError) -> None:
        """Pause a run after an error; fail it after `TAKES` errors without progress, stop it without a model.

        It isn't failed once the settings have changed since this host read them: they may be the remedy. A question
        that asks for what can't be, such as a filter by an unknown field, fails at once.
        """
        why = error.diagnostics[0]
        backoff = self._pause(due, why.code)
        if await asyncio.to_thread(_settings_text, self.workspace) != self._settings:
            _log.warning("hive.toml changed since this host began: start it again, so that run %s goes on", due.run_id)
            return
        progress = await asyncio.to_thread(self._queue.progress, due.run_id)
        backoff.faults = backoff.faults + 1 if progress == backoff.progress else 1
        backoff.progress = progress
        if isinstance(error, NoModel):
            await self._give_up(due, "stopped", error)
        elif due.graph == CHAT_GRAPH and error.exit_code == 2:  # wrong usage, however often it is tried
            await self._give_up(due, "failed", error)
        elif backoff.faults >= TAKES:
            fault = why.message if isinstance(error, WorkerFault) else f"{why.code}: {why.message}"
            message = f"its worker broke off {TAKES} times without getting on: {fault}"
            await self._give_up(due, "failed", WorkerFault.of("HIVE-422", message))
        else:
            return
        self._backoffs.pop(due.run_id, None)

    def _is_brought(self, due: DueRun) -> bool:
        """Return whether the run needs tools or models that this host lacks. Raises: HIVE-407 for a damaged input."""
        lacks = all(option is None for option in self._given.values())
        return lacks and bool(RunStore(self.workspace).get(due.run_id).value.get("brought"))

    async def _give_up(self, due: DueRun, status: str, fault: HiveError) -> None:
        await self._workers[due.run_id].lease.give_back()
        await kind_of(due.graph).give_up(self.workspace, due.run_id, self.bus, status, fault)

    def _pause(self, due: DueRun, why: str) -> _Backoff:
        backoff = self._backoffs.setdefault(due.run_id, _Backoff(self._first_pause))
        backoff.until = asyncio.get_running_loop().time() + backoff.pause
        backoff.pause = min(2 * backoff.pause, LONGEST_PAUSE)
        _log.warning("run %s rests for a while: %s", due.run_id, why)
        return backoff


def kind_of(graph: str) -> type[Run]:
    """Return the class of a graph's runs."""
    package, _, name = KINDS[graph].partition(":")
    kind: type[Run] = getattr(import_module(f"hive_agents.{package}"), name)
    return kind


def _settings_text(workspace: Workspace) -> bytes:
    try:
        return read_bytes(workspace.root / FILE)
    except (OSError, HiveError):
        return b""


def _age(due: DueRun) -> dt.timedelta:
    with suppress(ValueError):
        return dt.datetime.now(dt.UTC) - dt.datetime.fromisoformat(due.started_at)
    return dt.timedelta.max
