"""The pages of docs/ whose commands are run: each block of `sh` must print the block of `text` behind it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hive_agents.base.files import load_value
from hive_agents.evaluation.ranking_endpoint import EndpointFile

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.S | re.M)
HIVE = f'hive() {{ "{sys.executable}" -m hive_agents "$@"; }}\npython() {{ "{sys.executable}" "$@"; }}\n'


def blocks(page: str) -> list[tuple[str, str]]:
    return BLOCK.findall((ROOT / "docs" / page).read_text(encoding="utf-8"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", ["canary.md", "export.md", "gate-anywhere.md", "import.md", "receipts.md", "stale.md", "why.md"]
)
def test_commands_print_what_the_page_says(page: str, tmp_path: Path) -> None:
    found = blocks(page)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    environment = os.environ | {"PYTHONPATH": f"{ROOT}", "COLUMNS": "200", "HIVE_HOME": str(tmp_path / "home")}
    for (kind, script), (following, expected) in zip(found, [*found[1:], ("", "")], strict=True):
        if kind != "sh":
            continue
        ran = subprocess.run(
            ["bash", "-c", HIVE + script], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
        )
        assert following == "text", script
        assert ran.stdout == expected, ran.stderr


SHOP = """\
paid = []
async def refunds(order):
    return 0
async def refund(order, amount, key):
    paid.append((order, amount, key))
    return 'R-1'
"""
IDS = re.compile(r"\b[ra][0-9a-f]{10}\b")


@pytest.mark.slow
@pytest.mark.parametrize(("page", "runs"), [("agents.md", 5), ("agents-in-code.md", 2)])
def test_a_desk_does_what_its_page_says(page: str, runs: int, tmp_path: Path) -> None:
    """Ids differ from run to run: the page's are those that were printed at the same places, here and in commands."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    environment = os.environ | {"PYTHONPATH": f"{ROOT}", "COLUMNS": "200", "HIVE_HOME": str(tmp_path / "home")}
    if page == "agents-in-code.md":
        (tmp_path / "desk.py").write_text(next(text for kind, text in blocks(page) if kind == "python"))
        (tmp_path / "shop.py").write_text(SHOP)
    found, known, ran = blocks(page), dict[str, str](), 0

    def told(text: str) -> str:
        return IDS.sub(lambda id: known.get(id[0], id[0]), text)

    for (kind, script), (following, expected) in zip(found, [*found[1:], ("", "")], strict=True):
        if kind != "sh" or following != "text":
            continue
        folder = tmp_path / "desk" if (tmp_path / "desk").exists() else tmp_path
        done = subprocess.run(
            ["bash", "-c", HIVE + told(script)],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
        )
        known.update(zip(IDS.findall(expected), IDS.findall(done.stdout), strict=False))
        assert done.stdout == told(expected), done.stderr
        ran += 1
    assert ran == runs


def test_endpoint_file_of_the_page_is_one() -> None:
    (text,) = [text for kind, text in blocks("gate-anywhere.md") if kind == "json"]
    assert load_value(EndpointFile, json.loads(text), "e.json").method == "POST"


async def test_agents_in_code_are_as_their_page_shows_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hive_agents.agents.spec import read_agent
    from hive_agents.approvals import ApprovalStore
    from hive_agents.workspace import Workspace

    files = [text for kind, text in blocks("agents-in-code.md") if kind == "python"]
    for text in files:
        (tmp_path / text.split("\n")[0].removeprefix("# ")).write_text(text)
    (tmp_path / "shop.py").write_text(SHOP)
    place = tmp_path / "workspace"
    (place / "collections").mkdir(parents=True)
    (place / "hive.toml").write_text('[models]\nchat = ["scripted:s.jsonl"]\n')
    calls = [{"trusted": True, "why": "new"}, {"amount": 180, "letter": "Dear"}]
    lines = [json.dumps({"tool_calls": [{"name": "set_output", "args": args}]}) for args in calls]
    (place / "s.jsonl").write_text("\n".join(lines) + "\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    try:
        import app  # type: ignore[import-not-found]
        import httpx
        import test_desk  # type: ignore[import-not-found]

        await test_desk.test_waits_and_pays_once()
        ticket = {"order": "A-2", "message": "never came"}
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app.app), base_url="http://app") as client:
            told = [json.loads(line) for line in (await client.post("/refunds", json=ticket)).text.splitlines()]
        assert told[0]["event"] == "run.started"
        assert told[-1]["status"] == "waiting"
        (id,) = told[-1]["approval_ids"]
        ApprovalStore(Workspace(place)).decide(id, "approve", by="dana")
        done = await app.AgentRun.resume(app.workspace, told[-1]["run_id"], agent=app.desk).work()
        assert done["outputs"] == calls[1]
        assert [paid[:2] for paid in sys.modules["shop"].paid] == [("A-2", 180)]
        (spec,) = [text for kind, text in blocks("agents-in-code.md") if kind == "json"]
        (place / "agents").mkdir()
        (place / "agents" / "desk.json").write_text(spec)
        assert read_agent(Workspace(place), "desk")[0].nodes[0].code == "desk"
    finally:
        for name in ("app", "desk", "shop", "test_desk"):
            sys.modules.pop(name, None)
