"""HTTP error statuses as errors of models, for all clients."""

from __future__ import annotations

import re

from hive_agents.base import HiveError
from hive_agents.models.model import ErrorKind, ModelError

_OVERFLOW = re.compile(
    r"context[ _]?(length|window|size)|maximum context|prompt is too long|input is too long|too many (input )?tokens"
    r"|exceeds? the (available|maximum) (context|number of tokens)",
    re.IGNORECASE,
)
_REFUSAL = re.compile(r"content[ _]?(filter|policy)|guardrail|safety system", re.IGNORECASE)
_NO_CREDIT = re.compile(r"insufficient_quota|billing", re.IGNORECASE)


def refused(status: int, message: str, *, code: str = "", retry_after: float = 0.0) -> ModelError | HiveError:
    """Return the error of an HTTP status and its message; HIVE-401 for an unknown model."""
    if status == 404:
        fix = "check the name and the address; `hive models test` says what answers"
        return HiveError.of("HIVE-401", message, file="hive.toml", path="models", fix=fix, exit_code=3)
    told = f"{message}; it asks for {retry_after:,.0f} s without a request" if retry_after >= 60 else message
    return ModelError(_kind(status, f"{code} {message}"), told, retry_after=retry_after)


def _kind(status: int, words: str) -> ErrorKind:
    if status in (401, 403) or (status in (402, 429) and _NO_CREDIT.search(words)):
        return "authentication"
    if status == 429:
        return "throttling"
    if status in (408, 504):
        return "timeout"
    if _OVERFLOW.search(words):  # llama.cpp and some gateways use status 500 for it
        return "overflow"
    if 300 <= status < 500:
        return "refusal" if _REFUSAL.search(words) else "unsupported"
    return "server"
