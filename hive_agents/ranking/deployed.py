"""The active config: the text that was deployed, not the file that it came from."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hive_agents.base import Diagnostic, HiveError
from hive_agents.base.files import atomic_write, atomic_write_text, read_bytes, remove
from hive_agents.ranking.config import (
    LINK,
    StoredConfig,
    active_target,
    config_hash,
    parse_config,
    point_active,
    read_config,
)
from hive_agents.store import audit, exclusive, ledger
from hive_agents.workspace import Workspace


@dataclass(frozen=True)
class Version:
    """One deployment, a row of `config_versions`; `previous` is the version that a rollback restores."""

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


DEPLOYMENTS = ledger.Ledger(
    Version,
    table="config_versions",
    kind="deployment",
    name=lambda version: version.name,
    logged_as={"id": "version", "name": "config", "previous": "previous_version"},
)


@dataclass(frozen=True)
class ActiveConfig:
    """`version` is None before the first deployment, when `active.json` names the baseline."""

    stored: StoredConfig
    version: Version | None
    warnings: tuple[Diagnostic, ...] = ()


def versions(workspace: Workspace) -> list[Version]:
    """Return every deployment that the audit log vouches for, newest first. Raises: HIVE-413 where it is none of
    those that there are."""
    return DEPLOYMENTS.history(workspace).rows


def unlogged_versions(workspace: Workspace) -> list[Version]:
    """Return the rows after the last deployment of the audit log, newest first: forged, or cut from the log."""
    return DEPLOYMENTS.history(workspace).unlogged


def active_config(workspace: Workspace) -> ActiveConfig:
    """Return the active config, with HIVE-404 or HIVE-405 as warnings where files and history differ.

    Raises: HIVE-408 without one, HIVE-114 when active.json names a file outside configs/.
    """
    active = find_active(workspace)
    if active is None:
        target = active_target(workspace)
        missing = f": {LINK} names {target.name}, which isn't there" if target else ""
        raise HiveError.of(
            "HIVE-408",
            f"the workspace has no active config{missing}",
            file=f"configs/{LINK}",
            path="$",
            fix="run `hive deploy CONFIG`, or name a config",
        )
    return active


def find_active(workspace: Workspace) -> ActiveConfig | None:
    """As `active_config`, but return None without one."""
    _finish_switch(workspace)
    history = DEPLOYMENTS.history(workspace)
    if not history.rows:
        target = active_target(workspace)
        if target is None or not target.exists():
            return None
        return ActiveConfig(read_config(workspace, target), None)
    latest = history.rows[0]
    return ActiveConfig(latest.stored, latest, tuple(_differences(workspace, latest, history)))


def announce_switch(workspace: Workspace) -> None:
    """Mark that files are about to follow the history, so that the next command finishes if this one is killed."""
    atomic_write(_mark(workspace), b"", mode=0o600)


def follow_history(workspace: Workspace) -> None:
    """Make this host's files follow a deployment of another host; a file that was edited here stays.

    Raises: HIVE-402 during a deployment here, HIVE-413 as `versions`.
    """
    with workspace.exclusive("following a deployment", timeout=0):
        history = versions(workspace)
        if history:
            latest, file = history[0], workspace.root / history[0].file
            if any(_has_hash(file, row.config_hash) for row in history[1:] if row.file == latest.file):
                atomic_write_text(file, latest.text)
            settle(workspace, latest)


def settle(workspace: Workspace, version: Version) -> None:
    """Make active.json name the version's file, and write that file where it is missing."""
    file = workspace.root / version.file
    if not file.exists():
        atomic_write_text(file, version.text)
    point_active(workspace, file)
    remove(_mark(workspace))


def _finish_switch(workspace: Workspace) -> None:
    """Finish a killed deployment; one that still runs holds the lock."""
    if not _mark(workspace).exists():
        return
    with suppress(HiveError), exclusive(workspace, "finishing a deployment", timeout=0):
        history = versions(workspace)
        if history and _mark(workspace).exists():
            settle(workspace, history[0])
        remove(_mark(workspace))


def _mark(workspace: Workspace) -> Path:
    return workspace.state / "switching"


def _differences(workspace: Workspace, latest: Version, history: ledger.LedgerHistory[Version]) -> list[Diagnostic]:
    file = workspace.root / latest.file
    warnings, target = [], None
    try:
        target = active_target(workspace)
    except HiveError as error:  # the history decides; an unusable link is no reason to stop
        warnings += [replace(fault, severity="warning") for fault in error.diagnostics]
    if history.unlogged or history.doubt:
        why = f"the audit log can't be relied on: {history.doubt}"
        if history.unlogged:
            why = f"the database names {history.unlogged[0].name} as deployed, and the audit log doesn't vouch for it"
        warnings.append(
            Diagnostic(
                "HIVE-413",
                f"{why}; {latest.name} serves",
                audit.FILE,
                "$",
                "restore audit/log.jsonl, or deploy the config that shall serve",
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
    if file.exists() and not _has_hash(file, latest.config_hash):
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


def _has_hash(file: Path, digest: str) -> bool:
    try:
        return config_hash(read_bytes(file).decode()) == digest
    except (HiveError, OSError, ValueError, RecursionError):
        return False
