"""How long pages take when lists are long: 10,000 runs, 5,000 trials, 10,000 requests, 2,000 conversations.

    python benchmarks/pages.py [--times 20] [--json FILE]

It serves a copy of the sample workspace in this process, and asks each page again and again over HTTP. Milliseconds,
median and slowest, and the kB of the page.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from hive_agents.access import known_principal  # noqa: E402
from tests.pages.crowd import many_requests, many_runs, many_threads  # noqa: E402
from tests.pages.filled import EVERYTHING, search  # noqa: E402
from tests.server.serving import bearer, sample, served  # noqa: E402


async def measured(times: int) -> dict[str, dict[str, float]]:
    place = sample(Path(tempfile.mkdtemp()) / "workspace")
    root = known_principal(place, "root")
    many_runs(place, 10_000, root)
    many_threads(place, 2_000, root)
    many_requests(place, 10_000)
    found = search(place, trials=5_000)
    async with served(place, roles=("http",)) as client:
        headers = bearer(place, "root", *EVERYTHING)
        request = (await client.get("/api/approvals?limit=1", headers=headers)).json()["items"][0]["id"]
        pages = {
            "runs": "/colony",
            "runs, a page in the middle": "/colony?cursor=r0000005000",
            "runs that failed": "/colony?status=failed&graph=worker",
            "one run": "/colony/runs/r0000005000",
            "requests": "/approvals",
            "requests, all": "/approvals?status=all",
            "one request": f"/approvals/{request}",
            "conversations": "/chat",
            "conversations with a word": "/chat/threads?search=buffer 1999",
            "searches": "/optimize",
            "one search": f"/optimize/{found}",
            "its trials, a page": f"/optimize/{found}/trials",
            "its trials, 2,000 for the chart": f"/api/runs/{found}/trials?limit=2000",
        }
        return {name: await _asked(client, path, headers, times) for name, path in pages.items()}


async def _asked(client: Any, path: str, headers: dict[str, str], times: int) -> dict[str, float]:
    taken, size = [], 0
    for _ in range(times + 1):
        began = time.perf_counter()
        answer = await client.get(path, headers=headers)
        taken.append((time.perf_counter() - began) * 1000)
        assert answer.status_code == 200, (path, answer.text)
        size = len(answer.content)
    return {"median": statistics.median(taken[1:]), "slowest": max(taken[1:]), "kb": size / 1000}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    found = asyncio.run(measured(given.times))
    for name, one in found.items():
        print(f"{name:36}{one['median']:8.1f} ms {one['slowest']:8.1f} ms {one['kb']:8.1f} kB")
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
