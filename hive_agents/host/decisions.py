"""Carry out decided requests: deployments, thresholds, rules and labels; resume the runs that waited for them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from hive_agents.access import Principal, same_person
from hive_agents.agents import AgentRun, deployment as agent_deploy, recheck_for
from hive_agents.approvals import ApprovalRequest, ApprovalStore, Diff, Filing, Verb, filed_by, json_patch, refused
from hive_agents.base import Busy, Diagnostic, HiveError, NotFound, Stale
from hive_agents.evaluation import changed
from hive_agents.gate import Deployment, approved
from hive_agents.judging import requests
from hive_agents.optimizer import OptimizeRun
from hive_agents.ranking import StoredConfig, find_active
from hive_agents.runs import AGENT_GRAPH, OPTIMIZER_GRAPH, RunRow, RunStore, leases_of
from hive_agents.store import audit, exclusive
from hive_agents.workspace import Workspace

HOST = "hive:housekeeping"
"""The lease that a host holds while it executes runs."""


@dataclass(frozen=True)
class Deployable:
    """A kind of version that requests of kind `deploy` put into service.

    `made` returns the version that a request has deployed already, or None; `stale` why its figures are out of date, or
    ""; `deploy` deploys it, once; `again` returns the advice to measure again.
    """

    made: Callable[[Workspace, ApprovalRequest], Any]
    stale: Callable[[Workspace, ApprovalRequest], str]
    deploy: Callable[[Workspace, ApprovalRequest], dict[str, Any]]
    again: Callable[[ApprovalRequest], str]


def _config_deployed(workspace: Workspace, request: ApprovalRequest) -> dict[str, Any]:
    version = approved.deploy_approved(workspace, request.id, request.context, request.decisions[-1].model_dump())
    return {"deployed": version.name, "version": version.id}


def _config_again(request: ApprovalRequest) -> str:
    command = f'hive deploy {request.context["config"]} --override --reason "…"'
    command = "hive optimize" if request.run_id else command
    return f"measure again: `{command}`"


def _agent_deployed(workspace: Workspace, request: ApprovalRequest) -> dict[str, Any]:
    row = agent_deploy.deploy_approved(workspace, request)
    return {"deployed": f"version {row.version} of {row.agent}", "version": row.version}


CONFIG = Deployable(
    made=lambda workspace, request: approved.deployed_for(workspace, request.id),
    stale=lambda workspace, request: approved.stale_because(workspace, request.context),
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


def ask_for_override(
    workspace: Workspace,
    stored: StoredConfig,
    outcome: Deployment,
    reason: str,
    by: str,
    principal: Principal | None = None,
) -> str:
    """File a request to deploy in spite of the gate, once; return its id.

    `principal` is the requester's, whose tenant decides it; None is the workspace's owner.
    """
    active = find_active(workspace)
    before = active.stored.config.model_dump(mode="json", exclude_unset=True) if active else {}
    certificate = outcome.result.certificate
    filing = Filing(
        kind="deploy",
        title=f"deploy {stored.name} in spite of the gate",
        requester=by,
        **filed_by(principal),
        context={
            "config": stored.name,
            "file": stored.file,
            "via": "override",
            "reason": reason,
            "changes": changed(active.stored.config, stored.config) if active else [],
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
    """Decide a request and carry it out; return the request, and its run's id and status.

    `answer` is as for `ApprovalStore.decide`.

    Raises: as `ApprovalStore.decide`; HIVE-307 where a deployment's figures are out of date, HIVE-416 where a threshold
    or a rule isn't open any more: the request is superseded.
    """
    store = ApprovalStore(workspace, recheck=recheck_for(workspace))

    def current(request: ApprovalRequest) -> None:
        if request.kind == "deploy" and verb == "approve":
            _require_current(store, request)
        if request.kind in requests.EFFECTS and verb == "approve":
            _require_open_subject(store, request)

    request = store.decide(request_id, verb, check=current, **answer)
    if request.grant is not None and request.run_id is not None:
        for same in store.batch(request.run_id):
            if same.call_hash == request.grant:
                store.supersede(same.id, f"{request.id} grants it for the run")
    run = carry_out(workspace, request)
    return store.get(request.id), run


def decision_json(request: ApprovalRequest, verb: Verb, by: str, run: dict[str, str] | None) -> dict[str, Any]:
    """Return the answer of `by` as JSON: {id, status, decision, by, authn, decided_at, remaining_approvals, run}."""
    answer = request.answer_of(by)
    return {
        "id": request.id,
        "status": request.status,
        "decision": verb,
        "by": answer.by,
        "authn": answer.authn,
        "decided_at": answer.at,
        "remaining_approvals": request.remaining_approvals,
        "run": run,
    }


def carry_out(workspace: Workspace, request: ApprovalRequest, *, wait: float = 30.0) -> dict[str, str] | None:
    """Carry out a decided request, unless that was done; return its run's id and status.

    The request is read again and verified against the audit log.
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
        store.record_outcome(request.id, requests.carried_out(workspace, request))
    if run is not None and run.graph == AGENT_GRAPH and request.decided:
        with suppress(HiveError):
            _wake(workspace, run, wait)
    run = _run(workspace, request)
    if run is None or run.graph not in (AGENT_GRAPH, OPTIMIZER_GRAPH):
        return None
    return {"run_id": run.run_id, "status": run.status}


