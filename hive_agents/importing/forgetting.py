"""`hive import --forget`: a source is looked at no more, and its documents are one's own, or go with it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hive_agents.errors import HiveError, closest
from hive_agents.importing.importing import absolute, place_below
from hive_agents.importing.records import Records, RememberedSource
from hive_agents.importing.report import ImportReport
from hive_agents.importing.sources import split_pattern
from hive_agents.importing.syncing import Sync
from hive_agents.store import connected
from hive_agents.workspace import Workspace


@dataclass
class ForgetReport:
    """The sources that are forgotten, and what became of their documents, by doc_id: `deleted`, or `stay` as one's own.

    >>> ForgetReport(forgotten=["/srv/handbook"], stay=["leave.md"]).deleted
    []
    """

    forgotten: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    stay: list[str] = field(default_factory=list)


def forget_sources(
    workspace: Workspace, given: Sequence[str], *, to: str | None = None, delete: bool = False
) -> ForgetReport:
    """Forget remembered sources, wherever their documents are unless `to` says where; they may be gone.

    The documents stay, as one's own; with `delete` those go that nobody edited.

    Raises: HIVE-409 where one isn't remembered, before any is forgotten; 402.
    """
    place = None if to is None else place_below(workspace, to)
    report = ForgetReport()
    with workspace.exclusive("importing"), connected(workspace.database) as connection:
        records = Records(connection)
        remembered = records.sources()
        meant = {one.number: one for text in given for one in _meant(text, place, remembered)}
        for source in meant.values():
            deleted = ImportReport()
            sync = Sync(workspace, connection, source, deleted)
            sync.settle()
            if delete:
                sync.delete(sync.everything())
            report.deleted += deleted.deleted
            report.stay += sync.there()
            records.forget(source)
            report.forgotten.append(source.shown)
    return report


def _meant(text: str, place: str | None, remembered: Sequence[RememberedSource]) -> list[RememberedSource]:
    path, pattern = split_pattern(os.path.expanduser(text))
    key = absolute(path), pattern
    found = [one for one in remembered if (one.path, one.pattern) == key and place in (None, one.place)]
    if not found:
        known = sorted({one.shown for one in remembered})
        guess = closest(str(Path(text).absolute()), known)
        listed = f"remembered: {', '.join(known)}" if known else "no source is remembered"
        fix = f"did you mean {guess}?" if guess else listed
        where = f" at documents/{place}" if place else ""
        raise HiveError.of("HIVE-409", f"no source {text} is remembered{where}", fix=fix)
    return found
