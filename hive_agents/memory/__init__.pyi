from . import (
    conversation as conversation,
    onion as onion,
)
from .accepted import (
    AcceptedNote as AcceptedNote,
    AcceptedNotes as AcceptedNotes,
)
from .adapt import (
    AgentMemory as AgentMemory,
    noted_in as noted_in,
)
from .buffer import (
    BufferScope as BufferScope,
    DataBuffer as DataBuffer,
)
from .compaction import (
    Summarise as Summarise,
    compact as compact,
)
from .conversation import (
    ConversationStore as ConversationStore,
    OutputAccumulator as OutputAccumulator,
)
from .data_files import (
    DataFiles as DataFiles,
    replace_once as replace_once,
)
from .entries import (
    Entry as Entry,
    estimate_tokens as estimate_tokens,
    message_tokens as message_tokens,
)
from .handoff import (
    ContextHandoff as ContextHandoff,
    transition_marker as transition_marker,
)
from .names import (
    folder_name as folder_name,
    memory_folder as memory_folder,
    run_folder as run_folder,
)
from .spill import (
    Delivery as Delivery,
    Spillover as Spillover,
    ToolResult as ToolResult,
    pretty as pretty,
)
from .values import (
    to_json as to_json,
)
