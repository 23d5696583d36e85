"""A server of `[models.endpoints]`: requests with a deadline and retries, and failures by kind."""

from __future__ import annotations

import asyncio
import email.utils
import json
import math
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import httpx

from hive_agents.base import HiveError, did_you_mean
from hive_agents.models.failures import refused
from hive_agents.models.model import ModelError, sent
from hive_agents.workspace import Workspace, is_trusted
from hive_agents.workspace.credentials import redacted, resolve
from hive_agents.workspace.settings import Price

ATTEMPTS = 3
FIRST_WAIT = 0.2
MOST_BYTES = 64 << 20
"""The limit of an answer; a batch of vectors is the longest."""

_MOST_SHOWN = 300
_RETRIED = ("throttling", "server")


class Endpoint:
    """A server, from `open_endpoint`. The secret is resolved for each request, and is in no message."""

    def __init__(self, workspace: Workspace, name: str) -> None:
        settings = workspace.settings.models.endpoints[name]
        self.name = name
        self.url = settings.base_url
        self.price: Price | None = settings.price
        self.memory: Path = workspace.state / "endpoints.json"
        self._workspace, self._reference = workspace, settings.api_key_ref
        self._headers()  # raises for a key that can't be resolved

    async def post(self, path: str, body: Mapping[str, Any], deadline: float, model: str) -> dict[str, Any]:
        """Return the server's answer, a JSON object; transient failures are retried within `deadline` seconds.

        Raises: ModelError; HIVE-401 for an unknown model or path, HIVE-421 for a key that can't be resolved.
        """
        for attempt in _Attempts(deadline):
            try:
                async with self._request(path, body, attempt.left) as response:
                    data = await _body(response, model)
                return self._object(response, data, model)
            except Exception as error:
                wait = attempt.wait_after(self._failure(error, model))
            await asyncio.sleep(wait)
        raise AssertionError("the last attempt raises")

    async def events(
        self, path: str, body: Mapping[str, Any], deadline: float, model: str
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Yield the objects of a stream of server-sent events, up to `[DONE]` or its end.

        A failure is retried only before the first line. Raises: as `post`.
        """
        started = False
        for attempt in _Attempts(deadline):
            try:
                async with self._request(path, body, attempt.left) as response:
                    kind = response.headers.get("content-type", "")
                    if response.status_code != 200 or "event-stream" not in kind:
                        yield self._object(response, await _body(response, model), model)
                        return
                    async for line in _lines(response, model):
                        started = True
                        data = line.removeprefix("data:").strip() if line.startswith("data:") else ""
                        if data == "[DONE]":
                            return
                        if data:
                            yield self._event(data, model)
                    return
            except Exception as error:
                failure = self._failure(error, model)
                if started:
                    raise failure from error
                wait = attempt.wait_after(failure)
            await asyncio.sleep(wait)

    def post_blocking(self, path: str, body: Mapping[str, Any], deadline: float, model: str) -> Any:
        """As `post`, for callers without an event loop; the answer may be a list. Raises: as `post`."""
        for attempt in _Attempts(deadline):
            try:
                with httpx.Client(verify=_tls(), timeout=_timeout(attempt.left)) as client:
                    with client.stream("POST", self.url + path, json=body, headers=self._headers()) as response:
                        data = bytearray()
                        _require_plain(response, model)
                        for part in response.iter_raw():
                            _grow(data, part, model)
                            attempt.require_time(model)
                return self._value(response, data, model)
            except Exception as error:
                wait = attempt.wait_after(self._failure(error, model))
            time.sleep(wait)
        raise AssertionError("the last attempt raises")

    async def models(self, deadline: float) -> list[str]:
        """Return the names of the server's models, sorted. Raises: as `post`."""
        try:
            async with self._client(deadline) as client:
                async with client.stream("GET", self.url + "/models", headers=self._headers()) as response:
                    data = await _body(response, self.name)
            listed = self._object(response, data, self.name)["data"]
            return sorted(str(model["id"]) for model in listed)
        except (KeyError, TypeError):
            raise ModelError("garbage", f"{self.name}: /models answered no list of models") from None
        except Exception as error:
            raise self._failure(error, self.name) from error

    @asynccontextmanager
    async def _request(self, path: str, body: Mapping[str, Any], seconds: float) -> AsyncIterator[httpx.Response]:
        """Yield the response to a request, with `sent` called just before it is sent, and undone if it is refused."""
        data = json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()

        async def content() -> AsyncIterator[bytes]:
            # Before the data: a process that is killed while it is sent must have counted it.
            sent()
            yield data

        headers = {"Content-Type": "application/json", "Content-Length": str(len(data))}
        url, headers = self.url + path, self._headers() | headers
        async with self._client(seconds) as client:
            async with client.stream("POST", url, headers=headers, content=content()) as response:
                if response.status_code != 200:
                    sent(-1)
                yield response

    def _client(self, seconds: float) -> httpx.AsyncClient:
        # One for each call: a client belongs to one event loop, and notebooks and servers have several.
        return httpx.AsyncClient(verify=_tls(), timeout=_timeout(seconds))

    def _headers(self) -> dict[str, str]:
        """Raises: HIVE-421 for a key that can't be resolved, HIVE-409 for an invalid reference."""
        headers = {"Accept-Encoding": "identity"}  # what is packed has no length that could be limited
        if self._reference:
            headers["Authorization"] = f"Bearer {resolve(self._workspace, self._reference).reveal()}"
        return headers

    def _event(self, data: str, model: str) -> dict[str, Any]:
        try:
            event = json.loads(data)
        except (ValueError, RecursionError):
            raise ModelError("garbage", f"{model}: an event of the stream is not JSON: {_shortened(data)}") from None
        if not isinstance(event, dict):
            raise ModelError("garbage", f"{model}: an event of the stream is no object: {_shortened(data)}")
        if event.get("error"):
            raise _refusal_of(200, event, model)
        return event

    def _object(self, response: httpx.Response, data: bytes | bytearray, model: str) -> dict[str, Any]:
        value = self._value(response, data, model)
        if not isinstance(value, dict):
            raise ModelError("garbage", f"{model} answered {_shortened(json.dumps(value))}, which is no object")
        return value

    def _value(self, response: httpx.Response, data: bytes | bytearray, model: str) -> Any:
        try:
            value = json.loads(data)
        except (ValueError, RecursionError):
            value = None
        if response.status_code == 200 and value is not None:
            if isinstance(value, dict) and value.get("error"):  # some gateways fail with status 200
                raise _refusal_of(200, value, model)
            return value
        if response.status_code == 200:
            raise ModelError(
                "garbage", f"{model} answered what is not JSON: {_shortened(data.decode(errors='replace'))}"
            )
        answer = value if isinstance(value, dict) else {"message": data.decode(errors="replace")}
        raise _refusal_of(response.status_code, answer, model, _retry_after(response.headers))

    def _failure(self, error: Exception, model: str) -> Exception:
        """Return an error as a ModelError without the secret; errors of this program unchanged."""
        if isinstance(error, httpx.TimeoutException):
            return ModelError("timeout", f"{model} gave no answer in time")
        if isinstance(error, httpx.TransportError):
            return ModelError("server", f"{model}: {self.url} cannot be reached: {error or type(error).__name__}")
        if isinstance(error, httpx.HTTPError):
            return ModelError("garbage", f"{model} answered what cannot be read: {error}")
        if isinstance(error, ModelError) and self._reference:
            key = resolve(self._workspace, self._reference)
            error.message = redacted(error.message, [key])
            error.args = (error.message,)
        return error


class _Attempts:
    """The attempts of one request: the time that is left, and the wait before the next attempt."""

    def __init__(self, deadline: float) -> None:
        self._end = time.monotonic() + deadline
        self._made = 0

    def __iter__(self) -> Iterator[_Attempts]:
        while True:
            self._made += 1
            yield self

    @property
    def left(self) -> float:
        return max(0.01, self._end - time.monotonic())

    def require_time(self, model: str) -> None:
        """Raises: ModelError `timeout` after the deadline; httpx's timeout starts again with each byte."""
        if time.monotonic() > self._end:
            raise ModelError("timeout", f"{model} gave no answer in time")

    def wait_after(self, failure: Exception) -> float:
        """Return the seconds to wait before the next attempt. Raises: the failure if there is none."""
        if not isinstance(failure, ModelError) or failure.kind not in _RETRIED or self._made >= ATTEMPTS:
            raise failure
        wait = failure.retry_after or FIRST_WAIT * 2.0 ** (self._made - 1)
        if wait >= self.left:
            raise failure
        return wait


def open_endpoint(workspace: Workspace, name: str) -> Endpoint:
    """Return a configured endpoint.

    Raises: HIVE-401 for an unknown endpoint or one that isn't trusted, HIVE-421 without its key, HIVE-409 for
    an invalid reference to it.
    """
    configured = workspace.settings.models.endpoints
    if name not in configured:
        fix = did_you_mean(name, configured, f"add [models.endpoints.{name}] with a base_url")
        raise HiveError.of("HIVE-401", f'there is no endpoint "{name}"', file="hive.toml", path="models", fix=fix)
    if not is_trusted(workspace, f"models.endpoints.{name}"):
        why = f'the endpoint "{name}" is not used: it is not trusted on this machine'
        fix = "look with `hive trust --diff`, then allow it with `hive trust`"
        raise HiveError.of("HIVE-401", why, file="hive.toml", path=f"models.endpoints.{name}", fix=fix, exit_code=3)
    return Endpoint(workspace, name)


def _refusal_of(status: int, answer: Mapping[str, Any], model: str, retry_after: float = 0.0) -> ModelError | HiveError:
    """Return a server's error message as an error; it may have the form of OpenAI, Ollama, vLLM or a gateway."""
    message = answer.get("error") or answer.get("message") or answer.get("detail") or ""
    code = ""
    if isinstance(message, Mapping):
        code = f"{message.get('code') or ''} {message.get('type') or ''}".strip()
        message = message.get("message") or message
    if status == 200:
        status = int(code.split()[0]) if code.split()[:1] and code.split()[0].isdigit() else 500
    if 300 <= status < 400:
        message = "it redirects: set base_url to the final address"
    return refused(status, f"{model}: status {status}: {_shortened(str(message))}", code=code, retry_after=retry_after)


def _retry_after(headers: Mapping[str, str]) -> float:
    """Return the seconds to wait by `retry-after-ms` or by Retry-After, a number or a date; 0 for none that is read.

    >>> _retry_after({"retry-after-ms": "2500", "retry-after": "3"}), _retry_after({"retry-after": "soon"})
    (2.5, 0.0)
    """
    header = headers.get("retry-after", "")
    for value, unit in ((headers.get("retry-after-ms", ""), 0.001), (header, 1.0)):
        with suppress(ValueError):
            return max(0.0, seconds) if math.isfinite(seconds := float(value) * unit) else 0.0
    try:
        return max(0.0, email.utils.parsedate_to_datetime(header).timestamp() - time.time())
    except (ValueError, TypeError):
        return 0.0


async def _body(response: httpx.Response, model: str) -> bytearray:
    data = bytearray()
    _require_plain(response, model)
    async for part in response.aiter_raw():
        _grow(data, part, model)
    return data


async def _lines(response: httpx.Response, model: str) -> AsyncIterator[str]:
    """Yield the lines of a stream. Raises: ModelError where one of them is longer than an answer may be."""
    line = bytearray()
    _require_plain(response, model)
    async for part in response.aiter_raw():
        *ends, rest = part.split(b"\n")
        for end in ends:
            yield (line + end).decode(errors="replace")
            line.clear()
        _grow(line, rest, model)
    yield line.decode(errors="replace")


def _require_plain(response: httpx.Response, model: str) -> None:
    if response.headers.get("content-encoding", "identity") != "identity":
        raise ModelError("garbage", f"{model} answered what is compressed, although it was asked not to")


def _grow(data: bytearray, part: bytes, model: str) -> None:
    data += part
    if len(data) > MOST_BYTES:
        raise ModelError("garbage", f"{model} answered more than {MOST_BYTES >> 20} MB")


def _shortened(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _MOST_SHOWN else text[:_MOST_SHOWN] + "…"


def _timeout(seconds: float) -> httpx.Timeout:
    return httpx.Timeout(seconds, connect=min(seconds, 5.0))


@cache
def _tls() -> ssl.SSLContext:
    return ssl.create_default_context()
