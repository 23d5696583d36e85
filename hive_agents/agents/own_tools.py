"""Tools of the user: marked with `@tool` or LangChain's decorator, in files of the workspace, modules and packages."""

from __future__ import annotations

import ast
import hashlib
import logging
import sys
import traceback
from collections.abc import Callable, Iterator
from functools import lru_cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from hive_agents.agents.bundled import bundled_tools
from hive_agents.agents.code import TypedCode
from hive_agents.agents.mcp_servers import Inert, server_tools
from hive_agents.agents.recorded_code import recorded_code
from hive_agents.agents.tool import Tool, make_tool
from hive_agents.agents.tools import ToolRegistry
from hive_agents.base import Diagnostic, HiveError
from hive_agents.base.files import read_bytes
from hive_agents.workspace import Workspace, is_trusted, trusted_bytes, untrusted_files

GROUP = "hive_agents.tools"
"""Entry points of installed packages: each names a tool, or a module with tools."""
_REGISTERING = {"register_criterion", "register_judge"}
"""Names of a module that is there for what it registers, and may have no tool."""

_log = logging.getLogger(__name__)


def workspace_tools(workspace: Workspace, *, log: bool = True) -> ToolRegistry:
    """Return the bundled tools, those of packages, and the workspace's own whose setting, files, imports are trusted.

    What isn't trusted or can't be loaded is in the registry's `missing`, and logged as a warning with `log`. So is the
    second of two tools of one name: the bundled ones come first, then those of the settings, of packages and of
    servers.
    """
    registry = bundled_tools(workspace)
    workspace = workspace.stands_for or workspace
    settings = workspace.settings
    if not (settings.tools.python or settings.mcp.servers or _entry_points(tuple(sys.path))):
        return registry
    with recorded_code(workspace):
        loaded = [found for load in (_from_settings, _from_packages, server_tools) for found in load(workspace)]
    inert: dict[str, list[str]] = {}
    for found in loaded:
        if isinstance(found, Diagnostic):
            registry.missing.append(found)
        elif isinstance(found, Inert):
            inert.setdefault(found.untrusted, []).extend(found.tools)
        elif isinstance(found, _Named):
            registry.code[found.name] = found.code
        elif found.name in registry.all_names:
            registry.missing.append(
                _fault(f'there are two tools "{found.name}": one is left out', "give one of them another name")
            )
        else:
            registry.register(found)
    for untrusted, names in inert.items():
        registry.leave_out(untrusted, names)
    if log:
        for missing in registry.missing:
            _warn(missing)
    return registry


@lru_cache(maxsize=1_000)
def _warn(diagnostic: Diagnostic) -> None:
    """Log a warning once a process: a host loads the tools with every run."""
    _log.warning("%s: %s", diagnostic.code, diagnostic.message)


def _from_settings(workspace: Workspace) -> Iterator[Tool | _Named | Diagnostic | Inert]:
    trusted = is_trusted(workspace, "tools.python")
    for pattern in workspace.settings.tools.python:
        if not pattern.endswith(".py"):
            if not trusted:
                yield Inert("hive.toml: tools.python", [])
                continue
            yield from _loaded(pattern, lambda name=pattern: import_module(name))  # type: ignore[misc]
            continue
        paths = [path for path in sorted(workspace.root.glob(pattern)) if path.resolve().is_relative_to(workspace.root)]
        if not paths:
            fix = "write tools/*.py, relative to the workspace, or the name of a module"
            yield _fault(f'no file of the workspace matches "{pattern}"', fix)
        for path in paths:
            untrusted = untrusted_files(workspace, path) if trusted else ["hive.toml: tools.python"]
            if untrusted:
                yield Inert(untrusted[0], _names_in(path))
                continue
            yield from _loaded(
                workspace.relative(path),
                lambda path=path: _module(path, trusted_bytes(workspace, path)),  # type: ignore[misc]
            )


def _from_packages(_: Workspace) -> Iterator[Tool | _Named | Diagnostic]:
    for point in _entry_points(tuple(sys.path)):
        yield from _loaded(f"{point.name} ({point.value})", point.load)


