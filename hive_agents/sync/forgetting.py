"""`hive import --forget`: sources are no longer synced; their documents stay or are deleted."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hive_agents.base import HiveError, closest
from hive_agents.store import connected
from hive_agents.sync.importing import absolute, place_below
from hive_agents.sync.records import Records, RememberedSource
from hive_agents.sync.report import ImportReport
from hive_agents.sync.sources import split_pattern
from hive_agents.sync.syncing import Sync
from hive_agents.workspace import Workspace


@dataclass
class ForgetReport:
    """The forgotten sources, and their documents by doc_id: `deleted`, or `stay`, no longer tied to a source.

    >>> ForgetReport(forgotten=["/srv/handbook"], stay=["leave.md"]).deleted
    []
    """

    forgotten: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    stay: list[str] = field(default_factory=list)


def forget_sources(
    workspace: Workspace,
    given: Sequence[str],
    *,
    to: str | None = None,
    delete: bool = False,
    require: Callable[[], object] = lambda: None,
) -> ForgetReport:
    """Forget remembered sources, only those at `to` if given; their files may no longer exist.

    Their documents stay; with `delete` unedited ones are deleted. `require` is called before anything is written.

    Raises: HIVE-409 where one isn't remembered, before any is forgotten; 402.
    """
    place = None if to is None else place_below(workspace, to)
    report = ForgetReport()
    with workspace.exclusive("importing"), connected(workspace.database) as connection:
        require()
        records = Records(connection)
        remembered = records.sources()
        matching = {source.number: source for text in given for source in _matching(text, place, remembered)}
        for source in matching.values():
            changes = ImportReport()
            sync = Sync(workspace, connection, source, changes)
            sync.settle()
            if delete:
                sync.delete(sync.everything())
            report.deleted += changes.deleted
            report.stay += sync.there()
            records.forget(source)
            report.forgotten.append(source.shown)
    return report


def _matching(text: str, place: str | None, remembered: Sequence[RememberedSource]) -> list[RememberedSource]:
    path, pattern = split_pattern(os.path.expanduser(text))
    key = absolute(path), pattern
    matching = [
        source for source in remembered if (source.path, source.pattern) == key and place in (None, source.place)
    ]
    if not matching:
        names = sorted({source.shown for source in remembered})
        guess = closest(str(Path(text).absolute()), names)
        listed = f"remembered: {', '.join(names)}" if names else "no source is remembered"
        fix = f"did you mean {guess}?" if guess else listed
        where = f" at documents/{place}" if place else ""
        raise HiveError.of("HIVE-409", f"no source {text} is remembered{where}", fix=fix)
    return matching
