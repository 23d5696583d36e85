"""A process that runs a source and is killed with SIGKILL at the nth line of ours that it comes to."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import importlib, os, re, signal, sys
from contextlib import suppress

import hive_agents
from hive_agents.sources import kinds
from hive_agents.sources.running import run_source
from hive_agents.workspace import Workspace

for name in ("boto3", "paramiko", "obstore.store", "protego", "httpx", "mcp", "langchain_core.documents"):
    with suppress(ImportError):
        importlib.import_module(name)
for place in kinds.KINDS.values():
    importlib.import_module(f"hive_agents.sources.{place.partition(':')[0]}")
OURS = re.compile(re.escape(os.path.dirname(hive_agents.__file__)) + "/(sources|sync|store|base/files|workspace)/")
root, lines = sys.argv[1], 0

def child(at):
    def line(frame, event, _):
        global lines
        if event == "line":
            lines += 1
            if lines == at:
                os.kill(os.getpid(), signal.SIGKILL)
        return line

    sys.settrace(lambda frame, event, _: line if OURS.match(frame.f_code.co_filename) else None)
    run_source(Workspace(root), "office", may_delete=lambda gone, everything: True)
    sys.settrace(None)

for asked in sys.stdin:
    reading, writing = os.pipe()
    if not (pid := os.fork()):
        try:
            child(int(asked))
            os.write(writing, b"%d" % lines)
        finally:
            os._exit(0)
    os.close(writing)
    _, status = os.waitpid(pid, 0)
    print(os.waitstatus_to_exitcode(status), os.read(reading, 20).decode() or 0, flush=True)
    os.close(reading)
"""


class Killing:
    def __init__(self, root: Path) -> None:
        command = [sys.executable, "-c", PROGRAM, str(root)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, at: int = 0) -> tuple[int, int]:
        """Return the exit code of a run that is killed at a line, and of one that wasn't how many lines it had."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{at}\n")
        self._process.stdin.flush()
        code, lines = self._process.stdout.readline().split()
        return int(code), int(lines)

    def __enter__(self) -> Killing:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()
