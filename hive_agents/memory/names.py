"""Names for files that can't leave their folder, on any system."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import TYPE_CHECKING

from hive_agents.base import HiveError, cut
from hive_agents.base.files import unlinked

if TYPE_CHECKING:
    from hive_agents.workspace import Workspace

MAX_BYTES = 200
_FORBIDDEN = re.compile(
    r'[/\\:*?"<>|\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]'
)
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]|conin\$|conout\$) *(\.|$)", re.IGNORECASE)
_PLAIN = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


def file_name(name: str) -> str:
    """Return `name` if it names a visible file directly in a folder.

    Raises: HIVE-113 for separators, `..`, drives, control characters, hidden or reserved names and over 200 bytes.
    """
    usable = (
        isinstance(name, str)
        and not _FORBIDDEN.search(name)
        and 0 < len(name.encode()) <= MAX_BYTES
        and name[0] not in ". "
        and name[-1] not in ". "
        and not _RESERVED.match(name)
    )
    if not usable:
        raise HiveError.of(
            "HIVE-113",
            f"{cut(ascii(name), 80)} can't be a file's name here",
            fix='use a plain name such as "notes.md": letters, digits, ".", "_" and "-", no folder',
        )
    return name


def folder_name(name: str) -> str:
    """Return a folder's name for any text, distinct for distinct texts also on case-insensitive file systems.

    >>> folder_name("digest"), folder_name("Dana@example.org")
    ('digest', 'dana-example-org~bde65a423adfafa4ec21494e')
    """
    if _PLAIN.fullmatch(name) and not _RESERVED.match(name):
        return name
    digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:24]
    readable = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:32]
    return f"{readable}~{digest}"


def run_folder(workspace: Workspace, run_id: str) -> Path:
    """Return `.hive/runs/<run_id>`, the folder of a run's files, which is made at the first write.

    Raises: HIVE-114 where a link on the way may lead elsewhere.
    """
    return _below(workspace, "runs", folder_name(run_id))


def memory_folder(workspace: Workspace, tenant: str, agent_id: str, user: str) -> Path:
    """`.hive/memory/<tenant>/<agent>/<user>`. Raises: HIVE-114 as `run_folder`."""
    return _below(workspace, "memory", *map(folder_name, (tenant, agent_id, user)))


def _below(workspace: Workspace, *names: str) -> Path:
    return unlinked(workspace.state.joinpath(*names))
