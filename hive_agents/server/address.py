"""Where a workspace is served: what a sign-in link that is made by another process begins with."""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from hive_agents.base.files import atomic_write

if TYPE_CHECKING:
    from pathlib import Path

    from hive_agents.workspace import Workspace

FILE = "serving"
"""The file in `.hive/` that holds the address of the server that was started last."""
ANSWERS_WITHIN = 1.0


def address(host: str, port: int) -> str:
    """Return the address of a server.

    >>> address("127.0.0.1", 8787), address("::1", 80)
    ('http://127.0.0.1:8787', 'http://[::1]:80')
    """
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def tell_served(workspace: Workspace, url: str) -> None:
    atomic_write(_file(workspace), url.encode(), mode=0o600)


def forget_served(workspace: Workspace, url: str) -> None:
    """Forget the address, unless another server was started since."""
    with suppress(OSError):
        if _file(workspace).read_text(encoding="utf-8") == url:
            _file(workspace).unlink()


def served_at(workspace: Workspace) -> tuple[str, bool]:
    """Return the address of the server that was started last, by default that of the settings; and whether it
    answers."""
    settings = workspace.settings.server
    url = address(settings.host, settings.port)
    with suppress(OSError, UnicodeError):
        told = _file(workspace).read_text(encoding="utf-8")
        url = told if _answers(told) else url
    return url, _answers(url)


def _file(workspace: Workspace) -> Path:
    return workspace.state / FILE


def _answers(url: str) -> bool:
    with suppress(OSError, ValueError):
        parts = urlsplit(url)
        socket.create_connection((parts.hostname or "", parts.port or 0), ANSWERS_WITHIN).close()
        return True
    return False
