"""Whoever sits here while an agent works: what they type is heard before its next turn, or answers its question."""

from __future__ import annotations

import asyncio
import os
import select
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from hive_agents.cli.terminal import write
from hive_agents.errors import HiveError
from hive_agents.text import safe_line

if TYPE_CHECKING:
    from hive_agents.approvals import ApprovalRequest
    from hive_agents.runtime import AgentRun


def talk(run: AgentRun, *, stderr: bool = False) -> dict[str, Any]:
    """Run, asking here what the agent asks, until it rests with nothing that was answered."""
    listener = TerminalListener(run, stderr)
    result = listener.go()
    while result["status"] == "waiting" and _answered(run, listener):
        result = listener.go()
    listener.tell_unheard()
    return result


class TerminalListener:
    """Lines from a terminal, all the time; from a pipe or file only when something was asked.

    The terminal is read by the run's event loop while it works, and by this thread while it waits: no other thread
    could be left behind in a read that never ends.
    """

    def __init__(self, run: AgentRun, stderr: bool) -> None:
        self._run, self._stderr = run, stderr
        self._terminal = _terminal()
        self._listens = self._terminal is not None
        self._text = b""

    def go(self) -> dict[str, Any]:
        from hive_agents.runs import RunStore

        if self._terminal is None:
            return self._run.go()
        try:
            return asyncio.run(self._listening(self._terminal))
        except KeyboardInterrupt:
            return self._run.result_of(RunStore(self._run.workspace).get(self._run.run_id))

    def line(self) -> str | None:
        """Return the next line that was typed; None at the end of the input."""
        write("> ", err=self._stderr, end="")
        if not self._listens:
            return sys.stdin.readline().strip() or None
        while True:
            while (line := self._next_line()) is not None:
                if line:
                    return line
            if self._terminal is None:
                return None
            self._read(self._terminal)

    def tell(self, *lines: str) -> None:
        for line in lines:
            write(safe_line(line), err=self._stderr)

    def tell_unheard(self) -> None:
        """What was typed too late; left there, a shell would take it for a command."""
        while self._terminal is not None and select.select([self._terminal], [], [], 0)[0]:
            self._read(self._terminal)
        while (line := self._next_line()) is not None:
            if line:
                self.tell(f"too late for the agent: {line}")

    async def _listening(self, terminal: int) -> dict[str, Any]:
        loop = asyncio.get_running_loop()
        self._deliver()
        loop.add_reader(terminal, self._heard, loop, terminal)
        try:
            return await self._run.work()
        finally:
            loop.remove_reader(terminal)

    def _heard(self, loop: asyncio.AbstractEventLoop, terminal: int) -> None:
        self._read(terminal)
        if self._terminal is None:
            loop.remove_reader(terminal)
        self._deliver()

    def _deliver(self) -> None:
        with suppress(HiveError):
            if questions(self._run):  # it is about to wait for the answer, which this may be
                return
        while (line := self._next_line()) is not None:
            if line:
                self._say(line)

    def _say(self, line: str) -> None:
        try:
            self._run.say(line)
        except HiveError as error:  # it ended just now, or the database is locked
            self.tell(f"not heard ({error.diagnostics[0].message}): {line}")
        else:
            self.tell("  (read before its next turn)")

    def _read(self, terminal: int) -> None:
        try:
            data = os.read(terminal, 65536)
        except OSError:  # the terminal has gone
            data = b""
        self._text += data
        if not data:
            self._text += b"\n" if self._text else b""
            self._terminal = None

    def _next_line(self) -> str | None:
        line, end, rest = self._text.partition(b"\n")
        if not end:
            return None
        self._text = rest
        return line.decode("utf-8", "replace").strip()


def _terminal() -> int | None:
    try:
        return sys.stdin.fileno() if sys.stdin.isatty() else None
    except (OSError, ValueError):  # no file, or closed
        return None


def questions(run: AgentRun) -> list[ApprovalRequest]:
    """Return what the agent asked and nobody has answered, oldest first."""
    from hive_agents.approvals import ApprovalStore

    pending = reversed(ApprovalStore(run.workspace).list("pending", run_ids=[run.run_id]))
    return [one for one in pending if "question" in one.context]


def _answered(run: AgentRun, listener: TerminalListener) -> bool:
    """Ask whoever sits here what the agent asks; whether a question was answered. The rest needs `hive approvals`."""
    from hive_agents.access import Asker
    from hive_agents.approvals import ApprovalStore

    store, answered = ApprovalStore(run.workspace), False
    for request in questions(run):
        options = request.context.get("options") or []
        lines = [request.context["question"], *(f"  - {option}" for option in options)]
        listener.tell(*lines)
        words = listener.line()
        if not words:
            return answered
        who = Asker(run.workspace).decider()
        try:
            store.decide(request.id, "respond", message=words, **who.named())
        except HiveError:
            if not store.get(request.id).decided:
                raise
            listener.tell("somebody else has answered it meanwhile")
        answered = True
    return answered
