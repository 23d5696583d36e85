"""How the server holds up: conversations at once, idle streams, and how much of it is ours.

    python benchmarks/server.py [--conversations 100] [--turns 4] [--think 20] [--idle 1000] [--langgraph PROGRAM]
                                [--json FILE]

It serves a copy of the sample workspace in a process of its own, beside a bare Starlette application that answers the
same number of requests, and beside `langgraph dev` where its program is named. Each conversation is a reader of their
own who asks, follows the stream to its end, and asks again in the same thread. Three loads:

- alone: one conversation after the other;
- at one instant: all of them ask in the same moment, and again as soon as they have their answer: how fast many are
  taken in, and how many turns a second are answered;
- under way: all of them are open, and each reader thinks between turns, `--think` seconds on average, and begins at
  their own moment.

Times are seconds until the first event of a stream, and until its last one. A server that computes on one core can't
tell the last of a hundred who ask in one instant sooner than it has read all hundred; the ratio to a reader who is
alone says what a server adds to that.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from hive_agents import Workspace  # noqa: E402
from hive_agents.access import Principal, mint  # noqa: E402
from hive_agents.cli.main import main as hive  # noqa: E402
from hive_agents.workspace.trusted import trust  # noqa: E402

QUESTIONS = ("how do I rotate an API token?", "which documents are effective?")
SERVER = (
    "[server]\nrate_per_minute = 100000\nconcurrent_runs = 100\nstreams_per_caller = 4000\n"
    "connections_per_address = 4000\nconnections = 4000\n"
)
BARE = """
import sys, uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route

async def started(request):
    await request.body()
    return JSONResponse({"run_id": "r1"}, 202)

async def events(request):
    async def frames():
        for n in range(20):
            yield b"data: {}\\n\\n"
    return StreamingResponse(frames(), media_type="text/event-stream")

app = Starlette(routes=[Route("/api/runs", started, methods=["POST"]), Route("/api/runs/r1/events", events)])
uvicorn.run(app, port=int(sys.argv[1]), log_level="error")
"""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def rss(pid: int) -> float:
    """Resident memory in MB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def cpu(pid: int) -> float:
    """Seconds that the process has computed."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Client:
    """HTTP by hand, a connection for each request: a library's client costs more than what is measured here."""

    def __init__(self, port: int, headers: dict[str, str]) -> None:
        self._port = port
        self._headers = "".join(f"{name}: {value}\r\n" for name, value in headers.items())

    async def send(
        self, method: str, path: str, value: Any = None
    ) -> tuple[int, asyncio.StreamReader, asyncio.StreamWriter]:
        """Return the status, and what the body comes by; the caller closes."""
        body = b"" if value is None else json.dumps(value).encode()
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}{self._headers}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        return int(head.split()[1]), reader, writer

    async def call(self, method: str, path: str, value: Any = None) -> Any:
        status, reader, writer = await self.send(method, path, value)
        text = await reader.read()
        writer.close()
        assert status in (200, 202), (status, text)
        return json.loads(text[text.index(b"{") : text.rindex(b"}") + 1])


async def turn(client: Client, question: str, thread_id: str | None) -> tuple[tuple[float, float], str | None]:
    """(seconds to the first event, to the last one) and the thread; the clock starts with the question."""
    began = time.perf_counter()
    named = {"thread_id": thread_id} if thread_id is not None else {}
    run = await client.call("POST", "/api/runs", {"input": {"text": question}, **named})
    status, reader, writer = await client.send("GET", f"/api/runs/{run['run_id']}/events")
    assert status == 200, status
    first, text = 0.0, b""
    while piece := await reader.read(65536):
        text += piece
        if not first and b"data: " in text:
            first = time.perf_counter() - began
    writer.close()
    assert b"RUN_FINISHED" in text or b"data: {}" in text, text[-300:]
    return (first, time.perf_counter() - began), run.get("thread_id")


Turn = Callable[[Any, str, str | None], Awaitable[tuple[tuple[float, float], str | None]]]


