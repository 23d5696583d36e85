"""Which config serves: the text that was deployed, not the file it came from."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hive_agents import audit
from hive_agents.database import connect, database_errors, transaction
from hive_agents.errors import Diagnostic, HiveError
from hive_agents.retrieval.config import StoredConfig, config_hash, parse_config, read_config
from hive_agents.workspace import Workspace

LINK = "active.json"
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


@dataclass(frozen=True)
class ActiveConfig:
    """`version` is None where nothing was ever deployed here and `active.json` is honoured as the baseline."""

    stored: StoredConfig
    version: Version | None
    warnings: tuple[Diagnostic, ...] = ()


def versions(workspace: Workspace) -> list[Version]:
    """Every deployment, newest first. What the audit log has and the database lost is restored first.

    Raises: HIVE-413 where the database lost deployments and the audit log is broken.
    """
    logged = audit.last(workspace, DEPLOYMENT)
    if logged is None and not workspace.database.exists():
        return []
    with closing(connect(workspace.database)) as connection, database_errors(workspace.database):
        rows = _rows(connection)
        if logged is not None and logged["version"] > max((row[0] for row in rows), default=0):
            _restore(workspace, connection)
            rows = _rows(connection)
    return [_version(row) for row in rows]


def _rows(connection: sqlite3.Connection) -> list[tuple[Any, ...]]:
    return connection.execute(
        "SELECT id, name, file, text, config_hash, at, by, authn, decision, via, reason, evaluation, previous"
        " FROM config_versions ORDER BY id DESC"
    ).fetchall()


_LOGGED = ("version", "config", "file", "text", "config_hash", "at", "by", "authn", "decision", "via", "reason")


def _restore(workspace: Workspace, connection: sqlite3.Connection) -> None:
    """The audit log is authoritative: its deployments become rows again."""
    found = audit.verify(workspace)
    if not found.ok:
        raise HiveError.of(
            "HIVE-413",
            f"the database lost deployments, and the audit log is broken at line {found.first_bad}",
            file=audit.FILE,
            line=found.first_bad,
            fix="restore audit/log.jsonl from version control or a backup",
        )
    with transaction(connection):
        for entry in audit.entries(workspace, DEPLOYMENT):
            evaluation = json.dumps(entry["evaluation"]) if entry["evaluation"] else None
            connection.execute(
                "INSERT OR IGNORE INTO config_versions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*(entry[name] for name in _LOGGED), evaluation, entry["previous_version"]),
            )


def _version(row: tuple[Any, ...]) -> Version:
    *plain, evaluation, previous = row
    values: list[Any] = [*plain, json.loads(evaluation) if evaluation else None, previous]
    return Version(*values)


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
    history = versions(workspace)
    target = active_target(workspace)
    if not history:
        if target is None or not target.exists():
            return None
        return ActiveConfig(read_config(workspace, target), None)
    latest = history[0]
    return ActiveConfig(latest.stored, latest, tuple(_differences(workspace, latest, target)))


def _differences(workspace: Workspace, latest: Version, target: Path | None) -> list[Diagnostic]:
    file = workspace.root / latest.file
    warnings = []
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


def active_target(workspace: Workspace) -> Path | None:
    """The file that active.json names, whether it exists or not; None without active.json.

    It is a relative symlink, or `{"active": "v2.json"}` where symlinks can't be made.
    """
    link = workspace.configs / LINK
    if link.is_symlink():
        name = os.readlink(link)
    elif link.is_file():
        name = _pointer(link)
    else:
        return None
    if name == LINK:
        raise _unusable(f"{LINK} names itself")
    target = workspace.configs / name
    if Path(name).name != name or ((target.is_symlink() or target.exists()) and not _inside(target, workspace.configs)):
        raise HiveError.of(
            "HIVE-114",
            f"{LINK} leads to {name}, outside configs/",
            file=f"configs/{LINK}",
            path="$",
            fix="remove the link and run `hive deploy CONFIG`",
        )
    return target


def _inside(target: Path, folder: Path) -> bool:
    # Not Path.resolve, which raises where links lead in a circle; such a target just doesn't exist.
    return os.path.dirname(os.path.realpath(target)) == os.path.realpath(folder)


def _pointer(link: Path) -> str:
    from hive_agents import jsontext

    file = f"configs/{LINK}"
    value = jsontext.parse(jsontext.decode(link.read_bytes(), file), file)
    name = value.get("active") if isinstance(value, dict) else None
    if not isinstance(name, str) or set(value) - {"$schema"} != {"active"}:
        raise _unusable(f'{LINK} is neither a link nor {{"active": "<file>"}}')
    return name


def _unusable(why: str) -> HiveError:
    fix = "remove it and run `hive deploy CONFIG`"
    return HiveError.of("HIVE-107", why, file=f"configs/{LINK}", path="active", fix=fix)
