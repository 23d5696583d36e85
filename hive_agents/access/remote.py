"""A permission service over HTTP; a late or malformed answer denies everything."""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import lru_cache
from typing import TYPE_CHECKING

from hive_agents.access.principal import Documents, Principal
from hive_agents.access.rules import PermissionFault, of_tenant
from hive_agents.base import HiveError
from hive_agents.base.files import jsontext

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_log = logging.getLogger("hive_agents.access")


class RemotePermissions:
    """Asks `POST {url}/view`. It can't list a principal's documents, so `scope` is the tenant's.

    `timeout` bounds the whole exchange, in seconds, even if the server trickles bytes. Redirects and the environment's
    proxies are not followed. While `trusted` returns False the service is not asked, and everything is denied.
    """

    lists = False

    def __init__(self, url: str, timeout: float = 2.0, *, trusted: Callable[[], bool] = lambda: True) -> None:
        self._url = url.rstrip("/") + "/view"
        self._timeout = timeout
        self._trusted = trusted

    def view(self, principal: Principal, doc_ids: Sequence[str]) -> frozenset[str]:
        try:
            return self.ask(principal, doc_ids)
        except PermissionFault as fault:
            _log.warning("permission service: %s; all that was asked about is denied", fault)
            return frozenset()

    def scope(self, principal: Principal, documents: Documents) -> NDArray[np.bool_]:
        return of_tenant(principal, documents)

    def ask(self, principal: Principal, doc_ids: Sequence[str]) -> frozenset[str]:
        """Return the same as `view`. Raises: PermissionFault instead of denying everything."""
        if not self._trusted():
            raise PermissionFault("its address is not trusted, so it isn't asked; see `hive trust --diff`")
        asked = frozenset(doc_ids)
        question = {
            "tenant": principal.tenant,
            "user": principal.user,
            "groups": sorted(principal.groups),
            "doc_ids": list(dict.fromkeys(doc_ids)),
        }
        try:
            answer = jsontext.parse(jsontext.decode(self._exchange(json.dumps(question).encode()), "answer"), "answer")
        except HiveError:
            raise PermissionFault("its answer is not JSON") from None
        if not isinstance(answer, dict) or set(answer) != {"allowed"}:
            raise PermissionFault('its answer is not {"allowed": […]}')
        allowed = answer["allowed"]
        if not isinstance(allowed, list) or not all(isinstance(doc_id, str) for doc_id in allowed):
            raise PermissionFault('"allowed" is not a list of doc_ids')
        if not asked.issuperset(allowed):
            raise PermissionFault("it allows documents that were not asked about")
        return frozenset(allowed)

    def _exchange(self, body: bytes) -> bytes:
        import httpx  # noqa: F401 - its import must not eat the time of the answer

        outcome: Future[bytes] = Future()

        def work() -> None:
            try:
                outcome.set_result(asyncio.run(_post(self._url, body, self._timeout)))
            except BaseException as error:
                outcome.set_exception(error)

        # In a thread: the caller may be in an event loop, and a hanging name lookup can't be cancelled.
        threading.Thread(target=work, name="permissions", daemon=True).start()
        try:
            return outcome.result(self._timeout)
        except PermissionFault:
            raise
        except TimeoutError:
            raise PermissionFault(f"no answer within {self._timeout:g} s") from None
        except Exception as error:
            raise PermissionFault(f"it cannot be asked ({type(error).__name__})") from None


async def _post(url: str, body: bytes, timeout: float) -> bytes:
    import httpx

    # The allowed documents are some of those asked about, each letter at most six bytes of JSON.
    most = 65_536 + 6 * len(body)
    headers = {"content-type": "application/json", "accept-encoding": "identity"}
    verify = _certificates() if url.startswith("https:") else False
    async with asyncio.timeout(timeout), httpx.AsyncClient(timeout=None, trust_env=False, verify=verify) as client:
        async with client.stream("POST", url, content=body, headers=headers) as response:
            if response.status_code != 200:
                raise PermissionFault(f"it answered with status {response.status_code}")
            if response.headers.get("content-encoding", "identity") != "identity":
                raise PermissionFault("its answer is compressed")
            received = bytearray()
            async for part in response.aiter_raw():
                received += part
                if len(received) > most:
                    raise PermissionFault(f"its answer is over {most} bytes")
            return bytes(received)


@lru_cache(maxsize=1)
def _certificates() -> ssl.SSLContext:
    return ssl.create_default_context()
