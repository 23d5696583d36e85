"""The OpenAPI document: what it promises holds for whatever is sent, well-formed or not."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from hive_agents.events import Event
from hive_agents.server import streams
from hive_agents.server.auth import Call
from hive_agents.server.feed import Watch
from tests.environments import python_with
from tests.server.serving import bearer, sample, served

ALL = ("reader", "operator", "approver", "admin")
SETTINGS = "[server]\nport = 0\nrate_per_minute = 1000000\nconcurrent_runs = 100000\n"
REFUSED = "[checks]\nnegative_data_rejection.expected-statuses = [400, 401, 403, 404, 405, 409, 413, 415, 422, 429]\n"
"""A list that is too long may make a body that is too large, which is refused as that."""
STREAMS = "/agui|/v1/chat/completions|/api/events|/api/runs/{run_id}/events|/api/changes"
"""Operations that answer with a stream, or wait for a run: a host has to work on these."""


async def test_a_number_that_no_database_holds_is_refused(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    async with served(place, roles=("http",)) as client:
        root = bearer(place, "root", "operator")
        for path in ("/api/events?after=", "/api/runs/r1/trials?after=", "/api/runs/r1/trials?before="):
            found = await client.get(f"{path}{2**63}", headers=root)
            assert found.status_code == 400, path


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams without an end have one after a second and some heartbeats, as where a server ends."""
    endless = streams.live

    def live(call: Call, watch: Watch, seen: Callable[[], int]) -> AsyncIterator[Event | None]:
        asyncio.get_running_loop().call_later(1, watch.end)
        return endless(call, watch, seen)

    monkeypatch.setattr(streams, "HEARTBEAT_SECONDS", 0.3)
    monkeypatch.setattr(streams, "live", live)


@pytest.mark.slow
@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize(
    ("roles", "chosen", "phases"),
    [
        (("http",), ("--exclude-path-regex", STREAMS), "coverage,fuzzing"),
        (("runs", "http"), ("--include-path-regex", STREAMS), "fuzzing"),
    ],
    ids=["answers", "streams"],
)
async def test_schemathesis_finds_nothing(
    tmp_path: Path, roles: tuple[str, ...], chosen: tuple[str, str], phases: str
) -> None:
    programs = await asyncio.to_thread(python_with, "schemathesis==4.32.5")
    place = sample(tmp_path / "ws", SETTINGS)
    (tmp_path / "schemathesis.toml").write_text(REFUSED)
    async with served(place, roles=roles) as client:
        url, proof = str(client.base_url).rstrip("/"), bearer(place, "root", *ALL)["Authorization"]
        process = await asyncio.create_subprocess_exec(
            *(str(programs / "schemathesis"), "run", f"{url}/api/openapi.json", "-H", f"Authorization: {proof}"),
            *("--phases", phases, "--max-examples", "5", "--seed", "20", "--continue-on-failure"),
            # What makes no sense is refused though it is well-formed: a blank question, a config that isn't there.
            *("--checks", "all", "--exclude-checks", "positive_data_acceptance"),
            *("--request-timeout", "30", "--warnings", "off", "--no-color", *chosen),
            cwd=tmp_path,
            env=os.environ | {"COLUMNS": "160"},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        out, _ = await process.communicate()
    told = "\n".join(line[:300] for line in out.decode().splitlines())
    assert process.returncode == 0, told[-8000:]
