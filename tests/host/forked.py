"""A host of a workspace, without anything brought to it, in a process that can be killed and is back at once.

`python -m tests.host.forked ROOT` has imported everything; for each line of stdin it forks a host, and prints its
pid, then its exit code.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import httpx

from hive_agents import Workspace
from hive_agents.agents import workspace_tools
from hive_agents.host import Host
from hive_agents.models import open_chain

CHECKOUT = Path(__file__).parents[2]
WARM = (
    "anyio._backends._asyncio",
    "genai_prices.data",
    "genai_prices.data_units",
    "graphs.event_loop",
    "h11",
    "hive_agents.models.endpoint_chat",
    "hive_agents.agents.run",
    "hive_agents.host.housekeeping",
    "httpcore",
    "jsonschema",
    "langchain_core.tracers.context",
    "langchain_core.tracers.run_collector",
    "langchain_core.tracers.stdout",
    "hive_agents.runs.checkpoint_tables",
)
"""What a host imports by and by: one that lives for a second would do nothing else."""


PARALLEL = 12
PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """A test that is cut off leaves no host behind."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class ForkedHost:
    def __init__(self, root: Path) -> None:
        command = [sys.executable, "-m", "tests.host.forked", str(root)]
        self._process = subprocess.Popen(
            command, cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        self.pid = 0

    def start(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self.pid = self._line()

    def end(self, number: int) -> int:
        """Send a signal and wait; the exit code, or minus the signal."""
        os.kill(self.pid, number)
        return self._line()

    def close(self) -> None:
        self._process.communicate()

    def _line(self) -> int:
        assert self._process.stdout is not None
        return int(self._process.stdout.readline())


def main(root: Path) -> None:
    for name in WARM:
        import_module(name)
    place = Workspace(root)
    workspace_tools(place)
    open_chain(place.settings.models.chat, place.settings, workspace=place)
    httpx.AsyncClient()
    for _ in sys.stdin:
        child = os.fork()
        if not child:
            die_with_parent()
            asyncio.run(Host(Workspace(root), roles=("runs",), parallel=PARALLEL).run())
            os._exit(0)
        print(child, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