def finish(workspace: Workspace) -> list[Diagnostic]:
    """Carry out decided requests that a dead process didn't; return the errors, as warnings.

    Nothing is carried out where the audit log is broken, and no request that contradicts it.
    """
    verdict = audit.verify(workspace)
    if not verdict.ok:
        return _warnings(audit.broken(verdict))
    store = ApprovalStore(workspace)
    filed, findings = store.list(), [replace(fault, severity="warning") for fault in store.damaged().values()]
    for request in filed:
        undone = request.kind == "deploy" and request.outcome is None
        waits = undone and (request.status == "approved" or (request.decided and request.run_id is not None))
        if waits or _has_effect(request) or _waits(workspace, request):
            try:
                carry_out(workspace, request, wait=0.1)
            except Busy:
                pass  # another process carries it out
            except HiveError as error:
                findings += _warnings(error)
    return findings


def _warnings(error: HiveError) -> list[Diagnostic]:
    return [replace(found, severity="warning") for found in error.diagnostics]


def _has_effect(request: ApprovalRequest) -> bool:
    return request.kind in requests.EFFECTS and request.status in requests.ANSWERED and request.outcome is None


def _require_open_subject(store: ApprovalStore, request: ApprovalRequest) -> None:
    """Raises: HIVE-416, after the request was superseded."""
    why = requests.overtaken_because(store.workspace, request)
    if why is not None:
        store.supersede(request.id, why)
        raise refused("HIVE-416", f"{request.id} is superseded: {why}", "see `hive approvals list` for a newer one")


def _require_current(store: ApprovalStore, request: ApprovalRequest) -> None:
    """Raises: HIVE-307, after the request was superseded and its run resumed."""
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
    message = f"{request.id} is superseded: {why} since it was measured"
    raise refused("HIVE-307", message, _deployable(request).again(request))


def _wake(workspace: Workspace, row: RunRow, wait: float) -> None:
    """Resume the agent's run that waits for a request, unless a host will.

    A run whose tools or models the caller passed keeps waiting for them, as does one whose model is missing here, which
    would fail of it; one that was stopped or paused stays so.
    """
    if not _is_hosted(workspace, row) and (row.status == "waiting" or row.broke_off) and not row.value.get("brought"):
        run = AgentRun.resume(workspace, row.run_id)
        run.require_model()
        run.go(wait=wait)


def host_goes_on(workspace: Workspace, request: ApprovalRequest) -> bool:
    """Return whether a live host will resume the run that waits for a decided request."""
    row = _run(workspace, request) if request.decided else None
    return row is not None and not row.value.get("brought") and _is_hosted(workspace, row)


def _is_hosted(workspace: Workspace, row: RunRow) -> bool:
    return row.status == "waiting" and leases_of(workspace).is_held(HOST)


def _waits(workspace: Workspace, request: ApprovalRequest) -> bool:
    """Return whether an agent's run still waits for a decided request, because the process to resume it died."""
    row = _run(workspace, request) if request.decided else None
    with suppress(HiveError):  # a run whose row is damaged can't be resumed
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


def file_once(workspace: Workspace, filing: Filing) -> str:
    """Return the id of the pending request for the same override, else of a new one.

    The same override has the same requester, reason, decision of the gate and certificate (config, active config,
    golden set, index, model, release) but for timings. A new request supersedes the requester's pending ones for this
    config.
    """
    store = ApprovalStore(workspace)
    with exclusive(workspace, "asking for an override"):
        earlier = [one for one in store.list("pending", kind="deploy") if _same_config(one, filing)]
        for request in earlier:
            if _identity(request) == _identity(filing):
                return request.id
        filed = store.file(filing).id
        for request in earlier:
            store.supersede(request.id, f"asked for again as {filed}")
    return filed


def _same_config(one: Filing, other: Filing) -> bool:
    names = "via", "file"
    same = all(one.context.get(name) == other.context.get(name) for name in names)
    return same and same_person(one.requester, other.requester)


def _identity(filing: Filing) -> list[Any]:
    certificate = filing.context["evaluation"]["certificate"]
    measured = {name: value for name, value in certificate.items() if name not in ("at", "audit")}
    return [filing.context["reason"], filing.context["certificate"]["decision"], measured]
