"""Imports of the workspace's code: from source as it was trusted, and of nothing that isn't in the record of trust.

Python would prefer an extension module or bytecode to the source that was reviewed, and search any folder of
`sys.path`. While tools are loaded and called, their imports from the workspace are resolved here first.
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

from hive_agents.base import HiveError
from hive_agents.workspace import Workspace, trusted_bytes

_of: ContextVar[Workspace | None] = ContextVar("workspace whose tools are running", default=None)


@contextmanager
def recorded_code(workspace: Workspace) -> Iterator[None]:
    """Import code of the workspace as it was trusted, also in threads and tasks that are started within."""
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    token = _of.set(workspace.stands_for or workspace)
    try:
        yield
    finally:
        _of.reset(token)


class _TrustedSource(SourceFileLoader):
    """Compiles the bytes that were compared with the record; bytecode is neither read nor written."""

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
        # A package that this process had imported before, such as the host program, is left alone.
        if workspace is None or (top in sys.modules and top not in self._own):
            return None
        spec = _by_others(fullname, path, target)
        locations = [spec.origin, *(spec.submodule_search_locations or ())] if spec is not None else []
        if spec is None or not any(_is_below(place, workspace.root) for place in locations if place):
            return spec
        self._own.add(top)
        if spec.origin is None or not spec.has_location:
            return spec  # a namespace package
        return _as_recorded(workspace, spec)


def _as_recorded(workspace: Workspace, spec: ModuleSpec) -> ModuleSpec:
    path = Path(str(spec.origin))
    try:
        source = trusted_bytes(workspace, path)
    except (HiveError, OSError) as error:
        reason = error.diagnostics[0].message if isinstance(error, HiveError) else str(error)
        raise ImportError(reason, name=spec.name, path=str(path)) from None
    if path.suffix != ".py":
        return spec
    locations = spec.submodule_search_locations
    loader = _TrustedSource(spec.name, str(path), source)
    recorded_spec = spec_from_file_location(spec.name, path, loader=loader, submodule_search_locations=locations)
    assert recorded_spec is not None
    return recorded_spec


def _by_others(fullname: str, path: Sequence[str] | None, target: ModuleType | None) -> ModuleSpec | None:
    for finder in sys.meta_path:
        find: Any = getattr(finder, "find_spec", None)
        spec = find(fullname, path, target) if find is not None and finder is not _finder else None
        if spec is not None:
            return spec  # type: ignore[no-any-return]
    return None


def _is_below(place: str, root: Path) -> bool:
    """Return whether a path, or what it links to, is in the workspace and in no virtual environment within it."""
    root = root.resolve()
    paths = [Path(place).absolute(), Path(place).resolve()]
    if not any(path.is_relative_to(root) for path in paths):
        return False
    prefixes = {Path(prefix).resolve() for prefix in (sys.prefix, sys.base_prefix, site.getusersitepackages())} - {root}
    environments = [prefix for prefix in prefixes if prefix.is_relative_to(root)]
    return not any(path.is_relative_to(environment) for path in paths for environment in environments)


_finder = _RecordFinder()
