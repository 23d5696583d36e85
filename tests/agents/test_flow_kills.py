"""Two hosts on one store, killed again and again after they began to work: what flows and JSON agents do, once."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hive_agents import AgentRun
from hive_agents.runs import RunStore
from tests.agents import flow_host
from tests.agents.killed import EFFECTS, OUTPUTS, prepared, spec

CHECKOUT = Path(__file__).parents[2]
RUNS = 10
"""Of each kind."""


def _lines(path: Path) -> list[str]:
    return path.read_text().split("\n")[:-1] if path.exists() else []


def _host(root: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.agents.flow_host", str(root)]
    return subprocess.Popen(command, cwd=CHECKOUT, stderr=subprocess.DEVNULL)


@pytest.mark.slow
def test_effects_of_runs_happen_once_though_their_hosts_are_killed(tmp_path: Path) -> None:
    place = prepared(tmp_path / "ws")
    (place.root / "hive.toml").write_text("[runs]\nlease_seconds = 2\n")
    place = type(place)(place.root)
    given = {"tools": flow_host.tools(place), "models": flow_host.models, "hold": False}
    flows = [AgentRun.start(place, flow_host.parcel, f"o{n}", **given).run_id for n in range(RUNS)]
    agents = [AgentRun.start(place, spec(), {"topic": "insects"}, **given).run_id for n in range(RUNS)]
    store, chance = RunStore(place), random.Random(41)
    hosts, kills = [_host(place.root), _host(place.root)], 0
    try:
        begun, until = 0, time.monotonic() + 500
        while time.monotonic() < until:
            time.sleep(0.4)
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
