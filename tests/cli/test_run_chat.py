"""`hive run --chat` in a terminal: lines are heard while the agent works, and answer what it asks."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.runs import RunStore
from tests.agents.conftest import GOAL, agent_json, write_json
from tests.cli.test_run import ASK, script, sets
from tests.conftest import make_workspace

HIVE = [sys.executable, "-c", "from hive_agents.cli.main import run; run()"]
LIMIT = 120
"""Seconds of silence after which a process hangs."""
SLOW = {"delay_seconds": 5.0}
HEARD = "(read before its next turn)"


class Terminal:
    """A process with a terminal for its input; `until` reads its output up to a text."""

    def __init__(self, place: Workspace) -> None:
        self.keyboard, terminal = pty.openpty()
        given = ["run", "digest", "--chat", "--input", '{"topic": "bees"}', "-w", str(place.root)]
        environ = os.environ | {"PYTHONUNBUFFERED": "1"}
        # A shell's background jobs ignore Ctrl-C, and so would their children.
        heed = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
        self.process = subprocess.Popen(
            [*HIVE, *given],
            stdin=terminal,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environ,
            preexec_fn=heed,
        )
        os.close(terminal)
        self.out = ""

    def types(self, text: str) -> None:
        os.write(self.keyboard, text.encode())

    def until(self, text: str) -> None:
        assert self.process.stdout is not None
        ready = select.poll()  # a worker of a long suite may have opened more than `select` counts
        ready.register(self.process.stdout, select.POLLIN)
        while text not in self.out:
            assert ready.poll(LIMIT * 1000), f"nothing more comes, and no {text!r}: {self.out}"
            data = os.read(self.process.stdout.fileno(), 4096)
            assert data, f"the process ended without {text!r}: {self.out}"
            self.out += data.decode()

    def end(self) -> int:
        out, _ = self.process.communicate(timeout=LIMIT)
        self.out += out.decode()
        return self.process.returncode


@contextmanager
def talking(place: Workspace) -> Iterator[Terminal]:
    terminal = Terminal(place)
    try:
        yield terminal
    finally:
        terminal.process.kill()
        terminal.process.communicate()
        os.close(terminal.keyboard)


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    workspace = make_workspace(tmp_path / "ws", embedding=False, documents={})
    write_json(workspace, "goals/digest.json", GOAL)
    write_json(workspace, "agents/digest.json", agent_json())
    return workspace


def when(text: str, line: dict[str, Any]) -> dict[str, Any]:
    return line | {"when": {"contains": text}}


@pytest.mark.slow
def test_lines_are_heard_while_it_works_and_answer_what_it_asks(place: Workspace) -> None:
    script(place, ASK | SLOW, when("no honey", sets("items", [1])), sets("text", "wild bees"))
    with talking(place) as terminal:
        terminal.until("collect: begins")
        terminal.types("no honey\nthey are\n")
        terminal.until(HEARD)
        terminal.until("> ")
        terminal.types("\nonly wild ones\n")
        terminal.until("is done")
        assert terminal.end() == 0
    assert "text: wild bees" in terminal.out
    log = subprocess.run(
        [*HIVE, "runs", "logs", RunStore(place).list()[0].run_id, "--json", "-w", str(place.root)],
        capture_output=True,
        check=True,
    )
    said = [one["text"] for one in json.loads(log.stdout)["messages"] if one["speaker"] == "person"]
    assert said == ["no honey", "they are"]


@pytest.mark.slow
def test_the_end_of_the_input_ends_the_listening_and_not_the_run(place: Workspace) -> None:
    script(place, sets("items", [1]) | SLOW, ASK)
    with talking(place) as terminal:
        terminal.until("collect: begins")
        terminal.types("\x04")
        terminal.until("Which bees?")
        assert terminal.end() == 0
    assert "is waiting" in terminal.out


@pytest.mark.slow
@pytest.mark.parametrize("asked", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_ctrl_c_ends_the_talk(place: Workspace, asked: bool) -> None:
    """While it works the run is stopped; while it waits for an answer it goes on waiting."""
    script(place, ASK if asked else ASK | {"delay_seconds": 30.0})
    with talking(place) as terminal:
        terminal.until("Which bees?\n> " if asked else "collect: begins")
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.end() == 130
    assert RunStore(place).list()[0].status == ("waiting" if asked else "stopped")


@pytest.mark.slow
def test_a_quick_answer_counts_as_one(place: Workspace) -> None:
    script(place, ASK, sets("items", [1]), sets("text", "bees"))
    with talking(place) as terminal:
        terminal.until("Which bees?")  # as it is asked, a moment before it waits
        terminal.types("wild ones\n")
        assert terminal.end() == 0
