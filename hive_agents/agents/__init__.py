"""Agents as data, what they may do, and what keeps them within bounds."""

from hive_agents.agents.judges import NodeContext, NodeVerdict, register_judge
from hive_agents.agents.spec import AgentSpec, EdgeSpec, NodeSpec, agent_ids, find_sub_agent, load_agent
from hive_agents.agents.subagent_judge import SubagentJudge
from hive_agents.agents.tool import Tool, ToolContext
from hive_agents.agents.tools import ToolRegistry, Tools
from hive_agents.agents.verify import check_agent, sound_agent

__all__ = [
    "AgentSpec",
    "EdgeSpec",
    "NodeContext",
    "NodeSpec",
    "NodeVerdict",
    "SubagentJudge",
    "Tool",
    "ToolContext",
    "ToolRegistry",
    "Tools",
    "agent_ids",
    "check_agent",
    "find_sub_agent",
    "load_agent",
    "register_judge",
    "sound_agent",
]
