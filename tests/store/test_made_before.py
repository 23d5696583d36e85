"""A workspace that an earlier commit made still opens, and everything in it is found and goes on being used.

`made_before/` is what commit b1f72ed left of these steps, as user dana: index two documents; deploy `naive`, deploy
`careful` though inconclusive, roll back; one question to the copilot; version 1 of the agent `digest` serves, version 2
is proposed, measured, approved by kim and deployed; one run of it; roll back. `hive.sql` is the dump of the database,
schema and version included, `audit.head` the file of that name in `.hive/`.
"""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from hive_agents import Workspace
from hive_agents.events import EventLog
from hive_agents.memory import DataBuffer
from hive_agents.workspace.trusted import trust
from tests.sample import Ran, hive

MADE = Path(__file__).parent / "made_before"
pytestmark = pytest.mark.sqlite_file


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.setenv("LOGNAME", "dana")
    monkeypatch.delenv("HIVE_AUDIT_KEY", raising=False)
    root = tmp_path / "place"
    shutil.copytree(MADE, root)
    (root / "configs" / "active.json").symlink_to("naive.json")
    state = root / ".hive"
    state.mkdir(mode=0o700)
    (root / "audit.head").rename(state / "audit.head")
    with closing(sqlite3.connect(state / "hive.db")) as connection:
        connection.executescript((root / "hive.sql").read_text(encoding="utf-8"))
    assert hive("query", "a key", "-w", root, "--json").codes == {"HIVE-430"}
    trust(Workspace(root))
    return Workspace(root)


def run(place: Workspace, *arguments: str) -> Ran:
    ran = hive(*arguments, "-w", place.root, "--json")
    assert ran.code == 0, ran.err
    assert not {code for code in ("HIVE-404", "HIVE-405", "HIVE-407", "HIVE-413") if code in ran.err}
    return ran


def test_its_deployments_are_what_the_log_and_the_files_say(place: Workspace) -> None:
    assert run(place, "approvals", "verify").json["entries"] == 10
    found = run(place, "history").json["versions"]
    assert [(one["id"], one["config"], one["via"], one["active"]) for one in found] == [
        (3, "naive", "rollback", True),
        (2, "careful", "deploy", False),
        (1, "naive", "deploy", False),
    ]
    assert [one["reason"] for one in found] == ["they did not", "titles say more", None]
    found = run(place, "agents", "history", "digest").json["versions"]
    assert [(one["id"], one["version"], one["via"], one["by"]) for one in found] == [
        (3, 1, "rollback", "user:dana"),
        (2, 2, "approval", "user:kim"),
        (1, 1, "deploy", "user:dana"),
    ]


def test_its_index_serves_until_the_one_of_the_present_analyzer_is_accepted(place: Workspace) -> None:
    for _ in range(2):
        (hit,) = run(place, "query", "key").json["hits"]
        assert (hit["doc_id"], round(hit["bm25_score"], 3)) == ("faqs/rotate-key.md", 0.401)
        report = run(place, "index").json
        assert (report["waiting"], report["added"], report["updated"]) == (["kb"], 0, 0)


def test_its_runs_requests_and_threads_are_found(place: Workspace) -> None:
    runs = run(place, "runs").json["runs"]
    assert [(one["graph"], one["status"]) for one in runs] == [("event_loop", "done"), ("worker", "done")]
    assert run(place, "runs", "show", runs[0]["run_id"]).json["outputs"] == {"text": "on ants"}
    messages = run(place, "runs", "logs", runs[0]["run_id"]).json["messages"]
    assert [one["speaker"] for one in messages] == ["task", "agent", "tool"]
    (request,) = run(place, "approvals", "list", "--status", "approved").json["items"]
    assert request["title"] == "let version 2 of digest serve: passed"
    (thread,) = run(place, "chat", "--threads").json["threads"]
    assert thread["title"] == "How do I rotate an API key?"
    assert EventLog(place).last_seq() == len(EventLog(place).replay()) == 17
    assert DataBuffer(place, run_id="another").read("topic") == {"name": "bees"}


def test_its_histories_go_on(place: Workspace) -> None:
    run(place, "deploy", "careful", "--allow-inconclusive")
    assert [one["id"] for one in run(place, "history").json["versions"]] == [4, 3, 2, 1]
    assert hive("agents", "rollback", "digest", "-w", place.root).code == 1  # version 1 was the first
    assert run(place, "chat", "Balancing the centrifuge").json["results"][0]["doc_id"] == "guides/centrifuge.md"
    assert run(place, "approvals", "verify").json["entries"] > 10


def test_what_its_database_lost_comes_back_from_its_log(place: Workspace) -> None:
    before = [run(place, *command).json for command in (("history",), ("agents", "history", "digest"))]
    with closing(sqlite3.connect(place.database)) as connection:
        connection.execute("DELETE FROM config_versions")
        connection.execute("UPDATE agent_versions SET decision = 'blocked'")
        connection.commit()
    assert [run(place, *command).json for command in (("history",), ("agents", "history", "digest"))] == before
