"""Programs that several processes run at once: `python -m tests.runs.processes JOB ROOT N`."""

from __future__ import annotations

import asyncio
import os
import random
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from hive_agents import Workspace
from hive_agents.agents.effects import Done, Effects
from hive_agents.agents.guards.budget import Budget, Limits
from hive_agents.base.errors import HiveError
from hive_agents.runs import Hold, Leases, RunStore
from hive_agents.runs.leases import take

THREADS, ROUNDS = 20, 3


def tell(line: str) -> None:
    os.write(1, f"{line}\n".encode())  # in one piece, whoever else writes


def race(place: Workspace, number: int) -> None:
    """Work on each thread a few times, and tell of whoever was met there."""
    leases, chance = Leases(place), random.Random(number)
    for _ in range(ROUNDS):
        for thread in chance.sample(range(THREADS), THREADS):
            lease = leases.acquire(f"t{thread}", f"r{thread}")
            if lease is None:
                continue
            inside = place.root / f"inside-{thread}"
            try:
                inside.touch(exist_ok=False)
            except FileExistsError:
                tell(f"met {thread}")
            time.sleep(0.001)
            inside.unlink(missing_ok=True)
            tell(f"did {thread} {lease.fence}")
            lease.release()


def key(place: Workspace, number: int) -> None:
    """Start the same runs by their keys."""
    for n in range(10):
        row, new = RunStore(place).insert("event_loop", {"input": n}, agent="digest", key=f"k{n}")
        tell(f"{'new' if new else 'old'} {n} {row.run_id}")


def hold(place: Workspace, number: int) -> None:
    """Have a lease for an hour, and do what stdin says with it until this process dies."""
    lease = asyncio.run(take(Leases(place, seconds=3600), "t1", "r1", 0))
    effects = Effects(place, "r1", Budget(Limits()), lease=lease)
    store = RunStore(place)

    async def done(_: bool) -> Done:
        return Done("it happened")

    tell("held")
    for line in sys.stdin:
        try:
            if line.strip() == "effect":
                tell(asyncio.run(effects.once("a#1/1", "tool", "order", done)))
            else:
                store.update("r1", line.strip(), lease=lease)
                tell("recorded")
        except HiveError as error:
            tell(error.diagnostics[0].code)


def work(place: Workspace, number: int) -> None:
    """Renew a lease of a second, as a worker does, until this process dies; stdin sets this process's clock."""
    real, ahead, lost = time.time, [float(number)], threading.Event()
    time.time = lambda: real() + ahead[0]
    lease = asyncio.run(take(Leases(place, seconds=1.0), "t1", "r1", 0))

    async def working() -> None:
        async with Hold(lease, lambda _: lost.set()):
            await asyncio.to_thread(lost.wait)
            tell("lost")

    tell("held")
    worker = threading.Thread(target=asyncio.run, args=(working(),), daemon=True)
    worker.start()
    for line in sys.stdin:
        ahead[0] = float(line)
        tell("set")


def watch(place: Workspace, ahead: int) -> None:
    """With a clock that is `ahead` seconds wrong, ask for the same lease for as many seconds as each line says."""
    real = time.time
    time.time = lambda: real() + ahead
    leases = Leases(place, seconds=1.0)
    for line in sys.stdin:
        try:
            asyncio.run(take(leases, "t1", "r1", float(line))).release()
            tell("taken")
        except HiveError as error:
            tell(error.diagnostics[0].code)


JOBS: dict[str, Callable[[Workspace, int], None]] = {job.__name__: job for job in (race, key, hold, work, watch)}


def main(job: str, root: str, processes: str) -> None:
    """Fork processes that have imported everything; one works in this process."""
    place = Workspace(Path(root))
    if job in ("work", "watch"):
        JOBS[job](place, int(processes))
        return
    if processes == "1":
        JOBS[job](place, 0)
        return
    children = []
    for number in range(int(processes)):
        child = os.fork()
        if not child:
            code = 1
            try:
                JOBS[job](place, number)
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    codes = [os.waitpid(child, 0)[1] for child in children]
    sys.exit(1 if any(codes) else 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
