"""Trust: parts of a workspace that run code, use secrets or connect elsewhere are inert until the owner allows them.

These parts are the tools, servers, model endpoints, telemetry, permission service, databases, search engines and
notified addresses of `hive.toml`, the files of tools and servers with what they import from the workspace, and triggers
with secrets. `hive trust` and `hive init` record their hashes on this machine; a changed part is inert again. Settings
in environment variables are the user's own, and need no trust.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from hive_agents import machine
from hive_agents.errors import Diagnostic, HiveError
from hive_agents.files import atomic_write, read_bytes
from hive_agents.text import sha256
from hive_agents.workspace import Workspace

SETTINGS = "hive.toml"
TRIGGERS = "triggers"
_TABLES = {"tools": (), "mcp": ("servers",), "models": ("endpoints",), "telemetry": ()}
"""Sections of `hive.toml` that need trust, with the keys that lead to their entries."""
_KEYS = (
    ("access", "service_url"),
    ("approvals", "notify"),
    ("storage", "url"),
    ("storage", "password_ref"),
    ("storage", "namespace"),
    ("vectors", "url"),
    ("vectors", "password_ref"),
    ("vectors", "namespace"),
    ("search", "url"),
    ("search", "login_ref"),
)
_IMPORTABLE = (".py", ".pyc", ".so", ".pyd")
_IMPORT = re.compile(r"^[ \t]*(?:from|import)[ \t]+(.+)$", re.M)
_ELSEWHERE = sys.stdlib_module_names | {"hive_agents", "graphs"}
"""Modules that never come from a workspace."""
TrustStatus = Literal["trusted", "new", "changed", "gone"]


@dataclass(frozen=True)
class Part:
    """A part that needs trust; `text` is its current text, "" where it is gone."""

    name: str
    status: TrustStatus
    text: str


def is_trusted(workspace: Workspace) -> bool:
    """Return whether all parts are as the owner trusted them; a workspace without such parts is trusted."""
    return all(part.status == "trusted" for part in parts(workspace))


def require_trust(workspace: Workspace, what: str) -> None:
    """Raise HIVE-431 where the workspace isn't trusted; call it just before `what`, such as "tools/a.py", is used."""
    if not is_trusted(workspace):
        raise HiveError([_inert(what, "error")])


def require_trusted_setting(workspace: Workspace, section: str) -> None:
    """Raise HIVE-431 where a setting of that section of `hive.toml` isn't trusted."""
    for part in parts(workspace):
        if part.status != "trusted" and part.name.startswith(f"{SETTINGS}: {section}."):
            raise HiveError([_inert(part.name, "error")])


def trusted_bytes(workspace: Workspace, path: Path) -> bytes:
    """Return the content of a trusted file of code. Raises: HIVE-431 for any other, OSError."""
    workspace = workspace.stands_for or workspace
    named = path if path.is_relative_to(workspace.root) else path.resolve()  # by another name of the folder
    name = named.relative_to(workspace.root).as_posix() if named.is_relative_to(workspace.root) else str(path)
    content = read_bytes(workspace.root / name)
    if _recorded(workspace).get(name) != sha256(_file_text(content)):
        raise HiveError([_inert(name, "error")])
    return content


def untrusted_notice(workspace: Workspace) -> Diagnostic | None:
    """Return a warning that names the inert parts; None in a trusted workspace."""
    untrusted = [part for part in parts(workspace) if part.status != "trusted"]
    names = [f"{part.name} (gone since then)" if part.status == "gone" else part.name for part in untrusted]
    if not names:
        return None
    what = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
    return _inert(what, "warning")


def parts(workspace: Workspace) -> list[Part]:
    """Return all parts that need trust, by name, and those that were trusted and are gone."""
    workspace = workspace.stands_for or workspace
    current, recorded = dict(_acting(workspace)), _recorded(workspace)
    all_parts = []
    for name in sorted(current.keys() | recorded.keys()):
        text = current.get(name)
        if text is None:
            all_parts.append(Part(name, "gone", ""))
        elif name not in recorded:
            all_parts.append(Part(name, "new", text))
        else:
            all_parts.append(Part(name, "trusted" if sha256(text) == recorded[name] else "changed", text))
    return all_parts


def trust(workspace: Workspace) -> None:
    """Record the current parts as trusted; a `.hive` that was not made on this machine is adopted.

    Raises: HIVE-403.
    """
    state = workspace.root / ".hive"
    if state.is_dir() and any(state.iterdir()) and machine.origin(state) is None:
        machine.adopt(state)
        workspace.__dict__.pop("state", None)
    record = {"root": str(workspace.root), "parts": {name: sha256(text) for name, text in _acting(workspace)}}
    atomic_write(_record(workspace), json.dumps(record, indent=2).encode(), mode=0o600)


def pins_file(workspace: Workspace, server: str) -> Path:
    """Return the file beside the record of trust that keeps what an MCP server announced when it was trusted."""
    return _record(workspace).with_suffix(f".{server}.json")


def _inert(what: str, severity: Literal["error", "warning"]) -> Diagnostic:
    fix = "look with `hive trust --diff`, then allow it with `hive trust`"
    return Diagnostic("HIVE-431", f"not trusted on this machine, and inert: {what}", fix=fix, severity=severity)


def _record(workspace: Workspace) -> Path:
    id = machine.origin(workspace.state)
    name = hashlib.sha256(f"{id}\0{workspace.root}".encode("utf-8", "surrogateescape")).hexdigest()
    return machine.home() / "trusted" / f"{name}.json"


