"""The steps of one tick of the health judge, for one tenant; `graphs/judge.py` has their order."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import logging
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from hive_agents.base import HiveError
from hive_agents.base.files import Format
from hive_agents.events import SEVERITIES, TicketSeverity
from hive_agents.memory import DataFiles, compact, memory_folder
from hive_agents.models import Chain, Message, prompts
from hive_agents.runs import ACTIVE
from hive_agents.supervision.health.context import JudgeContext
from hive_agents.supervision.health.criteria import Criteria, criteria_of
from hive_agents.supervision.health.detectors import Thresholds, findings_of
from hive_agents.supervision.health.summary import RECENT_TICKS, WorkerHealth, get_worker_health_summary
from hive_agents.supervision.health.tickets import TicketChange, emit_escalation_ticket, emit_tick, reconcile, stamp
from hive_agents.workspace import Workspace

MOST = 40
"""Most findings in one call, the most severe first."""

_SHOWN = 1_000
_FINDING = {"run_id", "agent", "node_id", "cause", "severity", "evidence", "first_seen", "ticks"}


class Assessment(Format):
    ticket: str
    severity: TicketSeverity
    assessment: str


class Assessments(Format):
    assessments: list[Assessment]


async def assessed(
    workspace: Workspace,
    chain: Chain,
    criteria: Sequence[Criteria],
    observations: Sequence[str],
    changes: Sequence[TicketChange],
) -> list[TicketChange]:
    """Return the same changes, some with a higher severity and an assessment.

    Raises: ModelError; HIVE-105, HIVE-106 for a workspace's own prompt that can't be used.
    """
    findings = sorted((one for one in changes if one.kind != "resolved"), key=_gravity, reverse=True)[:MOST]
    if not findings:
        return list(changes)
    prompt = prompts.load(
        "health_judge",
        workspace,
        principles="\n".join(f"- {one}" for one in _principles(criteria)) or "(none)",
        criteria=_lines([one.for_model() for one in criteria]),
        observations="\n".join(observations) or "(none)",
        findings=_lines([{"ticket": one.ticket.id, **one.ticket.model_dump(include=_FINDING)} for one in findings]),
        fence=f"-----{secrets.token_hex(8)}-----",
    )
    result = await chain.complete([Message(role="user", content=prompt)], schema=Assessments)
    answer = Assessments.model_validate(result.structured or {"assessments": []})
    by_ticket = {one.ticket: one for one in answer.assessments}
    return [_with(change, by_ticket.get(change.ticket.id)) for change in changes]


def _with(change: TicketChange, assessment: Assessment | None) -> TicketChange:
    if assessment is None:
        return change
    return change.assessed(assessment.severity, " ".join(assessment.assessment.split())[:_SHOWN] or None)


def _gravity(change: TicketChange) -> tuple[int, int]:
    return SEVERITIES.index(change.ticket.severity), change.kind == "opened"


def _principles(criteria: Sequence[Criteria]) -> list[str]:
    return list(dict.fromkeys(principle for one in criteria for principle in one.principles))


def _lines(values: Sequence[object]) -> str:
    return "\n".join(json.dumps(value, ensure_ascii=False) for value in values) or "(none)"


AGENT = "health_judge"
"""The owner of the observations' conversation, which belongs to no run."""

REMEMBERED = 10
_FURTHEST = dt.timedelta(hours=24)
_log = logging.getLogger("hive_agents.health")

TickState = Mapping[str, Any]
TickUpdate = dict[str, Any]


async def observe(context: JudgeContext, state: TickState) -> TickUpdate:
    """Return the health of the active runs and of every run with an open ticket."""
    tenant = state["tenant"]

    def read() -> list[WorkerHealth]:
        context.tickets.catch_up()
        also = {ticket.run_id for ticket in context.tickets.of(tenant) if ticket.status == "open"}
        since = looked_back(context)
        return get_worker_health_summary(context.workspace, now=context.now, tenant=tenant, since=since, also=also)

    return {"runs": [run.model_dump() for run in await asyncio.to_thread(read)]}


