"""The interactive chat: a prompt, steps as they happen, and a few commands."""

from __future__ import annotations

import asyncio
import io
import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hive_agents.access import Asker
from hive_agents.cli.replies import in_words, pinned_filters, rendered
from hive_agents.cli.surface import count
from hive_agents.cli.terminal import ask
from hive_agents.copilot import Request
from hive_agents.errors import HiveError
from hive_agents.runtime import Chat
from hive_agents.text import safe_line, safe_text

if TYPE_CHECKING:
    from rich.console import Console

    from hive_agents.copilot import DocumentFilter

_STEPS = {"retrieve": "searching…", "rerank": "reading…", "permission_gate": "answering…"}
HELP = """\
/open N      the document of result N
/why N       why result N is where it is
/filters     the filters of every question; /filters status=effective adds one, /filters clear drops them
/more        the next page of a list
/good N, /wrong N   say so of result N; another person reviews it
/as USER     read as somebody else, in a new thread
/new         a new thread
/threads     your threads; /threads ID goes on with one
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
        """`refresh` looks for changed documents, before each line as before each command."""
        self.chat, self.out, self.filters, self.doc_id, self.refresh = chat, out, filters, doc_id, refresh
        self.reply: dict[str, Any] | None = None
        self.request: Request | None = None
        self.commands: dict[str, Callable[[str], None]] = {
            "open": self.open,
            "why": self.why,
            "filters": self.narrow,
            "more": self.more,
            "good": lambda rest: self.say(rest, "relevant"),
            "wrong": lambda rest: self.say(rest, "wrong_document"),
            "as": self.switch,
            "new": self.new,
            "threads": self.threads,
            "help": lambda rest: self.out.print(HELP),
        }

    def run(self) -> None:
        if isinstance(sys.stdin, io.TextIOWrapper):
            sys.stdin.reconfigure(errors="surrogateescape")  # one line that is no text is not the end of the others
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
                self.take(line)
            except HiveError as error:
                for diagnostic in error.diagnostics:
                    told = "\n".join(map(safe_line, str(diagnostic).split("\n")))
                    self.out.print(told, style="red", soft_wrap=True)

    def line(self) -> str:
        """Return what is typed next; of a script's lines each is repeated, so that its output can be read."""
        prompt = f"{self.chat.reader.user}> "
        if sys.stdin.isatty():
            return ask(f"\n{prompt}").strip()
        line = ask("").strip()
        if line:
            self.out.print(f"\n{prompt}{safe_text(line)}", style="bold")
        return line

    def take(self, line: str) -> None:
        try:
            line.encode()
        except UnicodeEncodeError:
            raise HiveError.of("HIVE-112", "this line is not UTF-8", fix="type it again", exit_code=2) from None
        self.refresh()
        if not line.startswith("/"):
            self.ask(Request(text=self.chosen(line), doc_id=self.doc_id, pinned=self.pinned()))
            return
        name, _, rest = line[1:].partition(" ")
        act = self.commands.get(name)
        if act is None:
            self.out.print(f"there is no /{safe_text(name)}; /help lists the commands")
        else:
            act(rest.strip())

    def chosen(self, line: str) -> str:
        """Return the option that a number stands for, where the copilot has just asked back."""
        options = self.reply["options"] if self.reply else []
        number = _number(line)
        return options[number - 1] if 1 <= number <= len(options) else line

    def pinned(self) -> list[DocumentFilter]:
        return pinned_filters(self.chat, self.filters)

    def ask(self, request: Request) -> None:
        status = self.out.status("")

        def tell(node: str) -> None:
            # Where nothing is searched, nothing is said of a search.
            if node in _STEPS:
                status.update(_STEPS[node])
                status.start()

        self.request, self.reply = request, None
        try:
            self.reply = asyncio.run(self.chat.ask(request, tell))
        finally:
            status.stop()
        for part in rendered(self.reply):
            self.out.print(part)

    def result(self, rest: str) -> dict[str, Any]:
        results = self.reply["results"] if self.reply else []
        number = _number(rest)
        if not 1 <= number <= len(results):
            fix = f"name one of the {count(len(results), 'result')} by its number" if results else "ask something first"
            raise HiveError.of("HIVE-409", "there is no such result", fix=fix)
        found: dict[str, Any] = results[number - 1]
        return found

    def open(self, rest: str) -> None:
        document = self.chat.document(self.result(rest)["doc_id"])
        told = {
            name: ", ".join(map(str, value)) if isinstance(value, list) else value
            for name, value in document["metadata"].items()
        }
        about = "\n".join(f"{name}: {value}" for name, value in told.items())
        self.out.print(safe_text(document["title"]), style="bold cyan")
        self.out.print(safe_text(f"{document['doc_id']}\n{about}\n"), style="dim")
        # As written: code that is wrapped here could not be copied.
        self.out.print(re.sub(r"\n{3,}", "\n\n", safe_text(document["text"]).strip()), soft_wrap=True)

    def why(self, rest: str) -> None:
        result = self.result(rest)
        assert self.reply is not None
        ranked = self.chat.why(self.reply["run_id"], result["doc_id"])
        self.out.print(safe_text(result["reason"]))
        for name, value in ranked.items():
            self.out.print(safe_text(f"  {name}: {'–' if value is None else value}"), style="dim")

    def narrow(self, rest: str) -> None:
        if rest == "clear":
            self.filters = []
        elif rest:
            pinned_filters(self.chat, [*self.filters, rest])
            self.filters.append(rest)
        now = [demand.model_dump() for demand in self.pinned()]
        self.out.print(safe_text(f"filters: {in_words(now) or 'none'}"))
        if not rest:
            for field, values in self.chat.field_values().items():
                # Dates and numbers are asked for by bounds: which ones there are is no list.
                known = ", ".join(values) or f"{field}>=… and {field}<=…"
                self.out.print(safe_text(f"  {field}: {known}"), style="dim")

    def more(self, rest: str) -> None:
        if self.request is None or not self.reply or not self.reply["next_cursor"]:
            self.out.print("there is no next page")
            return
        self.ask(self.request.model_copy(update={"cursor": self.reply["next_cursor"]}))

    def say(self, rest: str, verdict: str) -> None:
        result = self.result(rest)
        assert self.reply is not None
        item = self.chat.feedback().add(self.reply["run_id"], result["rank"], verdict)  # type: ignore[arg-type]
        self.out.print(f"{item.id} waits for a reviewer; thank you")

    def switch(self, rest: str) -> None:
        place = self.chat.workspace
        self.chat = Chat(place, Asker(place, rest or None).reader)
        self.reply = None
        self.out.print(f"You read as {self.chat.reader.user} of {self.chat.reader.tenant}, in a new thread.")

    def new(self, rest: str) -> None:
        self.chat.thread_id, self.reply = None, None
        self.out.print("A new thread.")

    def threads(self, rest: str) -> None:
        if rest:
            self.chat.threads.require(rest)
            self.chat.thread_id, self.reply = rest, None
            for turn in self.chat.transcript():
                self.out.print(safe_text(f"\n> {turn['text']}"), style="bold")
                for part in rendered(turn):
                    self.out.print(part)
            return
        for one in self.chat.threads.threads():
            self.out.print(safe_text(f"{one['thread_id']}  {count(one['turns'], 'question')}  {one['title']}"))


def _number(text: str) -> int:
    """Return the number of a result or an option; 0 for what is none."""
    return int(text) if text.isdecimal() and len(text) < 5 else 0
