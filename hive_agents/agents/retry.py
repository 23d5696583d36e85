"""Continue a failed run from its last good step, or from one of its nodes, with the same ledger."""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from hive_agents.agents.effects import Effects
from hive_agents.agents.goal_judge import losses
from hive_agents.agents.guards.budget import MEASURES, Budget, Measure
from hive_agents.agents.input import RunValue, require_agent_run
from hive_agents.agents.node_end import GoalVerdict
from hive_agents.agents.spec import reachable
from hive_agents.base import HiveError
from hive_agents.runs import AGENT_GRAPH, RunRow, RunStore, checkpoints, leases_of
from hive_agents.store import connected, transaction

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hive_agents.agents.node_end import End
    from hive_agents.agents.spec import AgentSpec
    from hive_agents.runs import Lease
    from hive_agents.workspace import Workspace

OUTAGES = ("unavailable", "model_error")
"""Reasons of failure outside of the run."""


async def retry(workspace: Workspace, run_id: str, by: str, *, node: str | None = None) -> RunRow:
    """Put a failed run back into the queue; recorded effects aren't repeated.

    After an outage it continues where it was, and so it does after its budget was used up, which is doubled. After
    another failure, such as a loop, the failed node starts again with the reason in its prompt; `node` names another.

    Raises: HIVE-409 (exit code 2) for a run that is unknown or hasn't failed, and for a node that it never reached;
    HIVE-402 where somebody works on it.
    """
    store = RunStore(workspace)
    row = await asyncio.to_thread(store.get, run_id)
    fix = "only a failed run of an agent can be tried again; `hive runs resume` goes on with one that rests"
    require_agent_run(row, {"failed"}, fix)
    lease = await asyncio.to_thread(leases_of(workspace).acquire, row.thread_id, run_id)
    if lease is None:
        raise HiveError.of("HIVE-402", f"run {run_id} is being worked on", fix="try again in a moment", exit_code=3)
    try:
        await _prepared(workspace, row, lease, node)
        row, done = await asyncio.to_thread(store.move, run_id, "failed", by, to="queued")
    finally:
        await asyncio.to_thread(lease.release)
    if not done:
        raise HiveError.of("HIVE-409", f"run {run_id} is {row.status} by now", fix="see `hive runs`", exit_code=2)
    return row


async def _prepared(workspace: Workspace, row: RunRow, lease: Lease, node: str | None) -> None:
    value = RunValue.read(row.value)
    effects = Effects(workspace, row.run_id, Budget(value.limits), lease=lease)
    graphs = import_module(f"graphs.{AGENT_GRAPH}")
    config: Any = {"configurable": {"thread_id": row.run_id}}
    async with checkpoints.async_checkpointer(workspace, lease) as saver:
        graph = graphs.build(value.agent).compile(checkpointer=saver)
        snapshot = await graph.aget_state(config)
        ends, verdicts = snapshot.values.get("ends", []), snapshot.values.get("verdicts", [])
        reason = row.summary["stopped_by"]
        if node is not None and node not in {end["node"] for end in ends}:
            reached = ", ".join(dict.fromkeys(end["node"] for end in ends)) or "none"
            raise HiveError.of(
                "HIVE-409", f'{row.run_id} never came to "{node}"', fix=f"name one of: {reached}", exit_code=2
            )
        if node is None and not snapshot.values.get("outcome"):
            pass  # its worker gave up in the middle of a step, which is repeated
        elif node is None and (reason in (*OUTAGES, *MEASURES)):
            await _raise_budget(effects, reason)
            async for past in graph.aget_state_history(config):
                bad = losses(past.values.get("ends", []), past.values.get("verdicts", []))
                if past.next and not bad and not past.values.get("outcome"):
                    await graph.aupdate_state(past.config, None, as_node="__copy__")
                    break
        else:
            reasons = _restarted(value.agent, ends, verdicts, node)
            key = await _record_notice(effects, workspace, row.run_id, reasons, len(verdicts))
            verdict = GoalVerdict(n=len(verdicts) + 1, action="again", targets=list(reasons), key=key, since=len(ends))
            update = {"verdicts": [*verdicts, verdict], "outcome": {}, "asked": []}
            await graph.aupdate_state(config, update, as_node=graphs.GOAL)
    await asyncio.to_thread(_forgive, workspace, row.run_id)


def _restarted(
    agent: AgentSpec, ends: Sequence[End], verdicts: Sequence[GoalVerdict], node: str | None
) -> dict[str, str]:
    """Return the nodes to restart, and why each failed: `node`, and every failed one that isn't reachable from it.

    Without `node` those are all failed nodes, or the last one where the goal wasn't accepted.
    """
    failed = {end["node"]: (end["error"] or {}).get("message", "") for end in losses(ends, verdicts)}
    why = next(iter(failed.values()), "") or "it was not accepted"
    if node is None:
        return failed or {ends[-1]["node"]: why}
    later = reachable(agent, [node])
    return {node: failed.get(node, why)} | {name: message for name, message in failed.items() if name not in later}


async def _raise_budget(effects: Effects, measure: str | None) -> None:
    """Double the budget that was used up, if it is one."""
    limit = getattr(effects.budget.limits, str(measure), 0)
    if limit:
        await effects.raise_limit(str(measure), limit, effects.budget.doubled(cast("Measure", measure)))


async def _record_notice(
    effects: Effects, workspace: Workspace, run_id: str, reasons: Mapping[str, str], n: int
) -> str:
    """Record the feedback for the restarted nodes; return its key."""
    query = (
        "SELECT name, count(*) FROM effects WHERE run_id = ? AND node_id = ? AND kind = 'tool' AND status = 'done'"
        " GROUP BY name"
    )
    with connected(workspace.records) as connection:
        done = {node: connection.execute(query, (run_id, node)).fetchall() for node in reasons}
    lines = []
    for node, why in reasons.items():
        lines.append(f"{node} begins once more, because it ended without success: {why}.")
        if done[node]:
            calls = ", ".join(f"{name} ({count})" for name, count in done[node])
            lines[-1] += f" What it did stays done, so don't do it twice: {calls}."
    return await effects.note(f"GOAL#again{n + 1}", {"feedback": "\n".join(lines)})


def _forgive(workspace: Workspace, run_id: str) -> None:
    """Discard failed answers and judgements, so that they are requested again; their cost stays counted."""
    failed = (
        "run_id = ? AND status = 'done' AND ((kind = 'model' AND json_extract(result, '$.error') IS NOT NULL)"
        " OR (kind = 'judge' AND CAST(json_extract(result, '$.outage') AS INTEGER) = 1))"
    )
    with connected(workspace.records) as connection, transaction(connection):
        renamed = "UPDATE effects SET key = key || '!' || COALESCE(ended, 0) || '.' || rowid, status = 'failed' WHERE "
        connection.execute(renamed + failed, (run_id,))
        connection.execute("UPDATE effects SET attempts = 1 WHERE run_id = ? AND status = 'started'", (run_id,))
