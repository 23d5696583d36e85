"""Start the run of a trigger: for its service account, once per key, with an event in the log."""

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
    """Return the id of the queued run, or of the earlier run with the same key.

    Without `publish` the event is only logged. `brought` are options that a host passes to all runs, such as `tools`.

    Raises: what `AgentRun.start` raises, the diagnostics of `access/*.json`, HIVE-402 or HIVE-403.
    """
    run_id, tenant = await asyncio.to_thread(_started, workspace, spec, input, key, brought)
    payload = {"trigger": spec.id, "run_id": run_id, "key": key, "scheduled": scheduled}
    # Derived from the key, so that the log stores the event once if a process dies and this is repeated.
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
    from hive_agents.agents import AgentRun

    principal = service_principal(workspace, spec.service)
    limits = Limits.of(workspace.settings.runs).within(spec.budget)
    options = {"principal": principal, "key": key, "limits": limits, "hold": False, **brought}
    run = AgentRun.start(workspace, spec.agent, input, **options)
    return run.run_id, principal.tenant
