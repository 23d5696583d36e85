"""AWS's binary event stream, `application/vnd.amazon.eventstream`: what ConverseStream answers with.

A message is a prelude (its length, its headers' length, a CRC-32 of these two), headers, a JSON payload and a
CRC-32 of all of it; numbers are big-endian.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator
from typing import Any

CONTENT_TYPE = "application/vnd.amazon.eventstream"
_TEXT = 7  # of a header's value


def event(kind: str, payload: dict[str, Any]) -> bytes:
    return _message({":event-type": kind, ":content-type": "application/json", ":message-type": "event"}, payload)


def exception(kind: str, message: str) -> bytes:
    """What goes wrong after the stream has opened; `kind` as in `throttlingException`."""
    headers = {":exception-type": kind, ":content-type": "application/json", ":message-type": "exception"}
    return _message(headers, {"message": message})


def converse_events(answer: dict[str, Any]) -> Iterator[bytes]:
    """Converse's answer as the events of ConverseStream: text by the word, arguments in pieces of five characters."""
    yield event("messageStart", {"role": "assistant"})
    for index, block in enumerate(answer["output"]["message"]["content"]):
        if "toolUse" in block:
            use = block["toolUse"]
            start = {"toolUse": {"toolUseId": use["toolUseId"], "name": use["name"]}}
            yield event("contentBlockStart", {"contentBlockIndex": index, "start": start})
            written = json.dumps(use["input"])
            deltas = [{"toolUse": {"input": written[at : at + 5]}} for at in range(0, len(written), 5)]
        else:
            deltas = [{"text": word} for word in block["text"].replace(" ", " \0").split("\0")]
        for delta in deltas:
            yield event("contentBlockDelta", {"contentBlockIndex": index, "delta": delta})
        yield event("contentBlockStop", {"contentBlockIndex": index})
    yield event("messageStop", {"stopReason": answer["stopReason"]})
    yield event("metadata", {"usage": answer["usage"], "metrics": answer["metrics"]})


def _message(headers: dict[str, str], payload: dict[str, Any]) -> bytes:
    head = b"".join(
        struct.pack("!B", len(name)) + name.encode() + struct.pack("!BH", _TEXT, len(value)) + value.encode()
        for name, value in headers.items()
    )
    body = json.dumps(payload).encode()
    prelude = struct.pack("!II", 16 + len(head) + len(body), len(head))
    message = prelude + struct.pack("!I", zlib.crc32(prelude)) + head + body
    return message + struct.pack("!I", zlib.crc32(message))
