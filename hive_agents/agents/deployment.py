"""Deploy a version of an agent: measure it, request approval by another person, and put it into service."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

from hive_agents.agents.deployed import VersionRow, follow, record, served_text, versions
from hive_agents.agents.evolution import inlined, propose
from hive_agents.agents.evolution.capabilities import RISKY, more_than
from hive_agents.agents.evolution.proposals import Proposal, candidate_of, find_proposal
from hive_agents.agents.evolution.texts import agent_hash, difference, format_hash
from hive_agents.agents.evolution.verdict import VersionDecision, VersionVerdict
from hive_agents.agents.rehearsal import Stage, measure
from hive_agents.agents.spec import AgentSpec, load_agent
from hive_agents.agents.tools import ToolRegistry
from hive_agents.agents.verify import sound_agent
from hive_agents.approvals import ApprovalRequest, ApprovalStore, Approvers, Diff, Filing
from hive_agents.base import HiveError
from hive_agents.goals import load_goal
from hive_agents.store import exclusive, ledger
from hive_agents.workspace import Workspace

if TYPE_CHECKING:
    from hive_agents.access import Principal
    from hive_agents.models import Chain
    from hive_agents.workspace.settings import Role


@dataclass(frozen=True)
class AgentDeployment:
    """The result of a deploy: `deployed` is the version that serves now, None where it needs approval first."""

    verdict: VersionDecision
    deployed: int | None
    previous: int | None
    approval_id: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "decision": self.verdict.decision,
            "reasons": list(self.verdict.reasons),
            "deployed": self.deployed,
            "previous": self.previous,
            "evaluation": self.verdict.evaluation,
            "approval_id": self.approval_id,
        }


def deploy(
    workspace: Workspace,
    id: str,
    *,
    by: str,
    version: int | None = None,
    reason: str | None = None,
    principal: Principal | None = None,
    tools: ToolRegistry | None = None,
    models: Callable[[AgentSpec], Callable[[Role], Chain]] | None = None,
    progress: Callable[[str, int, int], object] | None = None,
) -> AgentDeployment:
    """Measure a proposed version, by default the agent's file, and file a request to deploy it unless it is blocked.

    The first deployment of an agent needs no approval. While a request for the same version is pending, it is returned
    and nothing is measured again; for a version that serves already, its deployment is returned. The cases are
    rehearsed for `principal`.

    Raises: the diagnostics of levels 1 and 2; HIVE-409 for an unknown or rejected proposal; HIVE-307 for a proposal
    whose base has changed; HIVE-401 without a model.
    """
    from hive_agents.agents.own_tools import workspace_tools

    available = workspace_tools(workspace)
    tools = available if tools is None else tools.over(available)
    stage = Stage(workspace, tools, principal, models, progress)
    served = versions(workspace, id)
    if version is None and not served:
        return _first(stage, id, by, reason)
    if version is None:
        changed = sound_agent(workspace, id, tools=tools)
        if agent_hash(inlined(changed, workspace)) == served[0].hash:
            return _serving(served)
        proposal = propose(workspace, id, changed, by=by, reason=reason or f"agents/{id}.json as it is", tools=tools)
    elif served and served[0].version == version:
        return _serving(served)
    else:
        proposal = find_proposal(workspace, id, version)
    return _proposed(stage, proposal, served[0] if served else None)


def deployed_for(workspace: Workspace, request: ApprovalRequest) -> VersionRow | None:
    """Return the version that an approval deployed, though another may serve by now."""
    return ledger.made_by(versions(workspace, request.context["agent"]), request.id)


def stale_because(workspace: Workspace, context: Mapping[str, Any]) -> str:
    """Return why the figures in a deploy request's `context` are out of date, in words; "" where they aren't."""
    try:
        base = served_text(workspace, context["agent"])
        if agent_hash(base) != context["base_hash"]:
            return "another version was deployed"
        if format_hash(load_goal(workspace, base.goal)) != context["goal_hash"]:
            return "the goal was edited"
        if _sub_agents(workspace, base) != context["sub_agents"]["current"]:
            return "a sub-agent was changed"
        candidate = candidate_of(base, find_proposal(workspace, context["agent"], context["version"]))
        if _sub_agents(workspace, candidate) != context["sub_agents"]["candidate"]:
            return "a sub-agent was changed"
    except HiveError as error:
        return error.diagnostics[0].message
    return "" if agent_hash(candidate) == context["hash"] else "the proposal was edited"


def deploy_approved(workspace: Workspace, request: ApprovalRequest) -> VersionRow:
    """Deploy the version of an approved request, once; return it.

    Raises: HIVE-307 where its figures are out of date.
    """
    context = request.context
    with exclusive(workspace, "deploying an agent"):
        made = deployed_for(workspace, request)
        if made is not None:
            if made == versions(workspace, made.agent)[0]:  # killed before the file was updated
                follow(workspace, made, context["base_hash"])
            return made
        why = stale_because(workspace, context)
        base = served_text(workspace, context["agent"]) if not why else None
        if base is None:
            raise _stale(context, why)
        if not versions(workspace, base.id):  # what a rollback returns to
            first: dict[str, Any] = {"decision": "first", "via": "deploy", "by": request.requester}
            why = "served before the first deployment"
            evaluation = {"goal_hash": context["goal_hash"]}
            record(workspace, base, **first, reason=why, evaluation=evaluation, baseline=True)
        decision = request.decisions[-1]
        return record(
            workspace,
            candidate_of(base, find_proposal(workspace, base.id, context["version"])),
            decision=context["evaluation"]["decision"],
            via="approval",
            by=decision.by,
            authn=decision.authn,
            reason=decision.reason or context["reason"],
            evaluation=context["evaluation"] | {"goal_hash": context["goal_hash"], "approval_id": request.id},
        )


def _first(stage: Stage, id: str, by: str, reason: str | None) -> AgentDeployment:
    workspace, tools = stage.workspace, stage.tools
    written = sound_agent(workspace, id, tools=tools)
    agent, goal = inlined(written, workspace), load_goal(workspace, written.goal)
    verdict = measure(stage, goal, agent, None)
    if verdict.decision != "first":
        return AgentDeployment(verdict, None, None)
    with exclusive(workspace, "deploying an agent"):
        now = inlined(load_agent(workspace, id), workspace)
        edited = agent_hash(now) != agent_hash(agent) or format_hash(load_goal(workspace, goal.id)) != format_hash(goal)
        if edited or versions(workspace, id):
            raise _stale({"agent": id}, "the agent or its goal was changed" if edited else "it was deployed")
        evaluation = verdict.evaluation | {"goal_hash": format_hash(goal)}
        row = record(workspace, agent, decision="first", via="deploy", by=by, reason=reason, evaluation=evaluation)
    return AgentDeployment(verdict, row.version, None)


def _serving(served: Sequence[VersionRow]) -> AgentDeployment:
    row = served[0]
    decision: VersionVerdict = row.decision if row.decision in get_args(VersionVerdict) else "first"  # type: ignore[assignment]
    verdict = VersionDecision(decision, row.evaluation.get("reasons", []), row.evaluation)
    return AgentDeployment(verdict, row.version, served[1].version if len(served) > 1 else None)


def _proposed(stage: Stage, proposal: Proposal, served: VersionRow | None) -> AgentDeployment:
    workspace = stage.workspace
    base = served_text(workspace, proposal.agent)
    candidate, goal = candidate_of(base, proposal), load_goal(workspace, base.goal)
    previous = served.version if served is not None else None
    bound = {
        "agent": proposal.agent,
        "version": proposal.version,
        "hash": agent_hash(candidate),
        "base_hash": proposal.base_hash,
        "goal_hash": format_hash(goal),
        "sub_agents": {"current": _sub_agents(workspace, base), "candidate": _sub_agents(workspace, candidate)},
    }
    earlier = _requests(workspace, bound)
    pending = next((one for one in earlier if one.status == "pending"), None)
    if pending is None:
        verdict = measure(stage, goal, candidate, base)
        if verdict.decision == "blocked":
            return AgentDeployment(verdict, None, previous)
        filing = _filing(stage, proposal, bound, base, candidate, verdict, served)
        with exclusive(workspace, "asking for a deployment"):
            earlier = _requests(workspace, bound)
            pending = next((one for one in earlier if one.status == "pending"), None)
            if pending is None:
                key = f"agent-version:{proposal.agent}:{proposal.version}:{len(earlier) + 1}"
                pending = ApprovalStore(workspace).file(filing.model_copy(update={"idempotency_key": key}))
    return AgentDeployment(_measured(pending), None, previous, pending.id)


def _filing(
    stage: Stage,
    proposal: Proposal,
    bound: Mapping[str, Any],
    base: AgentSpec,
    candidate: AgentSpec,
    verdict: VersionDecision,
    served: VersionRow | None,
) -> Filing:
    """Return the request; its context begins with what matters most: added rights, and a changed goal."""
    tools = stage.tools.view(sub_agent=True)
    more = more_than(base, candidate, {name: tools[name] for name in tools.names})
    if served is not None and served.evaluation.get("goal_hash") != bound["goal_hash"]:
        more.append(f"its goal was edited since version {served.version} was deployed")
    steps = sorted(difference(base, candidate), key=lambda step: not step["path"].startswith(RISKY))
    evaluation = verdict.evaluation | {"decision": verdict.decision, "reasons": list(verdict.reasons)}
    return Filing(
        kind="deploy",
        title=f"let version {proposal.version} of {proposal.agent} serve: {verdict.decision}",
        requester=proposal.by,
        on_behalf_of=proposal.on_behalf_of,
        context={
            "more": more,
            **bound,
            "reason": proposal.reason,
            "proposal": proposal.file,
            "evaluation": evaluation,
        },
        diff=Diff(json_patch=steps, before_hash=bound["base_hash"], after_hash=bound["hash"]),
        risk="high" if more or verdict.decision == "inconclusive" else "medium",
        approvers=Approvers(exclude_requester=True),
    )


def _requests(workspace: Workspace, bound: Mapping[str, Any]) -> list[ApprovalRequest]:
    """Return the requests with the same context. Raises: HIVE-409 where a person rejected one."""
    requests = [
        one
        for one in ApprovalStore(workspace).list(kind="deploy")
        if all(one.context.get(name) == value for name, value in bound.items())
    ]
    refused = next((one for one in requests if one.status == "rejected"), None)
    if refused is not None:
        why = f"version {bound['version']} of {bound['agent']} was refused: {refused.id}"
        fix = f"propose something else; `hive approvals show {refused.id}` says why"
        raise HiveError.of("HIVE-409", why, fix=fix, exit_code=1)
    return requests


def _measured(request: ApprovalRequest) -> VersionDecision:
    evaluation = dict(request.context["evaluation"])
    return VersionDecision(evaluation["decision"], evaluation["reasons"], evaluation)


def _sub_agents(workspace: Workspace, agent: AgentSpec) -> dict[str, str]:
    """Return the hashes of the workspace's agents that this one delegates to, by id."""
    nodes = {node.id for node in agent.nodes}
    names = {name for node in agent.nodes for name in node.sub_agents} - nodes
    return {name: agent_hash(served_text(workspace, name)) for name in sorted(names)}


def _stale(context: Mapping[str, Any], why: str) -> HiveError:
    fix = "run the command again: it measures against what is there now"
    file = f"agents/{context['agent']}.json"
    return HiveError.of("HIVE-307", why, file=file, path="$", fix=fix, exit_code=1)


def again(request: ApprovalRequest) -> str:
    """Return the advice to measure a superseded request's version again: it is a difference to the serving one."""
    command = f"hive agents deploy {request.context['agent']} --version {request.context['version']}"
    return f"measure again: `{command}`; where another version serves by now, propose it anew"
