"""Two hosts on one store, killed again and again after they began to work: what flows and JSON agents do, once.

    HIVE_KILLED_RUNS=60 pytest -m slow -s tests/agents/test_flow_kills.py

is the full trial, with a kill a second; the everyday one is short.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from hive_agents import AgentRun
from hive_agents.runs import RunStore
from hive_agents.workspace.trusted import trust
from tests.agents import flow_host
from tests.agents.killed import EFFECTS, OUTPUTS, prepared, spec
from tests.real_engines import postgres

CHECKOUT = Path(__file__).parents[2]
RUNS = int(os.environ.get("HIVE_KILLED_RUNS", "10"))
"""Of each kind."""
PAUSE = 1.0 if "HIVE_KILLED_RUNS" in os.environ else 0.4
"""Seconds between two kills."""


@pytest.fixture(params=["sqlite", "postgres"])
def storage(request: pytest.FixtureRequest) -> Iterator[str]:
    """The settings of where the records are."""
    if request.param == "sqlite":
        yield ""
        return
    with postgres() as server:
        yield f'[storage]\nurl = "{server.url}"\nnamespace = "t{uuid.uuid4().hex[:12]}"\n'


def _lines(path: Path) -> list[str]:
    return path.read_text().split("\n")[:-1] if path.exists() else []


def _host(root: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.agents.flow_host", str(root)]
    return subprocess.Popen(command, cwd=CHECKOUT, stderr=subprocess.DEVNULL)


@pytest.mark.slow
@pytest.mark.timeout(900 + 60 * RUNS)
def test_effects_of_runs_happen_once_though_their_hosts_are_killed(tmp_path: Path, storage: str) -> None:
    place = prepared(tmp_path / "ws")
    (place.root / "hive.toml").write_text(f"[runs]\nlease_seconds = 2\n{storage}")
    place = type(place)(place.root)
    trust(place)
    given = {"tools": flow_host.tools(place), "models": flow_host.models, "hold": False}
    flows = [AgentRun.start(place, flow_host.parcel, f"o{n}", **given).run_id for n in range(RUNS)]
    agents = [AgentRun.start(place, spec(), {"topic": "insects"}, **given).run_id for n in range(RUNS)]
    store, chance = RunStore(place), random.Random(41)
    hosts, kills = [_host(place.root), _host(place.root)], 0
    try:
        begun, until = 0, time.monotonic() + 500 + 50 * RUNS
        while time.monotonic() < until:
            time.sleep(PAUSE)
            statuses = [store.get(run_id).status for run_id in (*flows, *agents)]
            if not set(statuses) & {"queued", "running", "waiting"}:
                break
            done = len(_lines(place.root / "flows")) + len(_lines(place.root / "done"))
            if done > begun:  # only hosts that have begun to work are worth a kill
                begun, n = done, chance.randrange(2)
                hosts[n].send_signal(signal.SIGKILL)
                hosts[n].wait()
                hosts[n], kills = _host(place.root), kills + 1
    finally:
        for host in hosts:
            host.kill()
            host.wait()
    print(f"{kills} kills of two hosts that had begun, {RUNS} flows and {RUNS} JSON runs")
    assert kills > 2
    rows = [store.get(run_id) for run_id in (*flows, *agents)]
    assert {row.status for row in rows} == {"done"}
    expected = {"output": "seen, did {}:send"}
    assert [AgentRun.result_of(row)["outputs"] for row in rows[:RUNS]] == [
        {key: text.format(f"o{n}") for key, text in expected.items()} for n in range(RUNS)
    ]
    assert all(AgentRun.result_of(row)["outputs"] == OUTPUTS for row in rows[RUNS:])
    acts = [line.split(" ")[0] for line in _lines(place.root / "flows")]
    assert sorted(acts) == sorted(f"o{n}:{step}" for n in range(RUNS) for step in flow_host.STEPS)
    orders = [line.rpartition(" ")[0] for line in _lines(place.root / "done")]
    assert sorted(orders) == sorted(EFFECTS * RUNS)
