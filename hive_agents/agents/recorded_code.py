"""Imports of the workspace's own code: from source, as it was trusted, and of nothing that the record doesn't have.

Python would take an extension module or bytecode before the source that somebody read, and a module from any folder of
`sys.path`. What tools import from their workspace is looked up here first, while they are loaded and called.
"""

from __future__ import annotations

import site
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from hive_agents.errors import HiveError
from hive_agents.trust import trusted_bytes
from hive_agents.workspace import Workspace

_of: ContextVar[Workspace | None] = ContextVar("workspace whose tools are at work", default=None)


@contextmanager
def recorded_code(workspace: Workspace) -> Iterator[None]:
    """Within it, also in threads and tasks that begin in it, code of the workspace is imported as it was trusted."""
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    token = _of.set(workspace.stands_for or workspace)
    try:
        yield
    finally:
        _of.reset(token)


class _TrustedSource(SourceFileLoader):
    """Compiles the bytes that were compared with the record: no bytecode is read, and none is written."""

    def __init__(self, name: str, path: str, source: bytes) -> None:
        super().__init__(name, path)
        self._source = source

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self._source, self.path)


class _RecordFinder(MetaPathFinder):
    def __init__(self) -> None:
        self._own: set[str] = set()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        workspace, top = _of.get(), fullname.partition(".")[0]
        # A package that this process imported by itself, such as the program that has the workspace beside it, goes on.
        if workspace is None or (top in sys.modules and top not in self._own):
            return None
        found = _by_others(fullname, path, target)
        places = [found.origin, *(found.submodule_search_locations or ())] if found is not None else []
        if found is None or not any(_is_below(place, workspace.root) for place in places if place):
            return found
        self._own.add(top)
        if found.origin is None or not found.has_location:
            return found  # a folder without a file of its own
        return _as_recorded(workspace, found)


def _as_recorded(workspace: Workspace, found: ModuleSpec) -> ModuleSpec:
    path = Path(str(found.origin))
    try:
        source = trusted_bytes(workspace, path)
    except (HiveError, OSError) as error:
        told = error.diagnostics[0].message if isinstance(error, HiveError) else str(error)
        raise ImportError(told, name=found.name, path=str(path)) from None
    if path.suffix != ".py":
        return found
    inside = found.submodule_search_locations
    loader = _TrustedSource(found.name, str(path), source)
    made = spec_from_file_location(found.name, path, loader=loader, submodule_search_locations=inside)
    assert made is not None
    return made


def _by_others(fullname: str, path: Sequence[str] | None, target: ModuleType | None) -> ModuleSpec | None:
    for finder in sys.meta_path:
        find: Any = getattr(finder, "find_spec", None)
        found = find(fullname, path, target) if find is not None and finder is not _finder else None
        if found is not None:
            return found  # type: ignore[no-any-return]
    return None


def _is_below(place: str, root: Path) -> bool:
    """Return whether it is in the workspace, by its name or behind links, and in no environment of packages within
    it."""
    root = root.resolve()
    named = [Path(place).absolute(), Path(place).resolve()]
    if not any(path.is_relative_to(root) for path in named):
        return False
    installed = {Path(one).resolve() for one in (sys.prefix, sys.base_prefix, site.getusersitepackages())} - {root}
    environments = [one for one in installed if one.is_relative_to(root)]
    return not any(path.is_relative_to(one) for path in named for one in environments)


_finder = _RecordFinder()
