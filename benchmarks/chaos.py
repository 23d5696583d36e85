"""Hosts under faults, with readers who ask and runs that pay: what was promised, and whether it held.

    python benchmarks/chaos.py [--minutes 10 | --seconds 120] [--readers 20] [--think 6] [--runs 60] [--seed 1]
                               [--without-engine] [--caddyfile FILE] [--keep FOLDER] [--json FILE]

Two folders with the sample workspace, as two machines would have them, share their records in a PostgreSQL. In each are
a `hive serve --role api` and a worker, and the Caddyfile of examples/serve is in front. Documents are searched on
OpenSearch. After a quiet part of the time, one fault comes after the other, in an order drawn by the seed:

- a host is killed by SIGKILL and begins again after two seconds, as its unit would do it, or is stopped for a while;
- PostgreSQL is killed and restarted, stopped as a whole, or all connections of the hosts are cut;
- OpenSearch is killed and restarted, or stopped.

Meanwhile each reader asks, follows the stream to its end, thinks, and asks again; whoever gets a failure asks once more
under the same key. Runs pay an order each (the bank honours keys), some of them after a person's approval, and send a
letter, which has no key: where a worker died in mid-call, a person is asked, who looks into the accounts, as soon as no
worker is stopped. Tokens are made and ended; `/readyz` of each process is asked each second.

All of it is real and on this machine: programs, ports of loopback, TLS to PostgreSQL (with `fsync = off`), the smallest
distribution of OpenSearch (no vectors, which stay on the hosts). Exit code 1 where a promise is broken.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import sys
import tempfile
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from hive_agents.access import Principal, mint  # noqa: E402
from hive_agents.approvals import ApprovalStore  # noqa: E402
from hive_agents.runs import RunStore  # noqa: E402
from tests.real_hosts import APPROVED_ABOVE, Hosts, Server, order  # noqa: E402

RECORDS, ENGINE = "PostgreSQL", "OpenSearch"
GRACE = 5.0
"""Seconds after a fault that still count as its outage."""
SETTLED = 3.0
"""Seconds after a change in which either answer of `/readyz` is right; also those in which it has to answer."""
RESTS = 17.0
"""Seconds for which a host goes on without an engine that is back: `[search] rest_seconds`, and the next request."""
REVOKED = 2.0
RATIO = 3.0
LOST = 120.0
"""Seconds after which an ended token is let in nowhere, the p95 of a question beside the quiet one's, and seconds after
which one counts as lost."""
STOPPED = {"api": 8.0, "worker": 40.0, RECORDS: 10.0, ENGINE: 20.0}
"""Seconds for which each is stopped; a worker for longer than its leases."""
QUESTIONS = ("how do I rotate an API token?", "which documents are effective?", "what changed in the last release?")


@dataclass
class Fault:
    what: str
    target: str
    began: float
    ended: float = float("inf")


class World:
    """What was broken when, and what didn't hold."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self.broken: defaultdict[str, list[str]] = defaultdict(list)
        self.over = False
        self.began = time.monotonic()

    @contextmanager
    def fault(self, what: str, target: str) -> Iterator[None]:
        one = Fault(what, target, time.monotonic())
        self.faults.append(one)
        print(f"{one.began - self.began:6.1f} s  {what}", flush=True)
        try:
            yield
        finally:
            one.ended = time.monotonic()

    def during(self, began: float, ended: float, target: str = "") -> list[Fault]:
        """Return the faults of a target, or of all, of which some moment lies between these."""
        return [one for one in self.faults if one.target.startswith(target) and one.began <= ended
                and one.ended >= began]  # fmt: skip

    def kinds(self, began: float, ended: float) -> set[str]:
        return {one.what for one in self.during(began, ended)}

    def breach(self, promise: str, what: str) -> None:
        self.broken[promise].append(f"{time.monotonic() - self.began:.1f} s: {what}")


