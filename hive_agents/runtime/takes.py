"""One run in a host's hands: an agent's on the event loop, the optimizer's in a thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from hive_agents.approvals import ApprovalStore
from hive_agents.errors import HiveError, WorkerFault
from hive_agents.events import Event, EventType, derived_id
from hive_agents.llm import Chain, Role
from hive_agents.runs import AGENT_GRAPH, DueRun, RunStore, taken
from hive_agents.runtime.agent_drive import result_of
from hive_agents.runtime.agent_run import AgentRun, leases_of
from hive_agents.runtime.decisions import carry_out
from hive_agents.runtime.optimize import OptimizeRun

if TYPE_CHECKING:
    from hive_agents.agents import ToolRegistry
    from hive_agents.events import Bus
    from hive_agents.workspace import Workspace


@dataclass(frozen=True)
class Seams:
    """What a host gives the runs of agents; None takes the bundled tools, and the models of the settings."""

    tools: ToolRegistry | None = None
    models: Callable[[Role], Chain] | None = None


class Take(Protocol):
    """`work` raises HIVE-402 where somebody else has the run, and what it breaks off with."""

    async def work(self) -> None: ...

    def drain(self) -> None: ...


class AgentTake:
    def __init__(self, run: AgentRun) -> None:
        self._run = run

    async def work(self) -> None:
        await self._run.work(wait=0)

    def drain(self) -> None:
        self._run.drain()


class OptimizerTake:
    """It computes, so it has a thread, which nobody waits for when the process ends."""

    def __init__(self, run: OptimizeRun) -> None:
        self._run = run

    async def work(self) -> None:
        await _in_thread(lambda: self._run.go(wait=0), f"optimizer {self._run.run.run_id}")

    def drain(self) -> None:
        self._run.drain()


class AnsweredTake:
    """An optimizer run that a person has answered: the decision is carried out, of which the run's end is a part."""

    def __init__(self, run: OptimizeRun) -> None:
        self._run = run

    async def work(self) -> None:
        await _in_thread(self._carry_out, f"answer {self._run.run.run_id}")

    def _carry_out(self) -> None:
        request = ApprovalStore(self._run.workspace).get((self._run.run.result or {})["approval_id"])
        carry_out(self._run.workspace, request, wait=0)

    def drain(self) -> None:
        """It is soon over."""


def is_brought(workspace: Workspace, due: DueRun, seams: Seams) -> bool:
    """Whether somebody has to bring the run's tools or models. Raises: HIVE-407 for a damaged input."""
    if due.graph != AGENT_GRAPH or seams != Seams():
        return False
    return bool(RunStore(workspace).get(due.run_id).value.get("brought"))


def take_up(workspace: Workspace, due: DueRun, bus: Bus, seams: Seams) -> Take | None:
    """The run as a host works on it; None for one that somebody has to bring tools or models for.

    Raises: what says that the run can't be worked on, such as HIVE-407 for a damaged input.
    """
    if due.graph != AGENT_GRAPH:
        run = OptimizeRun.resume(workspace, due.run_id)
        return AnsweredTake(run) if due.status == "waiting" else OptimizerTake(run)
    if is_brought(workspace, due, seams):
        return None
    given: dict[str, Any] = {"tools": seams.tools, "models": seams.models}
    return AgentTake(AgentRun.resume(workspace, due.run_id, bus=bus, hosted=True, **given))


async def give_up(workspace: Workspace, due: DueRun, bus: Bus, status: str, fault: HiveError) -> None:
    """Record that a run is `failed` or `stopped` because it can't be worked on, unless somebody has it by now.

    Raises: HIVE-402, HIVE-403, HIVE-407 when the database fails.
    """
    store = RunStore(workspace)
    lease = await taken(partial(leases_of(workspace).acquire, due.thread_id, due.run_id))
    if lease is None:
        return
    try:
        row = await asyncio.to_thread(store.get, due.run_id)
        if row.status not in ("queued", "running", "waiting"):
            return
        why = fault.diagnostics[0]
        error = {"code": why.code, "message": why.message}
        stopped_by = "fault" if isinstance(fault, WorkerFault) else why.code
        failed = status == "failed"
        told: dict[str, Any] = {"agent": row.agent, "approval_ids": [], "error": error}
        kind = EventType.RUN_FAILED if failed else EventType.RUN_STOPPED
        id = derived_id("given_up", due.run_id, status, lease.fence)
        event = Event(kind, due.run_id, due.thread_id, None, due.thread_id, row.tenant, told, id=id)
        end = result_of(row) | {"status": status, "stopped_by": stopped_by, "error": error} if failed else None
        how: dict[str, Any] = {"result": end, "stopped_by": stopped_by, "error": error, "told": event}
        if await asyncio.to_thread(partial(store.update, due.run_id, status, **how, lease=lease, seen=row)):
            with suppress(HiveError):  # it is in the log
                await bus.announce(event)
    finally:
        with suppress(HiveError):
            await asyncio.to_thread(lease.release)


async def _in_thread(work: Callable[[], Any], name: str) -> Any:
    loop = asyncio.get_running_loop()
    result: asyncio.Future[Any] = loop.create_future()

    def tell(set: Callable[[Any], None], value: Any) -> None:
        if not result.done():
            set(value)

    def run() -> None:
        try:
            told = result.set_result, work()
        except BaseException as error:
            told = result.set_exception, error
        with suppress(RuntimeError):  # the loop is over, and nobody asks any more
            loop.call_soon_threadsafe(tell, *told)

    threading.Thread(target=run, name=name, daemon=True).start()
    return await result
