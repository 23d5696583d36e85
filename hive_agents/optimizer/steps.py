"""The steps of an optimizer run: each reads the state and returns what changes in it.

`state` and updates are JSON. Steps are idempotent, as they may run again after a crash: configs are written once, a
holdout is used once per run, an existing deployment or request is found again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hive_agents.access import Principal, asked_by
from hive_agents.approvals import ApprovalStore, Diff, Filing, filed_by, json_patch
from hive_agents.base import NoModel, Stale
from hive_agents.events import Event, EventLog, EventType, derived_id
from hive_agents.optimizer.budget import SearchBudgetExhausted
from hive_agents.optimizer.model_answer import diagnostic_line
from hive_agents.optimizer.rejected import stopped_by_gate
from hive_agents.optimizer.selection import step
from hive_agents.optimizer.session import OptimizerSession, next_data
from hive_agents.optimizer.space import Edit, changes_from, identity, in_words, parsed
from hive_agents.optimizer.trial import Measured, judge_trials
from hive_agents.runs import RunStore
from hive_agents.workspace import Workspace

STEPS = 2
"""The most steps of a run."""
SearchState = Mapping[str, Any]
SearchUpdate = dict[str, Any]


def diagnose(session: OptimizerSession, state: SearchState) -> SearchUpdate:
    """Attribute the losses of the incumbent to causes."""
    iteration = state.get("iteration", 0) + 1
    incumbent = state.get("incumbent") or session.baseline.model_dump(exclude_unset=True)
    base = {"iteration": iteration, "incumbent": incumbent, "baseline": session.baseline.model_dump(exclude_unset=True)}
    session.baseline_measured  # noqa: B018 - measured before the budget can run out, as every comparison needs it
    try:
        repeated = state.get("diagnosed") == identity(incumbent)  # which costs no budget again, in any process
        diagnosis = session.diagnosed(parsed(incumbent)) if repeated else session.diagnose(parsed(incumbent))
    except SearchBudgetExhausted as spent:
        return base | {"stopped_by": spent.name, **_spent(session)}
    except NoModel as error:
        return base | _outage(error) | _spent(session)
    first = {"first_diagnosis": diagnosis.summary, "first_losses": diagnosis.counted()}
    first = {name: state.get(name) or value for name, value in first.items()}
    update = {"diagnosis": diagnosis.to_json(), "diagnosed": identity(incumbent), **first}
    return base | update | _spent(session)


def propose(session: OptimizerSession, state: SearchState) -> SearchUpdate:
    """Propose edits of the incumbent by one lever each, and what a model proposes beside them."""
    if state.get("stopped_by"):
        return {"proposals": []}
    incumbent = parsed(state["incumbent"])
    try:
        proposed = session.propose(incumbent, session.diagnosed(incumbent), state)
    except SearchBudgetExhausted as spent:
        return {"proposals": [], "stopped_by": spent.name, **_spent(session)}
    except NoModel as error:
        return {"proposals": [], **_outage(error), **_spent(session)}
    proposals = [_proposal({} if edit.faults else next_data(incumbent, edit), edit) for edit in proposed.edits]
    fallbacks = list(state.get("fallbacks", []))
    if proposed.fallback:
        fallbacks.append({"iteration": state["iteration"], "reason": proposed.fallback})
    return {"proposals": proposals, "fallbacks": fallbacks, **_spent(session)}


def validate(session: OptimizerSession, state: SearchState) -> SearchUpdate:
    """Check the proposals at levels 1 and 2; faulty ones become rows and are never measured."""
    sound, rows = [], list(state.get("rows", []))
    for proposal in state["proposals"]:
        faults = proposal["faults"] or session.faults(proposal["data"])
        if faults:
            rows.append(_row(session, state, proposal, None, "invalid", "; ".join(faults)))
        else:
            sound.append(proposal)
    tried = [*state.get("tried", []), *(identity(p["data"]) for p in sound)]
    return {"proposals": sound, "rows": rows, "tried": tried}


def evaluate(session: OptimizerSession, state: SearchState) -> SearchUpdate:
    """Measure each proposal on cached rankings; those that need an unavailable reranker become rows."""
    measured, rows, outage = [], list(state.get("rows", [])), {}
    stopped = state.get("stopped_by")
    for proposal in state["proposals"]:
        try:
            result = session.measure(parsed(proposal["data"]))
        except SearchBudgetExhausted as spent:
            stopped = spent.name
            break
        except NoModel as error:
            outage = {"unavailable": diagnostic_line(error.diagnostics[0])}
            rows.append(_row(session, state, proposal, None, "unavailable", outage["unavailable"]))
            continue
        measured.append(proposal | {"train": result.train_nudcg, "validation": result.validation_nudcg})
    return {"proposals": measured, "rows": rows, "stopped_by": stopped, **outage, **_spent(session)}


def judge(session: OptimizerSession, state: SearchState) -> SearchUpdate:
    """Take the step of the rule, if there is one; then look for a second, or for what the owner could declare, or stop.

    A run takes two steps at most. Without a first one it looks once at what isn't declared, and takes none of it.
    """
    incumbent_data, proposals = state["incumbent"], state["proposals"]
    replanned, steps = state.get("replanned", False), state.get("steps", 0)
    base, incumbent = session.baseline_measured, session.remeasure(parsed(incumbent_data))
    trials = [session.trial(proposal["data"]) for proposal in proposals]
    kept = {
        place: session.candidate(proposals[place]["data"], trial.measured)
        for place, trial in enumerate(trials)
        if not replanned and session.refusal(trial) is None
    }
    best = step([*kept.values()], session.candidate(incumbent_data, incumbent) if steps else None)
    taken = next((place for place, candidate in kept.items() if candidate is best), None)
    trials = [replace(trial, taken=place == taken) for place, trial in enumerate(trials)]
    verdicts = judge_trials(trials, base, incumbent, session.tuning.queries, session.workspace.settings.gate)
    rows = list(state.get("rows", []))
    for place, (proposal, trial, (verdict, feedback)) in enumerate(zip(proposals, trials, verdicts, strict=True)):
        rows.append(_row(session, state, proposal, trial.measured, "undeclared" if replanned else verdict, feedback))
        if place == taken:
            changes = changes_from(parsed(incumbent_data), parsed(proposal["data"]))
            name = session.write(proposal["data"], changes, str(incumbent_data["name"]))
            rows[-1]["config"] = name
            incumbent_data, steps = proposal["data"] | {"name": name}, steps + 1
    new = rows[len(state.get("rows", [])) :]
    columns = ("n", "config", "cause", "train", "validation", "distractors", "verdict")
    _record(session, state, EventType.OPTIMIZER_TRIAL, [{name: row[name] for name in columns} for row in new])
    stopped = state.get("stopped_by")
    if not stopped and taken is None and (steps or replanned or session.settings.patience == 1):
        stopped = "patience"
    if not stopped and steps == STEPS:
        stopped = "steps"
    if not stopped and state["iteration"] >= session.settings.iterations:
        stopped = "iterations"
    return {
        "rows": rows,
        "incumbent": incumbent_data,
        "steps": steps,
        "replanned": replanned or taken is None,
        "stopped_by": stopped,
        "proposals": [],
        **_spent(session),
    }


def finish(session: OptimizerSession, state: SearchState) -> SearchUpdate:
    """End the search with the steps that were taken."""
    from hive_agents.optimizer.certify import queries_to_certify

    ended = {"search_ended_by": state.get("stopped_by")}
    if not state.get("steps"):
        return {"status": "no_improvement", "best": None, "certificate": None, **ended, **_spent(session)}
    chosen = state["incumbent"]
    if not session.tuning.proving:
        needed = {"needed_queries": queries_to_certify(session, chosen), "certificate": None}
        stop = {"status": "stopped", "stopped_by": "too_few_queries"}
        return {"best": chosen, **stop, **ended, **needed, **_spent(session)}
    return {"best": chosen, "status": "certifying", **ended, **_spent(session)}


def certify(session: OptimizerSession, state: SearchState) -> SearchUpdate:
    """Let the gate decide on the holdout, once per run."""
    from hive_agents.optimizer.certify import certify_on_holdout

    try:
        certificate, evaluation = certify_on_holdout(session, state["best"]["name"], state["run_id"])
    except NoModel as error:
        return {"status": "stopped", "certificate": None, **_outage(error), **_spent(session)}
    _record(
        session, state, EventType.OPTIMIZER_CERTIFIED, [{"config": state["best"]["name"], "certificate": certificate}]
    )
    update: SearchUpdate = {"certificate": certificate, "evaluation": evaluation}
    if not state["deploy"]:
        update |= {"status": "stopped", "stopped_by": "no_deploy"}
    elif certificate["decision"] == "blocked":  # nobody is asked to deploy what is shown to be worse
        update |= {"status": "stopped", "stopped_by": "blocked"}
    elif not certificate["measurable"]:  # no person could decide by these figures
        update |= {"status": "stopped", "stopped_by": "too_few_queries"}
    return update | _spent(session)


def deploy(session: OptimizerSession, state: SearchState) -> SearchUpdate:
    """Switch to the config that the gate certified, or that a person approved in spite of it."""
    from hive_agents.optimizer.certify import deploy_certified

    if state.get("approval_id"):
        return _deploy_approved(session.workspace, state["approval_id"])
    deploy_certified(session, state["best"]["name"], state["evaluation"], state["run_id"])
    return {"status": "deployed"}


def escalate(session: OptimizerSession, state: SearchState) -> SearchUpdate:
    """Request a person's approval, with the diff, the certificate and the diagnosis."""
    best, evaluation = state["best"], state["evaluation"]
    stored = session.stored(best["name"])
    run = RunStore(session.workspace).get(state["run_id"])
    bound, starter = evaluation["certificate"], session.viewer or Principal(run.tenant, run.user)
    before = session.baseline.model_dump(mode="json", exclude_unset=True)
    filing = Filing(
        kind="deploy",
        title=f"deploy {best['name']}: {stopped_by_gate(state['certificate'])}",
        requester="agent:optimizer",
        on_behalf_of=asked_by(starter.user),
        **filed_by(starter),
        context={
            "config": best["name"],
            "file": stored.file,
            "via": "approval",
            "changes": session.changes(best),
            "certificate": state["certificate"],
            "evaluation": evaluation,
            "diagnosis": state["diagnosis"]["summary"],
        },
        diff=Diff(
            json_patch=json_patch(before, stored.config.model_dump(mode="json", exclude_unset=True)),
            before_hash=bound["active_hash"],
            after_hash=bound["config_hash"],
        ),
        risk="high",
        run_id=state["run_id"],
    )
    return {"status": "escalated", "approval_id": ApprovalStore(session.workspace).file(filing).id}