class Caller:
    """Somebody with a token, who tries again what failed."""

    def __init__(self, world: World, url: str, token: str, refused: Counter[str]) -> None:
        self._world, self._refused = world, refused
        headers = {"Authorization": f"Bearer {token}"}
        self.client = httpx.AsyncClient(
            base_url=url, headers=headers, trust_env=False, timeout=httpx.Timeout(10, read=20)
        )

    async def call(self, method: str, path: str, value: Any = None, key: str | None = None) -> tuple[int, Any]:
        """Return the status and the body of the first answer that isn't an outage's."""
        headers = {"Idempotency-Key": key} if key else {}
        end = time.monotonic() + LOST
        while time.monotonic() < end:
            try:
                answer = await self.client.request(method, path, json=value, headers=headers)
            except httpx.TransportError as error:
                self._refused[type(error).__name__] += 1
            else:
                if answer.status_code not in (429, 500, 502, 503, 504):
                    return answer.status_code, answer.json() if answer.content else None
                self._refused[str(answer.status_code)] += 1
                if answer.status_code == 500:
                    self._world.breach("no answer is 500", f"{method} {path}: {answer.text[:300]}")
            await asyncio.sleep(0.5)
        return 0, None

    async def follow(self, run: str) -> dict[str, Any]:
        """Read a run's stream to its end, from wherever it broke off; its last event, empty where none came."""
        last, end = "", time.monotonic() + LOST
        while time.monotonic() < end:
            try:
                headers = {"Last-Event-ID": last} if last else {}
                async with self.client.stream("GET", f"/api/runs/{run}/events", headers=headers) as answer:
                    if answer.status_code not in (200, 429, 502, 503, 504):
                        return {}
                    async for line in answer.aiter_lines():
                        last = line.removeprefix("id: ") if line.startswith("id: ") else last
                        if line.startswith("data: ") and ('"RUN_FINISHED"' in line or '"RUN_ERROR"' in line):
                            return dict(json.loads(line.removeprefix("data: ")))
                    self._refused["stream ended early" if answer.status_code == 200 else str(answer.status_code)] += 1
            except httpx.TransportError as error:
                self._refused[f"stream: {type(error).__name__}"] += 1
            await asyncio.sleep(0.5)
        return {}


@dataclass
class Asked:
    began: float
    ended: float
    run: str


