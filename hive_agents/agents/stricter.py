"""The guards of a call as they are now: a policy or a goal that became stricter after the run began, or after a person
was asked, counts; one that became milder doesn't. The rest of an agent stays as the run began with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from hive_agents.agents.call_bounds import CallBounds, binding, speaks
from hive_agents.agents.deployed import serving_agent
from hive_agents.agents.verify import FILE_TOOLS
from hive_agents.approvals import ApprovalRequest, ToolDecision, ToolPolicy, ToolRule
from hive_agents.base import Busy, HiveError, NotFound
from hive_agents.goals import Constraint, Goal, load_goal
from hive_agents.runs import RunStore
from hive_agents.workspace import Workspace

if TYPE_CHECKING:
    from hive_agents.agents.session import AgentSession
    from hive_agents.agents.tool import Tool

Policies = Mapping[str, Sequence[ToolRule]]
"""The tool policy of each agent, by its id."""


@dataclass(frozen=True)
class Guards:
    """The policies and hard constraints of now, beside those of a run; with a `fault` no call is made."""

    policies: Policies
    constraints: list[Constraint]
    fault: str | None = None

    @classmethod
    def of(cls, session: AgentSession, agent: str) -> Guards:
        """Return the guards of a call by `agent`, which may be a sub-agent of the run's."""
        own = {node.id for node in session.agent.nodes}
        agents = [session.agent.id, *([agent] if agent not in own else [])]
        try:
            constraints = present_constraints(session.workspace, session.goal.id)
            return cls(present_policies(session.workspace, agents), constraints)
        except Busy:
            raise  # the database is unavailable: the run pauses, and its guards are read again
        except HiveError as error:
            found = error.diagnostics[0]
            return cls({}, [], f"{found.code}: it can't be told what guards it now: {found.message}")

    def refusal(self, name: str, then: ToolDecision, now: ToolDecision) -> str | None:
        """Return why a call may not be made now that might have been made then; None where it may."""
        if self.fault is not None:
            return self.fault
        return f"HIVE-416: since the run began: policy of {name}: {then} → deny" if now == "deny" != then else None

    def newer(
        self, goal: Goal, tool: Tool, arguments: Mapping[str, Any], result: Mapping[str, Any], known: CallBounds | None
    ) -> CallBounds | None:
        """Return the `known` bounds with the constraints of now; None where the call violates no new one."""
        now = binding(goal.model_copy(update={"constraints": self.constraints}), tool)
        before = known.constraints if known is not None else []
        new = [one for one in now if one not in before]
        if not CallBounds.of(new, tool, result).violated(tool.name, arguments):
            return None
        return CallBounds.of([*before, *new], tool, result)


def present_policies(workspace: Workspace, agents: Sequence[str]) -> Policies:
    """Return the policies with which these agents serve now, without those of agents that aren't in the workspace.

    Empty in a rehearsal, which is of a version that doesn't serve. Raises: the faults of an agent's file.
    """
    found = {}
    for id in dict.fromkeys(agents) if workspace.stands_for is None else ():
        try:
            found[id] = serving_agent(workspace, id)[0].tool_policy
        except NotFound:
            continue
    return found


def present_constraints(workspace: Workspace, goal: str) -> list[Constraint]:
    """Return the goal's hard constraints of now; none as `present_policies`. Raises: the faults of its file."""
    try:
        found = load_goal(workspace, goal) if workspace.stands_for is None else None
    except NotFound:
        found = None
    return [one for one in found.constraints if one.constraint_type == "hard"] if found is not None else []


def changes_since(workspace: Workspace, request: ApprovalRequest) -> list[str]:
    """Return in words what became of the guards of a call since a person was asked about it; none for what isn't a
    pending request of an agent to call a tool.

    What can't be read is told, too: the call won't run then.
    """
    context = request.context
    asks = request.kind == "tool_call" and "agent" in context and isinstance(context.get("args"), dict)
    if not asks or request.decided:
        return []
    try:
        agents, goal = _of_run(workspace, request)
        return [*_policy_changes(workspace, context, agents), *_constraint_changes(workspace, request, goal)]
    except (HiveError, ValidationError) as error:
        why = error.diagnostics[0].message if isinstance(error, HiveError) else "the request can't be read"
        return [f"it can't be told what guards the call now: {why}"]


def _of_run(workspace: Workspace, request: ApprovalRequest) -> tuple[list[str], str | None]:
    """Return the ids of the agents whose policies count for a request, and that of its run's goal."""
    agents = [str(request.context["agent"])]
    try:
        value: Mapping[str, Any] = RunStore(workspace).get(request.run_id or "").value
        agents.append(str(value["agent"]["id"]))
        return agents, str((value["goal"] or {}).get("id") or value["agent"]["goal"])
    except (HiveError, KeyError, TypeError):
        return agents, None


def _policy_changes(workspace: Workspace, context: Mapping[str, Any], agents: Sequence[str]) -> Iterator[str]:
    tool, args = str(context.get("tool")), context["args"]
    rules = [ToolRule.model_validate(rule) for rule in context.get("policy", ())]
    for agent, present in present_policies(workspace, agents).items():
        then, now = (ToolPolicy(policy).decide(tool, args) for policy in (rules, present))
        if then != now and (agent == context["agent"] or now == "deny"):
            yield f"policy of {tool}: {then} → {now}"


def _constraint_changes(workspace: Workspace, request: ApprovalRequest, goal: str | None) -> Iterator[str]:
    tool, args = str(request.context.get("tool")), request.context["args"]
    if goal is None or tool in FILE_TOOLS:
        return
    recorded = request.context.get("hard_constraints")
    known = CallBounds.model_validate(recorded) if recorded is not None else None
    before = {one.id: one for one in known.constraints} if known is not None else {}
    effect = known.side_effect if known is not None else "external"
    for one in present_constraints(workspace, goal):
        if one != before.get(one.id) and speaks(one, effect, (request.args_schema or {}).get("properties", {}), args):
            about = f" ({one.description})" if one.description else ""
            yield f"constraint {one.id} {'changed' if one.id in before else 'added'}: {one.check}{about}"
