"""`hive import`: selects sources and syncs them in turn."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from hive_agents.base import HiveError
from hive_agents.documents import follow_moves
from hive_agents.readers import ImportFailure, registry
from hive_agents.store import connected
from hive_agents.sync.records import Records, RememberedSource
from hive_agents.sync.report import ImportReport, Skipped
from hive_agents.sync.sources import below_one_another, commit_of, list_files, split_pattern
from hive_agents.sync.syncing import Sync, SyncProgress
from hive_agents.workspace import Workspace

POLL_SECONDS = 1.0
MayDelete = Callable[[Sequence[str], bool], bool]
"""Called with the documents whose files are gone, and whether these are all documents of a lost source."""


@dataclass(frozen=True)
class _Wanted:
    path: Path
    pattern: str
    place: str
    only: PurePosixPath | None = None


def import_documents(
    workspace: Workspace,
    given: str | Path | Sequence[str | Path] = (),
    *,
    to: str | None = None,
    rev: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    brings: Set[str] | None = None,
    theirs: bool = False,
    may_delete: MayDelete = lambda doc_ids, everything: False,
    progress: SyncProgress | None = None,
    tell: Callable[[Skipped], None] = lambda skipped: None,
    require: Callable[[], object] = lambda: None,
) -> ImportReport:
    """Update `documents/` from files, folders, patterns or a revision; by default from all remembered sources.

    `to` is a folder below `documents/`; without it a remembered source keeps its place. `metadata` is remembered, and
    overrides the fields of each document's front matter. `brings` are the settings of readers, remembered as well.
    `tell` is called with each skipped file at once, `require` before anything is written.

    Raises: HIVE-409 for a missing source, an unknown setting, or a place outside `documents/`; 402, 403.

    >>> from tempfile import mkdtemp
    >>> from hive_agents.cli.sample import init_workspace
    >>> folder = Path(mkdtemp())
    >>> _ = (folder / "lamp.md").write_text("# The lamp\\n\\nTurn it off before you open it.\\n")
    >>> workspace = Workspace(init_workspace(folder / "kb"))
    >>> import_documents(workspace, folder / "lamp.md", to="lab").added
    ['lab/lamp.md']
    """
    if unknown := sorted((brings or frozenset()) - registry.SETTINGS):
        fix = f"name some of {', '.join(sorted(registry.SETTINGS))}, or nothing"
        raise HiveError.of("HIVE-409", f"{unknown[0]} is none of what readers leave out", fix=fix, exit_code=2)
    sources = [str(source) for source in ([given] if isinstance(given, str | Path) else given)]
    report = ImportReport(tell=tell)
    with workspace.exclusive("importing"), connected(workspace.database) as connection:
        require()
        workspace.documents.mkdir(exist_ok=True)
        records = Records(connection)
        remembered = records.sources()
        wanted = list(_wanted(workspace, sources, to, remembered, rev) if sources else map(_again, remembered))
        if not wanted:
            fix = "name files, folders or patterns: hive import PATH…"
            raise HiveError.of("HIVE-409", "no source is remembered yet", fix=fix)
        for request in wanted:
            before = _same(remembered, request)
            source = records.remember(
                request.path,
                request.pattern,
                request.place,
                rev if rev is not None else (before.rev if before else None),
                _non_empty({**(before.metadata if before else {}), **(metadata or {})}),
                brings if brings is not None else before.brings if before else frozenset(),
            )
            sync = Sync(workspace, connection, source, report, theirs=theirs, progress=progress)
            _sync(records, source, sync, report, request.only, may_delete)
        _follow_between_sources(workspace, report)
    return report


def _follow_between_sources(workspace: Workspace, report: ImportReport) -> None:
    """Let labels follow files that moved from one source to another, whose documents are as its settings say."""
    added, deleted = report.added_contents, report.deleted_contents
    moves = {deleted[content]: added[content] for content in added.keys() & deleted.keys()}
    moves = {old: new for old, new in moves.items() if old != new}
    if moves:
        report.add_labels(follow_moves(workspace, moves, grants=False))


def _non_empty(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that have a value; an empty one removes a remembered field."""
    return {name: value for name, value in metadata.items() if value not in (None, "", [])}


def _sync(
    records: Records,
    source: RememberedSource,
    sync: Sync,
    report: ImportReport,
    only: PurePosixPath | None,
    may_delete: MayDelete,
) -> None:
    """Sync one source; documents whose files are gone are deleted only if `may_delete` allows it."""
    lost = None
    try:
        gone = sync.run(only)
    except ImportFailure as failure:
        gone = sync.everything()
        lost = str(failure)
        if source.rev is not None or not gone:
            report.skip(source.shown, lost)
            if not records.of(source):
                records.forget(source)
            return
    doc_ids = [record.doc_id for record in gone if record.doc_id is not None]
    if doc_ids and may_delete(doc_ids, lost is not None and len(doc_ids) > 1):
        sync.delete(gone)
        if lost is not None:
            records.forget(source)
        return
    report.gone += doc_ids
    if lost is not None:
        report.skip(source.shown, lost)