@lru_cache(maxsize=4)
def _entry_points(path: tuple[str, ...]) -> list[EntryPoint]:  # noqa: ARG001
    """Return the entry points of the packages on `path` by name; cached, for scanning the packages is slow."""
    return sorted(entry_points(group=GROUP), key=lambda point: point.name)


def code_at(reference: str) -> TypedCode[Any, Any]:
    """Return the flow or agent at "MODULE:NAME", whose module is looked for in the current folder, too.

    Whoever names it lets it run, as with `python -m`. Raises: HIVE-409 (exit code 2) where there is none.
    """
    module, _, name = reference.partition(":")
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    try:
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        fix = "write MODULE:NAME, as in `hive run desk:desk`, in the folder of desk.py"
        raise HiveError.of("HIVE-409", f"there is no {reference}: {error}", fix=fix, exit_code=2) from None
    if not isinstance(found, TypedCode):
        fix = "mark an async function with @hive_agents.flow, or name an Agent"
        raise HiveError.of("HIVE-409", f"{reference} is neither a flow nor an agent", fix=fix, exit_code=2)
    return found


class _Named(NamedTuple):
    """What a node may be: a flow, an agent in code, or a compiled graph of LangGraph."""

    name: str
    code: Any


def _loaded(shown: str, load: Callable[[], Any]) -> list[Tool | _Named | Diagnostic]:
    """Return the tools and the code in what `load` returns, or why there are none; the loaded code may raise
    anything."""
    try:
        loaded = load()
        tools: list[Tool | _Named | Diagnostic] = list(_tools_in(loaded))
    except HiveError as error:
        return [_fault(f"{shown}: {error.diagnostics[0].message}", error.diagnostics[0].fix or "mend the tool")]
    except (Exception, SystemExit) as error:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.endswith(shown)]
        where = f" (line {frames[-1].lineno})" if frames else ""
        return [_fault(f"{shown} can't be loaded{where}: {type(error).__name__}: {error}", "mend it")]
    if not tools and not _REGISTERING & getattr(loaded, "__dict__", {}).keys():
        return [_fault(f"there is no tool in {shown}", "mark its functions with @hive_agents.tool")]
    return tools


def _names_in(path: Path) -> list[str]:
    """Return the names of the tools that a file seems to have, which isn't run."""
    try:
        found = ast.parse(read_bytes(path)).body
    except (OSError, HiveError, ValueError, SyntaxError, RecursionError, MemoryError):
        return []
    return [name for one in found if (name := _marked_name(one)) is not None]


def _marked_name(node: ast.stmt) -> str | None:
    """Return the name that a function gets by a decorator called `tool`."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return None
    for mark in node.decorator_list:
        called = mark.func if isinstance(mark, ast.Call) else mark
        if (called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")) == "tool":
            options = mark.keywords if isinstance(mark, ast.Call) else []
            given = [one.value.value for one in options if one.arg == "name" and isinstance(one.value, ast.Constant)]
            return str(given[0]) if given else node.name
    return None


def _tools_in(loaded: Any) -> Iterator[Tool | _Named]:
    for name, value in vars(loaded).items() if isinstance(loaded, ModuleType) else [("", loaded)]:
        if isinstance(value, Tool):
            yield value
        elif isinstance(value, TypedCode):
            yield _Named(value.name, value)
        elif not isinstance(value, type) and hasattr(value, "ainvoke") and hasattr(value, "args_schema"):
            yield make_tool(value, side_effect="external")  # LangChain's tools don't declare their effects
        elif not isinstance(value, type) and hasattr(value, "ainvoke") and hasattr(value, "builder"):
            yield _Named(name or value.name, value)


@lru_cache(maxsize=256)
def _module(path: Path, source: bytes) -> ModuleType:
    """Return the module of a file, executed once for each content of it."""
    name = f"hive_tools_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}_{path.stem}"
    spec = spec_from_loader(name, loader=None, origin=str(path))
    assert spec is not None
    module = module_from_spec(spec)
    module.__file__ = str(path)
    sys.modules[name] = module  # dataclasses and pickle look it up there
    try:
        exec(compile(source, str(path), "exec"), vars(module))
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _fault(message: str, fix: str) -> Diagnostic:
    return Diagnostic("HIVE-432", message, "hive.toml", "tools.python", fix)
