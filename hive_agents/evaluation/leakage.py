"""Held-out questions that prove nothing: near duplicates of open ones, copies of a document's words, or outdated."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field

from hive_agents.base import Diagnostic, HiveError
from hive_agents.evaluation.golden import GoldenSet, question_key

SIMILAR = 0.6
"""Questions with this Jaccard similarity of words are near duplicates."""

LONG = 5
"""The least number of words of a question that is no coincidence in a document."""


def alike(a: Set[str], b: Set[str]) -> bool:
    """Return whether two questions are near duplicates, by their words.

    >>> alike({"rotate", "my", "key"}, {"rotate", "my", "key", "now"}), alike({"rotate", "key"}, {"lost", "key"})
    (True, False)
    """
    common = len(a & b)
    return common >= SIMILAR * (len(a) + len(b) - common)


def near_twins(held_out: GoldenSet, others: GoldenSet) -> list[tuple[str, str]]:
    """Return (held-out id, open id) of each held-out question that is a near duplicate of an open one."""
    held_out_ids = {query.id for query in held_out}
    words = {query.id: set(question_key(query.query).split()) for query in (*others, *held_out)}
    others_ids = [query.id for query in others if query.id not in held_out_ids]
    twins = []
    for query in held_out:
        twin = next((other for other in others_ids if _same_but_for_words(words[query.id], words[other])), None)
        if twin is not None:
            twins.append((query.id, twin))
    return twins


def _same_but_for_words(a: Set[str], b: Set[str]) -> bool:
    """Return whether two questions are near duplicates that don't ask for different numbers or names with digits.

    >>> _same_but_for_words({"what", "does", "code", "e12", "mean"}, {"what", "does", "code", "e13", "mean"})
    False
    """
    if not alike(a, b):
        return False
    return not all(any(sign.isdigit() for word in words for sign in word) for words in (a - b, b - a))


def leaked(held_out: GoldenSet, documents: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the document of (name, text) that contains each leaked question verbatim; short ones don't count.

    >>> from hive_agents.evaluation.golden import GoldenQuery
    >>> query = GoldenQuery(id="1", query="How do I rotate a key?", relevant=["a"])
    >>> leaked(GoldenSet("", 10, (query,), "qrels", ""), [("faq.md", "## How do I rotate a key\\nLike this.")])
    {'1': 'faq.md'}
    """
    wanted: defaultdict[tuple[str, ...], list[tuple[str, str]]] = defaultdict(list)
    for query in held_out:
        words = question_key(query.query).split()
        if len(words) >= LONG:
            wanted[tuple(words[:LONG])].append((query.id, " ".join(words)))
    leaks: dict[str, str] = {}
    for name, text in documents:
        words = question_key(text).split()
        for query_id, key in _beginning(words, wanted):
            if query_id not in leaks and f" {key} " in f" {' '.join(words)} ":
                leaks[query_id] = name
    return leaks


def _beginning(words: list[str], wanted: Mapping[tuple[str, ...], list[tuple[str, str]]]) -> Iterator[tuple[str, str]]:
    for place in range(len(words) - LONG + 1):
        yield from wanted.get(tuple(words[place : place + LONG]), ())


_FRESH = "ask in a reader's words what nobody tuned to, and label changed documents again: `hive label QUERY`"
SHOWN = 10
"""How many ids a warning has."""


@dataclass(frozen=True)
class Leaks:
    """Why questions are no fresh evidence: id → the open question, or the document, that is the cause."""

    near_duplicate: Mapping[str, str] = field(default_factory=dict)
    in_document: Mapping[str, str] = field(default_factory=dict)
    changed: Mapping[str, str] = field(default_factory=dict)

    @property
    def by_cause(self) -> dict[str, list[str]]:
        """The ids by the name of their cause."""
        causes = {"near_duplicate": self.near_duplicate, "in_document": self.in_document, "changed": self.changed}
        return {cause: list(leaks) for cause, leaks in causes.items()}

    def without(self, held_out: GoldenSet) -> GoldenSet:
        """Return the questions that may prove something.

        Raises: HIVE-313 where none is left, without an id: whoever asks may not view them all.
        """
        leaks = {query_id for ids in self.by_cause.values() for query_id in ids}
        kept = held_out.only(query.id for query in held_out if query.id not in leaks) if leaks else held_out
        if leaks and not len(kept):
            message = f"each of the {len(held_out)} held-out questions is left out: " + "; ".join(self._told(0))
            raise HiveError.of("HIVE-313", message, file=held_out.file, path="queries", fix=_FRESH)
        return kept

    def warnings(self, held_out: GoldenSet, left: str = "and left out of the proof") -> Iterator[Diagnostic]:
        """Yield HIVE-313 for each cause, with the ids."""
        for told in self._told():
            message = f"of {len(held_out)} held-out questions {told}, {left}"
            yield Diagnostic("HIVE-313", message.rstrip(", "), held_out.file, "queries", _FRESH, severity="warning")

    def _told(self, shown: int = SHOWN) -> Iterator[str]:
        causes = {
            "nearly the same as open ones": self.near_duplicate,
            "word for word in a document": self.in_document,
            "about documents that changed since they were labelled": self.changed,
        }
        for words, leaks in causes.items():
            if leaks:
                pairs = [f"{query_id} ({other})" for query_id, other in leaks.items()]
                more = f" and {len(pairs) - shown} more" if len(pairs) > shown else ""
                named = f": {', '.join(pairs[:shown])}{more}" if shown else ""
                yield f"{len(leaks)} {'is' if len(leaks) == 1 else 'are'} {words}{named}"


def leaks_of(held_out: GoldenSet, others: GoldenSet, documents: Iterable[tuple[str, str]] = ()) -> Leaks:
    """Return the questions that are nearly the same as open ones, or stand in one of the documents of (name, text)."""
    return Leaks(dict(near_twins(held_out, others)), leaked(held_out, documents))
