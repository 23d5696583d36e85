"""Questions made from the documents' headings, for training alone: nobody asked them."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hive_agents.evaluation.golden import question_key
from hive_agents.retrieval import SearchEngine

GENERATED = "generated"
_NO_TOPIC = re.compile(
    r"(?i)^(introduction|overview|summary|see also|references?|notes?|contents|index|examples?|usage|description|name|"
    r"synopsis|options|authors?|licen[cs]e|copyright|bugs|history|changelog|readme|faq|todo|news|conclusion|"
    r"table of contents|untitled|\W*v?\d[\d.\-\w]*)$"
)
_GERUND = re.compile(r"^([A-Z]\w+ing)\b(.*)$")


@dataclass(frozen=True)
class Suggestion:
    question: str
    doc_id: str


def suggest(engine: SearchEngine, collection: str, most: int, taken: Sequence[str] = ()) -> list[Suggestion]:
    """Return at most so many questions, spread over the documents, none that is in `taken`.

    A heading becomes a question whose answer is in its document.
    """
    seen = {question_key(one) for one in taken}
    documents = engine.index(collection).documents()
    random.Random(0).shuffle(documents)
    found = []
    for doc_id, title, _ in documents:
        for question in _questions(engine, collection, doc_id, title):
            if question_key(question) not in seen:
                seen.add(question_key(question))
                found.append(Suggestion(question, doc_id))
                break  # one of each document: a set about a few pages shows little
        if len(found) == most:
            break
    return found


def _questions(engine: SearchEngine, collection: str, doc_id: str, title: str) -> Iterator[str]:
    index = engine.index(collection)
    for row in index.rows(index.chunks_of(doc_id).tolist()):
        heading = row.heading.split(" > ")[-1]
        words = re.sub(r"[`*_\\]|^[\d.]+\s+", "", heading).strip()
        if 2 <= len(words.split()) <= 12 and not _NO_TOPIC.match(words):
            yield _asked(words, "" if words == title else title)


def _asked(heading: str, title: str) -> str:
    """Turn a heading into a question.

    >>> _asked("Rotating the keys", "API tokens"), _asked("Rate limits", ""), _asked("Who may do it?", "x")
    ('how do I go about rotating the keys (API tokens)?', 'what is there to know about rate limits?', 'Who may do it?')
    """
    if heading.endswith("?"):
        return heading
    about = f" ({title})" if title else ""
    gerund = _GERUND.match(heading)
    if gerund:
        return f"how do I go about {gerund[1].lower()}{gerund[2]}{about}?"
    first = heading.split()[0]
    words = heading if first != first.capitalize() else heading[0].lower() + heading[1:]
    return f"what is there to know about {words}{about}?"
