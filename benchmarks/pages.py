"""How long pages take when lists are long: 10,000 runs, 5,000 trials, 10,000 requests, 2,000 conversations.

    python benchmarks/pages.py [--times 20] [--json FILE]
    python benchmarks/pages.py --browser

It serves a copy of the sample workspace in this process, and asks each page again and again over HTTP. Milliseconds,
median and slowest, and the kB of the page. With `--browser` it opens every page of a workspace in which people have
worked in Chromium, and tells the longest task of each page's main thread: milliseconds of the processor, which other
programs on the machine don't change.
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
from hive_agents.access.logins import login_code  # noqa: E402
from tests.pages.browser import chromium, signed_in, window  # noqa: E402
from tests.pages.crowd import many_requests, many_runs, many_threads  # noqa: E402
from tests.pages.filled import EVERYTHING, addresses, administered, filled, search  # noqa: E402
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


TRACED = ["toplevel", "disabled-by-default-devtools.timeline", "__metadata"]
LONG = 50
"""Milliseconds from which on browsers call a task of the main thread long."""


async def in_a_browser() -> dict[str, float]:
    """Return the longest task of each page's main thread while it is opened, by page."""
    place = sample(Path(tempfile.mkdtemp()) / "workspace")
    longest = {}
    async with served(place) as client, chromium() as browser:
        made, url = await filled(place, client), str(client.base_url)
        async with signed_in(browser, url, place, "root", *EVERYTHING) as page:
            for name, path in addresses(made).items():
                longest[name] = await _longest(browser, page, path)
        context = await window(browser, url)
        page = await context.new_page()
        await page.goto(f"/login?code={login_code(place)}")
        for name, path in administered().items():
            longest[name] = await _longest(browser, page, path)
    return longest


async def _longest(browser: Any, page: Any, path: str) -> float:
    await browser.start_tracing(page=page, categories=TRACED)
    await page.goto(path)
    await page.wait_for_timeout(1500)
    events = json.loads(await browser.stop_tracing())["traceEvents"]
    mains = {(one["pid"], one["tid"]) for one in events
             if one["name"] == "thread_name" and one["args"]["name"] == "CrRendererMain"}  # fmt: skip
    tasks = [one["tdur"] / 1000 for one in events
             if one["name"].endswith("RunTask") and "tdur" in one and (one["pid"], one["tid"]) in mains]  # fmt: skip
    return float(max(tasks))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--browser", action="store_true")
    given = parser.parse_args()
    if given.browser:
        longest = asyncio.run(in_a_browser())
        for name, milliseconds in longest.items():
            print(f"{name:36}{milliseconds:8.1f} ms{'  long' if milliseconds > LONG else ''}")
        return
    found = asyncio.run(measured(given.times))
    for name, one in found.items():
        print(f"{name:36}{one['median']:8.1f} ms {one['slowest']:8.1f} ms {one['kb']:8.1f} kB")
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
