"""What `hive sources list|log|pause` show and change."""

from __future__ import annotations

import datetime as dt
from typing import Any

from hive_agents.sources.kinds import source_settings
from hive_agents.sources.running import next_run
from hive_agents.sources.state import SourceStates
from hive_agents.store import connected
from hive_agents.sync import Records
from hive_agents.workspace import Workspace, is_trusted, require_trust


def source_rows(workspace: Workspace) -> list[dict[str, Any]]:
    """Return each source of the settings with its last run, its number of documents, and when it runs next."""
    now, rows = dt.datetime.now(dt.UTC), []
    with connected(workspace.database) as connection:
        for name, settings in workspace.settings.sources.items():
            states = SourceStates(connection, name, workspace.state / "sources" / name)
            source = Records(connection).source_named(name)
            next_at = next_run(workspace, name, settings, now)
            rows.append(
                {
                    "name": name,
                    "kind": settings.kind,
                    "url": settings.url,
                    "schedule": settings.schedule or None,
                    "trusted": is_trusted(workspace, f"sources.{name}"),
                    "paused": states.paused,
                    "asked": states.asked,
                    "documents": Records(connection).count(source) if source is not None else 0,
                    "failed": sum(1 for state in states.items().values() if state.failure is not None),
                    "last_run": next(iter(states.runs(1)), None),
                    "next_at": next_at.isoformat(timespec="seconds") if next_at is not None else None,
                }
            )
    return rows


def source_log(workspace: Workspace, name: str, most: int = 20) -> dict[str, Any]:
    """Return the last runs of a source, and the items that it couldn't read. Raises: HIVE-409 for an unknown one."""
    source_settings(workspace, name)
    with connected(workspace.database) as connection:
        states = SourceStates(connection, name, workspace.state / "sources" / name)
        failed = [
            {
                "key": key,
                "message": state.failure,
                "attempts": state.attempts,
                "given_up": state.given_up,
                "retry_at": dt.datetime.fromtimestamp(state.retry_at or 0, dt.UTC).isoformat(timespec="seconds"),
            }
            for key, state in states.items().items()
            if state.failure is not None
        ]
        return {"name": name, "runs": states.runs(most), "failed": failed}


def ask_source(workspace: Workspace, name: str) -> None:
    """Let a host run a source at its next look. Raises: HIVE-409 for an unknown one, HIVE-431 for one not trusted."""
    source_settings(workspace, name)
    require_trust(workspace, f"sources.{name}")
    with connected(workspace.database) as connection:
        SourceStates(connection, name, workspace.state / "sources" / name).ask()


def pause_source(workspace: Workspace, name: str, *, paused: bool) -> None:
    """Leave a source out of the schedule, or take it in again. Raises: HIVE-409 for an unknown one."""
    source_settings(workspace, name)
    with connected(workspace.database) as connection:
        SourceStates(connection, name, workspace.state / "sources" / name).pause(paused)
