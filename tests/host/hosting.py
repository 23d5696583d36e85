"""A host in a process of its own, and agents whose tools keep account in a file beside the workspace.

`python -m tests.host.hosting ROOT PORT` prints its port and serves until SIGTERM. Without arguments it forks a host
for each line {root, port} of stdin, and prints its pid, then its exit code.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from hive_agents import Workspace
from hive_agents.agents import ToolRegistry
from hive_agents.agents.run import AgentRun
from hive_agents.agents.tool import ToolContext
from hive_agents.base.errors import Busy
from hive_agents.host.host import Host
from hive_agents.models import Chain, ChatResult, Message, Tool
from hive_agents.runs import RunStore
from hive_agents.workspace.trusted import trust
from tests.agents.conftest import GOAL, agent_json, node, write_json
from tests.agents.loops import Told, say, sets

CHECKOUT = Path(__file__).parents[2]
TURNS = 3
"""Tool calls of a run, each in a turn of its own."""
ROLES = ("runs", "triggers", "http")
TRIGGER = {"id": "ring", "type": "webhook", "agent": "toiler", "secret_ref": "env:HIVE_TEST_RING"}
SECRET = "a secret of the test"


def prepared(root: Path, *, lease_seconds: float = 5.0) -> Workspace:
    """Agents `toiler`, and `careful`, whose second call needs a person; input {"what", "seconds"}."""
    (root / "collections").mkdir(parents=True)
    toml = f'[models]\nembedding = "none"\n[runs]\nlease_seconds = {lease_seconds}\n'
    (root / "hive.toml").write_text(toml, encoding="utf-8")
    place = Workspace(root)
    write_json(place, "goals/digest.json", GOAL)
    write_json(place, "triggers/ring.json", TRIGGER | {"input_from": "$.body", "run_as": "service:ring"})
    trust(place)
    inputs = {"input_keys": ["what", "seconds"], "output_keys": ["text"], "tools": ["toil", "ask_first"]}
    for id, decision in (("toiler", "allow"), ("careful", "ask")):
        policy = [{"match": "ask_first", "decision": decision}, {"match": "*", "decision": "allow"}]
        agent = agent_json(node("toil", **inputs), id=id, tool_policy=policy)
        write_json(place, f"agents/{id}.json", agent)
    root.with_suffix(".accounts").touch()
    return place


def _note(root: Path, **facts: Any) -> None:
    """Add a line to the accounts by one write: no lock that a killed or frozen process may hold, nothing to fail."""
    line = b"\n%s\n" % json.dumps(facts | {"at": time.monotonic()}).encode()  # the one before may have been cut off
    with root.with_suffix(".accounts").open("ab", buffering=0) as file:
        assert file.write(line) == len(line)


def _noted(root: Path) -> list[dict[str, Any]]:
    lines = root.with_suffix(".accounts").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if line.endswith("}")]


def tools(root: Path) -> ToolRegistry:
    registry = ToolRegistry()

    def toil(what: str, seconds: float, context: ToolContext) -> str:
        """Take some time, then have an effect outside, once for each key."""
        work = uuid.uuid4().hex
        _note(root, work=work, run=context.run_id, pid=os.getpid())
        time.sleep(seconds)
        _note(root, work=work, run=context.run_id, key=context.idempotency_key, what=what)
        return f"did {what}"

    def ask_first(what: str, seconds: float, context: ToolContext) -> str:
        """The same, where a person may have to agree."""
        return toil(what, seconds, context)

    registry.register(toil, side_effect="external")
    registry.register(ask_first, side_effect="external")
    return registry


def answering(messages: Sequence[Message], offered: Sequence[Tool]) -> ChatResult:
    """Toil, ask first, toil, then say what was done; what and how long stands in the first message."""
    told = next(one.content for one in messages if one.role == "user" and "seconds" in one.content)
    done = sum(one.role == "assistant" for one in messages)
    if done == TURNS:
        return say([sets("text", "done")])
    seconds = float(next(line for line in told.splitlines() if "seconds" in line).rpartition(":")[2])
    return say([("ask_first" if done == 1 else "toil", {"what": f"step {done}", "seconds": seconds})])


def seams(root: Path) -> dict[str, Any]:
    return {"tools": tools(root), "models": lambda role: Chain([Told(answering)])}


def queued(place: Workspace, agent: str = "toiler", seconds: float = 0.0) -> str:
    """The id of a run that waits for a host."""
    value = {"what": "work", "seconds": seconds}
    return AgentRun.start(place, agent, value, hold=False, **seams(place.root)).run_id


def host(place: Workspace, **changes: Any) -> Host:
    given: dict[str, Any] = {"roles": ("runs",), **seams(place.root), **changes}
    return Host(place, **given)


async def until(place: Workspace, status: str, *runs: str, seconds: float = 180.0) -> None:
    """Wait until each of the runs has the status."""
    store, end = RunStore(place), time.monotonic() + seconds
    while {run: store.get(run).status for run in runs} != dict.fromkeys(runs, status):
        assert time.monotonic() < end, {run: store.get(run).summary for run in runs}
        await asyncio.sleep(0.02)


def effects(place: Workspace, run: str) -> list[tuple[str, int]]:
    """What a run did outside, and how often each was attempted to its end."""
    done = Counter((one["what"], one["key"]) for one in _noted(place.root) if "what" in one and one["run"] == run)
    return [(what, times) for (what, _), times in sorted(done.items())]


def spans(place: Workspace) -> dict[str, list[tuple[int, float, float | None]]]:
    """By run: (pid, began, ended) of each tool call, in order; what was killed has no end."""
    noted = _noted(place.root)
    ended = {one["work"]: one["at"] for one in noted if "what" in one}
    found: dict[str, list[tuple[int, float, float | None]]] = {}
    for one in sorted((one for one in noted if "pid" in one), key=lambda one: one["at"]):
        found.setdefault(one["run"], []).append((one["pid"], one["at"], ended.get(one["work"])))
    return found


class HostProcess:
    """A host in another process; `died` says when it did, on the clock of the tools."""

    def __init__(self, place: Workspace, port: int = 0) -> None:
        command = [sys.executable, "-m", "tests.host.hosting", str(place.root), str(port)]
        environment = os.environ | {"HIVE_TEST_RING": SECRET}
        self.process = subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True, env=environment)
        self.died: float | None = None

    @property
    def pid(self) -> int:
        return self.process.pid

    def up(self) -> int:
        """Wait for it; the port that it listens at."""
        assert self.process.stdout is not None
        return int(json.loads(self.process.stdout.readline())["port"])

    def end(self, number: int) -> int:
        """Send a signal and wait; the exit code."""
        self.process.send_signal(number)
        code = self.process.wait(60)
        self.died = time.monotonic()
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


class Nursery:
    """One process that has imported everything, and forks for each host; `start` again when the last one is dead."""

    def __init__(self, place: Workspace, port: int) -> None:
        self.job = json.dumps({"root": str(place.root), "port": port}) + "\n"
        command = [sys.executable, "-m", "tests.host.hosting"]
        environment = os.environ | {"HIVE_TEST_RING": SECRET}
        self.process = subprocess.Popen(
            command, cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, env=environment
        )
        self.pid = 0

    def start(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(self.job)
        self.pid = self._line()

    def end(self, number: int) -> int:
        """Send a signal and wait; the exit code, or minus the signal."""
        os.kill(self.pid, number)
        return self._line()

    def close(self) -> None:
        self.process.communicate()

    def _line(self) -> int:
        assert self.process.stdout is not None
        return int(self.process.stdout.readline())


async def serve(root: Path, port: int, tell: bool = True) -> None:
    from hive_agents.server import Listener

    place = Workspace(root)
    listener = Listener(place, port=port)
    if tell:
        print(json.dumps({"port": listener.port}), flush=True)
    while True:
        try:
            await host(place, roles=ROLES, serve=listener.serve).run()
            break
        except Busy:  # the database is away at that moment: begin again, as whoever supervises a host does
            await asyncio.sleep(0.5)
    listener.close()


def nurse() -> None:
    for name in ("graphs.event_loop", "hive_agents.runs.checkpoint_tables", "jsonschema", "uvicorn.protocols",
                 "langgraph.checkpoint.postgres", "uvicorn.protocols.http.h11_impl", "hive_agents.server"):  # fmt: skip
        import_module(name)
    for line in sys.stdin:
        job = json.loads(line)
        child = os.fork()
        if not child:
            # What is told to end before its host listens for signals has begun nothing.
            signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
            asyncio.run(serve(Path(job["root"]), job["port"], tell=False))
            os._exit(0)
        print(child, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(serve(Path(sys.argv[1]), int(sys.argv[2])))
    else:
        nurse()