async def conversation(
    ask: Turn, client: Any, turns: int, think: float, rng: random.Random
) -> list[tuple[float, float]]:
    """Every turn of one reader, who thinks before each for `think` seconds on average."""
    found, thread_id = [], None
    for number in range(turns):
        await asyncio.sleep(2 * think * rng.random())
        times, thread_id = await ask(client, QUESTIONS[number % len(QUESTIONS)], thread_id)
        found.append(times)
    return found


def summary(turns: list[tuple[float, float]]) -> dict[str, float]:
    first, last = sorted(one for one, _ in turns), sorted(one for _, one in turns)
    p95 = int(0.95 * (len(first) - 1))
    return {
        "first_median": statistics.median(first),
        "first_p95": first[p95],
        "last_median": statistics.median(last),
        "last_p95": last[p95],
    }


async def at_once(
    ask: Turn, clients: list[Any], pid: int, turns: int, think: float, alone: dict[str, float]
) -> dict[str, Any]:
    began, used = time.perf_counter(), cpu(pid)
    readers = (conversation(ask, one, turns, think, random.Random(n)) for n, one in enumerate(clients))
    found = await asyncio.gather(*readers, return_exceptions=True)
    seconds = time.perf_counter() - began
    failed = [repr(one)[:200] for one in found if isinstance(one, BaseException)]
    times = [one for each in found if not isinstance(each, BaseException) for one in each]
    told = summary(times)
    return {
        "conversations": len(clients),
        "turns": len(times),
        "failed": len(failed),
        "faults": failed[:5],
        "seconds": seconds,
        "turns_a_second": len(times) / seconds,
        "computed_ms_a_turn": (cpu(pid) - used) * 1000 / max(len(times), 1),
        **told,
        "first_p95_over_median_alone": told["first_p95"] / alone["first_median"],
    }


async def loads(ask: Turn, clients: list[Any], pid: int, turns: int, think: float) -> dict[str, Any]:
    for client in clients[:3]:  # what the first of all bring with them is none of the others' cost
        await conversation(ask, client, 1, 0.0, random.Random())
    readers = [await conversation(ask, client, 2, 0.0, random.Random()) for client in clients[:20]]
    alone = summary([one for each in readers for one in each])
    return {
        "alone": alone,
        "at_one_instant": await at_once(ask, clients, pid, turns, 0.0, alone),
        "under_way": await at_once(ask, clients, pid, turns, think, alone),
    }


async def idle(port: int, pid: int, headers: dict[str, str], count: int) -> dict[str, Any]:
    """What so many streams cost of which nothing comes: the memory that they hold, and what is computed meanwhile."""
    client, streams = Client(port, headers), []
    for _ in range(10):  # what the first of all bring with them is none of the others' cost
        streams.append(await client.send("GET", "/api/events/stream"))
    before = rss(pid)
    for _ in range(count):
        streams.append(await client.send("GET", "/api/events/stream"))
    held, used, began = rss(pid) - before, cpu(pid), time.perf_counter()
    await asyncio.sleep(30)
    busy = (cpu(pid) - used) / (time.perf_counter() - began)
    for _, _, writer in streams:
        writer.close()
    return {"streams": count, "megabytes": held, "share_of_a_core": busy}


async def ready(url: str) -> None:
    async with httpx.AsyncClient(base_url=url) as client:
        for _ in range(600):
            try:
                if (await client.get("/readyz")).status_code in (200, 404):
                    return
            except httpx.TransportError:
                pass
            await asyncio.sleep(0.1)
    raise TimeoutError(url)


def clients_of(port: int, people: list[dict[str, str]]) -> list[Any]:
    return [Client(port, headers) for headers in people]


