"""Which config serves: the text that was deployed, not the file it came from."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from hive_agents.errors import Diagnostic, HiveError
from hive_agents.files import atomic_write_text, disk_errors
from hive_agents.retrieval.active_link import LINK, active_target, point_active
from hive_agents.retrieval.config import StoredConfig, config_hash, parse_config, read_config
from hive_agents.store import audit, connected, transaction
from hive_agents.workspace import Workspace

DEPLOYMENT = "deployment"
"""The kind of an audit entry that holds a deployment, text and all."""


@dataclass(frozen=True)
class Version:
    """One deployment, as `config_versions` keeps it; `previous` is the version that a rollback goes back to."""

    id: int
    name: str
    file: str
    text: str
    config_hash: str
    at: str
    by: str
    authn: str
    decision: str
    via: str
    reason: str | None
    evaluation: dict[str, Any] | None
    previous: int | None

    @property
    def stored(self) -> StoredConfig:
        return parse_config(self.text, self.file)


_LOGGED_AS = {"id": "version", "name": "config", "previous": "previous_version"}
_COLUMNS = {field.name: _LOGGED_AS.get(field.name, field.name) for field in fields(Version)}
"""The columns of `config_versions`, and what the audit log calls them."""


@dataclass(frozen=True)
class ActiveConfig:
    """`version` is None where nothing was ever deployed here and `active.json` is honoured as the baseline."""

    stored: StoredConfig
    version: Version | None
    warnings: tuple[Diagnostic, ...] = ()


def versions(workspace: Workspace) -> list[Version]:
    """Every deployment, newest first.

    The audit log is the authority: what the database lost, or tells otherwise, is restored from it, and rows that it
    doesn't know are no deployments, unless they are older than all that it has.
    Raises: HIVE-413 where the two disagree and the audit log is broken.
    """
    return _history(workspace)[0]


def unlogged_versions(workspace: Workspace) -> list[Version]:
    """Rows after the audit log's last deployment, newest first: forged, or the log was cut."""
    return _history(workspace)[1]


def _history(workspace: Workspace) -> tuple[list[Version], list[Version]]:
    if not workspace.database.exists() and not audit.recorded(workspace, DEPLOYMENT):
        return [], []
    with connected(workspace.database) as connection:
        # Rows before the log: a deployment is logged first, so no row that it commits meanwhile looks like a forgery.
        rows = _rows(connection)
        logged = audit.recorded(workspace, DEPLOYMENT)
        if not logged:
            return rows, []
        known = [_field(entry, "version") for entry in logged]
        unlogged = [row for row in rows if row.id > known[-1]]
        if _contradicted(rows, logged):
            _restore(workspace, connection, logged)
            rows = _rows(connection)
    return [row for row in rows if row.id < known[0] or row.id in known], unlogged


def _rows(connection: sqlite3.Connection) -> list[Version]:
    found = []
    for row in connection.execute(f"SELECT {', '.join(_COLUMNS)} FROM config_versions ORDER BY id DESC"):
        values = dict(zip(_COLUMNS, row, strict=True))
        values["evaluation"] = json.loads(values["evaluation"]) if values["evaluation"] else None
        found.append(Version(**values))
    return found


def _contradicted(rows: list[Version], logged: Sequence[dict[str, Any]]) -> bool:
    """Whether the log has a deployment that the rows lack or tell otherwise; `at` is taken twice, and may differ."""
    by_id = {row.id: row for row in rows}
    for entry in logged:
        row = by_id.get(_field(entry, "version"))
        names = _COLUMNS.items()
        if row is None or any(getattr(row, name) != _field(entry, key) for name, key in names if name != "at"):
            return True
    return False


def _restore(workspace: Workspace, connection: sqlite3.Connection, logged: Sequence[dict[str, Any]]) -> None:
    found = audit.verify(workspace)
    if not found.ok:
        raise _broken("the database lost or changed deployments, and the audit log is broken", found.first_bad)
    with transaction(connection):
        for entry in logged:
            values = {name: _field(entry, key) for name, key in _COLUMNS.items()}
            values["evaluation"] = json.dumps(values["evaluation"]) if values["evaluation"] else None
            connection.execute(
                f"INSERT OR REPLACE INTO config_versions ({', '.join(values)}) VALUES ({', '.join('?' * len(values))})",
                tuple(values.values()),
            )


