"""Runs a second of 1, 2 and 4 worker processes on one PostgreSQL, of the embedded default, and of DBOS.

    python benchmarks/scale.py [--runs N] [--workers 1,2,4] [--dbos PYTHON] [--json FILE]

The graph is the same everywhere: four steps, each with a checkpoint, which do nothing else. Hive's are four nodes of an
agent whose scripted models set an output. All runs are queued before the workers begin, and the clock goes from the
moment when the first one has begun until all are done. A worker has 32 at work at once: take many more. Every 50 ms
pg_stat_activity is asked what connections wait for, and at the end how much CPU the workers had; a row tells what else
the machine had to do before, too (the load average). PYTHON is an interpreter that has dbos, langgraph and
langgraph-checkpoint-postgres: DBOS is none of Hive's dependencies. The server is started as the tests do it, with
fsync=off: what is compared is the software, not the disk.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import psycopg

from hive_agents import Workspace
from hive_agents.agents.run import AgentRun
from hive_agents.runs import RunStore
from hive_agents.workspace.trusted import trust
from tests.agents.conftest import GOAL, agent_json, node, write_json
from tests.real_engines import Postgres, postgres

Count = Callable[[], tuple[int, int]]
"""How many runs have begun, and how many are done."""
STEPS = 4
PAUSE = 0.05
DBOS = """
import operator, os, sys
from typing import Annotated, TypedDict
from dbos import DBOS, DBOSClient
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.graph import START, StateGraph
from psycopg_pool import ConnectionPool
place, name, job, count = sys.argv[1:5]
DBOS(config={"name": "hive", "system_database_url": place, "executor_id": name, "application_version": "v1"})
class S(TypedDict):
    log: Annotated[list[str], operator.add]
b = StateGraph(S); p = START
for n in "abcd": b.add_node(n, lambda s, n=n: {"log": [n]}); b.add_edge(p, n); p = n
pool = ConnectionPool(place, min_size=1, max_size=16, kwargs={"autocommit": True, "prepare_threshold": 0})
saver = PostgresSaver(pool)
graph = b.compile(checkpointer=saver)
@DBOS.step()
def run_graph(tid):
    return len(graph.invoke({"log": []}, {"configurable": {"thread_id": tid}}, durability="sync")["log"])
@DBOS.workflow()
def work(tid): return run_graph(tid)
DBOS.launch()
if job == "queue":  # without the queue: whoever has that works on it, and nobody takes over what it leaves
    saver.setup()
    DBOS.destroy()
    client = DBOSClient(system_database_url=place)
    for n in range(int(count)):
        how = {"queue_name": "runs", "workflow_name": "work", "workflow_id": f"w{n}", "app_version": "v1"}
        client.enqueue(how, f"t{n}")
    client.destroy()
else:
    import signal
    DBOS.register_queue("runs", worker_concurrency=32)
    signal.pause()
