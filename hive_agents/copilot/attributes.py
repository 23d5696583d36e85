"""Demands that are no values in the text: dates, the reader's own documents, numbers."""

from __future__ import annotations

from hive_agents.copilot.dates import DateSpan
from hive_agents.copilot.demands import FIRST_PERSON
from hive_agents.copilot.intents import Kind
from hive_agents.copilot.plan import DocumentFilter, Operator
from hive_agents.copilot.synonyms import DATE_CUES, parts
from hive_agents.copilot.utterance import Utterance
from hive_agents.copilot.wording import ADVERBS, BE, FUNCTION, NEGATIONS
from hive_agents.retrieval.analysis import terms

_OWNS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys("own owns owned maintain maintains maintained responsible".split(), ("owner", "responsible")),
    **dict.fromkeys("write writes wrote written author authored".split(), ("author", "writer")),
    **dict.fromkeys("create creates created made publish published".split(), ("created", "creator", "author")),
    **dict.fromkeys("update updated change changed edit edited revised".split(), ("updated", "editor", "modified")),
    **dict.fromkeys("assigned".split(), ("assignee", "assigned")),
}
_PLAIN = frozenset(("date", "on", "at", "last", "from", "to", "until", "time", "next"))
_COMPARISONS: dict[str, Operator] = {
    **dict.fromkeys(("over", "above", "more"), "gt"),
    **dict.fromkeys(("under", "below", "less", "fewer"), "lt"),
    "least": "gte",
    "most": "lte",
}


def reserve_date_cues(s: Utterance) -> None:
    """ "effective since March" is about a date, not a status: its words are no values any more."""
    for span in s.dates if s.filters_by_description else []:
        cue = s.back(span.first, ADVERBS, BE)
        names, changed = _fields_said(s, cue)
        if span.led and names and not changed and cue in s.inside:
            s.used.update({cue, cue - 1} if (s.at(cue - 1), s.at(cue)) == ("in", "force") else {cue})


def dates(s: Utterance) -> list[DocumentFilter]:
    """Dates of the documents; one that only the content speaks of ("tubes from 2023") isn't a demand."""
    found: list[DocumentFilter] = []
    fields = s.vocabulary.of_type("date")
    if not fields or not s.filters_by_description:
        return found
    for span in s.dates:
        cue = _date_cue(s, span)
        near = any(s.is_head(n) for n in (span.first - 1, span.last + 1))
        inside = range(span.first, span.last + 1)
        alone = not any(s.is_content(n) for n in range(len(s.words)) if n not in inside)
        if (span.led and (cue is not None or s.has_head())) or near or alone:
            s.used.update(inside)
            s.used.update(() if cue is None else (cue,))
            name = ([*_fields_said(s, cue)[0], *fields] if cue is not None else fields)[0]
            found += [DocumentFilter(field=name, op=op, value=day.isoformat()) for op, day in span.bounds]
    return found


def _date_cue(s: Utterance, span: DateSpan) -> int | None:
    """Where the sentence says what happened then: "updated"."""
    for place in (s.back(span.first, ADVERBS, BE), span.last + 1):
        if s.at(place) in DATE_CUES or _fields_said(s, place)[0]:
            return place
    return next((n for n in range(span.first - 1, -1, -1) if DATE_CUES.get(s.at(n)) == "changed"), None)


def _fields_said(s: Utterance, place: int) -> tuple[list[str], bool]:
    """Date fields that a word speaks of, by name ("reviewed" of `reviewed_on`) or by role; whether that is a change."""
    role = DATE_CUES.get(s.at(place))
    stem = s.stem(place)
    named = [
        name
        for name in s.vocabulary.of_type("date")
        if stem and stem in terms(" ".join(parts(name))) and stem not in _PLAIN
    ]
    return named or (s.vocabulary.date_fields(role) if role else []), role == "changed"


def owners(s: Utterance, reader: str) -> list[DocumentFilter]:
    """ "my documents", "owned by mei", "everything lucia owns", "what did alice write"."""
    people = s.vocabulary.in_role("person")
    found: list[DocumentFilter] = []
    if not people or not s.filters_by_description:
        return found
    for place in range(len(s.words)):
        mention = s.inside.get(place)
        meaning = mention.meaning("person") if mention else None
        person = reader if s.at(place) in FIRST_PERSON else str(meaning.value) if meaning else None
        if person is None or place in s.used:
            continue
        verb = _owning_verb(s, place)
        if s.at(place) == "my":
            owned = _owns_what_follows(s, place)
        elif s.at(place) == "mine":
            owned = s.has_head() or len(s.words) <= 4
        else:
            owned = verb is not None and (
                s.has_head() or (s.at(0) == "what" and s.kind is Kind.LISTING) or s.at(place - 1) == "what"
            )
        if not owned:
            continue
        said = _OWNS.get(s.at(verb), ()) if verb is not None else ()
        field = next((name for part in said for name in people if part in parts(name)), people[0])
        first = place if verb is None else min(place, verb)
        negated = s.at(s.back(first, ADVERBS, BE)) in NEGATIONS
        found.append(
            DocumentFilter(field=field, op="not_in", value=[person])
            if negated
            else DocumentFilter(field=field, value=person)
        )
        s.used.update(range(first, max(place, verb if verb is not None else place) + 1))
    return found


def _owning_verb(s: Utterance, place: int) -> int | None:
    following = place + 1
    while s.at(following) in ADVERBS | {"have", "has", "am", "is"}:
        following += 1
    if s.at(following) in _OWNS:
        return following
    if s.at(place - 1) in ("by", "to") and s.at(place - 2) in _OWNS:
        return place - 2
    return place - 1 if s.at(place - 1) == "by" else None


def _owns_what_follows(s: Utterance, place: int) -> bool:
    for n in range(place + 1, min(place + 5, len(s.words))):
        if s.is_head(n):
            return True
        if s.at(n) in FUNCTION - ADVERBS:
            return False
    return False


def numbers(s: Utterance) -> list[DocumentFilter]:
    """A number beside the name of its field: "version 3", "pages over 20"."""
    found: list[DocumentFilter] = []
    for name in s.vocabulary.of_type("number") if s.filters_by_description else []:
        for place in range(len(s.words)):
            if s.at(place).removesuffix("s") != parts(name)[-1].removesuffix("s"):
                continue
            at = place + 1
            while s.at(at) in _COMPARISONS or s.at(at) in ("is", "at", "than", "the"):
                at += 1
            number = _number(s.at(at))
            if number is None:
                continue
            operators = [_COMPARISONS[s.at(n)] for n in range(place + 1, at) if s.at(n) in _COMPARISONS]
            found.append(DocumentFilter(field=name, op=operators[0] if operators else "eq", value=number))
            s.used.update(range(place, at + 1))
    return found


def _number(word: str) -> int | float | None:
    if len(word) > 15 or not word.replace(".", "", 1).isdecimal():
        return None
    return int(word) if word.isdecimal() else float(word)
