"""Parts of a conversation: stored messages, marks of compaction, pointers, and estimates of tokens."""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import ceil
from typing import Any, TypedDict

from hive_agents.base import encodable
from hive_agents.models import Message, ToolCall

Change = dict[str, Any] | None
"""What is sent in place of a message: its `content`, and `args` of its calls where they changed; None leaves it out."""


class ConversationPointer(TypedDict):
    """The reference to a conversation in a graph's state; `cursor` is the `n` of its last message, 0 when empty."""

    conversation_id: str
    cursor: int


@dataclass(frozen=True, slots=True)
class Entry:
    """One stored message; `n` counts from 1, `tokens` is an estimate.

    `pointer` is the line that can replace a tool's result, whose full text is in a file.
    """

    n: int
    key: str
    message: Message
    tokens: int
    at: str
    is_error: bool = False
    pointer: str | None = None


@dataclass(frozen=True, slots=True)
class Mark:
    """One compaction: what the model is sent in place of messages, and the lead that comes before all others.

    `lead` replaces the lead of earlier marks; None keeps it.
    """

    tier: str
    lead: str | None
    changes: dict[int, Change]


def to_parts(message: Message, is_error: bool, pointer: str | None) -> str:
    """Return a message as readable JSON: parts of type `text`, `tool_call` and `tool_result`."""
    parts: list[dict[str, Any]] = []
    if message.role == "tool":
        result = {"type": "tool_result", "id": message.tool_call_id, "text": message.content, "is_error": is_error}
        parts.append(result if pointer is None else {**result, "pointer": pointer})
    elif message.content or not message.tool_calls:
        parts.append({"type": "text", "text": message.content})
    for call in message.tool_calls:
        parts.append({"type": "tool_call", "id": call.id, "name": call.name, "args": call.args})
    return encodable(json.dumps(parts, ensure_ascii=False))


def from_parts(n: int, key: str, role: Any, parts: str, tokens: int, at: str) -> Entry:
    """Return the entry of a stored row."""
    text, calls, call_id, is_error, pointer = "", [], "", False, None
    for part in json.loads(parts):
        if part["type"] == "text":
            text = part["text"]
        elif part["type"] == "tool_call":
            calls.append(ToolCall(name=part["name"], args=part["args"], id=part["id"]))
        else:
            text, call_id, is_error, pointer = part["text"], part["id"], part["is_error"], part.get("pointer")
    message = Message(role=role, content=text, tool_calls=calls, tool_call_id=call_id)
    return Entry(n, key, message, tokens, at, is_error, pointer)


PER_MESSAGE = 4
PER_CALL = 8


def estimate_tokens(text: str) -> int:
    """Return a quarter of the characters, where a letter outside ASCII weighs 2.5 (two bytes), 4 (three) or 5.5 (four).

    >>> estimate_tokens("four letters a token"), estimate_tokens("Привет"), estimate_tokens("你好世界")
    (5, 4, 4)
    """
    if text.isascii():
        return ceil(len(text) / 4)
    extra_bytes = len(text.encode(errors="replace")) - len(text)
    return ceil((len(text) + 1.5 * extra_bytes) / 4)


def message_tokens(message: Message) -> int:
    """Return the estimate for a message with its tool calls.

    >>> message_tokens(Message(role="user", content="four letters a token"))
    9
    """
    calls = sum(
        PER_CALL + estimate_tokens(call.name) + estimate_tokens(json.dumps(call.args, ensure_ascii=False))
        for call in message.tool_calls
    )
    return PER_MESSAGE + estimate_tokens(message.content) + calls
