"""Chat models by name, in chains with deadlines, counted in tokens and dollars."""

from hive_agents.llm.chain import Chain, Meter, Role, model_names, open_chain
from hive_agents.llm.model import (
    ChatDelta,
    ChatModel,
    ChatResult,
    ErrorKind,
    Message,
    ModelError,
    Tool,
    ToolCall,
    Usage,
)
from hive_agents.llm.scripted import Script, ScriptedModel
from hive_agents.llm.structured import validated

__all__ = [
    "Chain",
    "ChatDelta",
    "ChatModel",
    "ChatResult",
    "ErrorKind",
    "Message",
    "Meter",
    "ModelError",
    "Role",
    "Script",
    "ScriptedModel",
    "Tool",
    "ToolCall",
    "Usage",
    "model_names",
    "open_chain",
    "validated",
]
