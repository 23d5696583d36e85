"""`hive run --chat`: lines from the terminal go to the agent before its next turn, or answer its questions."""

from __future__ import annotations

import asyncio
import os
import select
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from hive_agents.base import UNSEEN, HiveError, hides, safe_line
from hive_agents.cli.terminal import write

if TYPE_CHECKING:
    from hive_agents.agents import AgentRun
    from hive_agents.approvals import ApprovalRequest


def talk(run: AgentRun, *, stderr: bool = False) -> dict[str, Any]:
    """Run the agent and ask its questions at the terminal, until it stops without one that was answered."""
    listener = TerminalListener(run, stderr)
    result = listener.go()
    while result["status"] == "waiting" and _answered(run, listener):
        result = listener.go()
    listener.tell_unheard()
    return result


class TerminalListener:
    """Reads lines from a terminal at any time, and from a pipe or file only for a question.

    The terminal is read by the event loop while the run works, and by this thread while it waits: a separate thread
    would be left behind in a read that never ends.
    """

    def __init__(self, run: AgentRun, stderr: bool) -> None:
        self._run, self._stderr = run, stderr
        self._terminal = _terminal()
        self._listens = self._terminal is not None
        self._buffer = b""

    def go(self) -> dict[str, Any]:
        """Work on the run until it stops, and return its result."""
        from hive_agents.runs import RunStore

        if self._terminal is None:
            return self._run.go()
        try:
            return asyncio.run(self._listening(self._terminal))
        except KeyboardInterrupt:
            return self._run.result_of(RunStore(self._run.workspace).get(self._run.run_id))

    def line(self) -> str | None:
        """Return the next line of input; None at its end."""
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
        """Consume and print lines that were typed too late; the shell would run them as commands."""
        while self._terminal is not None and select.select([self._terminal], [], [], 0)[0]:
            self._read(self._terminal)
        while (line := self._next_line()) is not None:
            if line:
                self.tell(f"too late for the agent: {line}")

    async def _listening(self, terminal: int) -> dict[str, Any]:
        loop = asyncio.get_running_loop()
        self._deliver()
        loop.add_reader(terminal, self._on_input, loop, terminal)
        try:
            return await self._run.work()
        finally:
            loop.remove_reader(terminal)

    def _on_input(self, loop: asyncio.AbstractEventLoop, terminal: int) -> None:
        self._read(terminal)
        if self._terminal is None:
            loop.remove_reader(terminal)
        self._deliver()

    def _deliver(self) -> None:
        with suppress(HiveError):
            if questions(self._run):  # the line may be the answer
                return
        while (line := self._next_line()) is not None:
            if line:
                self._say(line)

    def _say(self, line: str) -> None:
        try:
            self._run.say(line)
        except HiveError as error:  # the run has just ended, or the database is locked
            self.tell(f"not heard ({error.diagnostics[0].message}): {line}")
        else:
            self.tell("  (read before its next turn)")

    def _read(self, terminal: int) -> None:
        try:
            data = os.read(terminal, 65536)
        except OSError:  # the terminal is gone
            data = b""
        self._buffer += data
        if not data:
            self._buffer += b"\n" if self._buffer else b""
            self._terminal = None

    def _next_line(self) -> str | None:
        line, end, rest = self._buffer.partition(b"\n")
        if not end:
            return None
        self._buffer = rest
        return line.decode("utf-8", "replace").strip()


def _terminal() -> int | None:
    """Return the file descriptor of stdin if it is a terminal."""
    try:
        return sys.stdin.fileno() if sys.stdin.isatty() else None
    except (OSError, ValueError):  # not a file, or closed
        return None


def questions(run: AgentRun) -> list[ApprovalRequest]:
    """Return the agent's unanswered questions, oldest first."""
    from hive_agents.approvals import ApprovalStore

    pending = reversed(ApprovalStore(run.workspace).list("pending", run_ids=[run.run_id]))
    return [request for request in pending if "question" in request.context]


def _answered(run: AgentRun, listener: TerminalListener) -> bool:
    """Ask the agent's questions here; return whether one was answered. Other requests need `hive approvals`."""
    from hive_agents.access import Asker
    from hive_agents.approvals import ApprovalStore

    store, answered = ApprovalStore(run.workspace), False
    for request in questions(run):
        options = request.context.get("options") or []
        lines = [request.context["question"], *(f"  - {option}" for option in options)]
        listener.tell(*([f"warning: {UNSEEN}"] if hides(lines) else []), *lines)
        answer = listener.line()
        if not answer:
            return answered
        decider = Asker(run.workspace).decider()
        try:
            store.decide(request.id, "respond", message=answer, **decider.named())
        except HiveError:
            if not store.get(request.id).decided:
                raise
            listener.tell("somebody else has answered it meanwhile")
        answered = True
    return answered
