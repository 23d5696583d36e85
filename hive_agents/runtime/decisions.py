"""What a decision sets in motion: a deployment, a threshold, a rule, a label; a run that waited goes on."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from hive_agents.approvals import ApprovalRequest, ApprovalStore, Diff, Filing, Verb, json_patch, refused
from hive_agents.errors import Busy, Diagnostic, HiveError, NotFound, Stale
from hive_agents.retrieval import StoredConfig, find_active
from hive_agents.runs import AGENT_GRAPH, OPTIMIZER_GRAPH, RunRow, RunStore
from hive_agents.runtime import agent_deploy
from hive_agents.runtime.agent_run import AgentRun
from hive_agents.runtime.driver import leases_of
from hive_agents.runtime.judge_requests import ANSWERED, EFFECTS, carried_out, overtaken_because
from hive_agents.runtime.optimize import OptimizeRun
from hive_agents.runtime.override import file_once
from hive_agents.runtime.recheck import recheck_for
from hive_agents.store import audit
from hive_agents.verification import Deployment, deploy_approved, deployed_for, stale_because
from hive_agents.workspace import Workspace

HOST = "hive:housekeeping"
"""The lease that a host has while it takes runs."""


@dataclass(frozen=True)
class Deployable:
    """What requests of kind `deploy` may make serve.

    `made` is what a request made serve before, None where nothing; `stale` says why its figures hold no more, "" where
    they do; `deploy` makes it serve, once; `again` says how to measure anew.
    """

    made: Callable[[Workspace, ApprovalRequest], Any]
    stale: Callable[[Workspace, ApprovalRequest], str]
    deploy: Callable[[Workspace, ApprovalRequest], dict[str, Any]]
    again: Callable[[ApprovalRequest], str]


def _config_deployed(workspace: Workspace, request: ApprovalRequest) -> dict[str, Any]:
    version = deploy_approved(workspace, request.id, request.context, request.decisions[-1].model_dump())
    return {"deployed": version.name, "version": version.id}


def _config_again(request: ApprovalRequest) -> str:
    command = f'hive deploy {request.context["config"]} --override --reason "…"'
    command = "hive optimize" if request.run_id else command
    return f"measure again: `{command}`"


def _agent_deployed(workspace: Workspace, request: ApprovalRequest) -> dict[str, Any]:
    row = agent_deploy.deploy_approved(workspace, request)
    return {"deployed": f"version {row.version} of {row.agent}", "version": row.version}


CONFIG = Deployable(
    made=lambda workspace, request: deployed_for(workspace, request.id),
    stale=lambda workspace, request: stale_because(workspace, request.context),
    deploy=_config_deployed,
    again=_config_again,
)
AGENT = Deployable(
    made=agent_deploy.deployed_for,
    stale=lambda workspace, request: agent_deploy.stale_because(workspace, request.context),
    deploy=_agent_deployed,
    again=agent_deploy.again,
)


def _deployable(request: ApprovalRequest) -> Deployable:
    return AGENT if "agent" in request.context else CONFIG


def ask_for_override(workspace: Workspace, stored: StoredConfig, outcome: Deployment, reason: str, by: str) -> str:
    """File a request to deploy in spite of the gate, once; returns its id."""
    active = find_active(workspace)
    before = active.stored.config.model_dump(mode="json", exclude_unset=True) if active else {}
    certificate = outcome.result.certificate
    filing = Filing(
        kind="deploy",
        title=f"deploy {stored.name} in spite of the gate",
        requester=by,
        context={
            "config": stored.name,
            "file": stored.file,
            "via": "override",
            "reason": reason,
            "certificate": {
                "decision": outcome.result.decision,
                "reasons": [r.to_json() for r in outcome.result.reasons],
                "watch": [change.to_json() for change in outcome.result.watch],
            },
            "evaluation": outcome.result.record(),
        },
        diff=Diff(
            json_patch=json_patch(before, stored.config.model_dump(mode="json", exclude_unset=True)),
            before_hash=certificate.active_hash,
            after_hash=certificate.config_hash,
        ),
        risk="high",
    )
    return file_once(workspace, filing)


def decide(
    workspace: Workspace, request_id: str, verb: Verb, **answer: Any
) -> tuple[ApprovalRequest, dict[str, str] | None]:
    """Decide a request and carry it out: (the request, its run's id and status). `answer` is as for the store.

    Raises: as `ApprovalStore.decide`; HIVE-307 where a deployment's figures hold no more, HIVE-416 where a threshold
    or a rule isn't open any more: the request is superseded.
    """
    store = ApprovalStore(workspace, recheck=recheck_for(workspace))

    def current(request: ApprovalRequest) -> None:
        if request.kind == "deploy" and verb == "approve":
            _require_current(store, request)
        if request.kind in EFFECTS and verb == "approve":
            _require_open_subject(store, request)

    request = store.decide(request_id, verb, check=current, **answer)
    if request.grant is not None and request.run_id is not None:
        for same in store.batch(request.run_id):
            if same.call_hash == request.grant:
                store.supersede(same.id, f"{request.id} grants it for the run")
    run = carry_out(workspace, request)
    return store.get(request.id), run


def decision_json(request: ApprovalRequest, verb: Verb, by: str, run: dict[str, str] | None) -> dict[str, Any]:
    """Return what `by` is told of their answer: {id, status, decision, by, authn, decided_at, remaining_approvals,
    run}."""
    mine = request.answer_of(by)
    return {
        "id": request.id,
        "status": request.status,
        "decision": verb,
        "by": mine.by,
        "authn": mine.authn,
        "decided_at": mine.at,
        "remaining_approvals": request.remaining_approvals,
        "run": run,
    }


def carry_out(workspace: Workspace, request: ApprovalRequest, *, wait: float = 30.0) -> dict[str, str] | None:
    """Do what a decided request asks for, unless it was done; returns its run's id and status.

    What it asks for is what the verified audit log bears out, and not what the caller was given.
    Raises: HIVE-413 for a request that can't be trusted.
    """
    store = ApprovalStore(workspace)
    request = store.get(request.id)
    run = _run(workspace, request)
    optimizing = run if run is not None and run.graph == OPTIMIZER_GRAPH else None
    if request.kind == "deploy" and request.decided and request.outcome is None:
        if request.status == "approved":
            _require_current(store, request)
        if optimizing is not None:
            OptimizeRun(workspace, optimizing).go(wait=wait)  # its end is the outcome
        elif request.status == "approved":
            store.record_outcome(request.id, _deployed(store, request))
    if _has_effect(request):
        store.record_outcome(request.id, carried_out(workspace, request))
    if run is not None and run.graph == AGENT_GRAPH and request.decided:
        with suppress(HiveError):
            _wake(workspace, run, wait)
    run = _run(workspace, request)
    if run is None or run.graph not in (AGENT_GRAPH, OPTIMIZER_GRAPH):
        return None
    return {"run_id": run.run_id, "status": run.status}


def finish(workspace: Workspace) -> list[Diagnostic]:
    """Carry out what was decided and left undone by a process that died; returns what could not be, as warnings.

    From a broken audit log nothing is carried out, and of the others no request that it doesn't bear out.
    """
    verdict = audit.verify(workspace)
    if not verdict.ok:
        return _warnings(audit.broken(verdict))
    store = ApprovalStore(workspace)
    requests, findings = store.list(), [replace(found, severity="warning") for found in store.damaged().values()]
    for request in requests:
        undone = request.kind == "deploy" and request.outcome is None
        waits = undone and (request.status == "approved" or (request.decided and request.run_id is not None))
        if waits or _has_effect(request) or _waits(workspace, request):
            try:
                carry_out(workspace, request, wait=0.1)
            except Busy:
                pass  # somebody is at it right now
            except HiveError as error:
                findings += _warnings(error)
    return findings


def _warnings(error: HiveError) -> list[Diagnostic]:
    return [replace(found, severity="warning") for found in error.diagnostics]


def _has_effect(request: ApprovalRequest) -> bool:
    return request.kind in EFFECTS and request.status in ANSWERED and request.outcome is None


def _require_open_subject(store: ApprovalStore, request: ApprovalRequest) -> None:
    """Raises: HIVE-416, after the request was superseded."""
    why = overtaken_because(store.workspace, request)
    if why is not None:
        store.supersede(request.id, why)
        raise refused("HIVE-416", f"{request.id} is superseded: {why}", "see `hive approvals list` for a newer one")


def _require_current(store: ApprovalStore, request: ApprovalRequest) -> None:
    """Raises: HIVE-307, after the request was superseded and its run told so."""
    kind = _deployable(request)
    if kind.made(store.workspace, request) is not None:
        return
    why = kind.stale(store.workspace, request)
    if why:
        _close(store, request, why)


def _deployed(store: ApprovalStore, request: ApprovalRequest) -> dict[str, Any]:
    try:
        return _deployable(request).deploy(store.workspace, request)
    except Stale as error:
        _close(store, request, error.diagnostics[0].message)
        raise


def _close(store: ApprovalStore, request: ApprovalRequest, why: str) -> None:
    closed = store.supersede(request.id, why)
    carry_out(store.workspace, closed)
    told = f"{request.id} is superseded: {why} since it was measured"
    raise refused("HIVE-307", told, _deployable(request).again(request))


def _wake(workspace: Workspace, row: RunRow, wait: float) -> None:
    """Go on with an agent's run that asked.

    One whose tools or models somebody brought stays waiting for them, one that somebody stopped or paused rests until
    they say otherwise, one that can't go on just now, for want of a model or because another process works on it, stays
    as it is, and one that a host will take is left to it: the decision holds all the same.
    """
    if not _is_hosted(workspace, row) and (row.status == "waiting" or row.broke_off) and not row.value.get("brought"):
        AgentRun.resume(workspace, row.run_id).go(wait=wait)


def host_goes_on(workspace: Workspace, request: ApprovalRequest) -> bool:
    """Return whether a host that is there takes up the run that waits for a decided request, in a moment."""
    row = _run(workspace, request) if request.decided else None
    return row is not None and not row.value.get("brought") and _is_hosted(workspace, row)


def _is_hosted(workspace: Workspace, row: RunRow) -> bool:
    return row.status == "waiting" and leases_of(workspace).is_held(HOST)


def _waits(workspace: Workspace, request: ApprovalRequest) -> bool:
    """Return whether an agent's run still waits for a request that was decided, for the process died that was to
    wake it."""
    row = _run(workspace, request) if request.decided else None
    with suppress(HiveError):  # nothing can wake a run whose row is damaged
        if row is not None and (row.graph, row.status) == (AGENT_GRAPH, "waiting") and not row.value.get("brought"):
            return request.id in (row.result or {}).get("approval_ids", [])
    return False


def _run(workspace: Workspace, request: ApprovalRequest) -> RunRow | None:
    if request.run_id is None:
        return None
    try:
        return RunStore(workspace).get(request.run_id)
    except NotFound:
        return None
