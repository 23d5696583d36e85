"""One answer of a web server, with limits of its size and time; no redirect is followed."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx

from hive_agents.base import HiveError
from hive_agents.readers import MAX_BYTES
from hive_agents.sources.contract import SourceFailure

_SECONDS = 120.0
"""Of one request with all that comes back, however slowly."""
DENIED, GONE = frozenset({401, 403}), frozenset({404, 410})
_WITH_A_BODY = frozenset({200, 207})
T = TypeVar("T")


@dataclass(frozen=True)
class HttpAnswer:
    """`body` is empty unless the request succeeded."""

    status: int
    headers: httpx.Headers
    body: bytes = b""


class HttpClient:
    """A client that asks one thing after the other."""

    def __init__(self, *, trust_env: bool = False, verify: ssl.SSLContext | bool = True) -> None:
        self._runner = asyncio.Runner()
        self._client = httpx.AsyncClient(timeout=None, trust_env=trust_env, verify=verify, follow_redirects=False)

    async def answer(
        self, method: str, url: httpx.URL, headers: Mapping[str, str], content: bytes = b"", **extensions: str
    ) -> HttpAnswer:
        """Return what a server answers. Raises: SourceFailure for a body that is too large, or broke off."""
        sent = {"accept-encoding": "identity", **headers}
        async with self._client.stream(method, url, headers=sent, content=content, extensions=extensions) as response:
            told = response.headers
            if response.status_code not in _WITH_A_BODY:
                return HttpAnswer(response.status_code, told)
            body = bytearray()
            async for part in response.aiter_raw():
                body += part
                if len(body) > MAX_BYTES:
                    raise SourceFailure(f"larger than {MAX_BYTES // 1_000_000} MB")
            if int(told.get("content-length", len(body))) != len(body):
                raise SourceFailure("the answer broke off")
            return HttpAnswer(response.status_code, told, bytes(body))

    def run(self, asking: Coroutine[Any, Any, T]) -> T:
        """Return what a request gives. Raises: SourceFailure where it fails, or has no end."""

        async def within() -> T:
            async with asyncio.timeout(_SECONDS):
                return await asking

        try:
            return self._runner.run(within())
        except HiveError as error:
            raise SourceFailure(error.diagnostics[0].message) from None
        except socket.gaierror as error:
            raise SourceFailure(f"its host has no address: {error.strerror}") from None
        except TimeoutError:
            raise SourceFailure(f"its answer has no end within {_SECONDS:g} s") from None
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            raise SourceFailure(f"{type(error).__name__}: {error}") from None

    def close(self) -> None:
        self._runner.run(self._client.aclose())
        self._runner.close()