async def measured(given: argparse.Namespace) -> dict[str, Any]:
    load = given.turns, given.think
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "ws"
        for command in (["init", str(place)], ["index", "-w", str(place)]):
            hive([*command, "--quiet"])
        toml = place / "hive.toml"
        port = free_port()
        toml.write_text(toml.read_text() + SERVER + f"port = {port}\n")
        workspace = Workspace(place)
        trust(workspace)
        names = [f"reader{n}" for n in range(given.conversations)]
        tokens = [mint(workspace, Principal("acme", name, frozenset({"qa"}))).token for name in names]
        people = [{"Authorization": f"Bearer {token}"} for token in tokens]
        operator = mint(workspace, Principal("acme", "root", frozenset(), frozenset({"reader", "operator"}))).token
        command = [sys.executable, "-m", "hive_agents", "serve", "--headless", "--quiet", "-w", str(place)]
        with (Path(folder) / "log").open("w+b") as log:
            process = subprocess.Popen(command, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, stderr=log)
            url = f"http://127.0.0.1:{port}"
            try:
                await ready(url)
                # Before the rest, which leaves memory behind that streams could use.
                waiting = await idle(port, process.pid, {"Authorization": f"Bearer {operator}"}, given.idle)
                found = await loads(turn, clients_of(port, people), process.pid, *load) | {"idle": waiting}
            finally:
                process.send_signal(signal.SIGTERM)
                process.wait(60)
            log.seek(0)
            found["lines_that_tell_of_a_lock"] = sum(b"lock" in line or b"HIVE-402" in line for line in log)
        if given.langgraph is not None:
            found["langgraph_dev"] = await langgraph(given.langgraph, place, people, load)
    found["bare_starlette"] = await bare(people, load)
    return found


class LangGraphReader:
    """A reader of a LangGraph server, who brings their token in the context of each run."""

    def __init__(self, port: int, place: Path, headers: dict[str, str]) -> None:
        self.client = Client(port, {})
        self.context = {"workspace": str(place), "token": headers["Authorization"].removeprefix("Bearer ")}


async def langgraph_turn(
    reader: LangGraphReader, question: str, thread_id: str | None
) -> tuple[tuple[float, float], str | None]:
    began = time.perf_counter()
    if thread_id is None:
        thread_id = (await reader.client.call("POST", "/threads", {}))["thread_id"]
    asked = {"run_id": f"r{random.getrandbits(40):010x}", "request": {"text": question}}
    body = {"assistant_id": "worker", "input": asked, "context": reader.context, "stream_mode": ["updates"]}
    status, stream, writer = await reader.client.send("POST", f"/threads/{thread_id}/runs/stream", body)
    assert status == 200, status
    first, text = 0.0, b""
    while piece := await stream.read(65536):
        text += piece
        if not first and b"data: " in text:
            first = time.perf_counter() - began
    writer.close()
    assert b"finalize" in text, text[-500:]
    return (first, time.perf_counter() - began), thread_id


async def langgraph(
    program: Path, place: Path, people: list[dict[str, str]], load: tuple[int, float]
) -> dict[str, Any]:
    """The copilot's graph, by the graphs of `langgraph.json`."""
    port = free_port()
    options = ["dev", "--no-browser", "--no-reload", "--config", str(ROOT / "langgraph.json"), "--port", str(port)]
    with (place / "langgraph.log").open("wb") as log:
        process = subprocess.Popen(
            [str(program), *options, "--n-jobs-per-worker", "100", "--allow-blocking"],
            cwd=place, env=os.environ | {"PYTHONPATH": str(ROOT)}, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
        try:
            await ready(f"http://127.0.0.1:{port}")
            return await loads(
                langgraph_turn, [LangGraphReader(port, place, one) for one in people], process.pid, *load
            )
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(30)


async def bare(people: list[dict[str, str]], load: tuple[int, float]) -> dict[str, Any]:
    port = free_port()
    process = subprocess.Popen([sys.executable, "-c", BARE, str(port)])
    try:
        await ready(f"http://127.0.0.1:{port}")
        return await loads(turn, clients_of(port, people), process.pid, *load)
    finally:
        process.terminate()
        process.wait(30)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conversations", type=int, default=100)
    parser.add_argument("--turns", type=int, default=4, help="of each conversation")
    parser.add_argument("--think", type=float, default=20.0, help="seconds, on average")
    parser.add_argument("--idle", type=int, default=1000, help="streams of which nothing comes")
    parser.add_argument("--langgraph", type=Path, help="the program `langgraph` of langgraph-cli[inmem]")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    text = json.dumps(asyncio.run(measured(given)), indent=2)
    print(text)
    if given.json is not None:
        given.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
