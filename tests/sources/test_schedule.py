"""When a source runs by itself: by its schedule, later where it fails, never while it is paused or isn't trusted."""

from __future__ import annotations

import asyncio
import datetime as dt
from pathlib import Path

from hive_agents.base.files import locked
from hive_agents.host.due_sources import run_due_sources
from hive_agents.sources import add_source
from hive_agents.sources.running import due_sources, run_source
from hive_agents.sources.showing import pause_source, source_rows
from hive_agents.workspace import Workspace
from tests.sample import hive


def workspace(tmp_path: Path, schedule: str = "0 2 * * *") -> Workspace:
    (tmp_path / "ws" / "collections").mkdir(parents=True)
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "a.md").write_text("# A\n\nA text.\n")
    values = {"kind": "folder", "url": str(tmp_path / "source"), "schedule": schedule}
    add_source(Workspace(tmp_path / "ws"), "notes", values)
    return Workspace(tmp_path / "ws")


def later(**time: float) -> dt.datetime:
    return dt.datetime.now(dt.UTC) + dt.timedelta(**time)


def test_a_source_is_due_at_once_and_then_at_its_times(tmp_path: Path) -> None:
    place = workspace(tmp_path)
    assert due_sources(place, later()) == ["notes"]
    run_source(place, "notes")
    assert (due_sources(place, later()), due_sources(place, later(days=1, hours=1))) == ([], ["notes"])
    pause_source(place, "notes", paused=True)
    assert due_sources(place, later(days=2)) == []
    pause_source(place, "notes", paused=False)
    settings = place.root / "hive.toml"
    settings.write_text(settings.read_text() + "view = []\n")
    assert due_sources(Workspace(place.root), later(days=2)) == []


def test_a_source_that_fails_is_asked_less_and_less(tmp_path: Path) -> None:
    place = workspace(tmp_path, "* * * * *")
    (tmp_path / "source").rename(tmp_path / "away")
    for _ in range(5):
        assert run_source(place, "notes").status == "failed"
    assert (due_sources(place, later(minutes=10)), due_sources(place, later(minutes=20))) == ([], ["notes"])


def test_a_source_that_runs_is_not_run_beside_it(tmp_path: Path) -> None:
    place = workspace(tmp_path)
    with locked(place.state_folder("sources") / "notes" / "run.lock", "running the source notes", 0.0):
        told = hive("sources", "run", "notes", "-w", place.root, "--json")
        assert (told.code, told.codes) == (3, {"HIVE-402"})
    assert run_source(place, "notes").status == "done"


async def test_a_host_runs_what_is_due(tmp_path: Path) -> None:
    place = workspace(tmp_path)
    work = asyncio.create_task(run_due_sources(place))
    while not (place.documents / "notes" / "a.md").exists():
        await asyncio.sleep(0.02)
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)


def test_the_commands_tell_what_happened(tmp_path: Path) -> None:
    (tmp_path / "ws" / "collections").mkdir(parents=True)
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "a.md").write_text("# A\n\nA text.\n")
    at = ("-w", tmp_path / "ws", "--json")
    added = hive("sources", "add", "notes", "--kind", "folder", "--url", tmp_path / "source", *at)
    assert (added.code, added.json) == (0, {"name": "notes", "file": "hive.toml"})
    assert hive("sources", "add", "notes", "--kind", "folder", "--url", "x", *at).codes == {"HIVE-409"}
    assert hive("sources", "add", "other", "--kind", "fold", "--url", "x", *at).codes == {"HIVE-105"}
    assert hive("sources", "add", "other", "--kind", "web", "--url", "https://a:b@x", *at).codes == {"HIVE-105"}
    (ran,) = hive("sources", "run", *at).json["sources"]
    assert (ran["status"], ran["added"]) == ("done", ["notes/a.md"])
    assert hive("sources", "run", "note", *at).codes == {"HIVE-409"}
    (tmp_path / "source").rename(tmp_path / "away")
    lost = hive("sources", "run", *at)
    assert (lost.code, lost.json["diagnostics"][0]["code"]) == (3, "HIVE-437")
    (row,) = hive("sources", "list", *at).json["sources"]
    assert (row["documents"], row["last_run"]["status"], row["trusted"], row["paused"]) == (1, "failed", True, False)
    assert hive("sources", "pause", "notes", *at).json == {"name": "notes", "paused": True}
    log = hive("sources", "log", "notes", *at).json
    assert [each["status"] for each in log["runs"]] == ["failed", "done"]
    assert source_rows(Workspace(tmp_path / "ws"))[0]["paused"]
