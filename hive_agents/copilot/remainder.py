"""What of a sentence is searched for once its filters are read, and whether it asks for any document there is."""

from __future__ import annotations

from hive_agents.copilot.language import pattern, spoken, word_list, word_table
from hive_agents.copilot.sentence import (
    ABOUT,
    ARTICLES,
    BE,
    CONNECTIVES,
    DOCUMENT,
    EDGES,
    ORDER,
    PREPOSITIONS,
    QUESTION,
    VAGUE,
    Sentence,
    SentenceKind,
)


def lists_documents(s: Sentence) -> bool:
    """Whether documents are asked for without saying which: "list all documents", "how many are there"."""
    spoken = {word.lower for word in s.words}
    if spoken & DOCUMENT and (spoken & {"all", "every", "everything"} or asks_how_many(s.text)):
        return True
    newest = bool(spoken & ORDER) and s.kind is not SentenceKind.QUESTION
    return newest and (bool(spoken & (DOCUMENT | VAGUE)) or s.kind is SentenceKind.LISTING)


def asks_how_many(text: str) -> bool:
    """
    >>> asks_how_many("how many pages are there?"), asks_how_many("how long is it?")
    (True, False)
    """
    return bool(pattern("messages", "counting").search(spoken(text)))


def search_words(s: Sentence, used: set[int], *, filtered: bool) -> str:
    """Return the words as typed, less those that became filters and, in a list, those that only ask for it."""
    about = None if filtered else _told_of_document(s)
    if about is not None:
        return s.text[s.words[about].start :].strip(" ?!.,;")
    if not filtered and not (s.kind is SentenceKind.LISTING or (s.kind is SentenceKind.FRAGMENT and s.has_head())):
        lead = next((word.start for word in s.words if word.lower not in CONNECTIVES), 0)
        return s.text[lead:].strip(" ?!.,;")
    kept = [n for n in range(len(s.words)) if n not in used]
    edges = EDGES if s.filters_by_description else CONNECTIVES
    while kept and s.at(kept[0]) in edges:
        kept.pop(0)
    while kept and s.at(kept[-1]) in EDGES and s.words[kept[-1]].text != "A":
        kept.pop()
    pieces: list[str] = []
    for n, place in enumerate(kept):
        adjacent = n > 0 and kept[n - 1] == place - 1
        pieces.append((s.words[place].gap if adjacent else " " if n else "") + s.words[place].text)
    return "".join(pieces)


def _told_of_document(s: Sentence) -> int | None:
    """Return where a question about a document says what that is about: "who wrote the post about …"; None where it
    asks about anything else. Its first words are told by fields, and stand in no text."""
    head = next((n for n in range(len(s.words)) if s.at(n) in DOCUMENT), None)
    if head is None or s.kind is not SentenceKind.QUESTION or s.at(head + 1) not in ABOUT or s.ends_clause(head + 1):
        return None
    tables = map(word_table, ("fields.owning", "fields.roles", "fields.date_cues"))
    opens = s.at(0) in QUESTION - word_list("words", "manner")
    plain = (QUESTION | BE | ARTICLES | PREPOSITIONS).union(*tables)
    return head + 2 if opens and {s.at(n) for n in range(head)} <= plain else None
