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


async def conversation(client: httpx.AsyncClient, headers: dict[str, str]) -> list[tuple[float, float]]:
    """(seconds to the first event, to the last one) of each turn; the clock starts with the question."""
    found = []
    for question in QUESTIONS:
        began = time.perf_counter()
        sent = await client.post("/api/runs", json={"input": {"text": question}}, headers=headers)
        assert sent.status_code == 202, sent.text
        path = f"/api/runs/{sent.json()['run_id']}/events"
        first, text = 0.0, b""
        async with client.stream("GET", path, headers=headers) as response:
            async for piece in response.aiter_bytes():
                first = first or time.perf_counter() - began
                text += piece
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


async def many(url: str, people: list[dict[str, str]]) -> dict[str, Any]:
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=url, timeout=300, limits=limits) as client:
        alone = [turn for headers in people[:5] for turn in await conversation(client, headers)]
        began = time.perf_counter()
        found = await asyncio.gather(*(conversation(client, headers) for headers in people), return_exceptions=True)
        seconds = time.perf_counter() - began
    failed = [repr(one)[:200] for one in found if isinstance(one, BaseException)]
    turns = [turn for one in found if not isinstance(one, BaseException) for turn in one]
    return {
        "conversations": len(people),
        "completed": len(people) - len(failed),
        "failed": failed[:5],
        "seconds": seconds,
        "alone": summary(alone),
        "together": summary(turns),
    }


async def idle(url: str, pid: int, headers: dict[str, str], count: int) -> dict[str, Any]:
    """What so many streams cost of which nothing comes: a paused run is followed by all of them."""
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=url, timeout=300, limits=limits) as client:
        sent = await client.post("/api/runs", json={"input": {"text": "wait"}}, headers=headers | {"X": "y"})
        run_id = sent.json()["run_id"]
        await client.post(f"/api/runs/{run_id}/pause", headers=headers)
        before = rss(pid)
        streams = []
        for _ in range(count):
            request = client.build_request("GET", "/api/events/stream", headers=headers)
            streams.append(await client.send(request, stream=True))
        held, used, began = rss(pid) - before, cpu(pid), time.perf_counter()
        await asyncio.sleep(10)
        busy = (cpu(pid) - used) / (time.perf_counter() - began)
        for one in streams:
            await one.aclose()
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
            found = await many(url, people)
            found["idle"] = await idle(url, process.pid, {"Authorization": f"Bearer {operator}"}, streams)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
    port = free_port()
    process = subprocess.Popen([sys.executable, "-c", BARE, str(port)])
    try:
        url = f"http://127.0.0.1:{port}"
        await ready(url)
        found["bare_starlette"] = await many(url, people)
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
