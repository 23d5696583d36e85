"""How many tokens a text will cost, without a tokenizer: an estimate that errs upwards outside English."""

from __future__ import annotations

import json
from math import ceil

from hive_agents.llm import Message

PER_MESSAGE = 4
PER_CALL = 8


def estimate_tokens(text: str) -> int:
    """A quarter of the characters, where a letter outside ASCII weighs 2.5 (two bytes), 4 (three) or 5.5 (four).

    >>> estimate_tokens("four letters a token"), estimate_tokens("Привет"), estimate_tokens("你好世界")
    (5, 4, 4)
    """
    if text.isascii():
        return ceil(len(text) / 4)
    extra_bytes = len(text.encode(errors="replace")) - len(text)
    return ceil((len(text) + 1.5 * extra_bytes) / 4)


def message_tokens(message: Message) -> int:
    """The estimate for a message with its tool calls.

    >>> message_tokens(Message(role="user", content="four letters a token"))
    9
    """
    calls = sum(
        PER_CALL + estimate_tokens(call.name) + estimate_tokens(json.dumps(call.args, ensure_ascii=False))
        for call in message.tool_calls
    )
    return PER_MESSAGE + estimate_tokens(message.content) + calls
