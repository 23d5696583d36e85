"""A run of a source: look at what it holds, fetch what changed, sync it with the documents.

What was fetched is kept below `.hive/sources/`, each item in a file, before it counts as fetched: a run that is killed
or cut goes on where it ended. Only a listing that was read to its end says what is gone.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from hive_agents.base import Diagnostic, HiveError
from hive_agents.base.files import locked
from hive_agents.readers import MAX_BYTES, ImportFailure, kind_of, read
from hive_agents.sources.contract import (
    NOBODY,
    Denied,
    MissedItem,
    OpenedSource,
    SeenItems,
    SourceFailure,
    SourceItem,
    failure_of,
)
from hive_agents.sources.groups import known_groups, write_groups
from hive_agents.sources.kinds import opened, source_settings
from hive_agents.sources.state import ItemState, SourceStates, pause_after
from hive_agents.store import connected
from hive_agents.sync import NAMED, ImportReport, Listing, Records, SourceFile, importing, syncing
from hive_agents.workspace import Workspace, is_trusted
from hive_agents.workspace.settings import SourceSettings

ASK_FROM = 0.2
"""Share of a source's documents above which somebody is asked before they are deleted, if they are more than one."""
MOST_ITEMS = 1_000_000
"""Items of a source: a listing without an end is none."""
T = TypeVar("T")
_UNSUPPORTED = "of kinds that aren't supported"


@dataclass
class SourceReport:
    """What a run did. `status` is "done", "partial" where something couldn't be read, "failed" where nothing could.

    `failed` has why each item couldn't be read, and how often it was tried.
    """

    name: str
    status: str = "done"
    message: str | None = None
    documents: ImportReport = field(default_factory=ImportReport)
    failed: list[dict[str, Any]] = field(default_factory=list)

    @property
    def counts(self) -> dict[str, int]:
        documents = self.documents
        lists = ("added", "changed", "renamed", "deleted", "gone", "conflicts", "skipped")
        counts = {name: len(getattr(documents, name)) for name in lists}
        counts["labels"] = sum(documents.labels.values())
        return counts | {"unchanged": documents.unchanged, "failed": len(self.failed)}

    @property
    def fault(self) -> Diagnostic | None:
        """The diagnostic of a source that can't be read."""
        if self.status != "failed":
            return None
        fix = f"see `hive sources log {self.name}`; what was fetched stays, and the next run goes on"
        return Diagnostic("HIVE-437", f"the source {self.name} can't be read: {self.message}", fix=fix)


def run_source(
    workspace: Workspace,
    name: str,
    *,
    again: bool = True,
    may_delete: importing.MayDelete = lambda doc_ids, everything: False,
    progress: syncing.SyncProgress = lambda step, done, total: None,
) -> SourceReport:
    """Fetch what changed in a source of the settings and bring its documents up to date.

    With `again` items that failed are tried at once, without it when they are due. Documents that are gone are deleted
    where they are few, and otherwise if `may_delete` allows it. A source that can't be read is a report, too.

    Raises: HIVE-409 for an unknown source, HIVE-431 for one that isn't trusted; HIVE-402 while it runs; HIVE-403, 411,
    421.
    """
    settings = source_settings(workspace, name)
    folder = workspace.state_folder("sources") / name
    with locked(folder / "run.lock", f"running the source {name}", 0.0), connected(workspace.database) as connection:
        states = SourceStates(connection, name, folder)
        report = SourceReport(name)
        number = states.begin()
        try:
            _SourceRun(workspace, settings, states, report, progress, again=again).run(may_delete)
        except BaseException as error:
            report.status = "failed" if isinstance(error, HiveError) else "interrupted"
            report.message = error.diagnostics[0].message if isinstance(error, HiveError) else type(error).__name__
            raise
        finally:
            states.end(number, report.status, report.counts, report.message)
    return report