class Chaos:
    def __init__(self, given: argparse.Namespace, hosts: Hosts) -> None:
        self.given, self.hosts = given, hosts
        self.seconds = given.seconds or given.minutes * 60
        self.world, self.chance, self.refused = World(), random.Random(given.seed), Counter[str]()
        self.asked: list[Asked] = []
        self.started: dict[str, int] = {}
        self.probes: Counter[str] = Counter()
        self.slowest_probe = self.slowest_end = 0.0
        self.ended_tokens = self.looked_up = 0

    def caller(self, user: str, *roles: str, groups: Sequence[str] = ()) -> Caller:
        who = Principal("acme", user, frozenset(groups), frozenset({"reader", *roles}))
        return Caller(self.world, self.hosts.url, mint(self.hosts.place, who, 7200).token, self.refused)

    async def run(self) -> None:
        for server in self.hosts.servers:
            await server.ready()
        readers = [self.caller(f"reader{n}", groups=["qa"]) for n in range(self.given.readers)]
        root, dana = self.caller("root", "operator", "admin"), self.caller("dana", "approver", groups=["qa"])
        for reader in readers[:4]:
            await self.ask(reader, QUESTIONS[0])
        self.asked.clear()
        self.world.began = time.monotonic()
        supervised = (server.supervise() for server in self.hosts.servers)
        watching = begun(self.approve(dana), *supervised, *map(self.probe, self.hosts.servers))
        reading = (self.read(reader, n) for n, reader in enumerate(readers))
        working = begun(*reading, self.order(root), self.end_tokens(root))
        await asyncio.sleep(max(self.seconds / 6, 20))
        self.quiet_until = time.monotonic()
        await self.disturb()
        self.world.over = True
        for done in await asyncio.gather(*working, return_exceptions=True):
            if isinstance(done, BaseException):
                self.world.breach("what this program itself does", repr(done))
        await self.runs_end()
        for task in watching:
            task.cancel()
        for done in await asyncio.gather(*watching, return_exceptions=True):
            if not isinstance(done, asyncio.CancelledError):
                self.world.breach("what this program itself does", repr(done))

    async def disturb(self) -> None:
        faults: list[tuple[str, str, Callable[[], Awaitable[object]]]] = []
        for one in self.hosts.servers:
            faults.append((f"{one.kind} killed", one.name, one.kill))
            faults.append((f"{one.kind} stopped", one.name, partial(self.stop, one.signal, STOPPED[one.kind])))
        faults += [(f"{RECORDS} restarted", RECORDS, self.restart_records),
                   (f"{RECORDS} stopped", RECORDS, partial(self.stop, self.signal_records, STOPPED[RECORDS])),
                   ("connections cut", RECORDS, partial(asyncio.to_thread, self.hosts.cut))]  # fmt: skip
        if self.hosts.engine is not None:
            stop = partial(self.stop, self.hosts.engine.signal, STOPPED[ENGINE])
            faults += [(f"{ENGINE} killed", ENGINE, self.restart_engine), (f"{ENGINE} stopped", ENGINE, stop)]
        waiting: list[tuple[str, str, Callable[[], Awaitable[Any]]]] = []
        while time.monotonic() < self.world.began + self.seconds:
            waiting = waiting or self.chance.sample(faults, len(faults))
            what, target, strike = waiting.pop()
            with self.world.fault(what, target):
                await strike()
            await asyncio.sleep(GRACE + self.chance.uniform(5, 10))

    async def stop(self, send: Callable[[int], None], seconds: float) -> None:
        send(signal.SIGSTOP)
        await asyncio.sleep(seconds)
        send(signal.SIGCONT)

    def signal_records(self, number: int) -> None:
        for process in (self.hosts.records.process, *self.hosts.records.children()):
            with suppress(ProcessLookupError):
                os.kill(process, number)

    async def restart_records(self) -> None:
        await asyncio.to_thread(self.hosts.records.stop)
        await asyncio.sleep(3)
        await asyncio.to_thread(self.hosts.records.start)

    async def restart_engine(self) -> None:
        assert self.hosts.engine is not None
        await asyncio.to_thread(self.hosts.engine.signal, signal.SIGKILL)
        await asyncio.sleep(10)
        await asyncio.to_thread(self.hosts.engine.start)

    async def read(self, reader: Caller, number: int) -> None:
        chance = random.Random(self.given.seed * 1000 + number)
        while not self.world.over:
            await asyncio.sleep(chance.uniform(0, 2 * self.given.think))
            await self.ask(reader, chance.choice(QUESTIONS))

    async def ask(self, reader: Caller, text: str) -> None:
        began = time.monotonic()
        status, run = await reader.call("POST", "/api/runs", {"input": {"text": text}}, key=uuid.uuid4().hex)
        end = await reader.follow(run["run_id"]) if status == 202 else {}
        reply = (end.get("result") or {}).get("status", "")
        if reply in ("", "unavailable"):
            self.world.breach("no question is lost", f"{status} {run and run.get('run_id')}: {reply} {end.get('type')}")
        else:
            self.asked.append(Asked(began, time.monotonic(), run["run_id"]))

    async def order(self, root: Caller) -> None:
        for number in range(self.given.runs):
            body = {"graph": "event_loop", "agent": "payer", "input": {"order": order(number)[0]}}
            status, run = await root.call("POST", "/api/runs", body, key=uuid.uuid4().hex)
            if status != 202:
                self.world.breach("each run ends well", f"{order(number)[0]} wasn't begun: {status} {run}")
            else:
                self.started[run["run_id"]] = number
            await asyncio.sleep((self.seconds - 10) / self.given.runs)

    async def approve(self, dana: Caller) -> None:
        while True:
            _, pending = await dana.call("GET", "/api/approvals?status=pending")
            for row in pending["items"] if pending else ():
                decision: dict[str, Any] = {"verb": "approve", "version": row["version"]}
                if row["kind"] == "question":
                    if self.world.during(time.monotonic() - GRACE, time.monotonic(), "worker"):
                        continue  # a stopped worker may still be sending
                    _, shown = await dana.call("GET", f"/api/approvals/{row['id']}")
                    named = shown["request"]["context"]["args"]["order"]
                    self.looked_up += 1
                    if any(one["letter"] == named for one in self.hosts.noted("letter")):
                        decision |= {"verb": "respond", "message": "it was sent"}
                await dana.call("POST", f"/api/approvals/{row['id']}/decide", decision)
            await asyncio.sleep(1)

    async def end_tokens(self, root: Caller) -> None:
        """Make a token, use it at both hosts, end it, and use it again for a while."""
        async with httpx.AsyncClient(trust_env=False, timeout=10) as client:

            async def tries(url: str, token: str, until: float) -> float:
                """Try till then; the second of the last use that was let in."""
                last = 0.0
                while (at := time.monotonic()) < until:
                    with suppress(httpx.TransportError):
                        headers = {"Authorization": f"Bearer {token}"}
                        if (await client.get(f"{url}/api/session", headers=headers)).status_code == 200:
                            last = at
                    await asyncio.sleep(0.1)
                return last

            while not self.world.over:
                who = {"user": f"leaver{self.ended_tokens}", "groups": ["qa"], "ttl": 600}
                _, made = await root.call("POST", "/api/tokens", who)
                uses = [partial(tries, one.url, made["token"]) for one in self.hosts.apis]
                await asyncio.gather(*(use(time.monotonic() + 0.5) for use in uses))
                status, _ = await root.call("DELETE", f"/api/tokens/{made['jti']}")
                ended = time.monotonic()
                if status not in (200, 204, 404):
                    self.world.breach("ended tokens", f"ending one is {status}")
                late = [last - ended for last in await asyncio.gather(*(use(ended + 5) for use in uses)) if last]
                self.ended_tokens += 1
                self.slowest_end = max(self.slowest_end, *late, 0.0)
                if late and max(late) > REVOKED:
                    self.world.breach("ended tokens", f"one was let in after {max(late):.1f} s")

    async def probe(self, server: Server) -> None:
        async with httpx.AsyncClient(trust_env=False, timeout=6) as client:
            while True:
                began, status, told = time.monotonic(), 0, {}
                with suppress(httpx.TransportError):
                    answer = await client.get(f"{server.url}/readyz")
                    status, told = answer.status_code, answer.json()
                self.judge(server, began, time.monotonic(), status, told)
                await asyncio.sleep(max(0.0, 1 - (time.monotonic() - began)))

    def judge(self, server: Server, began: float, ended: float, status: int, told: dict[str, Any]) -> None:
        """Whether that was the right answer to `/readyz` at this moment; 0 is none."""
        records, engine, own = (
            self.world.during(began - SETTLED, ended, one) for one in (RECORDS, ENGINE, server.name)
        )
        rested = self.world.during(began - RESTS, began, ENGINE)
        if own or any(one.began > began - SETTLED or one.ended < ended for one in (*records, *rested, *engine)):
            self.probes["while something changed"] += 1
            return
        expected = 503 if records else 200
        away = {ENGINE.lower(): "away" if engine else "ok"} if self.hosts.engine is not None else {}
        self.probes[f"{expected} was right"] += 1
        self.slowest_probe = max(self.slowest_probe, ended - began)
        what = f"{server.name} said {status} {told.get('engines', told.get('detail', ''))} in {ended - began:.1f} s"
        if status != expected or ended - began > SETTLED:
            self.world.breach("/readyz", f"{what}; {expected} was right")
        elif status == 200 and told["engines"] != away and not any("killed" in one.what for one in engine):
            self.world.breach("/readyz", f"{what}; {away} was right")

    async def runs_end(self) -> None:
        store, end = RunStore(self.hosts.place), time.monotonic() + 180
        while left := [run for run in self.started if store.get(run).status != "done"]:
            if time.monotonic() > end:
                for run in left:
                    self.world.breach("each run ends well", f"{order(self.started[run])[0]}: {store.get(run).summary}")
                return
            await asyncio.sleep(0.5)

    def look(self) -> dict[str, Any]:
        """Compare what is recorded with what was asked for, and print it."""
        breach, store = self.world.breach, RunStore(self.hosts.place)
        for one in self.asked:
            if store.get(one.run).status != "done":
                breach("no question is lost", f"{one.run} is {store.get(one.run).status}")
        rows = Counter(row.graph for row in store.list(limit=1_000_000))
        if rows["event_loop"] != len(self.started):
            breach("each run ends well", f"{len(self.started)} were begun, {rows['event_loop']} are there")
        keys: defaultdict[str, set[str]] = defaultdict(set)
        for paid in self.hosts.noted("paid"):
            keys[paid["paid"]].add(paid["key"])
        letters = Counter(one["letter"] for one in self.hosts.noted("letter"))
        for name, _ in map(order, self.started.values()):
            if len(keys[name]) != 1:
                breach("payments", f"{name} was paid under {len(keys[name])} keys")
            if letters[name] != 1:
                breach("letters", f"{name} had {letters[name]} letters")
        filed = ApprovalStore(self.hosts.place).list(kind="tool_call")
        if len(filed) != sum(order(number)[1] > APPROVED_ABOVE for number in self.started.values()):
            breach("approvals", f"{len(filed)} were asked for")
        quiet = [one for one in self.asked if one.ended < self.quiet_until]
        clear = [one for one in self.asked if one.began >= self.quiet_until
                 and not self.world.during(one.began - GRACE, one.ended)]  # fmt: skip
        figures: dict[str, dict[str, float]] = {"quiet": times(quiet), "between faults": times(clear)}
        for what in sorted({one.what for one in self.world.faults}):
            within = [one for one in self.asked if what in self.world.kinds(one.began - GRACE, one.ended)]
            figures[what] = times(within) | {"faults": sum(one.what == what for one in self.world.faults)}
        ratio = figures["between faults"]["p95"] / figures["quiet"]["p95"]
        if not ratio <= RATIO:
            breach("p95 between faults", f"{ratio:.1f} times that of the quiet part")
        probes = sum(count for what, count in self.probes.items() if what.endswith("was right"))
        promises = {
            "no question is lost": f"{len(self.asked)} asked",
            "p95 between faults": f"{ratio:.2f} times the quiet one; {RATIO:.0f} is the most",
            "each run ends well": f"{len(self.started)} runs",
            "payments": f"{sum(map(len, keys.values()))} once, {len(self.hosts.noted('paid'))} calls",
            "letters": f"{sum(letters.values())}, {self.looked_up} after a person had looked",
            "approvals": f"{len(filed)} asked for",
            "ended tokens": f"{self.ended_tokens}, the latest let in after {self.slowest_end:.1f} s",
            "/readyz": f"{probes} answers, the slowest {self.slowest_probe:.1f} s; {dict(self.probes)}",
            "no answer is 500": "",
        }
        print(f"\n{'questions':24} {'faults':>6} {'asked':>6} {'median':>8} {'p95':>8} {'worst':>8}")
        for what, found in figures.items():
            cells = (found.get("faults", 0), found["count"])
            print(f"{what:24} {cells[0]:6.0f} {cells[1]:6.0f}", *(f"{found[k]:7.2f}s" for k in ("p50", "p95", "worst")))
        print("\nrequests that were made again:", dict(self.refused.most_common()))
        print("hosts that ended by themselves:", {one.name: one.ended_by_itself for one in self.hosts.servers}, "\n")
        for promise in {**promises, **self.world.broken}:
            breaches = self.world.broken[promise]
            print(f"{'BROKEN' if breaches else 'held  '}  {promise}: {promises.get(promise, '')}")
            for line in breaches[:10]:
                print(f"          {line}")
        return {"questions": figures, "promises": promises, "broken": dict(self.world.broken)}


