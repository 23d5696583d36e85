"""What a command costs before it does anything: processor time of whole processes, and of the packages they import.

    python benchmarks/starting.py [--times N] [--json FILE]

Each command runs N times on the sample, from a warm page cache; the median of user and system time is told, and beside
it what a process costs that only imports the largest packages that the command needs: less than that it can't take.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from hive_agents.cli.sample import init_workspace

COMMANDS = {
    "hive --help": ["--help"],
    "hive query": ["query", "rotate an API token"],
    "hive chat": ["chat", "--as", "dana", "how do I rotate a key"],
    "hive status": ["status"],
    "hive runs list": ["runs", "list"],
}
NEEDED = {
    "hive --help": "typer",
    "hive query": "typer, rich.console, numpy, pydantic, sqlite3, onnxruntime",
    "hive chat": "typer, rich.console, numpy, pydantic, sqlite3, onnxruntime, langgraph.graph",
    "hive status": "typer, rich.console, pydantic, sqlite3",
    "hive runs list": "typer, rich.console, pydantic, sqlite3",
}
"""What a command imports of others at least."""


def seconds(command: list[str], place: Path, times: int) -> float:
    """Return the median processor time of a process."""
    found = []
    for _ in range(times):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *command], cwd=place, check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        found.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    return statistics.median(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=7)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HIVE_HOME"] = f"{folder}/home"
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        place = init_workspace(Path(folder) / "sample")
        subprocess.run([sys.executable, "-m", "hive_agents", "index", "--quiet"], cwd=place, check=True)
        print(f"{'':<14}{'processor s':>12}{'imports of others':>20}")
        for name, arguments in COMMANDS.items():
            whole = seconds(["-m", "hive_agents", *arguments], place, options.times)
            others = seconds(["-c", f"import {NEEDED[name]}"], place, options.times)
            found[name] = {"seconds": round(whole, 3), "others": round(others, 3)}
            print(f"{name:<14}{whole:>12.2f}{others:>20.2f}")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
