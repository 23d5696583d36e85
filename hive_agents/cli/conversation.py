"""The interactive mode of `hive chat`: a prompt, and commands such as /open."""

from __future__ import annotations

import asyncio
import io
import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hive_agents.access import Asker
from hive_agents.base import HiveError, safe_text
from hive_agents.cli.replies import in_words, pinned_filters, rendered, results_table
from hive_agents.cli.surface import count
from hive_agents.cli.terminal import ask, safe_lines
from hive_agents.copilot import Chat, Request

if TYPE_CHECKING:
    from rich.console import Console

    from hive_agents.copilot import DocumentFilter

_STEPS = {"retrieve": "searching…", "rerank": "reading…", "permission_gate": "answering…"}
HELP = """\
/open N      show the document of result N
/unfold N    more of the passages of result N; without N of all
/why N       explain the rank of result N
/filters     the filters of every question; /filters status=effective adds one, /filters clear drops them
/more        the next page of a list
/good N, /wrong N   rate result N; another person reviews it
/as USER     read as another user, in a new thread
/new         a new thread
/threads     your threads; /threads ID continues one
/quit        leave"""


class Conversation:
    """Reads questions and commands until the end of input."""

    def __init__(
        self,
        chat: Chat,
        out: Console,
        filters: list[str],
        doc_id: str | None = None,
        refresh: Callable[[], None] = lambda: None,
    ) -> None:
        """`refresh` updates the index before each line."""
        self.chat, self.out, self.filters, self.doc_id, self.refresh = chat, out, filters, doc_id, refresh
        self.reply: dict[str, Any] | None = None
        self.request: Request | None = None
        self.commands: dict[str, Callable[[str], None]] = {
            "open": self.open,
            "unfold": self.unfold,
            "why": self.why,
            "filters": self.set_filters,
            "more": self.more,
            "good": lambda argument: self.rate(argument, "relevant"),
            "wrong": lambda argument: self.rate(argument, "wrong_document"),
            "as": self.switch,
            "new": self.new,
            "threads": self.threads,
            "help": lambda argument: self.out.print(HELP),
        }

    def run(self) -> None:
        if isinstance(sys.stdin, io.TextIOWrapper):
            sys.stdin.reconfigure(errors="surrogateescape")  # an invalid line is refused alone
        reader = self.chat.reader
        self.out.print(f"You read as {reader.user} of {reader.tenant}. /help lists the commands, /quit leaves.")
        while True:
            try:
                line = self.line()
            except EOFError:
                return
            if line in ("/quit", "/exit"):
                return
            if not line:
                continue
            try:
                self.handle(line)
            except HiveError as error:
                for diagnostic in error.diagnostics:
                    self.out.print(safe_lines(str(diagnostic)), style="red", soft_wrap=True)

    def line(self) -> str:
        """Return the next line of input; one that isn't typed is printed, so that the output can be read."""
        prompt = f"{self.chat.reader.user}> "
        if sys.stdin.isatty():
            return ask(f"\n{prompt}").strip()
        line = ask("").strip()
        if line:
            self.out.print(f"\n{prompt}{safe_text(line)}", style="bold")
        return line

    def handle(self, line: str) -> None:
        try:
            line.encode()
        except UnicodeEncodeError:
            raise HiveError.of("HIVE-112", "this line is not UTF-8", fix="type it again", exit_code=2) from None
        self.refresh()
        if not line.startswith("/"):
            self.ask(Request(text=self.chosen(line), doc_id=self.doc_id, pinned=self.pinned()))
            return
        name, _, argument = line[1:].partition(" ")
        command = self.commands.get(name)
        if command is None:
            self.out.print(f"there is no /{safe_text(name)}; /help lists the commands")
        else:
            command(argument.strip())

    def chosen(self, line: str) -> str:
        """Return the option with that number, if the copilot has just asked a question; else the line."""
        options = self.reply["options"] if self.reply else []
        number = _number(line)
        return options[number - 1] if 1 <= number <= len(options) else line

    def pinned(self) -> list[DocumentFilter]:
        return pinned_filters(self.chat, self.filters)

    def ask(self, request: Request) -> None:
        status = self.out.status("")

        def show_step(node: str) -> None:
            if node in _STEPS:  # only turns that search have these nodes
                status.update(_STEPS[node])
                status.start()

        self.request, self.reply = request, None
        try:
            self.reply = asyncio.run(self.chat.ask(request, show_step))
        finally:
            status.stop()
        for part in rendered(self.reply):
            self.out.print(part)

    def result(self, argument: str) -> dict[str, Any]:
        """Return the result with that number. Raises: HIVE-409."""
        results = self.reply["results"] if self.reply else []
        number = _number(argument)
        if not 1 <= number <= len(results):
            fix = f"name one of the {count(len(results), 'result')} by its number" if results else "ask something first"
            raise HiveError.of("HIVE-409", "there is no such result", fix=fix)
        result: dict[str, Any] = results[number - 1]
        return result

    def open(self, argument: str) -> None:
        document = self.chat.document(self.result(argument)["doc_id"])
        metadata = "\n".join(
            f"{name}: {', '.join(map(str, value)) if isinstance(value, list) else value}"
            for name, value in document["metadata"].items()
        )
        self.out.print(safe_text(document["title"]), style="bold cyan")
        self.out.print(safe_text(f"{document['doc_id']}\n{metadata}\n"), style="dim")
        # Not wrapped, so that code can be copied.
        self.out.print(re.sub(r"\n{3,}", "\n\n", safe_text(document["text"]).strip()), soft_wrap=True)

    def unfold(self, argument: str) -> None:
        chosen = self.result(argument) if argument or not self.reply else None
        assert self.reply is not None
        results = self.chat.render(self.reply["run_id"], unfold=True)["results"]
        shown = [one for one in results if chosen is None or one["rank"] == chosen["rank"]]
        for part in results_table(shown) if shown else ("there are no passages",):
            self.out.print(part)

    def why(self, argument: str) -> None:
        result = self.result(argument)
        assert self.reply is not None
        ranked = self.chat.why(self.reply["run_id"], result["doc_id"])
        self.out.print(safe_text(result["reason"]))
        for name, value in ranked.items():
            self.out.print(safe_text(f"  {name}: {'–' if value is None else value}"), style="dim")

    def set_filters(self, argument: str) -> None:
        if argument == "clear":
            self.filters = []
        elif argument:
            pinned_filters(self.chat, [*self.filters, argument])
            self.filters.append(argument)
        filters = [condition.model_dump() for condition in self.pinned()]
        self.out.print(safe_text(f"filters: {in_words(filters) or 'none'}"))
        if not argument:
            for field, values in self.chat.field_values().items():
                # Fields without listed values are dates and numbers, which are filtered by bounds.
                usage = ", ".join(values) or f"{field}>=… and {field}<=…"
                self.out.print(safe_text(f"  {field}: {usage}"), style="dim")

    def more(self, argument: str) -> None:
        if self.request is None or not self.reply or not self.reply["next_cursor"]:
            self.out.print("there is no next page")
            return
        self.ask(self.request.model_copy(update={"cursor": self.reply["next_cursor"]}))

    def rate(self, argument: str, verdict: str) -> None:
        result = self.result(argument)
        assert self.reply is not None
        item = self.chat.feedback().add(self.reply["run_id"], result["rank"], verdict)  # type: ignore[arg-type]
        self.out.print(f"{item.id} waits for a reviewer; thank you")

    def switch(self, argument: str) -> None:
        place = self.chat.workspace
        self.chat = Chat(place, Asker(place, argument or None).reader)
        self.reply = None
        self.out.print(f"You read as {self.chat.reader.user} of {self.chat.reader.tenant}, in a new thread.")

    def new(self, argument: str) -> None:
        self.chat.thread_id, self.reply = None, None
        self.out.print("A new thread.")

    def threads(self, argument: str) -> None:
        if argument:
            self.chat.threads.require(argument)
            self.chat.thread_id, self.reply = argument, None
            for turn in self.chat.transcript():
                self.out.print(safe_text(f"\n> {turn['text']}"), style="bold")
                for part in rendered(turn):
                    self.out.print(part)
            return
        for row in self.chat.threads.threads():
            self.out.print(safe_text(f"{row['thread_id']}  {count(row['turns'], 'question')}  {row['title']}"))


def _number(text: str) -> int:
    """Return the number of a result or an option; 0 if the text is no number."""
    return int(text) if text.isdecimal() and len(text) < 5 else 0
