"""Secrets that only `reveal()` shows, and their redaction in texts."""

from __future__ import annotations

import base64
import hmac
import html
import json
import re
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

HIDDEN = "***"
LEAST_ENCODED = 4
"""Minimal bytes of a secret that is redacted within base64: fewer occur by chance."""
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{2,}={0,2}")
_STANDARD = str.maketrans("-_", "+/", "=")


class Secret:
    """The value of a reference; only `reveal()` returns it.

    It can't be serialized, neither by pickle nor as JSON: writing a checkpoint or an event with one fails.

    >>> secret = Secret("hunter2", "credential:mail")
    >>> secret, f"{secret}", secret.reveal()
    (Secret('credential:mail'), '***', 'hunter2')
    """

    __slots__ = ("_fetch", "reference")
    _fetch: Callable[[], str]
    reference: str

    def __init__(self, value: str, reference: str = "") -> None:
        # In a closure, so that code that inspects attributes doesn't find the value.
        object.__setattr__(self, "_fetch", lambda: value)
        object.__setattr__(self, "reference", reference)

    def reveal(self) -> str:
        return self._fetch()

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError("a secret does not change")

    def __eq__(self, other: object) -> bool:
        """Compare with another secret in constant time."""
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(self.reveal().encode(), other.reveal().encode())

    def __hash__(self) -> int:
        return hash(Secret)  # a hash of the value would reveal it

    def __repr__(self) -> str:
        return f"Secret({self.reference!r})"

    def __str__(self) -> str:
        return HIDDEN

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Secret:
        return self

    def __getstate__(self) -> NoReturn:
        raise TypeError("a secret cannot be pickled: keep its reference")

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        self.__getstate__()


def redacted(text: str, secrets: Iterable[Secret | str]) -> str:
    """Return `text` with `***` for every secret in it.

    Also found are secrets that are escaped, encoded as in URLs and forms, or part of base64 as in Basic authentication.

    >>> redacted("Bearer hunter2", [Secret("hunter2")])
    'Bearer ***'
    """
    for value in sorted({_revealed(secret) for secret in secrets} - {""}, key=len, reverse=True):
        text = _without(text, value)  # longest first: one secret may be part of another
    return text


def _revealed(secret: Secret | str) -> str:
    return secret.reveal() if isinstance(secret, Secret) else secret


def _without(text: str, value: str) -> str:
    text = _percent_encoded(value).sub(HIDDEN, text)
    for form in sorted(_forms(value), key=len, reverse=True):
        text = text.replace(form, HIDDEN)
    data = value.encode("utf-8", "surrogatepass")
    if len(data) < LEAST_ENCODED:
        return text
    return _BASE64.sub(lambda run: HIDDEN if _contains(run[0], data) else run[0], text)


def _forms(value: str) -> set[str]:
    data = value.encode("utf-8", "surrogatepass")
    return {
        repr(value)[1:-1],
        json.dumps(value)[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
        html.escape(value),
        data.hex(),
        data.hex().upper(),
    }


def _percent_encoded(value: str) -> re.Pattern[str]:
    """Return a pattern of the value, plain or percent-encoded: which characters are encoded differs by encoder."""
    parts = []
    for char in value:
        encoded = "".join(f"%{byte:02x}" for byte in char.encode("utf-8", "surrogatepass"))
        space = r"|\+" if char == " " else ""
        parts.append(f"(?:{re.escape(char)}|(?i:{encoded}){space})")
    return re.compile("".join(parts))


def _contains(run: str, data: bytes) -> bool:
    """Return whether text in base64 contains the secret, also within other data such as `user:secret`."""
    run = run.translate(_STANDARD)
    # The encoded text may begin anywhere in the run, which leaves four alignments.
    return any(data in _decoded(run[start:]) for start in range(4))


def _decoded(run: str) -> bytes:
    if len(run) % 4 == 1:  # base64 can't end with a single character of a group
        run = run[:-1]
    return base64.b64decode(run + "=" * (-len(run) % 4))