class _SourceRun:
    def __init__(
        self,
        workspace: Workspace,
        settings: SourceSettings,
        states: SourceStates,
        report: SourceReport,
        progress: syncing.SyncProgress,
        *,
        again: bool,
    ) -> None:
        self._workspace, self._settings, self._states = workspace, settings, states
        self._report, self._progress, self._again = report, progress, again
        self._items = states.items()
        self._found: dict[str, SourceItem] = {}
        self._missed: dict[str, MissedItem] = {}
        self._ignored: dict[str, int] = {}
        self._subjects: dict[str, list[str]] = {}
        self._held: set[str] = set()

    def run(self, may_delete: importing.MayDelete) -> None:
        lost, local = None, False
        try:
            with opened(self._workspace, self._report.name) as source:
                local = source.local
                try:
                    self._groups(source)
                    self._discover(source)
                except SourceFailure as failure:
                    lost = source.place.safe(failure)
        except SourceFailure as failure:
            lost = str(failure)
        # What seems gone may have moved to an item that couldn't be fetched yet.
        there = (self._items[key] for key in (*self._found, *self._missed) if key in self._items)
        moving = any(state.revision is None and not state.given_up for state in there)
        complete = lost is None and not moving and all(missed.alone for missed in self._missed.values())
        if not complete:
            self._report.status = "partial" if lost is None else "failed"
            self._report.message = lost or self._report.message
        gone = [key for key in self._items if complete and key not in self._found and not self._is_missed(key)]
        if lost is None or not local:  # a folder that isn't there says nothing of its files
            self._sync(set(gone), may_delete, complete=complete)
        self._states.drop(gone)
        for key, state in self._items.items():
            if state.failure is not None and key not in gone:
                why = {"key": key, "message": state.failure, "attempts": state.attempts, "given_up": state.given_up}
                self._report.failed.append(why)
        if self._report.failed and self._report.status == "done":
            self._report.status = "partial"

    def _groups(self, source: OpenedSource) -> None:
        """Sync who is in the source's groups; where it can't tell now, that stays as it was."""
        name = self._report.name
        try:
            _asked(write_groups, source)
        except SourceFailure as failure:
            self._report.status, self._report.message = "partial", source.place.safe(failure)
        self._subjects = {**known_groups(self._workspace, name), **source.options.subjects}

    def _discover(self, source: OpenedSource) -> None:
        states = self._states
        seen = SeenItems(
            {key: state.revision for key, state in self._items.items() if state.revision is not None}, states.content
        )
        listed = iter(_asked(source.discover, seen))
        for number, item in enumerate(iter(partial(_asked, next, listed, None), None)):
            if number >= MOST_ITEMS:
                raise SourceFailure(f"it lists more than {MOST_ITEMS:,} items")
            self._progress("fetching", number, number + 1)
            if isinstance(item, MissedItem):
                self._miss(item, source)
            elif item.file is None and kind_of(PurePosixPath(item.key).name) is None:
                self._ignored[_UNSUPPORTED] = self._ignored.get(_UNSUPPORTED, 0) + 1
            elif item.key in self._found:
                again = MissedItem(f"{item.key} (2)", "another item of the source has this name", alone=True)
                self._miss(again, source)
            else:
                self._found[item.key] = item
                if item.file is None:
                    self._fetch(source, item)
        for why, count in source.ignored.items():
            self._ignored[why] = self._ignored.get(why, 0) + count

    def _is_missed(self, key: str) -> bool:
        path = PurePosixPath(key)
        return any(str(each) in self._missed for each in (path, *path.parents))

    def _miss(self, missed: MissedItem, source: OpenedSource) -> None:
        self._missed[missed.key] = missed
        if source.local:
            return  # the sync reports it
        state = self._items.setdefault(missed.key, ItemState())
        if missed.denied:
            state.access = NOBODY
            below = [key for key in self._items if PurePosixPath(missed.key) in PurePosixPath(key).parents]
            for key in below:
                self._items[key].access = NOBODY
                self._states.put(key, self._items[key])
        self._states.failed(missed.key, state, source.place.safe(missed.why))

    def _fetch(self, source: OpenedSource, item: SourceItem) -> None:
        state = self._items.setdefault(item.key, ItemState())
        if state.failure is None and item.revision and state.revision == item.revision:
            if state.access != item.access:
                state.access = item.access
                self._states.put(item.key, state)
            return
        if state.failure is not None and not self._again and (state.given_up or (state.retry_at or 0) > time.time()):
            return
        try:
            _require_size(item.size)
            content = item.content if item.content is not None else _asked(source.fetch, item)
            _require_size(len(content))  # a server may have said another one
        except SourceFailure as failure:
            # Who may read it now is known, unless the source doesn't tell its reader any more.
            state.access = NOBODY if isinstance(failure, Denied) else item.access
            self._states.failed(item.key, state, source.place.safe(failure))
            return
        if state.access != item.access and state.revision is not None:
            # Were this the end, neither the old readers may get the new content, nor the new ones the old.
            state.access = NOBODY
            self._states.put(item.key, state)
        self._states.keep(item.key, content)
        self._items[item.key] = state = ItemState(item.revision, item.access)
        self._states.put(item.key, state)

    def _listing(self, gone: set[str]) -> Listing:
        """Return the files of the sync: all that was ever fetched and isn't gone."""
        found, refused, labels = [], dict[str, str](), {}
        name = self._report.name
        for key, item in self._found.items():
            if item.file is not None:
                found.append(item.file)
                if item.access is not None:
                    labels[key] = {"view": item.access.labels(self._subjects)}
        for key, state in self._items.items():
            if key in gone or key in self._held:
                continue
            path = self._states.path(key)
            if state.revision is None:
                refused[key] = state.failure or "it was not fetched yet"
                continue
            found.append(SourceFile(PurePosixPath(key), f"{name}: {key}", partial(read, path), path=path))
            if state.access is not None:
                labels[key] = {"view": state.access.labels(self._subjects)}
        # Also of what this disk holds and denies, of which nothing else is known here.
        labels |= {key: {"view": []} for key, missed in self._missed.items() if missed.denied}
        refused |= {key: missed.why for key, missed in self._missed.items() if key not in self._items}
        return Listing(sorted(found, key=lambda each: each.file), refused, self._ignored, labels)

    def _hold_moved(self, hashes: Mapping[str, str]) -> None:
        """Leave out new items that say what an unseen one says until it is known whether that one is gone.

        They would be other documents, and what is known of the one that moved would go with it.
        """
        unseen = {content for key, content in hashes.items() if key not in self._found}
        for key in self._found.keys() & self._items.keys() - hashes.keys():
            if hashlib.sha256(self._states.content(key) or b"").hexdigest() in unseen:
                self._held.add(key)

    def _sync(self, gone: set[str], may_delete: importing.MayDelete, *, complete: bool) -> None:
        settings, name = self._settings, self._report.name
        place = importing.place_below(self._workspace, settings.to or f"documents/{name}")
        labels = {"tenant": [settings.tenant] if settings.tenant else [], "view": settings.view or _owner(settings)}
        with self._workspace.exclusive("importing"), connected(self._workspace.database) as connection:
            self._workspace.documents.mkdir(exist_ok=True)
            records = Records(connection)
            before = records.source_named(name)
            if before is not None and before.place != place:
                fix = f'set to = "documents/{before.place}" again, or give it another name'
                message = f"the documents of the source {name} are in documents/{before.place}"
                raise HiveError.of("HIVE-409", message, file="hive.toml", path=f"sources.{name}.to", fix=fix)
            source = before or records.remember(_path(name), "", place, None, labels)
            if source.metadata != labels:
                source = records.remember(_path(name), "", place, None, labels)
            sync = syncing.Sync(
                self._workspace,
                connection,
                source,
                self._report.documents,
                progress=self._progress,
                listed=lambda: self._listing(gone),
            )
            known = records.count(source)
            if not complete:
                self._hold_moved(records.hashes(source))
            try:
                leaving, everything = sync.run(), False
            except ImportFailure:  # nothing is there any more
                leaving, everything = sync.everything(), True
            doc_ids = [record.doc_id for record in leaving if record.doc_id is not None]
            few = len(doc_ids) <= max(1.0, ASK_FROM * known) and not everything
            if complete and doc_ids and (few or may_delete(doc_ids, everything)):
                sync.delete(leaving)
            else:
                self._report.documents.gone += doc_ids


