"""Start the run that a trigger asks for: as its service, once for a key, told of in the event log."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import closing
from typing import TYPE_CHECKING, Any

from hive_agents.access import service_principal
from hive_agents.events import Event, EventLog, EventType, derived_id
from hive_agents.runs import Limits
from hive_agents.triggers import TriggerSpec

if TYPE_CHECKING:
    from hive_agents.workspace import Workspace


async def fire(
    workspace: Workspace,
    spec: TriggerSpec,
    input: dict[str, Any],
    *,
    key: str,
    scheduled: str,
    publish: Callable[[Event], Awaitable[object]] | None = None,
    **brought: Any,
) -> str:
    """Return the id of the queued run; that of the first one for a key that has one. A host takes it from there.

    `publish` is a bus's; without it the event log alone is told. What a host gives all runs, such as `tools`, is
    `brought`.

    Raises: what `AgentRun.start` raises, the diagnostics of `access/*.json`, HIVE-402 or HIVE-403.
    """
    run_id, tenant = await asyncio.to_thread(_started, workspace, spec, input, key, brought)
    payload = {"trigger": spec.id, "run_id": run_id, "key": key, "scheduled": scheduled}
    # The key and no moment: a process that dies in between tells the same again, and the log takes it once.
    id = derived_id("trigger", tenant, key)
    event = Event(EventType.TRIGGER_FIRED, run_id, tenant=tenant, payload=payload, id=id)
    if publish is not None:
        await publish(event)
    else:
        await asyncio.to_thread(_log, workspace, event)
    return run_id


def _log(workspace: Workspace, event: Event) -> None:
    with closing(EventLog(workspace)) as log:
        log.append([event])


def _started(
    workspace: Workspace, spec: TriggerSpec, input: dict[str, Any], key: str, brought: dict[str, Any]
) -> tuple[str, str]:
    from hive_agents.runtime.agent_run import AgentRun

    principal = service_principal(workspace, spec.service)
    limits = Limits.of(workspace.settings.runs).within(spec.budget)
    how = {"principal": principal, "key": key, "limits": limits, "hold": False, **brought}
    run = AgentRun.start(workspace, spec.agent, input, **how)
    return run.run_id, principal.tenant
