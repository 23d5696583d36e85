"""A secret that shows itself only when it is asked to, and the way to take it out of a text again."""

from __future__ import annotations

import base64
import hmac
import json
from collections.abc import Callable, Iterable
from typing import Any, NoReturn
from urllib.parse import quote, quote_plus

HIDDEN = "***"


class Secret:
    """The value behind a reference; `reveal()` is the only way to it.

    It cannot be pickled, and JSON knows no such type: a checkpoint or an event that holds one fails, instead of
    keeping it.

    >>> secret = Secret("hunter2", "credential:mail")
    >>> secret, f"{secret}", secret.reveal()
    (Secret('credential:mail'), '***', 'hunter2')
    """

    __slots__ = ("_fetch", "reference")
    _fetch: Callable[[], str]
    reference: str

    def __init__(self, value: str, reference: str = "") -> None:
        # In a closure, so that nothing that walks over attributes meets the value.
        object.__setattr__(self, "_fetch", lambda: value)
        object.__setattr__(self, "reference", reference)

    def reveal(self) -> str:
        return self._fetch()

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError("a secret does not change")

    def __eq__(self, other: object) -> bool:
        """Compares in constant time, and with other secrets only."""
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(self.reveal().encode(), other.reveal().encode())

    def __hash__(self) -> int:
        return hash(Secret)  # a hash of the value would give it away

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
    """`text` with `***` for every secret in it, also where it is escaped, URL-encoded or in base64.

    >>> redacted("Bearer hunter2", [Secret("hunter2")])
    'Bearer ***'
    """
    values = [secret.reveal() if isinstance(secret, Secret) else secret for secret in secrets]
    forms = {form for value in values if value for form in _forms(value)}
    for form in sorted(forms, key=len, reverse=True):  # one secret may be part of another
        text = text.replace(form, HIDDEN)
    return text


def _forms(value: str) -> set[str]:
    data = value.encode("utf-8", "surrogatepass")
    encoded = {base64.b64encode(data).decode(), base64.urlsafe_b64encode(data).decode()}
    return {
        value,
        repr(value)[1:-1],
        json.dumps(value)[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
        quote(data, safe=""),
        quote(data),
        quote_plus(data),
        data.hex(),
        *(one.rstrip("=") for one in encoded),
    }