def decide(workspace: Workspace, state: SearchState) -> SearchUpdate:
    """Read the decision from the store, so that resuming a run can't approve its request."""
    request = ApprovalStore(workspace).get(state["approval_id"])
    if not request.decided:
        return {"status": "escalated"}
    if request.status == "approved":
        return {"status": "approved"}
    return {"status": "stopped", "stopped_by": request.status}


def _deploy_approved(workspace: Workspace, approval_id: str) -> SearchUpdate:
    from hive_agents.gate import approved

    store = ApprovalStore(workspace)
    request = store.get(approval_id)
    if request.status != "approved":
        return {"status": "stopped", "stopped_by": request.status}
    try:
        approved.deploy_approved(workspace, request.id, request.context, request.decisions[-1].model_dump())
    except Stale as error:
        store.supersede(request.id, error.diagnostics[0].message)
        return {"status": "stopped", "stopped_by": "superseded"}
    return {"status": "deployed"}


def _outage(error: NoModel) -> SearchUpdate:
    return {"stopped_by": "unavailable", "unavailable": diagnostic_line(error.diagnostics[0])}


def _spent(session: OptimizerSession) -> SearchUpdate:
    spent = {"evaluations": session.budget.evaluations, "seconds": round(session.budget.seconds, 3)}
    return spent | {"usage": session.spending.to_json()}