"""


def made(root: Path, url: str | None) -> Workspace:
    (root / "collections").mkdir(parents=True)
    toml = '[models]\nembedding = "none"\n'
    if url is not None:
        toml += f'[storage]\nurl = "{url}"\nnamespace = "b{uuid.uuid4().hex[:12]}"\n'
    (root / "hive.toml").write_text(toml, encoding="utf-8")
    place = Workspace(root)
    names = "abcd"
    write_json(place, "goals/digest.json", GOAL)
    said = [{"tool_calls": [{"name": "set_output", "args": {"key": name, "value": name}}]} for name in names]
    write_json(place, "script.jsonl", "\n".join(map(json.dumps, said)))
    nodes = [node(name, output_keys=[name]) for name in names]
    edges = [{"source": one, "target": two} for one, two in pairwise(names)]
    write_json(place, "agents/four.json", agent_json(*nodes, id="four", edges=edges, model="scripted:script.jsonl"))
    trust(place)
    return place


class Waits:
    """What the connections of a server wait for while the block lasts, as shares of the looks at them."""

    def __init__(self, url: str | None) -> None:
        self._url, self._over, self.found = url, threading.Event(), Counter[str]()

    def __enter__(self) -> Waits:
        self._thread = threading.Thread(target=self._look)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        if self._url is None:
            return
        query = (
            "SELECT coalesce(wait_event_type || ':' || wait_event, 'working') FROM pg_stat_activity"
            " WHERE backend_type = 'client backend' AND state <> 'idle' AND pid <> pg_backend_pid()"
        )
        with psycopg.connect(self._url, autocommit=True) as connection:
            while not self._over.wait(PAUSE):
                self.found.update(row[0] for row in connection.execute(query))


def done_by(count: Count, wanted: int, processes: list[subprocess.Popen[bytes]]) -> float:
    """Return runs a second, from the first look at which some have begun."""
    first: float | None = None
    while True:
        now, (begun, done) = time.monotonic(), count()
        if first is None and begun:
            first = now
        if done >= wanted:
            assert first is not None
            return done / max(now - first, 1e-9)
        assert all(process.poll() is None for process in processes), "a worker has ended"
        time.sleep(0.1)


def measured(name: str, url: str | None, commands: list[list[str]], count: Count, wanted: int) -> dict[str, Any]:
    load = os.getloadavg()[0]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    with Waits(url) as waits:
        processes = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for command in commands]
        try:
            rate = done_by(count, wanted, processes)
        finally:
            for process in processes:
                process.send_signal(signal.SIGTERM)
            for process in processes:
                try:
                    process.wait(30)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
    after, lasted = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic() - began
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    total = sum(waits.found.values())
    row = {
        "case": name,
        "runs_per_second": round(rate, 2),
        "cpu_of_workers": round(cpu / lasted, 2),
        "load_before": round(load, 1),
        "waits": {what: round(times / total, 2) for what, times in waits.found.most_common(4)},
    }
    print(json.dumps(row), flush=True)
    return row


def hive(name: str, root: Path, url: str | None, workers: int, runs: int) -> dict[str, Any]:
    place = made(root / "w0", url)
    for _ in range(runs):
        AgentRun.start(place, "four", {}, hold=False)
    folders = [place.root]
    for number in range(1, workers):
        ignored = shutil.ignore_patterns(".hive") if url is not None else None
        copy = Path(shutil.copytree(place.root, root / f"w{number}", ignore=ignored)) if url else place.root
        folders.append(copy)
        trust(Workspace(copy))
    command = [sys.executable, "-m", "hive_agents", "serve", "--headless", "--quiet", "--role", "worker", "-w"]
    store = RunStore(place)
    commands = [[*command, str(folder)] for folder in folders]

    def count() -> tuple[int, int]:
        waiting, done = (store.count(status, tenant="local", user="local") for status in ("queued", "done"))
        return runs - waiting, done

    return measured(name, url, commands, count, runs)


def dbos(python: str, server: Postgres, root: Path, workers: int, runs: int) -> dict[str, Any]:
    name = f"dbos{uuid.uuid4().hex[:8]}"
    server.run(f"CREATE DATABASE {name};")
    url = server.url.replace("/postgres?", f"/{name}?")
    program = root / "job.py"
    program.write_text(DBOS)
    subprocess.run([python, program, url, "queue", "queue", str(runs)], check=True, stdout=subprocess.DEVNULL)
    commands = [[python, str(program), url, f"w{number}", "work", "0"] for number in range(workers)]
    with psycopg.connect(url, autocommit=True) as connection:

        def count() -> tuple[int, int]:
            query = "SELECT count(*) FROM dbos.workflow_status WHERE status = ANY(%s)"
            begun = connection.execute(query, (["PENDING", "SUCCESS"],)).fetchone()
            done = connection.execute(query, (["SUCCESS"],)).fetchone()
            return int(begun[0]) if begun else 0, int(done[0]) if done else 0

        return measured(f"DBOS, {workers} workers", url, commands, count, runs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--workers", default="1,2,4")
    parser.add_argument("--dbos", metavar="PYTHON")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder, postgres() as server:
        os.environ["HIVE_HOME"] = f"{folder}/home"
        root = Path(folder)
        for workers in map(int, given.workers.split(",")):
            rows.append(hive(f"embedded, {workers} workers", root / f"here{workers}", None, workers, given.runs))
            case = f"PostgreSQL, {workers} workers"
            rows.append(hive(case, root / f"pg{workers}", server.url, workers, given.runs))
            if given.dbos:
                rows.append(dbos(given.dbos, server, root, workers, given.runs))
    if given.json:
        given.json.write_text(json.dumps(rows, indent=2))


if __name__ == "__main__":
    main()
