"""Questions generated from the documents, for training only."""

from __future__ import annotations

import json
import random
import re
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from hive_agents.base import one_line
from hive_agents.evaluation.golden import question_key
from hive_agents.evaluation.headings import question_for
from hive_agents.index import ChunkRow
from hive_agents.models import Chain, Message, ModelError, prompts, waited
from hive_agents.ranking import SearchEngine
from hive_agents.store import Progress

Writer = Literal["by-model", "by-heading"]
"""The tag beside `generated` that names a question's writer."""

PROMPT = "suggest"
FAILURES = 2
"""Failures in a row after which the model is given up, and headings are used instead."""
_SCHEMA = {
    "type": "object",
    "properties": {"question": {"type": "string", "maxLength": 300}},
    "required": ["question"],
    "additionalProperties": False,
}
_LEAST_WORDS, _MOST_PASSAGE, _MOST_REASON = 40, 4000, 200
_NO_TOPIC = re.compile(
    r"(?i)^(introduction|overview|summary|see also|references?|notes?|contents|index|examples?|usage|description|name|"
    r"synopsis|options|authors?|licen[cs]e|copyright|bugs|history|changelog|readme|faq|todo|news|conclusion|"
    r"table of contents|untitled|\W*v?\d[\d.\-\w]*)$"
)


@dataclass(frozen=True)
class Suggestion:
    question: str
    doc_id: str
    writer: Writer


@dataclass
class Suggestions:
    """Suggestions; `failure` is why a model wrote no more of them, where it failed."""

    found: list[Suggestion] = field(default_factory=list)
    failure: str | None = None


def suggest(
    engine: SearchEngine,
    collection: str,
    most: int,
    taken: Sequence[str] = (),
    *,
    model: Chain | None = None,
    progress: Progress = lambda what, done, total: None,
) -> Suggestions:
    """Return at most `most` questions, one for each document, none of them in `taken`.

    A model writes a question that a passage answers; without a model, or where it writes none, a heading becomes a
    question.

    Raises: HIVE-105, HIVE-106 for a workspace's invalid prompt.
    """
    seen = {question_key(question) for question in taken}
    rng = random.Random(0)
    index = engine.index(collection)
    documents = index.documents()
    rng.shuffle(documents)
    made = Suggestions()
    writer = None if model is None else _ModelWriter(model, engine)
    for doc_id, title, _ in documents:
        if len(made.found) == most:
            break
        progress("writing questions", len(made.found), most)
        rows = index.rows(index.chunks_of(doc_id).tolist())
        for suggestion in _suggestions(doc_id, title, rows, writer, rng, index.language):
            if question_key(suggestion.question) not in seen:
                seen.add(question_key(suggestion.question))
                made.found.append(suggestion)
                break  # one for each document, so that the set covers many
    made.failure = writer.failure if writer is not None else None
    return made


class _ModelWriter:
    """Asks a model for questions on passages, until it fails too often."""

    def __init__(self, model: Chain, engine: SearchEngine) -> None:
        self._model, self._workspace = model, engine.workspace
        self._failures = 0
        self.failure: str | None = None

    def question(self, rng: random.Random, rows: Sequence[ChunkRow]) -> str | None:
        """Return a question that one of the chunks answers, None where the model writes none."""
        passages = [row for row in rows if len(row.text.split()) >= _LEAST_WORDS]
        if self._failures >= FAILURES or not passages:
            return None
        row = rng.choice(passages)
        shown = {"title": row.title, "heading": row.heading, "text": row.text[:_MOST_PASSAGE]}
        content = prompts.load(
            PROMPT,
            self._workspace,
            passage=json.dumps(shown, ensure_ascii=False),
            # Random, so that nothing in the document can close the fence.
            fence=f"=====  {secrets.token_hex(8)}  =====",
        )
        try:
            result = waited(self._model.complete([Message(role="user", content=content)], schema=_SCHEMA))
        except ModelError as error:
            self._failures += 1
            self.failure = one_line(f"{error.kind}: {error.message}", _MOST_REASON)
            return None
        self._failures, self.failure = 0, None
        written = one_line(str((result.structured or {}).get("question", "")), _MOST_REASON).strip()
        return written if len(written.split()) > 1 and question_key(written) else None


def _suggestions(
    doc_id: str, title: str, rows: Sequence[ChunkRow], writer: _ModelWriter | None, rng: random.Random, language: str
) -> Iterator[Suggestion]:
    """Yield questions on a document, the model's first."""
    written = writer.question(rng, rows) if writer is not None else None
    if written:
        yield Suggestion(written, doc_id, "by-model")
    for question in _questions(rows, title, language):
        yield Suggestion(question, doc_id, "by-heading")


def _questions(rows: Sequence[ChunkRow], title: str, language: str) -> Iterator[str]:
    for row in rows:
        heading = row.heading.split(" > ")[-1]
        words = re.sub(r"[`*_\\]|^[\d.]+\s+", "", heading).strip()
        if 2 <= len(words.split()) <= 12 and not _NO_TOPIC.match(words):
            yield question_for(words, "" if words == title else title, row.text, language)