def _proposal(data: dict[str, Any], edit: Edit) -> dict[str, Any]:
    return {
        "data": data,
        "cause": edit.cause,
        "reason": edit.reason,
        "proposer": edit.proposer,
        "faults": list(edit.faults),
    }


def _record(session: OptimizerSession, state: SearchState, type: EventType, payloads: list[dict[str, Any]]) -> None:
    """Record one event per payload, with ids by which a repeated step records nothing twice."""
    run, at = RunStore(session.workspace).get(state["run_id"]), f"{state['run_id']}/{state['iteration']}"
    events = [
        Event(
            type,
            run.run_id,
            run.thread_id,
            stream_id=run.thread_id,
            tenant=run.tenant,
            payload=payload,
            id=derived_id("optimizer", at, type, n),
        )
        for n, payload in enumerate(payloads)
    ]
    EventLog(session.workspace).append(events)


def _row(
    session: OptimizerSession,
    state: SearchState,
    proposal: Mapping[str, Any],
    measured: Measured | None,
    verdict: str,
    feedback: str,
) -> dict[str, Any]:
    sound = verdict != "invalid"
    return {
        "n": state["iteration"],
        "config": None,
        "changes": session.changes(proposal["data"]) if sound else [],
        "step": in_words(changes_from(parsed(state["incumbent"]), parsed(proposal["data"]))) if sound else "",
        "reason": proposal["reason"],
        "cause": proposal["cause"],
        "proposer": proposal["proposer"],
        "train": measured.train_nudcg if measured else None,
        "validation": measured.validation_nudcg if measured else None,
        "distractors": measured.distractors if measured else None,
        "gain": measured.mean - session.baseline_measured.mean if measured else None,
        "verdict": verdict,
        "feedback": feedback,
        "identity": identity(proposal["data"]),
    }
