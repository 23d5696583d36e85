"""Which failures are transient, and how long to wait before the next attempt."""

from __future__ import annotations

import asyncio
import math
import random
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from hive_agents.models import ModelError

T = TypeVar("T")

_KINDS = frozenset({"throttling", "timeout", "server"})
_CLIENTS = frozenset({"httpx", "httpcore", "botocore", "urllib3", "requests", "aiohttp"})
_CONNECTION = frozenset(
    "TimeoutException ConnectTimeout ReadTimeout WriteTimeout PoolTimeout NetworkError ConnectError ReadError"
    " WriteError CloseError RemoteProtocolError ConnectTimeoutError ReadTimeoutError EndpointConnectionError"
    " ConnectionClosedError HTTPClientError NewConnectionError ProtocolError ClientConnectionError"
    " ServerTimeoutError ConnectionError Timeout".split()
)
_THROTTLING = frozenset({"ThrottlingException", "Throttling", "TooManyRequestsException", "RequestLimitExceeded"})


def is_transient(error: BaseException) -> bool:
    """Return whether the same call may succeed later: connection, timeout, HTTP status 429 or 5xx.

    Never a missing file, a refused permission or login, an invalid certificate, or a wrong argument.

    >>> [is_transient(error) for error in (ConnectionResetError(), TimeoutError(), FileNotFoundError(), ValueError())]
    [True, True, False, False]
    """
    if isinstance(error, ModelError):
        return error.kind in _KINDS
    if any(isinstance(cause, ssl.SSLCertVerificationError) for cause in _causes(error)):
        return False
    status = _status(error)
    if status is not None:
        return status == 429 or 500 <= status <= 599
    if isinstance(error, socket.gaierror):
        return error.errno == socket.EAI_AGAIN
    if isinstance(error, ConnectionError | TimeoutError):
        return True
    kinds = type(error).__mro__
    return any(kind.__name__ in _CONNECTION and kind.__module__.partition(".")[0] in _CLIENTS for kind in kinds)


@dataclass(frozen=True)
class RetryPolicy:
    """`attempts` in all, with the first; waits in seconds, doubled from `base` up to `cap`, half of each at random."""

    attempts: int = 4
    base: float = 0.5
    cap: float = 20.0

    def wait(self, failed: int, chance: float, asked: float = 0.0) -> float:
        """Return the seconds to wait after `failed` attempts; `chance` is in [0, 1), `asked` the server's Retry-After.

        >>> [RetryPolicy().wait(failed, 1.0) for failed in (1, 2, 3, 10)]
        [0.5, 1.0, 2.0, 20.0]
        >>> RetryPolicy().wait(1, 0.0), RetryPolicy().wait(1, 0.0, asked=5)
        (0.25, 5)
        """
        grown = min(self.cap, self.base * 2.0 ** min(failed - 1, 60))
        return max(grown * (0.5 + chance / 2), asked)


async def retried(
    call: Callable[[], Awaitable[T]],
    policy: RetryPolicy = RetryPolicy(),
    *,
    on_retry: Callable[[int, BaseException, float], None] | None = None,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    chance: Callable[[], float] = random.random,
) -> T:
    """Return the result of `call`, retried after transient errors; `on_retry` gets (failed attempts, error, seconds).

    Raises: the last error, at once where it is not transient, or the server asks for more rest than `policy.cap`.
    """
    failed = 0
    while True:
        try:
            return await call()
        except Exception as error:
            failed += 1
            asked = _retry_after(error)
            if failed >= policy.attempts or not is_transient(error) or asked > policy.cap:
                raise
            wait = policy.wait(failed, chance(), asked)
            if on_retry is not None:
                on_retry(failed, error, wait)
        await sleep(wait)


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__ or cause.__context__


def _status(error: BaseException) -> int | None:
    """Return the HTTP status of an error of httpx, botocore and most other clients; None without one."""
    response: Any = getattr(error, "response", None)
    if isinstance(response, dict):
        if response.get("Error", {}).get("Code") in _THROTTLING:
            return 429
        status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    else:
        status = getattr(response, "status_code", getattr(error, "status_code", None))
    return status if isinstance(status, int) and not isinstance(status, bool) else None


def _retry_after(error: BaseException) -> float:
    """Return the seconds of the server's Retry-After; 0 without one, or for a date."""
    if isinstance(error, ModelError):
        return error.retry_after
    headers = getattr(getattr(error, "response", None), "headers", None)
    try:
        seconds = float(headers.get("retry-after", 0)) if headers is not None else 0.0
    except (TypeError, ValueError, AttributeError):
        return 0.0
    return seconds if math.isfinite(seconds) and seconds > 0 else 0.0
