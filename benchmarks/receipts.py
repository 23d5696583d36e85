"""What receipts cost: making and verifying one, beside the question and the deployment that it is of.

Prints medians in milliseconds and writes JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from hive_agents import Workspace
from hive_agents.access import known_principal
from hive_agents.cli.receipts import answer_receipt, deployment_receipt, verify_receipt
from hive_agents.cli.sample import init_workspace
from hive_agents.copilot import Chat, Request
from hive_agents.gate import deploy
from tests.topics import holdout_queries, make_topics, stored, write_golden


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        init_workspace(Path(made) / "kb")
        place = Workspace(Path(made) / "kb")
        place.index()
        topics = make_topics(Path(made) / "topics")
        golden = write_golden(topics, holdout_queries())
        for config in ("naive", "careful"):  # the second is measured against the first
            deploy(topics, stored(topics, config), golden, by="user:bench")
        chat = Chat(place, known_principal(place, "dana"))
        runs: list[str] = []

        def ask() -> None:
            runs.append(asyncio.run(chat.ask(Request(text="how do I rotate an API key")))["run_id"])

        ask()
        answer, deployment = answer_receipt(chat, runs[0]), deployment_receipt(topics)
        steps: dict[str, Callable[[], object]] = {
            "a question": ask,
            "receipt of an answer": lambda: answer_receipt(chat, runs[0]),
            "verify an answer": lambda: asyncio.run(verify_receipt(lambda: place, answer, lambda: chat)),
            "receipt of a deployment": lambda: deployment_receipt(topics),
            "verify a deployment": lambda: asyncio.run(verify_receipt(lambda: topics, deployment, lambda: chat)),
        }
        times: dict[str, list[float]] = {name: [] for name in steps}
        for _ in range(options.rounds):
            for name, step in steps.items():
                started = time.perf_counter()
                step()
                times[name].append((time.perf_counter() - started) * 1000)
    medians = {name: round(statistics.median(taken), 2) for name, taken in times.items()}
    for name, taken in medians.items():
        print(f"{name:<26} {taken:>9.2f} ms")
    if options.out:
        options.out.write_text(json.dumps(medians, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
