"""What the time of an answer tells of documents that the reader may not view.

    python benchmarks/timing.py [--http] [--tries N] [--json FILE]

Three attackers watch the clock, on a workspace of 600 documents of which 525 are hidden: does a document that they name
exist, asked by `/open` in a new conversation and in one that goes on; and do hidden documents hold a word that they
search for. Each question is asked as often about what is hidden as about what isn't there, in random order, of another
document or word each time. The figure is the AUC of the two sets of times: .5 tells nothing, 1
tells all. "At most" is the upper end of its interval, with a confidence of 95 %.

With `--http` the attackers ask a server in a process of its own: for a document by `GET /api/documents`, and by search.
Cold is what nobody asked before of this reader: a new reader's first request of each document, over a connection of its
own, and the first search for a word. Warm is the same again, over a connection that stays.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import math
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from hive_agents import Workspace
from hive_agents.access import Principal, mint
from hive_agents.base.errors import HiveError
from hive_agents.copilot import Chat, Request
from hive_agents.ranking import SearchEngine, build_index
from hive_agents.ranking.config import point_active
from hive_agents.store import connected

VISIBLE, HIDDEN = 75, 525
TARGET = 0.55
SEARCHES = 400
"""Of each kind at most: each has a word of its own, which all documents hold."""
IDLE = 2.0
"""Seconds after which a server may have closed a connection."""
READER = Principal("acme", "dana")
COLLECTION = {
    "name": "kb",
    "fields": {
        "title": {"type": "text"},
        "status": {"type": "keyword", "filterable": True},
        "content": {"type": "text"},
    },
    "chunking": {"strategy": "by_heading", "max_tokens": 512, "heading_level": 2},
}
CONFIG = {"name": "v1", "collection": "kb", "retrieval": {"method": "keyword", "top_k": 10}}


def made(root: Path, words: int) -> Workspace:
    """Each hidden document holds all of the `hiddenN` words, each visible one those of `openN` and of `hiddenN`."""
    for folder in ("collections", "configs", "documents", "access"):
        (root / folder).mkdir(parents=True)
    (root / "hive.toml").write_text('[models]\nembedding = "none"\n')
    (root / "collections" / "kb.json").write_text(json.dumps(COLLECTION))
    (root / "configs" / "v1.json").write_text(json.dumps(CONFIG))
    everywhere = " ".join(f"hidden{number}" for number in range(words))
    seen = " ".join(f"open{number}" for number in range(words))
    for number in range(VISIBLE + HIDDEN):
        mine = number < VISIBLE
        front = f"---\ntitle: Paper {number}\ntenant: acme\nview: [{'tenant' if mine else 'user:eve'}]\n---\n"
        name = ("paper" if mine else "secret") + f"{number:05d}.md"
        (root / "documents" / name).write_text(f"{front}Paper {number} {everywhere} {seen if mine else ''}\n")
    workspace = Workspace(root)
    build_index(workspace)
    with connected(workspace.database) as connection:  # as if the documents had been written long before
        connection.execute("UPDATE corpus_stats SET created_at = '2999-01-01T00:00:00+00:00'")
    point_active(workspace, root / "configs" / "v1.json")
    return workspace


def auc(first: list[float], second: list[float]) -> float:
    """How surely a time of `second` is told from one of `first`, whichever is larger."""
    ranked = sorted([(value, 0) for value in first] + [(value, 1) for value in second])
    ranks = sum(rank for rank, (_, which) in enumerate(ranked, start=1) if which)
    share = (ranks - len(second) * (len(second) + 1) / 2) / (len(first) * len(second))
    return max(share, 1 - share)


def at_most(found: float, tries: int) -> float:
    """Return the upper end of the interval of an AUC near .5 that was found with so many tries of each kind.

    >>> round(at_most(0.51, 2_000), 3)
    0.525
    """
    return found + 1.645 * math.sqrt((2 * tries + 1) / (12 * tries * tries))


def timed(act: Callable[[], object]) -> float:
    gc.collect()
    gc.disable()
    started = time.perf_counter()
    act()
    seconds = time.perf_counter() - started
    gc.enable()
    return seconds


def refused(chat: Chat, doc_id: str) -> Callable[[], None]:
    def act() -> None:
        try:
            chat.document(doc_id)
        except HiveError:
            return
        raise AssertionError("a hidden document was opened")

    return act


def asked(tries: int) -> Iterator[tuple[int, int]]:
    """(0 or 1, which one) as often for both, in random order."""
    rng = random.Random(7)
    order = [(kind, number) for kind in (0, 1) for number in range(tries)]
    rng.shuffle(order)
    return iter(order)


def opened(workspace: Workspace, tries: int, *, cold: bool) -> list[list[float]]:
    """Cold: each document for the first time, each in a conversation of its own, as a host holds many."""
    times: list[list[float]] = [[], []]
    engine = SearchEngine(workspace)
    warm = Chat(workspace, READER, engine=engine)
    refused(warm, "nothing.md")()
    for hidden, number in asked(tries):
        doc_id = f"{'secret' if hidden else 'absent'}{VISIBLE + number % HIDDEN:05d}.md"
        chat = Chat(workspace, READER, engine=engine) if cold else warm
        if not cold:
            refused(warm, doc_id)()
        times[hidden].append(timed(refused(chat, doc_id)))
    return times


def searched(workspace: Workspace, tries: int) -> list[list[float]]:
    times: list[list[float]] = [[], []]
    asyncio.run(Chat(workspace, READER).ask(Request(text="how is paper 1 kept?")))
    for hidden, number in asked(tries):
        text = f"what is {'hidden' if hidden else 'open'}{number}?"
        chat = Chat(workspace, READER)
        times[hidden].append(timed(lambda chat=chat, text=text: asyncio.run(chat.ask(Request(text=text)))))  # type: ignore[misc]
    return times


class Attacker:
    """A reader at the door of a server, with a token of their own."""

    def __init__(self, port: int, workspace: Workspace, name: str) -> None:
        self._port = port
        token = mint(workspace, Principal("acme", name)).token
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self._kept = HTTPConnection("127.0.0.1", port)
        self._used = 0.0

    def asks(self, method: str, path: str, body: str | None = None, *, cold: bool = False) -> float:
        """Seconds until the answer is there."""
        connection = HTTPConnection("127.0.0.1", self._port) if cold else self._ready()
        gc.collect()
        gc.disable()
        started = time.perf_counter()
        connection.request(method, path, body, self._headers)
        answer = connection.getresponse()
        answer.read()
        seconds = time.perf_counter() - started
        gc.enable()
        assert answer.status in (200, 404), answer.status
        if cold:
            connection.close()
        return seconds

    def _ready(self) -> HTTPConnection:
        """The connection that stays; one that was idle for long is opened again, off the clock."""
        if time.monotonic() - self._used > IDLE:
            self._kept.close()
            self._kept.request("GET", "/healthz")
            self._kept.getresponse().read()
        self._used = time.monotonic()
        return self._kept


@contextmanager
def served(workspace: Workspace) -> Iterator[int]:
    """The port of a server that is ready."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = int(found.getsockname()[1])
    toml = workspace.root / "hive.toml"
    limits = f"[server]\nport = {port}\nrate_per_minute = 1000000\n[index]\nauto_refresh = false\n"
    toml.write_text(toml.read_text() + limits)
    command = [sys.executable, "-m", "hive_agents", "serve", "--headless", "--quiet", "-w", str(workspace.root)]
    process = subprocess.Popen(command)
    try:
        while True:
            with suppress(OSError):
                connection = HTTPConnection("127.0.0.1", port)
                connection.request("GET", "/readyz")
                if connection.getresponse().status == 200:
                    break
            time.sleep(0.1)
        yield port
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def over_http(tries: int) -> Iterator[tuple[str, list[list[float]]]]:
    """(what is asked, the times of what isn't there and of what is hidden) of each attack."""
    with tempfile.TemporaryDirectory() as folder:
        workspace = made(Path(folder) / "ws", tries)
        gc.freeze()  # so that the collection before each try is short
        with served(workspace) as port:
            passes = range(math.ceil(tries / HIDDEN))
            attackers = [Attacker(port, workspace, f"eve{number}") for number in passes]
            for attacker in attackers:
                attacker.asks("GET", "/api/documents/nothing.md")
                attacker.asks("POST", "/api/query", json.dumps({"query": "how is paper 1 kept?"}))
            for how, cold in (("cold", True), ("warm", False)):
                times: list[list[float]] = [[], []]
                for hidden, number in asked(tries):
                    name = f"{'secret' if hidden else 'absent'}{VISIBLE + number % HIDDEN:05d}.md"
                    attacker = attackers[number // HIDDEN]
                    times[hidden].append(attacker.asks("GET", f"/api/documents/{name}", cold=cold))
                yield f"a document by HTTP, {how}", times
            for how, cold in (("cold", True), ("warm", False)):
                times = [[], []]
                for hidden, number in asked(tries):
                    body = json.dumps({"query": f"what is {'hidden' if hidden else 'open'}{number}?"})
                    times[hidden].append(attackers[0].asks("POST", "/api/query", body, cold=cold))
                yield f"{HIDDEN} matches by HTTP, {how}", times


def figures(absent: list[float], hidden: list[float]) -> dict[str, Any]:
    medians = [1000 * statistics.median(times) for times in (hidden, absent)]
    share, each = auc(absent, hidden), len(hidden)
    return {
        "tries": 2 * each,
        "auc": round(share, 3),
        "target": TARGET,
        "at_most": round(at_most(share, each), 3),
        "hidden_ms": round(medians[0], 3),
        "absent_ms": round(medians[1], 3),
    }


def measured(tries: int) -> dict[str, dict[str, Any]]:
    """Return what each attacker learns: tries of both kinds together, the AUC, the medians in ms."""
    found: dict[str, dict[str, Any]] = {}
    searches = min(tries, SEARCHES)
    with tempfile.TemporaryDirectory() as folder:
        workspace = made(Path(folder) / "ws", searches)
        gc.collect()
        gc.freeze()  # so that the collection before each try is short
        attackers: dict[str, Callable[[], list[list[float]]]] = {
            "/open, a new conversation": lambda: opened(workspace, tries, cold=True),
            "/open, the same conversation": lambda: opened(workspace, tries, cold=False),
            f"{HIDDEN} hidden matches of a search": lambda: searched(workspace, searches),
        }
        for name, attack in attackers.items():
            found[name] = figures(*attack())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tries", type=int, default=2_000, help="of each kind")
    parser.add_argument("--http", action="store_true", help="ask a server")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.http:
        found = {name: figures(*times) for name, times in over_http(options.tries)}
    else:
        found = measured(options.tries)
    print(f"{'what is hidden':<36} {'tries':>6} {'AUC':>6} {'at most':>8} {'hidden ms':>10} {'absent ms':>10}")
    for name, row in found.items():
        times = f"{row['hidden_ms']:>10.3f} {row['absent_ms']:>10.3f}"
        print(f"{name:<36} {row['tries']:>6} {row['auc']:>6.3f} {row['at_most']:>8.3f} {times}")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
