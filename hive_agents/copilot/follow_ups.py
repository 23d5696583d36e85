"""What may be asked next, from what documents offer that the reader may certainly view: no model proposes it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from hive_agents.base import HiveError
from hive_agents.copilot.documents import require_known
from hive_agents.copilot.outcome import TurnOutcome
from hive_agents.copilot.phrases import groups
from hive_agents.copilot.plan import DocumentFilter, SearchStrategy
from hive_agents.copilot.roles import role_of
from hive_agents.copilot.session import Request
from hive_agents.copilot.steps import matching
from hive_agents.copilot.vocabulary import Vocabulary
from hive_agents.index import ChunkRow, ScopedIndex

MOST = 3
_TRIED = 4
"""Values of a field of which one is looked for that some document has."""


@dataclass(frozen=True)
class FollowUp:
    """A request, and the words to offer it by: `about` is a field or a document's title, `value` one of its values or
    sections."""

    kind: Literal["valid", "other", "section", "more"]
    about: str
    value: str
    request: Request


def follow_ups(
    known: ScopedIndex, vocabulary: Vocabulary, text: str, outcome: TurnOutcome, rows: Sequence[ChunkRow]
) -> list[FollowUp]:
    """Return at most `MOST` follow-ups of a turn that asked `text`, the most useful first; `rows` are its results.

    `known` and `vocabulary` are of the documents that the reader may certainly view. Each has an answer: a value is one
    of a document that meets the other filters, too.
    """
    if not rows or not outcome.decision.strategy.retrieves:
        return []
    if outcome.doc_id is not None:
        return list(_sections(known, rows[:1], outcome))[:MOST]
    found = [*_valid(known, vocabulary, text, outcome, rows), *_other(known, vocabulary, text, outcome)]
    found += islice(_sections(known, rows[:1], outcome), 1)
    found += _more(known, vocabulary, outcome, rows[0])
    return [*found, *_sections(known, rows[1:2], outcome)][:MOST]


def _valid(
    known: ScopedIndex, vocabulary: Vocabulary, text: str, outcome: TurnOutcome, rows: Sequence[ChunkRow]
) -> Iterator[FollowUp]:
    """Yield the same question about what is in force, where results are that aren't."""
    in_force, unfit = _said("effective"), _said("retired") | _said("draft")
    asked = {demand.field for demand in outcome.decision.filters}
    for name in vocabulary.in_role("status"):
        value = next((one for one in vocabulary.fields[name].values if one.lower() in in_force), None)
        stale = any(str(row.metadata.get(name)).lower() in unfit for row in rows)
        if value is not None and stale and name not in asked:
            pinned = [*outcome.decision.filters, DocumentFilter(field=name, value=value)]
            if _is_met(known, pinned):
                yield FollowUp("valid", name, value, Request(text=text, pinned=pinned))
                return


def _is_met(known: ScopedIndex, filters: Sequence[DocumentFilter]) -> bool:
    with suppress(HiveError):  # a filter that a model planned may have a value that is none
        require_known(known, filters)
        return bool(matching(known, filters).any())
    return False


def _said(status: str) -> frozenset[str]:
    """Return the words that are said for a status."""
    return frozenset(phrase for group in groups("synonyms").find([status]) for phrase in group)


def _other(known: ScopedIndex, vocabulary: Vocabulary, text: str, outcome: TurnOutcome) -> Iterator[FollowUp]:
    """Yield the same question about another value of a field that was asked about."""
    decision = outcome.decision
    for demand in sorted(decision.filters, key=lambda one: role_of(one.field) == "kind"):
        words = vocabulary.fields.get(demand.field)
        if demand.op != "eq" or words is None or words.type != "keyword":
            continue
        for value in [one for one in words.values if one != demand.value][:_TRIED]:
            changed = demand.model_copy(update={"value": value})
            pinned = [changed if one is demand else one for one in decision.filters]
            if not _is_met(known, pinned):
                continue
            said = _instead(text, str(demand.value), value)
            if said is None:
                listed = decision.strategy is SearchStrategy.METADATA_ONLY
                said = f"{demand.field} {value}" if listed else decision.query
            yield FollowUp("other", demand.field, value, Request(text=said, pinned=pinned))
            return


def _instead(text: str, value: str, other: str) -> str | None:
    """Return a text with one value in place of another; None where it doesn't name that in these words.

    >>> _instead("Effective SOPs, please", "effective", "draft"), _instead("what is in force?", "effective", "draft")
    ('draft SOPs, please', None)
    """
    at = f" {text.lower()} ".find(value.lower())
    bounds = f" {text} "[at - 1 : at], f" {text} "[at + len(value) : at + len(value) + 1]
    if at < 1 or any(map(str.isalnum, bounds)) or len(text.lower()) != len(text):
        return None
    return text[: at - 1] + other + text[at - 1 + len(value) :]


def _sections(known: ScopedIndex, rows: Sequence[ChunkRow], outcome: TurnOutcome) -> Iterator[FollowUp]:
    """Yield the sections of these rows' documents that weren't shown, those behind the shown one first."""
    shown = {chunk for result in outcome.results for chunk in (result.chunk_id, *result.near)}
    for row in rows:
        chunks = known.rows(known.chunks_of(row.doc_id).tolist())
        read = {_section(one) for one in chunks if one.chunk_id in shown} | {_section(row), row.title, ""}
        place = next((n for n, one in enumerate(chunks) if one.chunk_id == row.chunk_id), 0)
        for heading in dict.fromkeys(_section(one) for one in [*chunks[place:], *chunks[:place]]):
            if heading not in read:
                request = Request(text=f"{row.title}: {heading}", doc_id=row.doc_id)
                yield FollowUp("section", row.title, heading, request)


def _section(row: ChunkRow) -> str:
    return row.heading.rpartition(" > ")[2].strip()


def _more(known: ScopedIndex, vocabulary: Vocabulary, outcome: TurnOutcome, row: ChunkRow) -> Iterator[FollowUp]:
    """Yield the list of what else is by the first result's author, or whose it is."""
    asked = {demand.field for demand in outcome.decision.filters}
    for name in vocabulary.of_type("keyword", "text"):
        value = row.metadata.get(name)
        if role_of(name) != "person" or name in asked or value not in vocabulary.fields[name].values:
            continue
        wanted = DocumentFilter(field=name, value=str(value))
        if known.count(matching(known, [wanted])) > 1:
            yield FollowUp("more", name, str(value), Request(text=f"{name} {value}", pinned=[wanted]))
            return
