"""What a claim says of one release, year or example, held against the section that its source has for it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from hive_agents.judging.amounts import CODE, NUMBER_WORDS, dates_in, is_measure, quantities
from hive_agents.judging.clauses import is_thing
from hive_agents.judging.passages import STOP, PassageText, mentions, normal, stems

_RELEASE = re.compile(r"(?<![\w.])v?\d+(?:\.\d+)+(?:[a-z]{1,5}\d+)?(?![\w.]*\w)|\b[A-Z]+\d+\b")
_NUMBERED = re.compile(r"\b[A-Z][a-z]+ \d+\b(?![.\d])")
_OWNER = re.compile(r"\b([A-Z][a-zà-ÿ]+)['’]s\b")
_HEAD = re.compile(r"#+\s|[\w.+-]+ \([^)\d]*\d[^)]*\) |(?![-*>|\d\s])(?=.{3,100}$)[^.:;]*(?:\d[^:;]*)?$")
_CLOCK = re.compile(r"\b\d{1,2}(?::\d\d){1,2}\b")
_COMPARED = re.compile(r"\b(?:than|from|compared|unlike|both|still|again|between|previous|whereas|while|not)\b")
_CAPITALS = re.compile(r"\b(?:[A-Z][A-Z_]{2,}|[a-z]+[A-Z]\w+)\b")


@dataclass(frozen=True, slots=True)
class _Section:
    labels: frozenset[str]
    text: str


def sections_differ(claim: str, source: PassageText) -> Iterator[tuple[str, str]]:
    """Yield what the claim says of the one section that it names, and only other sections say."""
    before, sections = _sections(source.text)
    named = [one for one in sections if any(label in claim and mentions(claim, label) for label in one.labels)]
    if len(named) != 1 or len(sections) < 2 or _COMPARED.search(claim):
        return
    own, labels = f"{before}\n{named[0].text}", named[0].labels
    rest = claim
    for label in sorted(labels, key=len, reverse=True):
        rest = rest.replace(label, " ")
    others = "\n".join(one.text for one in sections if one is not named[0])
    mine, theirs = list(dates_in(own)), list(dates_in(others))
    for date in dates_in(rest):
        if any(date.within(other) for other in theirs) and not any(date.within(other) for other in mine):
            yield "date", date.text
    for found in (*CODE.finditer(rest), *_CAPITALS.finditer(rest)):
        if not is_measure(found[0]) and mentions(others, found[0]) and not mentions(own, found[0]):
            yield "row", found[0]
    words = stems(rest) - stems(" ".join(labels))
    absent = words - stems(own)
    told = max((len(absent & stems(line)) for line in others.splitlines()), default=0)
    if told >= 2 and 2 * told >= len(words) and any(map(is_thing, absent)):
        yield "row", " ".join(sorted(absent))


def _sections(text: str) -> tuple[str, list[_Section]]:
    """Return what stands before the first section, and the parts of a text whose heads differ by a label only."""
    lines = text.splitlines()
    heads = [
        (place, _labels(line)) for place, line in enumerate(lines)
        if _HEAD.match(_CLOCK.sub("", line).strip()) and (place == 0 or not lines[place - 1].strip()) and _labels(line)
    ]  # fmt: skip
    wider = {label.rpartition(".")[0] for _, labels in heads for label in labels}  # 7.0, beside 7.0.1
    heads = [(place, labels) for place, labels in heads if not labels & wider]
    if not heads:
        return text, []
    ends = [*(place for place, _ in heads[1:]), len(lines)]
    parts = [_Section(labels, "\n".join(lines[place:end])) for (place, labels), end in zip(heads, ends, strict=True)]
    return "\n".join(lines[: heads[0][0]]), parts


def _labels(line: str) -> frozenset[str]:
    """Return the releases, numbers and owners that a head goes by."""
    found = _RELEASE.findall(line)[:1] + _NUMBERED.findall(line)[:1]
    owners = [one for one in _OWNER.findall(line) if one.casefold() not in STOP] if found else []
    measured = {one.text for one in quantities(line) if one.dimension}
    return frozenset(one for one in {*found, *owners} - measured if not is_measure(one) and not any(dates_in(one)))


_DEFAULT = re.compile(
    r"\bdefault(?:s|ed)?\b(?: (?:configuration|value|setting|mode|state))?(?: (?:of|for) [^.,;]{1,40}?)?"
    r"(?: is| are| to|:)? (?:the |an? )?[\"“'`]?(\d[\w.,]*|(?<=is )[\w./-]+|(?<=to )[\w./-]+|(?<=[\"“'`])[\w./-]+)",
    re.I,
)


def defaults_differ(claim: str, source: PassageText) -> Iterator[tuple[str, str]]:
    """Yield the default that a claim tells, where the source tells others only."""
    theirs = {normal(found) for found in _DEFAULT.findall(source.text)} - _PLAIN
    for found in _DEFAULT.findall(claim):
        told = normal(found)
        if theirs and told not in theirs | _PLAIN | NUMBER_WORDS.keys() and told in source.tokens | _SWITCHES:
            yield "row", found


_SWITCHES = frozenset("yes no on off true false none never always enabled disabled".split())
_PLAIN = STOP - _SWITCHES
