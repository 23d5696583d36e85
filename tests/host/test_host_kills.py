"""Two hosts under load, killed again and again: every run ends, every effect once, no run at work twice at once."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from pathlib import Path

import httpx
import pytest

from hive_agents import Workspace
from hive_agents.approvals import ApprovalStore
from hive_agents.runs import RunStore
from hive_agents.triggers.webhooks import sign
from tests.host.hosting import SECRET, TURNS, Nursery, effects, prepared, queued, spans
from tests.ports import lasting_port

RUNS, CAREFUL = 16, 8
PAUSE = 0.4
"""Seconds between two webhooks, about."""


class Sender:
    """Sends webhooks until each is taken, some of them twice; `taken` has the run of each, `tries` counts requests."""

    def __init__(self, ports: list[int], chance: random.Random) -> None:
        self.taken: dict[str, set[str]] = {}
        self.tries = 0
        self._ports, self._chance = ports, chance
        self._tasks: list[asyncio.Task[None]] = []

    async def run(self) -> None:
        async with httpx.AsyncClient(timeout=5) as client:
            try:
                while True:
                    for _ in range(self._chance.choice([1, 1, 2])):
                        self._tasks.append(asyncio.create_task(self._sent(client, f"e{len(self.taken)}")))
                    self.taken[f"e{len(self.taken)}"] = set()
                    await asyncio.sleep(self._chance.uniform(0.5, 1.5) * PAUSE)
            except asyncio.CancelledError:
                await asyncio.gather(*self._tasks)

    async def _sent(self, client: httpx.AsyncClient, id: str) -> None:
        body = f'{{"what": "{id}", "seconds": {self._chance.uniform(0, 0.3):.3f}}}'.encode()
        while True:
            at, port = int(time.time()), self._chance.choice(self._ports)
            headers = {"X-Hive-Timestamp": str(at), "X-Hive-Id": id, "X-Hive-Signature": sign(SECRET, body, at)}
            self.tries += 1
            try:
                answer = await client.post(f"http://127.0.0.1:{port}/webhooks/ring", content=body, headers=headers)
            except httpx.TransportError:
                await asyncio.sleep(0.05)
                continue
            if answer.status_code in (200, 202):
                self.taken[id].add(answer.json()["run_id"])
                return
            assert answer.status_code == 503, answer.text
            await asyncio.sleep(0.05)


async def answering(port: int) -> None:
    """Wait for the host at a port: a program that has only begun to start has nothing to drain."""
    async with httpx.AsyncClient(timeout=5) as client:
        while True:
            try:
                await client.get(f"http://127.0.0.1:{port}/healthz")
                return
            except httpx.TransportError:
                await asyncio.sleep(0.05)


async def approve_all(place: Workspace) -> int:
    store, count = ApprovalStore(place), 0
    for request in store.list("pending"):
        store.decide(request.id, "approve", by="dana")
        count += 1
    return count


@pytest.mark.slow
@pytest.mark.parametrize(("number", "times"), [(signal.SIGKILL, 50), (signal.SIGTERM, 10)])
async def test_hosts_that_end_under_load_lose_nothing(tmp_path: Path, number: signal.Signals, times: int) -> None:
    """Killed 50 times, at random moments; and drained, where not even a step that was begun is done again."""
    place, chance = prepared(tmp_path / "ws"), random.Random(7)
    runs = [queued(place, seconds=chance.uniform(0.1, 1.5)) for _ in range(RUNS)]
    runs += [queued(place, "careful", chance.uniform(0.1, 1.0)) for _ in range(CAREFUL)]
    ports = [lasting_port() for _ in range(2)]
    hosts = [Nursery(place, port) for port in ports]
    sender, store, killed, approved = Sender(ports, chance), RunStore(place), {}, 0
    began = time.monotonic()
    for one in hosts:
        await asyncio.to_thread(one.start)
    sending = asyncio.create_task(sender.run())
    try:
        for _ in range(times):
            await asyncio.sleep(chance.uniform(0.05, 2.0))
            approved += await approve_all(place)
            victim = chance.choice(hosts)
            if number is signal.SIGTERM:
                await answering(ports[hosts.index(victim)])
            killed[victim.pid] = time.monotonic()
            code = await asyncio.to_thread(victim.end, number)
            assert code == (-number if number is signal.SIGKILL else 0)
            await asyncio.to_thread(victim.start)
        lasted = time.monotonic() - began
        sending.cancel()
        await sending
        runs += [run for found in sender.taken.values() for run in found]
        end = time.monotonic() + 300
        while {store.get(run).status for run in runs} != {"done"}:
            assert time.monotonic() < end, [store.get(run).summary for run in runs if store.get(run).status != "done"]
            approved += await approve_all(place)
            await asyncio.sleep(0.2)
    finally:
        codes = [await asyncio.to_thread(one.end, signal.SIGTERM) for one in hosts]
        for one in hosts:
            one.close()
    assert codes == [0, 0]

    assert [len(found) for found in sender.taken.values()] == [1] * len(sender.taken)
    assert {row.run_id for row in store.list(limit=10_000)} == set(runs)
    again = 0
    for run in runs:
        result = store.get(run).result
        assert result is not None
        assert result["outputs"] == {"text": "done"}
        done = effects(place, run)
        assert [what for what, _ in done] == [f"step {n}" for n in range(TURNS)]
        again += sum(times - 1 for _, times in done)
    cut = overlaps = 0
    for found in spans(place).values():
        last = 0.0
        for pid, start, stop in found:
            overlaps += start < last
            last = stop if stop is not None else max(start, killed[pid])
            cut += stop is None
    assert overlaps == 0
    assert len(ApprovalStore(place).list()) == CAREFUL == approved
    if number is signal.SIGTERM:
        assert (cut, again) == (0, 0)
    print(
        f"\n{times} times {number.name} in {lasted:.0f} s; {len(runs)} runs done, {len(sender.taken)} of webhooks"
        f" ({sender.tries} requests); {cut} tool calls cut off, {again} done again under their key;"
        f" {approved} approvals; 0 runs at work twice at once; all after {time.monotonic() - began:.0f} s"
    )
