"""What an agent's run costs beside a bare LangGraph graph, how many go at once, and how soon a killed host is back.

    python benchmarks/runtime.py [--rounds N] [--runs N] [--json FILE]

The agent has three nodes with a scripted model: each sets an output and is accepted. The bare graph has as many steps
that do nothing, the same checkpointer file and the same durability. Both run in this process, by turns; what carries
over to another machine is the ratio. Then N queued runs through the dispatcher, four times as many by two hosts, the
processor time of a host from its start to its first run, the rate of leases, and the time from SIGKILL of a host in the
middle of its work to the first step that another one does.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any, TypedDict

from langgraph.graph import END, START, StateGraph

from hive_agents import Workspace
from hive_agents.agents.run import AgentRun
from hive_agents.events import EventBus, EventLog
from hive_agents.host.dispatcher import Dispatcher
from hive_agents.runs import Leases, RunStore
from hive_agents.runs.checkpoints import async_checkpointer
from hive_agents.store import connected

NODES = ("read", "weigh", "write")
STEPS = 5 * len(NODES) + 1  # enter, think, act, judge, leave; then the goal
HOST = ["-m", "hive_agents", "serve", "--headless", "--roles", "runs", "--quiet", "-w"]


class Bare(TypedDict, total=False):
    n: int


def make_workspace(root: Path) -> Workspace:
    for name in ("collections", "agents", "goals", "documents", "scripts"):
        (root / name).mkdir(parents=True)
    nodes = [{"id": name, "system_prompt": f"You {name}.", "output_keys": [f"{name}_out"]} for name in NODES]
    edges = [{"source": a, "target": b, "on": "success"} for a, b in pairwise(NODES)]
    agent = {"id": "worker", "goal": "work", "entry": NODES[0], "nodes": nodes, "edges": edges}
    (root / "agents" / "worker.json").write_text(json.dumps(agent), encoding="utf-8")
    (root / "goals" / "work.json").write_text(json.dumps({"id": "work", "name": "Work"}), encoding="utf-8")
    lines = [
        {
            "tool_calls": [{"name": "set_output", "args": {"key": f"{name}_out", "value": "done"}}],
            "when": {"contains": f"You {name}."},
            "repeat": True,
        }
        for name in NODES
    ]
    (root / "scripts" / "work.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    text = '[models]\nembedding = "none"\nchat = ["scripted:scripts/work.jsonl"]\n[runs]\nlease_seconds = 30.0\n'
    (root / "hive.toml").write_text(text, encoding="utf-8")
    return Workspace(root)


def bare_graph() -> Any:
    async def nothing(state: Bare) -> Bare:
        return {"n": state.get("n", 0) + 1}

    builder = StateGraph(Bare)
    names = [f"n{n}" for n in range(STEPS)]
    for name in names:
        builder.add_node(name, nothing)
    for left, right in zip([START, *names], [*names, END], strict=True):
        builder.add_edge(left, right)
    return builder


async def beside_bare(place: Workspace, rounds: int) -> dict[str, Any]:
    taken: dict[str, list[float]] = {"bare": [], "agent": []}
    worked: dict[str, list[float]] = {"bare": [], "agent": []}

    async def bare(n: int) -> None:
        async with async_checkpointer(place) as saver:
            config: Any = {"configurable": {"thread_id": f"bare{n}"}}
            await bare_graph().compile(checkpointer=saver).ainvoke({"n": 0}, config, durability="sync")

    async def agent(_: int) -> None:
        result = await AgentRun.start(place, "worker", {}).work()
        assert result["status"] == "done", result

    for n in range(-1, rounds):
        for name, run in (("bare", bare), ("agent", agent)) if n % 2 else (("agent", agent), ("bare", bare)):
            started, busy = time.perf_counter(), time.process_time()
            await run(n)
            if n >= 0:
                taken[name].append((time.perf_counter() - started) * 1000)
                worked[name].append((time.process_time() - busy) * 1000)
    medians = {name: statistics.median(times) for name, times in taken.items()}
    cpu = {name: statistics.median(times) for name, times in worked.items()}
    return {
        "bare ms": round(medians["bare"], 1),
        "agent ms": round(medians["agent"], 1),
        "agent / bare": round(medians["agent"] / medians["bare"], 2),
        "bare CPU ms": round(cpu["bare"], 1),
        "agent CPU ms": round(cpu["agent"], 1),
        "agent / bare, CPU": round(cpu["agent"] / cpu["bare"], 2),
    }


async def through_dispatcher(place: Workspace, runs: int) -> dict[str, Any]:
    for _ in range(runs):
        AgentRun.start(place, "worker", {}, hold=False)
    started, busy = time.perf_counter(), time.process_time()
    async with EventBus(EventLog(place)) as bus:
        task = asyncio.create_task(Dispatcher(place, bus).run())
        while RunStore(place).list(status=["queued", "running"], limit=1):
            await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    seconds, cpu = time.perf_counter() - started, (time.process_time() - busy) * 1000
    assert len(RunStore(place).list(status="done", limit=10_000)) >= runs
    rate = {"runs a second": round(runs / seconds, 1), "CPU ms a run": round(cpu / runs, 1)}
    return {"runs at once": runs, **rate}


def leases(place: Workspace) -> dict[str, Any]:
    found = Leases(place)
    started, n = time.perf_counter(), 300
    for number in range(n):
        lease = found.acquire(f"t{number % 7}", "r1")
        assert lease is not None
        lease.release()
    return {"leases a second": round(n / (time.perf_counter() - started))}


def host(place: Workspace) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, *HOST, str(place.root)], stdout=subprocess.DEVNULL)


def worked(process: subprocess.Popen[bytes]) -> float:
    """Return the processor time of a process so far; 0 where it isn't told."""
    try:
        fields = Path(f"/proc/{process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def effects_of(place: Workspace) -> int:
    with connected(place.database) as connection:
        return int(connection.execute("SELECT count(*) FROM effects WHERE status = 'done'").fetchone()[0])


def with_two_hosts(place: Workspace, runs: int) -> dict[str, Any]:
    """A host from its start to its first run; then two, from a third of the runs on, when both are at work."""

    def left() -> int:
        return len(RunStore(place).list(status=["queued", "running"], limit=10_000))

    first = AgentRun.start(place, "worker", {}, hold=False).run_id
    starting = host(place)
    while RunStore(place).get(first).status == "queued":
        time.sleep(0.005)
    begun = worked(starting)
    starting.terminate()
    starting.wait()
    for _ in range(runs):
        AgentRun.start(place, "worker", {}, hold=False)
    hosts = [host(place), host(place)]
    while (rest := left()) > 2 * runs // 3:
        time.sleep(0.02)
    before, started = sum(map(worked, hosts)), time.perf_counter()
    while left():
        time.sleep(0.05)
    seconds, busy = time.perf_counter() - started, sum(map(worked, hosts)) - before
    for one in hosts:
        one.terminate()
        one.wait()
    return {
        "CPU s until a host has its first run": round(begun, 2),
        "runs a second, two hosts": round(rest / seconds, 1),
        "CPU ms a run, two hosts": round(busy / rest * 1000, 1),
    }


def after_a_kill(place: Workspace, runs: int) -> dict[str, Any]:
    """Kill a host in the middle of its work; the next one's first step, counted from its start and from the kill."""

    def effects() -> int:
        return effects_of(place)

    def until(count: int) -> None:
        while effects() <= count:
            time.sleep(0.005)

    for _ in range(runs):
        AgentRun.start(place, "worker", {}, hold=False)
    before = effects()
    first = host(place)
    until(before + runs)  # a third of the work
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    killed, done = time.perf_counter(), effects()
    second = host(place)
    until(done)
    seconds = time.perf_counter() - killed
    while RunStore(place).list(status=["queued", "running"], limit=1):
        time.sleep(0.05)
    second.terminate()
    second.wait()
    failed = len(RunStore(place).list(status=["failed", "stopped"], limit=10_000))
    return {"s from kill to the next step": round(seconds, 2), "runs not done": failed}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = make_workspace(Path(folder) / "workspace")
        row = asyncio.run(beside_bare(place, given.rounds))
        row |= asyncio.run(through_dispatcher(place, given.runs))
        row |= with_two_hosts(place, 4 * given.runs) | leases(place) | after_a_kill(place, given.runs)
    print(json.dumps(row, indent=2))
    if given.json:
        given.json.write_text(json.dumps(row, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
