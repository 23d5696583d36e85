"""What a new version of an agent may do that the one before could not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hive_agents.agents.spec import AgentSpec, NodeSpec
from hive_agents.agents.synthetic import WRITING
from hive_agents.agents.tool import Tool
from hive_agents.agents.tools import strictest
from hive_agents.agents.verify import FILE_TOOLS
from hive_agents.approvals import ToolDecision
from hive_agents.runs import Limits

_RANK: Mapping[ToolDecision, int] = {"deny": 0, "ask": 1, "allow": 2}
RISKY = ("/tool_policy", "/capability", "/pause_nodes", "/memory", "/budget", "/model")
"""Fields whose differences are shown first."""


def more_than(before: AgentSpec, after: AgentSpec, tools: Mapping[str, Tool]) -> list[str]:
    """Return each extension in words: looser rules, new tools with effects, fewer questions to people, less judgement.

    `tools` are the registered ones, by name. Empty where the new version may do nothing more.
    """
    return [*_tools(before, after, tools), *_nodes(before, after), *_whole(before, after)]


def _tools(before: AgentSpec, after: AgentSpec, tools: Mapping[str, Tool]) -> Iterator[str]:
    for name in sorted({tool for node in after.nodes for tool in node.tools} | set(FILE_TOOLS)):
        tool = tools.get(name)
        effect = tool.side_effect if tool is not None else "write"
        old, new = (_decision(agent, name, tool) for agent in (before, after))
        if old is None and effect == "read":
            continue  # a new tool that only reads is seen in the difference
        if _RANK[new or "deny"] > _RANK[old or "deny"]:
            yield f"{name} ({effect}): {old or 'not used'} -> {new}"
    for node in after.nodes:
        old_node = next((old for old in before.nodes if old.id == node.id), None)
        new_names = [name for name in node.tools if old_node is not None and name not in old_node.tools]
        for name in new_names:
            if name not in tools or tools[name].side_effect != "read":
                yield f"{node.id} may use {name}"


def _decision(agent: AgentSpec, name: str, tool: Tool | None) -> ToolDecision | None:
    """Return the decision of the agent's rules on a tool; None where no node has it."""
    if name in FILE_TOOLS:  # every node has them, and "*" doesn't apply to those that read
        rules = [rule for rule in agent.tool_policy if rule.match != "*" or name in WRITING]
        return strictest([rules], name, "allow")
    if not any(name in node.tools for node in agent.nodes):
        return None
    return strictest([agent.tool_policy], name, tool.policy if tool is not None else "ask")


def _nodes(before: AgentSpec, after: AgentSpec) -> Iterator[str]:
    before_by_id = {node.id: node for node in before.nodes}
    for node in after.nodes:
        old = before_by_id.get(node.id)
        for name in sorted(set(node.sub_agents) - set(old.sub_agents if old is not None else ())):
            yield f"{node.id} may delegate to {name}"
        if old is None:
            continue
        if _asks(before, old) and not _asks(after, node):
            yield f"{node.id} begins without asking a person"
        if (old.judge, old.success_criteria) != (None, None) and (node.judge, node.success_criteria) == (None, None):
            yield f"nobody judges {node.id} any more"


def _asks(agent: AgentSpec, node: NodeSpec) -> bool:
    return node.requires_approval or node.pause_before or node.id in agent.pause_nodes


def _whole(before: AgentSpec, after: AgentSpec) -> Iterator[str]:
    if after.capability.rank > before.capability.rank:
        yield f"capability: {before.capability} -> {after.capability}"
    if after.memory != before.memory and after.memory is not None:
        notes_before = before.memory.adapt if before.memory is not None else "none"
        yield f"notes: {notes_before} -> {after.memory.adapt}"
    budget = after.budget or Limits()
    if budget != budget.within(before.budget or Limits()):
        yield "budget: more than before"
    if after.model != before.model:
        yield f"model: {before.model or 'the settings name it'} -> {after.model or 'the settings name it'}"
