"""How the server holds up: conversations at once, idle streams, and how much of it is ours.

    python benchmarks/server.py [--conversations 100] [--idle 1000] [--json FILE]

It serves a copy of the sample workspace in a process of its own, beside a bare Starlette application that answers the
same number of requests. Each conversation is a reader of their own who asks, follows the stream to its end, and asks
again. Times are seconds until the first event of a stream, and until its last one.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from hive_agents import Workspace  # noqa: E402
from hive_agents.access import Principal, mint  # noqa: E402
from hive_agents.cli.main import main as hive  # noqa: E402

QUESTIONS = ("how do I rotate an API token?", "which documents are effective?")
SERVER = (
    "[server]\nrate_per_minute = 100000\nconcurrent_runs = 100\nconnections_per_address = 4000\nconnections = 4000\n"
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
        head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}{self._headers}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        return int(head.split()[1]), reader, writer

    async def call(self, method: str, path: str, value: Any = None) -> Any:
        status, reader, writer = await self.send(method, path, value)
        text = await reader.read()
        writer.close()
        assert status in (200, 202), (status, text)
        return json.loads(text[text.index(b"{") : text.rindex(b"}") + 1])


async def conversation(client: Client) -> list[tuple[float, float]]:
    """(seconds to the first event, to the last one) of each turn; the clock starts with the question."""
    found = []
    for question in QUESTIONS:
        began = time.perf_counter()
        run = await client.call("POST", "/api/runs", {"input": {"text": question}})
        status, reader, writer = await client.send("GET", f"/api/runs/{run['run_id']}/events")
        assert status == 200, status
        first, text = 0.0, b""
        while piece := await reader.read(65536):
            text += piece
            if not first and b"data: " in text:
                first = time.perf_counter() - began
        writer.close()
        assert b"RUN_FINISHED" in text or b"data: {}" in text, text[-300:]
        found.append((first, time.perf_counter() - began))
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


async def many(port: int, pid: int, people: list[dict[str, str]]) -> dict[str, Any]:
    clients = [Client(port, headers) for headers in people]
    alone = [turn for client in clients[:10] for turn in await conversation(client)]
    began, used = time.perf_counter(), cpu(pid)
    found = await asyncio.gather(*map(conversation, clients), return_exceptions=True)
    seconds = time.perf_counter() - began
    failed = [repr(one)[:200] for one in found if isinstance(one, BaseException)]
    turns = [turn for one in found if not isinstance(one, BaseException) for turn in one]
    one, all_ = summary(alone), summary(turns)
    return {
        "conversations": len(people),
        "completed": len(people) - len(failed),
        "failed": failed[:5],
        "seconds": seconds,
        "computed_ms_a_turn": (cpu(pid) - used) * 1000 / max(len(turns), 1),
        "alone": one,
        "together": all_,
        "first_p95_over_median_alone": all_["first_p95"] / one["first_median"],
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


async def measured(conversations: int, streams: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "ws"
        for command in (["init", str(place)], ["index", "-w", str(place)], ["deploy", "v1", "-w", str(place)]):
            hive([*command, "--quiet"])
        toml = place / "hive.toml"
        port = free_port()
        toml.write_text(toml.read_text() + SERVER + f"port = {port}\n")
        workspace = Workspace(place)
        names = [f"reader{n}" for n in range(conversations)]
        tokens = [mint(workspace, Principal("acme", name, frozenset({"qa"}))).token for name in names]
        people = [{"Authorization": f"Bearer {token}"} for token in tokens]
        operator = mint(workspace, Principal("acme", "root", frozenset(), frozenset({"reader", "operator"}))).token
        command = [sys.executable, "-m", "hive_agents", "serve", "--headless", "--quiet", "-w", str(place)]
        process = subprocess.Popen(command, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)})
        url = f"http://127.0.0.1:{port}"
        try:
            await ready(url)
            found = await many(port, process.pid, people)
            found["idle"] = await idle(port, process.pid, {"Authorization": f"Bearer {operator}"}, streams)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
    port = free_port()
    process = subprocess.Popen([sys.executable, "-c", BARE, str(port)])
    try:
        url = f"http://127.0.0.1:{port}"
        await ready(url)
        found["bare_starlette"] = await many(port, process.pid, people)
    finally:
        process.terminate()
        process.wait(30)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conversations", type=int, default=100)
    parser.add_argument("--idle", type=int, default=1000)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    found = asyncio.run(measured(given.conversations, given.idle))
    text = json.dumps(found, indent=2)
    print(text)
    if given.json is not None:
        given.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
