"""Where a workspace is served: what a sign-in link that is made by another process begins with."""

from __future__ import annotations

import socket
from contextlib import suppress
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from hive_agents.base import HiveError
from hive_agents.base.files import atomic_write, guarded

if TYPE_CHECKING:
    from pathlib import Path

    from hive_agents.workspace import Workspace

FILE = "serving"
"""The file in `.hive/` that holds the address of the server that was started last."""
ANSWERS_WITHIN = 1.0
_LONGEST = 300


def address(host: str, port: int) -> str:
    """Return the address of a server.

    >>> address("127.0.0.1", 8787), address("::1", 80)
    ('http://127.0.0.1:8787', 'http://[::1]:80')
    """
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def is_loopback(name: str) -> bool:
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"


def tell_served(workspace: Workspace, url: str) -> None:
    atomic_write(_file(workspace), url.encode(), mode=0o600)


def forget_served(workspace: Workspace, url: str) -> None:
    """Forget the address, unless another server was started since."""
    if _told(workspace) == url:
        with suppress(OSError):
            _file(workspace).unlink()


def served_at(workspace: Workspace) -> tuple[str, bool]:
    """Return the address of the server that was started last, by default that of the settings; and whether it
    answers."""
    settings = workspace.settings.server
    told = _told(workspace)
    if told and _answers(told):
        return told, True
    url = address(settings.host, settings.port)
    return url, bool(told) and _answers(url)  # where none was started, another workspace's may stand there


def _told(workspace: Workspace) -> str:
    with suppress(OSError, HiveError):
        return guarded.read_start(_file(workspace), _LONGEST).decode(errors="replace")
    return ""


def _file(workspace: Workspace) -> Path:
    return workspace.state / FILE


def _answers(url: str) -> bool:
    with suppress(OSError, ValueError):
        parts = urlsplit(url)
        socket.create_connection((parts.hostname or "", parts.port or 0), ANSWERS_WITHIN).close()
        return True
    return False