def _asked(ask: Callable[..., T], *arguments: Any) -> T:
    """Return what a source says. Raises: HiveError; SourceFailure for whatever else its library raises."""
    try:
        return ask(*arguments)
    except HiveError:
        raise
    except Exception as error:
        raise failure_of(error) from None


def _require_size(size: int) -> None:
    if size > MAX_BYTES:
        raise SourceFailure(f"larger than {MAX_BYTES // 1_000_000} MB; split it")


def _owner(settings: SourceSettings) -> list[str]:
    return [settings.owner] if settings.owner else []


def _path(name: str) -> Path:
    return Path(NAMED + name)


def due_sources(workspace: Workspace, now: dt.datetime) -> list[str]:
    """Return the trusted sources that somebody asked to run, or whose schedule does: neither paused, nor failing too
    often."""
    due = []
    for name, settings in workspace.settings.sources.items():
        if is_trusted(workspace, f"sources.{name}"):
            next_at = next_run(workspace, name, settings, now)
            if is_asked(workspace, name) or (next_at is not None and next_at <= now):
                due.append(name)
    return due


def is_asked(workspace: Workspace, name: str) -> bool:
    """Return whether somebody asked for a run that has not begun yet."""
    if not workspace.database.exists():
        return False
    with connected(workspace.database) as connection:
        return SourceStates(connection, name, workspace.state / "sources" / name).asked


def next_run(workspace: Workspace, name: str, settings: SourceSettings, now: dt.datetime) -> dt.datetime | None:
    """Return when a source runs next, None where it has no schedule or is paused."""
    from cronsim import CronSim

    if not settings.schedule or not workspace.database.exists():
        return now if settings.schedule else None
    with connected(workspace.database) as connection:
        states = SourceStates(connection, name, workspace.state / "sources" / name)
        if states.paused:
            return None
        runs = states.runs()
    if not runs:
        return now
    tick: dt.datetime = next(CronSim(settings.schedule, _time(runs[0]["started_at"])))
    failures = next((n for n, run in enumerate(runs) if run["status"] not in ("failed", "interrupted")), len(runs))
    if failures:  # a source that fails again and again is asked less and less
        tick = max(tick, _time(runs[0]["started_at"]) + dt.timedelta(seconds=pause_after(failures)))
    return tick


def _time(text: str) -> dt.datetime:
    moment = dt.datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
