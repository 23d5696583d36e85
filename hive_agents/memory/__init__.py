"""What an agent remembers: its conversation and outputs, the values and files of its run, and adapt.md.

Conversations, outputs and the data buffer are rows of `.hive/hive.db`; tool results and an agent's files are in
`.hive/runs/<run_id>/`, adapt.md in `.hive/memory/<tenant>/<agent>/<user>/`.
"""

from hive_agents.memory.accumulator import OutputAccumulator
from hive_agents.memory.adapt import AgentMemory
from hive_agents.memory.buffer import DataBuffer, Scope
from hive_agents.memory.compaction import Compaction, Summarise, compact
from hive_agents.memory.conversation import ConversationStore
from hive_agents.memory.data_files import DataFile, DataFiles, Page
from hive_agents.memory.entries import ConversationPointer, Entry
from hive_agents.memory.handoff import ContextHandoff, transition_marker
from hive_agents.memory.names import run_folder
from hive_agents.memory.onion import Phase, build_prompt, narrative
from hive_agents.memory.results import Delivery, ToolResult
from hive_agents.memory.spill import Spillover, require_tool_name
from hive_agents.memory.tokens import estimate_tokens

__all__ = [
    "AgentMemory",
    "Compaction",
    "ContextHandoff",
    "ConversationPointer",
    "ConversationStore",
    "DataBuffer",
    "DataFile",
    "DataFiles",
    "Delivery",
    "Entry",
    "OutputAccumulator",
    "Page",
    "Phase",
    "Scope",
    "Spillover",
    "Summarise",
    "ToolResult",
    "build_prompt",
    "compact",
    "estimate_tokens",
    "narrative",
    "require_tool_name",
    "run_folder",
    "transition_marker",
]
