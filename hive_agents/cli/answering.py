"""Decisions on approval requests, for `hive approvals approve`, `reject`, `edit` and `respond`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from hive_agents.base import safe_line
from hive_agents.cli.surface import Surface

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hive_agents.approvals import ApprovalRequest, Verb
    from hive_agents.workspace import Workspace


def give_answer(
    surface: Surface, requests: list[str], rule: str | None, verb: Verb, batch: str | None = None, **answer: Any
) -> None:
    """Decide `requests`, all that are pending for `rule`, and the calls of `batch`.

    Of several requests each is decided on its own, and failures are listed. Raises: HIVE-409 without a request,
    HIVE-416 when the calls of the batch have changed since the review; for a single request, as `runtime.decide`.
    """
    from hive_agents.approvals import ApprovalStore
    from hive_agents.base import HiveError

    place = surface.workspace
    answer |= surface.asker.decider().named()
    if rule is not None:
        requests = [*requests, *(pending.id for pending in reversed(ApprovalStore(place).list("pending", rule)))]
    if batch is not None:
        requests = [*requests, *_reviewed(place, batch)]
    if not requests and rule is None:
        raise HiveError.of("HIVE-409", "no request is named", fix="give an ID, --rule RULE, or --batch BATCH")
    if len(requests) == 1:
        surface.show(*_decided(place, requests[0], verb, answer))
        return
    items, lines, code = [], [], 0
    for request in requests:
        try:
            value, *told = _decided(place, request, verb, answer)
        except HiveError as error:
            code = max(code, error.exit_code)
            value = {
                "id": request,
                "ok": False,
                "diagnostics": [diagnostic.to_json() for diagnostic in error.diagnostics],
            }
            told = [safe_line(f"{request}: {error.diagnostics[0].message}")]
        items.append(value)
        lines += told
    surface.show({"items": items}, *(lines or [safe_line(f"nothing is pending for {rule}")]))
    raise typer.Exit(code)


def batch_name(run_id: str, requests: Sequence[ApprovalRequest]) -> str:
    """Return the value of `--batch`: the run's id and a hash of the calls that it waits for."""
    from hive_agents.approvals import batch_hash

    return f"{run_id}:{batch_hash(requests)[:24]}"


def _reviewed(place: Workspace, batch: str) -> list[str]:
    from hive_agents.approvals import ApprovalStore, refused

    run_id = batch.partition(":")[0]
    pending = ApprovalStore(place).batch(run_id)
    if not pending or batch_name(run_id, pending) != batch:
        why = f"the calls of {safe_line(run_id)} that wait are not those that were reviewed"
        raise refused("HIVE-416", why, f"read them again: hive approvals review {safe_line(run_id)}")
    return [request.id for request in pending]


def _decided(
    place: Workspace, request: str, verb: Verb, answer: dict[str, Any]
) -> tuple[dict[str, Any], *tuple[str, ...]]:
    from hive_agents.host import decide, decisions

    decided, run = decide(place, request, verb, **answer)
    missing = decided.remaining_approvals
    value = decisions.decision_json(decided, verb, answer["by"], run)
    left: list[str] = []
    line = f"{decided.id} is {decided.status}" + (f": {missing} more approval(s) needed" if missing else "")
    if decided.outcome:
        line += f" ({_outcome_line(decided.outcome)})"
    elif run is not None and run["status"] == "waiting" and decisions.host_goes_on(place, decided):
        line += f"; the host that is running goes on with run {run['run_id']}"
    elif run is not None:
        line += f"; run {run['run_id']} is {run['status']}"
        left = _left_to_do(place, run["run_id"]) if decided.decided else []
    return value, *map(safe_line, (line, *left))


def _left_to_do(place: Workspace, run_id: str) -> list[str]:
    """Return why an agent's run has failed, or couldn't go on here, and the commands that mend it."""
    from hive_agents.agents import AgentRun
    from hive_agents.base import HiveError
    from hive_agents.cli.run import failure
    from hive_agents.runs import AGENT_GRAPH, RunStore

    row = RunStore(place).get(run_id)
    if row.graph == AGENT_GRAPH and row.status == "failed":
        return failure(run_id, row.summary["error"])
    if row.graph == AGENT_GRAPH and row.status == "waiting" and row.value.get("brought"):
        return [f"  it goes on in the program that began it, or by hive run MODULE:NAME --resume {run_id}"]
    if row.graph == AGENT_GRAPH and row.status == "waiting":
        try:
            AgentRun.resume(place, run_id).require_model()
        except HiveError as error:
            found = error.diagnostics[0]
            return [f"  it can't go on here: {found.message}", f"  fix: {found.fix}; then hive run --resume {run_id}"]
    return []


def _outcome_line(outcome: dict[str, Any]) -> str:
    if "deployed" in outcome:
        return f"deployed {outcome['deployed']}"
    if "run_id" in outcome:
        return f"its run is {outcome['status']}"
    return ", ".join(f"{name} {value}" for name, value in outcome.items() if value is not None)


def read_patch(source: str) -> Any:
    """Return the JSON value of a text, a file, or stdin for "-". Raises: HIVE-409 for an unreadable file, HIVE-101."""
    from hive_agents.base import HiveError
    from hive_agents.base.files import jsontext

    if source.lstrip().startswith(("{", "[")):
        return jsontext.parse(source, "--patch")
    try:
        data = sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
    except OSError as error:
        message = f"cannot read {source}: {error.strerror}"
        raise HiveError.of("HIVE-409", message, fix="write the JSON, or name a file, or - for stdin") from None
    file = "stdin" if source == "-" else source
    return jsontext.parse(jsontext.decode(data, file), file)
