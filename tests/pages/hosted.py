"""What somebody begins with who opens no terminal: an empty workspace, served by a process of its own, and a link."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hive_agents.cli.sample import init_workspace


@contextmanager
def begun(folder: Path, files: dict[str, str], settings: str) -> Iterator[tuple[str, str]]:
    """Yield the address of `hive serve` and its sign-in link, of what `hive init --empty` makes in a folder that has
    these files and settings beside.

    No variable of the environment holds a secret, or the key of one.
    """
    root = init_workspace(folder / "ws", empty=True)
    for name, content in files.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(content, encoding="utf-8")
    toml = root / "hive.toml"
    toml.write_text(toml.read_text(encoding="utf-8") + settings, encoding="utf-8")
    told = folder / "told.jsonl"
    command = [sys.executable, "-m", "hive_agents", "serve", "-w", str(root), "--port", "0", "--json"]
    environment = {name: value for name, value in os.environ.items() if name != "HIVE_CREDENTIAL_KEY"}
    with told.open("wb") as out, subprocess.Popen(command, stdout=out, env=environment) as process:
        try:
            link = _announced(told, process)["login"]
            yield link.partition("/login")[0], link
        finally:
            process.terminate()


def _announced(told: Path, process: subprocess.Popen[bytes]) -> dict[str, Any]:
    while not (lines := told.read_text(encoding="utf-8").splitlines(keepends=True)) or not lines[0].endswith("\n"):
        assert process.poll() is None, "the server ended before it began"
        time.sleep(0.05)
    first: dict[str, Any] = json.loads(lines[0])
    return first