def _recorded(workspace: Workspace) -> Mapping[str, str]:
    # A workspace without state was never trusted, and a check must not create it.
    if machine.origin(workspace.root / ".hive") is None:
        return {}
    try:
        hashes = json.loads(read_bytes(_record(workspace)))["parts"]
    except (OSError, ValueError, LookupError, TypeError):
        return {}
    return hashes if isinstance(hashes, dict) else {}


def _acting(workspace: Workspace) -> Iterator[tuple[str, str]]:
    """Yield the name and text of each part that needs trust."""
    settings = _settings(workspace)
    for section, way in _TABLES.items():
        table: Any = settings.get(section, {})
        for key in way:
            table = table.get(key, {}) if isinstance(table, dict) else {}
        for key, value in table.items() if isinstance(table, dict) else [("", table)]:
            if value not in (False, "", [], {}):
                yield f"{SETTINGS}: {'.'.join(filter(None, (section, *way, key)))}", _json(value)
    for section, key in _KEYS:
        table = settings.get(section)
        value = table.get(key) if isinstance(table, dict) else None
        if value:
            yield f"{SETTINGS}: {section}.{key}", _json(value)
    yield from sorted(_code(workspace.root, settings).items())
    for path in sorted((workspace.root / TRIGGERS).glob("*.json")):
        text = _text(path)
        if _has_secret(text):
            yield f"{TRIGGERS}/{path.name}", text


def _settings(workspace: Workspace) -> dict[str, Any]:
    try:
        return tomllib.loads(read_bytes(workspace.root / SETTINGS).decode())
    except (OSError, ValueError, RecursionError):
        return {}  # an unreadable file has no effect elsewhere either


def _code(root: Path, settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the text by name of the files of tools and servers, of code beside and below them, and of what they
    import from the workspace."""
    texts: dict[str, str] = {}
    tools, servers = settings.get("tools"), settings.get("mcp")
    patterns = tools.get("python", []) if isinstance(tools, dict) else []
    waiting: set[Path] = set()
    for pattern in patterns if isinstance(patterns, list) else []:
        if not isinstance(pattern, str):
            continue
        if "/" in pattern or pattern.endswith(".py"):
            if _is_inside(pattern):
                fixed = next((number for number, part in enumerate(Path(pattern).parts) if set(part) & set("*?[")), -1)
                waiting |= _importable(root, root.joinpath(*Path(pattern).parts[:fixed]))
        else:
            waiting |= _module_files(root, pattern)
    named = servers.get("servers", {}) if isinstance(servers, dict) else {}
    for server in named.values() if isinstance(named, dict) else ():
        command = server.get("command", []) if isinstance(server, dict) else []
        words = [word for word in command if isinstance(word, str)] if isinstance(command, list) else []
        for before, word in zip(["", *words], words, strict=False):
            if before == "-m":
                waiting |= _module_files(root, word) | _importable(root, root)
            elif (path := file_within(root, word)) is not None:
                waiting |= {path} | (_importable(root, path.parent) if word.endswith(".py") else set())
    while waiting:
        path = waiting.pop()
        name = path.relative_to(root).as_posix()
        if name not in texts:
            texts[name] = text = _text(path)
            if name.endswith(".py"):
                waiting |= {file for module in _imported(text) for file in _module_files(root, module)}
    return texts


def file_within(root: Path, word: str) -> Path | None:
    """Return the workspace's file that a word of a command names; None for any other word."""
    path = Path(os.path.normpath(root / word))
    return path if path != root and path.is_relative_to(root) and path.is_file() else None


def _importable(root: Path, folder: Path) -> set[Path]:
    """Return the modules that one in the folder can import from beside and below it; for the workspace's root only
    its own modules and the `__init__` modules of packages."""
    files = folder.rglob("*") if folder != root else (*folder.glob("*"), *folder.glob("*/__init__.*"))
    return {path for path in files if path.name.endswith(_IMPORTABLE) and "__pycache__" not in path.parts}


def _module_files(root: Path, name: str) -> set[Path]:
    """Return the workspace's files in which Python may find the module's package."""
    top = name.partition(".")[0]
    if not top.isidentifier() or top in _ELSEWHERE:
        return set()
    places = [folder for folder in (root, root / "src") if folder.is_dir()]
    beside = {path for folder in places for path in folder.glob(f"{top}.*") if path.name.endswith(_IMPORTABLE)}
    return beside.union(*(_importable(root, folder / top) for folder in places if (folder / top).is_dir()))


@lru_cache(maxsize=1_000)
def _imported(source: str) -> frozenset[str]:
    """Return the modules that a text seems to import; too many are harmless, and a missed one is refused on import."""
    lines = (line.partition("#")[0] for line in _IMPORT.findall(source))
    words = (part.split() for line in lines for part in line.split(","))
    return frozenset(word[0].partition(".")[0] for word in words if word)


def _is_inside(name: str) -> bool:
    return not Path(name).is_absolute() and ".." not in Path(name).parts


def _has_secret(text: str) -> bool:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return "secret_ref" in text
    return isinstance(value, dict) and value.get("secret_ref") is not None


def _text(path: Path) -> str:
    try:
        return _file_text(read_bytes(path))
    except (OSError, HiveError) as error:
        return f"unreadable: {error}"


def _file_text(content: bytes) -> str:
    """Return a file's text; for a binary one, such as a library, its size and hash."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return f"{len(content)} bytes that are no text, SHA-256 {hashlib.sha256(content).hexdigest()}"


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)
