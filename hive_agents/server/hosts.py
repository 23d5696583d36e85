"""The names that the server goes by: where some are set, a request to another one is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hive_agents.server.problems import problem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.types import ASGIApp, Receive, Scope, Send

_PROBES = frozenset({"/healthz", "/readyz"})
"""Whoever watches a machine asks it by its address."""


class KnownHosts:
    """Refuses requests whose Host header names none of `hosts` with 421; without any, every name is ours.

    A page whose own name was made to point here is stopped by it, although no browser would send a token with it.
    """

    def __init__(self, app: ASGIApp, hosts: Sequence[str]) -> None:
        self._app, self._hosts = app, frozenset(map(name_of, hosts))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and self._hosts and scope["path"] not in _PROBES:
            sent = dict(scope["headers"]).get(b"host", b"").decode("latin-1")
            if name_of(sent) not in self._hosts:
                await problem(421, "this server has another name", path=scope["path"])(scope, receive, send)
                return
        await self._app(scope, receive, send)


def name_of(host: str) -> str:
    """Return the name in a Host header, without the port.

    >>> name_of("Hive.example.org:443"), name_of("[::1]:8787"), name_of("[::1]")
    ('hive.example.org', '[::1]', '[::1]')
    """
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdigit() and not name.endswith(":") else host).lower()