def _wanted(
    workspace: Workspace,
    references: Sequence[str],
    to: str | None,
    remembered: Sequence[RememberedSource],
    rev: str | None,
) -> Iterator[_Wanted]:
    place = None if to is None else place_below(workspace, to)
    paths, patterns = [], []
    for text in references:
        path, pattern = split_pattern(os.path.expanduser(text))
        if rev is None and not path.exists() and not any(source.path == absolute(path) for source in remembered):
            raise HiveError.of("HIVE-409", f"there is no {path}", fix="name a file, a folder or a glob")
        if pattern:
            try:
                listing = list_files(path, pattern)
            except ImportFailure as failure:
                fix = "name a folder, or files"
                raise HiveError.of("HIVE-409", f"{path} {failure}", fix=fix, exit_code=2) from None
            if not listing.found and not listing.refused:
                raise HiveError.of("HIVE-409", f"there is no {text}", fix="name a file, a folder or a glob")
            patterns.append((path, pattern))
        else:
            paths.append(path)
    for path, pattern in patterns:
        yield from _placed(absolute(path), pattern, place, "", remembered)
    paths = list(below_one_another(paths))
    files = [absolute(path) for path in paths if not path.is_dir() and (path.exists() or path.suffix)]
    common = Path(os.path.commonpath([file.parent for file in files])) if files else Path()
    for path in map(absolute, paths):
        below = (
            path.parent.relative_to(common).as_posix() if path in files else path.name if len(references) > 1 else ""
        )
        yield from _placed(path, "", place, "" if below == "." else below, remembered)


def _placed(
    path: Path, pattern: str, place: str | None, below: str, remembered: Sequence[RememberedSource]
) -> Iterator[_Wanted]:
    """Yield the remembered sources of a path, else the nearest one around it, else a new one."""
    same = [source for source in remembered if (source.path, source.pattern) == (path, pattern)]
    if place is not None:
        same = [source for source in same if source.place == _joined(place, below)]
    if same:
        yield from map(_again, same)
        return
    around = [
        source
        for source in remembered
        if not (pattern or source.pattern) and source.path in path.parents and (place is None or source.place == place)
    ]
    if around:
        nearest = max(around, key=lambda source: len(source.path.parts))
        yield _Wanted(nearest.path, "", nearest.place, PurePosixPath(path.relative_to(nearest.path).as_posix()))
        return
    yield _Wanted(path, pattern, _joined(place or "", _folded(below)))


def _folded(below: str) -> str:
    return "/".join(part.strip(".") or "unnamed" for part in PurePosixPath(below).parts)


def _joined(place: str, below: str) -> str:
    joined = PurePosixPath(place, below).as_posix()
    return "" if joined == "." else joined


def _again(source: RememberedSource) -> _Wanted:
    return _Wanted(source.path, source.pattern, source.place)


def _same(remembered: Sequence[RememberedSource], wanted: _Wanted) -> RememberedSource | None:
    key = (wanted.path, wanted.pattern, wanted.place)
    return next((source for source in remembered if (source.path, source.pattern, source.place) == key), None)


def absolute(path: Path) -> Path:
    """Return the absolute path by which a source is remembered; links aren't resolved."""
    return Path(os.path.abspath(path))


def place_below(workspace: Workspace, to: str) -> str:
    """Return the folder below `documents/` that `--to` names. Raises: HIVE-409 where it is outside."""
    fix = "name a folder below documents/ with --to, such as documents/mine"
    if to.startswith(("/", "~")):
        raise HiveError.of("HIVE-409", f"--to {to} is not below documents/", fix=fix)
    below = to.removeprefix("./").removeprefix("documents").strip("/")
    root = workspace.documents.resolve()
    if not (workspace.documents / below).resolve().is_relative_to(root) or any(
        part.startswith(".") for part in PurePosixPath(below).parts
    ):
        raise HiveError.of("HIVE-409", f"{to} is outside the documents folder", fix=fix)
    return PurePosixPath(below).as_posix() if below else ""


def changes(workspace: Workspace) -> Iterator[None]:
    """Yield, without end, after each change of a remembered source on disk, once changes have stopped."""
    seen = _state(workspace)
    while True:
        time.sleep(POLL_SECONDS)
        now = _state(workspace)
        if now == seen:
            continue
        while (later := _state_after_pause(workspace)) != now:  # an editor or a checkout is still writing
            now = later
        seen = now
        yield


def _state_after_pause(workspace: Workspace) -> dict[str, object]:
    time.sleep(POLL_SECONDS / 2)
    return _state(workspace)


def _state(workspace: Workspace) -> dict[str, object]:
    """Return size and mtime of each file of the remembered sources, and the commit of each revision."""
    with connected(workspace.database) as connection:
        sources = Records(connection).sources()
    state: dict[str, object] = {}
    for source in sources:
        try:
            if source.rev is not None:
                state[source.shown] = commit_of(source.path, source.rev)
                continue
            files = list_files(source.path, source.pattern).found
        except ImportFailure as failure:
            state[source.shown] = str(failure)
            continue
        for file in files:
            with suppress(OSError):
                status = os.stat(file.shown)
                state[file.shown] = (status.st_size, status.st_mtime_ns)
    return state