def _field(entry: dict[str, Any], name: str) -> Any:
    if name not in entry:
        raise _broken(f"a deployment in the audit log has no {name}", entry["seq"])
    return entry[name]


def _broken(why: str, line: int | None) -> HiveError:
    fix = "restore audit/log.jsonl from version control or a backup"
    return HiveError.of("HIVE-413", f"{why} at line {line}", file=audit.FILE, path="$", line=line, fix=fix)


def active_config(workspace: Workspace) -> ActiveConfig:
    """The config that serves, with HIVE-404 or HIVE-405 as warnings where files and history differ.

    Raises: HIVE-408 where there is none, HIVE-114 where active.json leaves configs/.
    """
    active = find_active(workspace)
    if active is None:
        raise HiveError.of(
            "HIVE-408",
            "the workspace has no active config",
            file=f"configs/{LINK}",
            path="$",
            fix="run `hive deploy CONFIG`, or name a config",
        )
    return active


def find_active(workspace: Workspace) -> ActiveConfig | None:
    """As `active_config`, None where there is none."""
    _finish_switch(workspace)
    history, unlogged = _history(workspace)
    if not history:
        target = active_target(workspace)
        if target is None or not target.exists():
            return None
        return ActiveConfig(read_config(workspace, target), None)
    latest = history[0]
    return ActiveConfig(latest.stored, latest, tuple(_differences(workspace, latest, unlogged)))


def announce_switch(workspace: Workspace) -> None:
    """Leave a mark that the files are about to follow the history, for the next command if this one is killed."""
    with disk_errors(_mark(workspace)):
        _mark(workspace).touch(mode=0o600)


def settle(workspace: Workspace, version: Version) -> None:
    """The files follow the history: active.json names the version's file, which is made again where it is gone."""
    file = workspace.root / version.file
    if not file.exists():
        atomic_write_text(file, version.text)
    point_active(workspace, file)
    _mark(workspace).unlink(missing_ok=True)


def _finish_switch(workspace: Workspace) -> None:
    """What a killed deployment left undone; one that still runs holds the lock, and needs nobody."""
    if not _mark(workspace).exists():
        return
    with suppress(HiveError), workspace.exclusive("finishing a deployment", timeout=0):
        history = versions(workspace)
        if history and _mark(workspace).exists():
            settle(workspace, history[0])
        _mark(workspace).unlink(missing_ok=True)


def _mark(workspace: Workspace) -> Path:
    return workspace.state / "switching"


def _differences(workspace: Workspace, latest: Version, unlogged: list[Version]) -> list[Diagnostic]:
    file = workspace.root / latest.file
    warnings, target = [], None
    try:
        target = active_target(workspace)
    except HiveError as error:  # what serves is known; a link that can't be used is no reason to stop
        warnings += [replace(found, severity="warning") for found in error.diagnostics]
    if unlogged:
        warnings.append(
            Diagnostic(
                "HIVE-413",
                f"the database names {unlogged[0].name} as deployed, and the audit log doesn't; {latest.name} serves",
                audit.FILE,
                "$",
                "restore audit/log.jsonl, or deploy what shall serve",
                severity="warning",
            )
        )
    if target is not None and target.name != file.name:
        warnings.append(
            Diagnostic(
                "HIVE-405",
                f"{LINK} was moved by hand to {target.name}; {latest.name} serves, as deployed",
                f"configs/{LINK}",
                "$",
                f"run `hive deploy {target.stem}`",
                severity="warning",
            )
        )
    if file.exists() and not _same(file, latest.config_hash):
        warnings.append(
            Diagnostic(
                "HIVE-404",
                f"{latest.file} was edited since its deployment; the deployed text serves",
                latest.file,
                "$",
                f"run `hive deploy {file.stem}` to put the edit through the gate",
                severity="warning",
            )
        )
    return warnings


def _same(file: Path, digest: str) -> bool:
    try:
        return config_hash(file.read_text(encoding="utf-8")) == digest
    except (OSError, ValueError, RecursionError):
        return False
