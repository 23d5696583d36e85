"""Leaked held-out questions: near duplicates of open ones, or verbatim in a document."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Set

from hive_agents.base import Diagnostic
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
        twin = next((other for other in others_ids if alike(words[query.id], words[other])), None)
        if twin is not None:
            twins.append((query.id, twin))
    return twins


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


def leakage_warnings(
    held_out: GoldenSet, others: GoldenSet, documents: Iterable[tuple[str, str]] = ()
) -> Iterator[Diagnostic]:
    """Yield HIVE-313 for questions that are no fresh evidence: near duplicates of open ones, or in a document."""
    twins = near_twins(held_out, others)
    if twins:
        first, other = twins[0]
        message = (
            f"{len(twins)} of {len(held_out)} held-out questions are nearly the same as open ones: {first}, {other}"
        )
        fix = "hold out questions that nobody tuned to in other words either"
        yield Diagnostic("HIVE-313", message, held_out.file, "queries", fix, severity="warning")
    inside = leaked(held_out, documents)
    if inside:
        query_id, name = next(iter(inside.items()))
        message = f"{len(inside)} of {len(held_out)} questions stand word for word in a document: {query_id} in {name}"
        fix = "ask in a reader's words: a question that was copied from a document finds that document"
        yield Diagnostic("HIVE-313", message, held_out.file, "queries", fix, severity="warning")
