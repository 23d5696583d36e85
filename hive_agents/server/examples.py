"""Examples of requests for the OpenAPI document: bodies by the name of their type, and parameters of paths."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_ASKED = "how do I rotate an API token?"
_DOCUMENT = "api-docs/api-tokens.md"
_SAID = [{"id": "m1", "role": "user", "content": _ASKED}]

BODIES: Mapping[str, dict[str, Any]] = {
    "Compare": {"a": "active", "b": "v2", "split": "train"},
    "Completion": {"model": "copilot", "messages": [{"role": "user", "content": _ASKED}], "stream": False},
    "Decide": {"verb": "approve", "version": 1, "reason": "as agreed"},
    "DecideBatch": {"batch": "r4f0c2a91be:0123", "verb": "approve"},
    "Delegate": {"to": "dana"},
    "Deploy": {"config": "v2"},
    "Pause": {"paused": True},
    "DocumentChange": {"fields": {"status": "retired"}, "grants": ["tenant"]},
    "Drop": {"file": ["(binary)"]},
    "FireTrigger": {"input": {"topic": "keys"}},
    "LabelQuery": {"query": "how long is a token good for?", "relevant": [_DOCUMENT], "split": "train"},
    "Leaver": {"tenant": "acme"},
    "MeasureConfig": {"config": "active", "split": "train"},
    "NewToken": {"user": "dana", "groups": ["lab"], "roles": ["reader"], "ttl": 3600},
    "Renamed": {"title": "Tokens"},
    "ResultOpinion": {"run_id": "r4f0c2a91be", "result": 1, "verdict": "relevant"},
    "Retried": {"node": "write"},
    "Review": {"accept": True},
    "Rollback": {"reason": "it hides what readers need"},
    "RunAgentInput": {"threadId": "mine", "runId": "first", "messages": _SAID},
    "Said": {"text": "be brief"},
    "SearchRequest": {"query": "rotate an API token", "filters": ["status=effective"]},
    "StartRun": {"graph": "worker", "input": {"text": _ASKED}},
    "SteeringMessage": {"text": "what is running?"},
    "Upload": {"file": ["(binary)"], "folder": "handbook"},
}
PARAMETERS: Mapping[str, str] = {
    "agent": "curator",
    "doc_id": _DOCUMENT,
    "file_id": "d4f0c2a91be5d6071829",
    "import_id": "i4f0c2a91be",
    "item_id": "f4f0c2a91be",
    "jti": "0c31b1b7a8f26f0d1c2b3a49",
    "model": "copilot",
    "name": "active",
    "request_id": "a4f0c2a91be",
    "run_id": "r4f0c2a91be",
    "thread_id": "t4f0c2a91be",
    "trigger_id": "nightly",
    "user": "dana",
}
