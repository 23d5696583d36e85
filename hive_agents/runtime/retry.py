"""A failed run goes on: from its last good step, or anew from one of its nodes, with the ledger that it had."""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from hive_agents.agents import Effects, GoalVerdict, losses, reachable
from hive_agents.agents.guards import MEASURES, Budget, Measure
from hive_agents.errors import HiveError
from hive_agents.runs import AGENT_GRAPH, RunRow, RunStore
from hive_agents.runtime.agent_input import RunValue, require_agent_run
from hive_agents.runtime.checkpoints import async_checkpointer
from hive_agents.runtime.driver import leases_of
from hive_agents.store import connected, transaction

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hive_agents.agents import AgentSpec, End
    from hive_agents.runs import Lease
    from hive_agents.workspace import Workspace

OUTAGES = ("unavailable", "model_error")
"""What a run may have failed for that was no fault of its work."""


async def retry(workspace: Workspace, run_id: str, by: str, *, node: str | None = None) -> RunRow:
    """Put a failed run back into the queue; what it has done already, it doesn't do again.

    After an outage, or with a budget that was used up and is now raised by as much again, it goes on where it was.
    After a fault of its work, such as a loop, the node that failed begins once more and is told why; `node` names
    another.

    Raises: HIVE-409 (exit code 2) for a run that is unknown or hasn't failed, and for a node that it never came to;
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
        moved, done = await asyncio.to_thread(store.move, run_id, "failed", by, to="queued")
    finally:
        await asyncio.to_thread(lease.release)
    if not done:
        raise HiveError.of("HIVE-409", f"run {run_id} is {moved.status} by now", fix="see `hive runs`", exit_code=2)
    return moved


async def _prepared(workspace: Workspace, row: RunRow, lease: Lease, node: str | None) -> None:
    value = RunValue.read(row.value)
    effects = Effects(workspace, row.run_id, Budget(value.limits), lease=lease)
    graphs = import_module(f"graphs.{AGENT_GRAPH}")
    config: Any = {"configurable": {"thread_id": row.run_id}}
    async with async_checkpointer(workspace, lease) as saver:
        graph = graphs.build(value.agent).compile(checkpointer=saver)
        now = await graph.aget_state(config)
        ends, verdicts = now.values.get("ends", []), now.values.get("verdicts", [])
        reason = row.summary["stopped_by"]
        if node is not None and node not in {end["node"] for end in ends}:
            known = ", ".join(dict.fromkeys(end["node"] for end in ends)) or "none"
            raise HiveError.of(
                "HIVE-409", f'{row.run_id} never came to "{node}"', fix=f"name one of: {known}", exit_code=2
            )
        if node is None and not now.values.get("outcome"):
            pass  # its worker gave up on it in the middle of a step, which is done again
        elif node is None and (reason in (*OUTAGES, *MEASURES)):
            await _raised(effects, reason)
            async for past in graph.aget_state_history(config):
                bad = losses(past.values.get("ends", []), past.values.get("verdicts", []))
                if past.next and not bad and not past.values.get("outcome"):
                    await graph.aupdate_state(past.config, None, as_node="__copy__")
                    break
        else:
            whys = _begun_anew(value.agent, ends, verdicts, node)
            key = await _record_notice(effects, workspace, row.run_id, whys, len(verdicts))
            verdict = GoalVerdict(n=len(verdicts) + 1, action="again", targets=list(whys), key=key, since=len(ends))
            anew = {"verdicts": [*verdicts, verdict], "outcome": {}, "asked": []}
            await graph.aupdate_state(config, anew, as_node=graphs.GOAL)
    await asyncio.to_thread(_forgive, workspace, row.run_id)


def _begun_anew(
    agent: AgentSpec, ends: Sequence[End], verdicts: Sequence[GoalVerdict], node: str | None
) -> dict[str, str]:
    """Return the nodes that begin once more, and why each did not succeed: `node`, and every one that failed and that
    the work doesn't come to from there. Where none failed it was the last that wasn't accepted."""
    failed = {end["node"]: (end["error"] or {}).get("message", "") for end in losses(ends, verdicts)}
    why = next(iter(failed.values()), "") or "it was not accepted"
    if node is None:
        return failed or {ends[-1]["node"]: why}
    after = reachable(agent, [node])
    return {node: failed.get(node, why)} | {name: message for name, message in failed.items() if name not in after}


async def _raised(effects: Effects, measure: str | None) -> None:
    """A budget that was used up may be used once more: a person wants the run to go on."""
    limit = getattr(effects.budget.limits, str(measure), 0)
    if limit:
        await effects.raise_limit(str(measure), limit, effects.budget.doubled(cast(Measure, measure)))


async def _record_notice(effects: Effects, workspace: Workspace, run_id: str, whys: Mapping[str, str], n: int) -> str:
    """Record what the nodes are told that begin once more; returns the key."""
    query = (
        "SELECT name, count(*) FROM effects WHERE run_id = ? AND node_id = ? AND kind = 'tool' AND status = 'done'"
        " GROUP BY name"
    )
    with connected(workspace.records) as connection:
        ran = {node: connection.execute(query, (run_id, node)).fetchall() for node in whys}
    words = []
    for node, why in whys.items():
        words.append(f"{node} begins once more, because it ended without success: {why}.")
        if ran[node]:
            calls = ", ".join(f"{name} ({count})" for name, count in ran[node])
            words[-1] += f" What it did stays done, so don't do it twice: {calls}."
    return await effects.note(f"GOAL#again{n + 1}", {"feedback": "\n".join(words)})


def _forgive(workspace: Workspace, run_id: str) -> None:
    """Failed answers and judgements are asked for once more; what they cost stays counted."""
    failed = (
        "run_id = ? AND status = 'done' AND ((kind = 'model' AND json_extract(result, '$.error') IS NOT NULL)"
        " OR (kind = 'judge' AND CAST(json_extract(result, '$.outage') AS INTEGER) = 1))"
    )
    with connected(workspace.records) as connection, transaction(connection):
        renamed = "UPDATE effects SET key = key || '!' || COALESCE(ended, 0) || '.' || rowid, status = 'failed' WHERE "
        connection.execute(renamed + failed, (run_id,))
        connection.execute("UPDATE effects SET attempts = 1 WHERE run_id = ? AND status = 'started'", (run_id,))
