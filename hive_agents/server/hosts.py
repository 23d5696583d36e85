"""A middleware that refuses requests for host names other than the configured ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hive_agents.server.problems import problem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.types import ASGIApp, Receive, Scope, Send

_PROBES = frozenset({"/healthz", "/readyz"})
"""Monitoring reaches a machine by its address."""


class KnownHosts:
    """Refuses requests whose Host header names none of `hosts` with 421; without any, every name is accepted.

    It stops DNS rebinding, although a browser would send no token with such a request.
    """

    def __init__(self, app: ASGIApp, hosts: Sequence[str]) -> None:
        self._app, self._hosts = app, frozenset(map(name_of, hosts))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and self._hosts and scope["path"] not in _PROBES:
            host = dict(scope["headers"]).get(b"host", b"").decode("latin-1")
            if name_of(host) not in self._hosts:
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
