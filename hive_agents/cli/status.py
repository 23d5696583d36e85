"""`hive status`: what runs, waits, fails, costs, and how large it is."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from hive_agents.cli.surface import WHO_ASKS, Surface, count, with_surface


@with_surface(as_user=WHO_ASKS)
def command(surface: Surface) -> None:
    """Tell what runs, waits and fails, what it cost since yesterday, and how large the workspace is."""
    import datetime as dt

    from hive_agents.approvals import ApprovalStore, RequestReader
    from hive_agents.host import where
    from hive_agents.runs import RunQueue, Scope, leases_of

    place, now = surface.workspace, dt.datetime.now(dt.UTC)
    surface.asker.operator("see what goes on here")
    scope = Scope(surface.asker.caller().principal)
    runs = scope.overview(place, (now - dt.timedelta(days=1)).isoformat())
    due = [run for run in RunQueue(leases_of(place)).due() if scope.tenant in (None, run.tenant)]
    oldest = max([0.0, *((now - dt.datetime.fromisoformat(run.started_at)).total_seconds() for run in due)])
    viewer = surface.asker.viewer()
    reader = RequestReader(place, viewer)
    asked = [one for one in ApprovalStore(place).list(tenant=scope.tenant) if one.status == "pending"]
    pending = sum(map(reader.may_read, asked))
    # A size tells of documents; who may not view them all isn't told.
    megabytes = _megabytes(place.state) if viewer is None else None
    value: dict[str, Any] = {
        "runs": runs.by_status,
        "due": {"runs": len(due), "oldest_seconds": round(oldest, 1)},
        "approvals_pending": pending,
        "last_day": {"runs": runs.begun, "failed": runs.failed, "tokens": runs.tokens, "usd": round(runs.usd, 6)},
        "records": where(place),
        "state_megabytes": megabytes,
    }
    stand = ", ".join(f"{number} {status}" for status, number in runs.by_status.items() if number)
    lines = [f"runs: {stand or 'none yet'}"]
    if due:
        lines.append(f"due: {count(len(due), 'run')}, the oldest for {oldest:.0f} s")
    if pending:
        lines.append(f"waiting for a person: {count(pending, 'request')} (hive approvals list)")
    day = f"{count(runs.begun, 'run')}, {runs.failed} failed, {runs.tokens:,} tokens, {runs.usd:.4f} USD"
    size = "" if megabytes is None else f"; .hive has {megabytes:,.1f} MB"
    surface.show(value, *lines, f"last 24 hours: {day}", f"records in {where(place)}{size}")


def _megabytes(folder: Path) -> float:
    size = 0
    for file in folder.rglob("*"):
        with suppress(OSError):  # other processes remove files meanwhile
            size += file.stat().st_size if file.is_file() else 0
    return round(size / 1e6, 1)