async def detect(context: JudgeContext, state: TickState) -> TickUpdate:
    """Return the detectors' findings and the resulting changes of tickets."""
    runs = [WorkerHealth.model_validate(run) for run in state["runs"]]
    general = context.workspace.settings.health.model_dump()
    findings = {run.run_id: findings_of(run, Thresholds().over(general, run.thresholds)) for run in runs}
    changes = reconcile(context.tickets.of(state["tenant"]), runs, findings, context.now)
    return {"changes": [change.model_dump() for change in changes]}


async def assess(context: JudgeContext, state: TickState) -> TickUpdate:
    """Return the changes as a model assesses them; unchanged without a model or where it fails."""
    changes, tenant = _changes(state), state["tenant"]
    agents = sorted({change.ticket.agent for change in changes if change.kind != "resolved" and change.ticket.agent})
    try:
        chain = context.models() if context.models is not None else None
        if chain is None:
            return {}
        criteria = await asyncio.to_thread(_criteria, context, agents)
        before = await asyncio.to_thread(observations, context, tenant)
        found = await assessed(context.workspace, chain, criteria, before, changes)
    except Exception as error:
        # Its message may quote the model about a run, and the log has more readers than tickets have.
        _log.warning("the health judge's model gave no assessment: %s", type(error).__name__)
        return {}
    return {"changes": [change.model_dump() for change in found]}


async def tell(context: JudgeContext, state: TickState) -> TickUpdate:
    """Publish the tickets, then the tick itself if there are runs or findings."""
    changes = _changes(state)
    for change in changes:
        if change.kind != "seen":
            await emit_escalation_ticket(context.publish, change)
    active = [run["status"] for run in state["runs"] if run["status"] in ACTIVE]
    if changes or "running" in active:
        await emit_tick(context.publish, state["tenant"], len(active), changes, context.now)
    return {}


async def remember(context: JudgeContext, state: TickState) -> TickUpdate:
    """Append one message per tick with findings to the tenant's permanent conversation."""
    changes, tenant = _changes(state), state["tenant"]
    store, at = context.store(tenant), stamp(context.now)

    def write() -> str:
        conversation = store.create(AGENT, AGENT, key="observations")
        message = Message(role="assistant", content=observation(changes, at))
        store.append(conversation, message, key=f"tick/{at}")
        return conversation

    files = DataFiles(memory_folder(context.workspace, tenant, AGENT, "judge"))
    await compact(store, await asyncio.to_thread(write), files)
    return {}


def observation(changes: Sequence[TicketChange], at: str) -> str:
    """Return a tick's findings, one line per ticket."""
    lines = [
        f"- {one.ticket.run_id} {one.ticket.node_id or '-'}: {one.ticket.cause} {one.ticket.severity}, {one.kind}"
        f" (tick {one.ticket.ticks}): {one.ticket.resolution or '; '.join(one.ticket.evidence)}"
        for one in changes
    ]
    return "\n".join([at, *lines])


def observations(context: JudgeContext, tenant: str) -> list[str]:
    """Return the latest messages of the tenant's conversation, oldest first; [] if there is none yet."""
    store = context.store(tenant)
    return [entry.message.content for id in store.of_run(AGENT) for entry in store.messages(id)[-REMEMBERED:]]


def looked_back(context: JudgeContext) -> dt.datetime:
    """Return the start of the window for failed runs: the judge's last tick, but three ticks to a day ago."""
    ticks = dt.timedelta(seconds=RECENT_TICKS * context.workspace.settings.judge.tick_seconds)
    since = min(context.now - ticks, context.tickets.last_tick or context.now)
    return max(since, context.now - max(_FURTHEST, ticks))


def _criteria(context: JudgeContext, agents: Sequence[str]) -> list[Criteria]:
    found = []
    for agent in agents:
        try:
            found.append(criteria_of(context.workspace, agent, context.deployed))
        except HiveError as error:  # an agent that lives in Python has no file
            _log.info("no criteria for %s: %s", agent, error.diagnostics[0].code)
    return found


def _changes(state: TickState) -> list[TicketChange]:
    return [TicketChange.model_validate(change) for change in state["changes"]]