def begun(*works: Coroutine[Any, Any, None]) -> list[asyncio.Task[None]]:
    return [asyncio.create_task(work) for work in works]


def times(asked: list[Asked]) -> dict[str, float]:
    took = sorted(one.ended - one.began for one in asked) or [float("nan")]
    at = partial(lambda share: took[int(share * (len(took) - 1))])
    return {"count": len(asked), "p50": at(0.5), "p95": at(0.95), "worst": took[-1]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seconds", type=float, help="instead of minutes")
    parser.add_argument("--readers", type=int, default=20)
    parser.add_argument("--think", type=float, default=6.0, help="seconds between questions of a reader, on average")
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--without-engine", action="store_true", help="search on the hosts, without OpenSearch")
    parser.add_argument("--caddyfile", type=Path, default=ROOT / "examples" / "serve" / "Caddyfile")
    parser.add_argument("--keep", type=Path, help="a folder for the workspaces and logs, which stays")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with ExitStack() as stack:
        folder = given.keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hive-chaos-")))
        folder.mkdir(parents=True, exist_ok=True)
        hosts = Hosts(folder, stack, given.runs, given.caddyfile, with_engine=not given.without_engine)
        chaos = Chaos(given, hosts)
        asyncio.run(chaos.run())
        found = chaos.look()
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=2) + "\n")
    return 1 if any(found["broken"].values()) else 0


if __name__ == "__main__":
    sys.exit(main())
