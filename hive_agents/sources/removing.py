"""`hive sources remove`: a source's documents, what is known of it, its entry in hive.toml and its trust."""

from __future__ import annotations

import re
import shutil
import tomllib
from contextlib import suppress

from hive_agents.base import HiveError
from hive_agents.base.files import atomic_write_text, locked, read_bytes
from hive_agents.sources.groups import groups_file
from hive_agents.sources.kinds import source_settings
from hive_agents.sources.state import SourceStates
from hive_agents.store import audit, connected
from hive_agents.sync import ImportReport, Records, forgetting, syncing
from hive_agents.workspace import Workspace, trust
from hive_agents.workspace.settings import FILE

_HEADER = re.compile(r"\s*\[\[?(?P<name>[^\]]+)\]\]?\s*(?:#.*)?")
_KEY = re.compile(r"""(?:"([^"]*)"|'([^']*)'|(?<![\w-])([\w-]+))\s*(?:\.|\Z)""")


def remove_source(workspace: Workspace, name: str, *, delete: bool, by: str) -> forgetting.ForgetReport:
    """Remove a source; its documents stay as the workspace's own, or with `delete` unedited ones are deleted.

    Killed, it is ended by the next call: the entry in hive.toml goes last.

    Raises: HIVE-409 for an unknown one, or an entry that has to be removed by hand, before anything else is; 402, 403.
    """
    source_settings(workspace, name)
    path = workspace.root / FILE
    text = _without(read_bytes(path).decode(), name)
    report, folder = forgetting.ForgetReport(forgotten=[name]), workspace.state_folder("sources") / name
    with locked(folder / "run.lock", f"running the source {name}", 0.0), connected(workspace.database) as connection:
        with workspace.exclusive("importing"):
            records = Records(connection)
            if (source := records.source_named(name)) is not None:
                changes = ImportReport()
                sync = syncing.Sync(workspace, connection, source, changes)
                sync.settle()
                if delete:
                    sync.delete(sync.everything())
                report.deleted, report.stay = changes.deleted, sync.there()
                records.forget(source)
        SourceStates(connection, name, folder).forget()
        groups_file(workspace, name).unlink(missing_ok=True)
        audit.append(workspace, "source_removed", name=name, by=by, deleted=report.deleted, stay=len(report.stay))
        shutil.rmtree(folder, ignore_errors=True)
        atomic_write_text(path, text)
    with suppress(HiveError):  # one that was never trusted
        trust(Workspace(workspace.root), [f"sources.{name}"])
    return report


def _without(text: str, name: str) -> str:
    """Return the settings without the tables of a source; comments before the next table stay.

    Raises: HIVE-409 where the entry is written otherwise.

    >>> _without('[sources.a]\\nurl = "x"\\n\\n# Limits\\n[gate]\\nalpha = 0.1\\n', "a")
    '\\n# Limits\\n[gate]\\nalpha = 0.1\\n'
    """
    kept: list[str] = []
    dropped: list[str] = []
    inside = False
    for line in text.splitlines(keepends=True):
        if header := _HEADER.fullmatch(line.rstrip("\r\n")):
            keys = [next(filter(None, key), "") for key in _KEY.findall(header["name"])]
            inside = keys[:2] == ["sources", name]
            following = len(dropped)
            while following and (not dropped[following - 1].strip() or dropped[following - 1].lstrip()[:1] == "#"):
                following -= 1
            kept, dropped = kept + dropped[following:], []
        (dropped if inside else kept).append(line)
    left, expected = "".join(kept), tomllib.loads(text)
    expected["sources"].pop(name)
    with suppress(tomllib.TOMLDecodeError):
        found = tomllib.loads(left)
        if found.get("sources", {}) == expected["sources"] and {**found, "sources": {}} == {**expected, "sources": {}}:
            return left
    fix = f"remove the source {name} from hive.toml by hand"
    raise HiveError.of("HIVE-409", f"the source {name} isn't a table [sources.{name}]", file=FILE, fix=fix)
