"""A reader's visit: random questions, most of them for what they may not see, and what they were shown."""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from hive_agents import Workspace
from hive_agents.access import Principal
from hive_agents.base.errors import HiveError
from hive_agents.copilot import DocumentFilter, Request
from hive_agents.copilot.chat import Chat
from hive_agents.ranking import SearchEngine
from tests.leaks.corpus import WORDS, Doc, Rules, canaries

FOLLOW_UPS = (
    "and the second one?",
    "only draft",
    "open the first one",
    "what about the rotor?",
    "and in 2025?",
    "the last one",
)
VAGUE = ("show me stuff", "something please", "hello", "what can you do?", "documents", "newest documents")


@dataclass
class Visit:
    """`shown` is what was collected so far; `saw` are documents that the reader could view when they asked."""

    workspace: Workspace
    engine: SearchEngine
    reader: Principal
    documents: Sequence[Doc]
    rules: Rules
    people: Sequence[Principal]
    rng: random.Random
    chat: Chat = field(init=False)
    runs: list[str] = field(default_factory=list)
    replies: list[str] = field(default_factory=list)
    cursors: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    saw: set[int] = field(default_factory=set)
    strangers: tuple[str, str] = ("t0", "r0")
    prompts: list[str] = field(default_factory=list)
    logged: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.chat = Chat(self.workspace, self.reader, engine=self.engine)

    def sees(self) -> set[int]:
        return {doc.number for doc in self.documents if self.rules.allows(self.reader, doc)}

    def grant(self, rules: Rules) -> None:
        self.rules = rules
        rules.write(self.workspace, self.people)

    def say(self, *words: str) -> None:
        self.said += words

    def target(self) -> Doc:
        """Mostly a document that the reader may not view."""
        hidden = [doc for doc in self.documents if not self.rules.allows(self.reader, doc)]
        return self.rng.choice(hidden if hidden and self.rng.random() < 0.8 else self.documents)

    def request(self) -> Request:
        rng, doc = self.rng, self.target()
        kind = rng.randrange(11)
        if kind <= 2:
            return Request(text=f"how long is the {doc.words[0]} kept near the {doc.words[1]}?")
        if kind == 3:
            return Request(text=f"{rng.choice(('documents with topic', 'what about', 'only'))} {doc.topic}")
        if kind == 4:  # misspelt: nothing may put it right
            return Request(text=f"{doc.topic[:-1]}y documents by {doc.owner[:-1]}y")
        if kind == 5:
            text = f"what does {doc.doc_id} say about the {doc.words[2]}?"
            return Request(text=text, doc_id=rng.choice((doc.doc_id, "gone.md", None)))
        if kind == 6:
            return Request(text=f"the {doc.words[0]}", doc_id=doc.doc_id)
        if kind == 7:
            name, value = rng.choice(
                (("topic", doc.topic), ("owner", doc.owner), ("status", doc.status), ("tenant", doc.tenants[0]),
                 ("view", "tenant"), ("secret", "x"), ("keeper", "x"), ("updated", "2025-03-01"))
            )  # fmt: skip
            op = rng.choice(("eq", "not_in", "gte")) if name != "updated" else "gte"
            pinned = [DocumentFilter(field=name, op=op, value=[value] if op == "not_in" else value)]
            return Request(text=rng.choice((f"the {doc.words[0]}", "newest documents")), pinned=pinned)
        if kind == 8:
            text = f"{rng.choice(('draft', 'effective', 'released', 'retired'))} documents"
            return Request(text=text, cursor=self.cursor())
        if kind == 9 and self.runs:
            return Request(text=rng.choice(FOLLOW_UPS))
        return Request(
            text=rng.choice((*VAGUE, f"{rng.choice(WORDS)} and {doc.words[3]}", f"documents by {doc.owner}"))
        )

    def cursor(self) -> str | None:
        """None, one's own, somebody else's, or one that was tampered with."""
        kept = [*self.cursors, *_seen_cursors[-5:]]
        if not kept or self.rng.random() < 0.4:
            return None
        cursor = self.rng.choice(kept)
        if self.rng.random() < 0.5:
            at = self.rng.randrange(len(cursor))
            return cursor[:at] + self.rng.choice("Aaz09-_=é") + cursor[at + 1 :]
        return cursor

    async def ask(self, request: Request | None = None) -> str:
        """What was shown in return, be it an error."""
        request = request or self.request()
        self.say(request.model_dump_json())
        self.saw |= self.sees()
        with collecting(self.logged):
            try:
                reply = await self.chat.ask(request)
            except HiveError as error:
                shown = told(error)
            else:
                self.runs.append(reply["run_id"])
                if reply["next_cursor"]:
                    self.cursors.append(reply["next_cursor"])
                    _seen_cursors.append(reply["next_cursor"])
                shown = json.dumps(reply, ensure_ascii=False)
        self.replies.append(shown)
        return shown


_seen_cursors: list[str] = []


def told(error: HiveError) -> str:
    return "\n".join(str(diagnostic) for diagnostic in error.diagnostics)


class collecting(logging.Handler):
    """All log records of the library and of what it stands on, as text."""

    def __init__(self, into: list[str]) -> None:
        super().__init__(logging.DEBUG)
        self.into = into

    def emit(self, record: logging.LogRecord) -> None:
        self.into.append(f"{record.getMessage()} {record.exc_text or ''} {record.exc_info or ''}")

    def __enter__(self) -> collecting:
        self.logger = logging.getLogger("hive_agents")
        self.level_before = self.logger.level
        self.logger.setLevel(logging.DEBUG)
        self.logger.addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        self.logger.removeHandler(self)
        self.logger.setLevel(self.level_before)


def own_words(said: Sequence[str]) -> set[tuple[str, int]]:
    return canaries("\n".join(said))
