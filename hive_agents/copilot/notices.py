"""Notices above a reply: what was read otherwise, is in no document, left out, newer or contradicted."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hive_agents.base import one_line
from hive_agents.copilot.forms import version_parts
from hive_agents.copilot.outcome import TurnOutcome
from hive_agents.copilot.roles import date_role_of, role_of

if TYPE_CHECKING:
    from hive_agents.copilot.session import TurnSession

ESCALATED = "The judge wasn't sure of this answer; a person was asked to check it."
UNSURE = "The judge wasn't sure of this answer: check it against the passages."
UNAVAILABLE = "A model can't be asked at the moment, so there is no answer: these are the passages that were found."
BY_WORDS = "Nothing can be searched by meaning {when}{answer}: these are the passages that have the question's words."
OWN_INDEX = "The search engine can't be asked {when}: this was found in this host's own index."
WITHHELD = "Rejected: the judge doesn't accept a model's answer, so these are the passages that were found."
LEFT_OUT = "There are documents that meet the filter, but the search that serves here leaves them out."
NEAREST = "None of the question's words is in a document that you may read: this is what is nearest by meaning."
FOREIGN = "The question is in another language than these documents: it was searched for word by word in theirs."
LONGEST = 160
_COMPARED = 3
"""How many results, the first, are compared with the first one."""
_FEWEST_WORDS = 4
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_VERSION = re.compile(r"[vV]?\d+(?:\.\d+)*")


def absence(of: TurnOutcome | TurnSession, answer: str = "") -> str | None:
    """Return which substitute answered, and since when an engine is away; None where nothing is."""
    when = "at the moment" if of.away_since is None else f"since {of.away_since}"
    if of.by_words:
        return BY_WORDS.format(when=when, answer=answer)
    return OWN_INDEX.format(when=when) if of.by_own_index else None


def notice(outcome: TurnOutcome, results: Sequence[dict[str, Any]]) -> str | None:
    """Return what has to be said beside a reply with these results, as they are shown now; None for nothing."""
    if outcome.status == "unavailable":
        return absence(outcome, ", so there is no answer") if outcome.by_words else UNAVAILABLE
    notices = [f'I read "{wrong}" as "{right}".' for wrong, right in outcome.corrected.items()]
    notices += _shared(outcome)
    if outcome.unknown_version is not None:
        notices.append(f"No document that you may read is of version {outcome.unknown_version}.")
    notices += filter(None, [absence(outcome)])
    notices += [LEFT_OUT] if outcome.left_out else []
    if outcome.status != "answered":
        notices += [FOREIGN] if outcome.by_meaning == "language" else _unknown_words(outcome.unknown)
        notices += [NEAREST] if outcome.by_meaning == "words" else []
    notices += [WITHHELD] if outcome.status == "rejected" else []
    if outcome.status == "answered" and outcome.judgment is not None and outcome.judgment.escalation_reason is not None:
        notices += [UNSURE if outcome.approval_id is None else ESCALATED]
    ranked = [one for one in results if one["citation"]]
    if outcome.decision.route == "documents.search":
        versioned = any(role_of(demand.field) == "version" for demand in outcome.decision.filters)
        notices += [] if versioned or outcome.unknown_version else _newest(ranked)
        notices += _contradictions(ranked)
    return " ".join(notices) or None


def _shared(outcome: TurnOutcome) -> list[str]:
    """Return which field a value was taken to be of, where others have it, too."""
    told = [(value, other) for other, values in outcome.shared.items() for value in values]
    fields = {str(value): demand.field for demand in outcome.decision.filters for value in demand.values}
    return [
        f'"{one_line(value, LONGEST)}" is a value of {other.replace("_", " ")}, too: '
        f"I took it as one of {fields[value].replace('_', ' ')}."
        for value, other in told
        if value in fields
    ]


def _unknown_words(unknown: Sequence[str]) -> list[str]:
    if not unknown:
        return []
    listed = f'the word "{unknown[0]}"' if len(unknown) == 1 else f"these words: {', '.join(unknown)}"
    return [f"No document that you may read has {listed}."]


def _newest(results: Sequence[dict[str, Any]]) -> list[str]:
    """Return which is the newest of several documents of the first one's title, by their versions or dates.

    >>> rows = [{"rank": n, "title": "Leave", "metadata": {"valid_from": f"202{n}-01-01"}} for n in (1, 2)]
    >>> _newest(rows), _newest(rows[:1])
    (['There are 2 documents called "Leave": the newest of them is [2], 2022-01-01.'], [])
    """
    alike = [(_age(one["metadata"]), one["rank"]) for one in results if one["title"] == results[0]["title"]]
    dated = [(age, rank) for age, rank in alike if age is not None]
    if len(alike) < 2 or len({age for age, _ in dated}) < 2:
        return []
    (_, shown), rank = max(dated, key=lambda pair: (pair[0], -pair[1]))
    title = one_line(results[0]["title"], LONGEST)
    return [f'There are {len(alike)} documents called "{title}": the newest of them is [{rank}], {shown}.']


def _age(metadata: dict[str, Any]) -> tuple[tuple[int, ...], str] | None:
    """Return what orders the versions of a document, and how it is shown: its version, else its date."""
    for name, value in metadata.items():
        if role_of(name) == "version" and _VERSION.fullmatch(str(value)):
            return version_parts(str(value)), str(value)
    for role in ("effective", "changed", "created"):
        for name, value in metadata.items():
            if date_role_of(name) == role and re.fullmatch(r"\d{4}-\d\d-\d\d", str(value)):
                return tuple(map(int, str(value).split("-"))), str(value)
    return None


def _contradictions(results: Sequence[dict[str, Any]]) -> list[str]:
    """Return sentences of the first result and of another one of its title that differ in nothing but their numbers.

    A number of its own in a title, as in "Release 4.1", is no difference.

    >>> lines = ("Keys are valid for 20 days.", "Keys are valid for 30 days.")
    >>> results = [{"rank": n, "title": "Keys", "windows": [{"text": text}]} for n, text in enumerate(lines, start=1)]
    >>> _contradictions(results)
    ['[1] and [2] differ in a number: "Keys are valid for 20 days." and "Keys are valid for 30 days."']
    """
    for one, other in ((results[0], other) for other in results[1:_COMPARED]):
        titles = [result["title"].casefold() for result in (one, other)]
        if _NUMBER.sub("#", titles[0]) != _NUMBER.sub("#", titles[1]):
            continue
        lines = [_sentences(result) for result in (one, other)]
        for told in (each for each in lines[0] if each in lines[1]):
            first, second = lines[0][told], lines[1][told]
            differing = set(_NUMBER.findall(first)) ^ set(_NUMBER.findall(second))
            if not differing <= set(_NUMBER.findall(" ".join(titles))):
                pair = f'"{one_line(first, LONGEST)}" and "{one_line(second, LONGEST)}"'
                return [f"[{one['rank']}] and [{other['rank']}] differ in a number: {pair}"]
    return []


def _sentences(result: dict[str, Any]) -> dict[str, str]:
    """Return the sentences of a result's windows that hold a number, by their words without it."""
    texts = [text for window in result["windows"] for text in re.split(r"(?<=[.!?])\s+|\n", window["text"])]
    held = [text for text in texts if len(text.split()) >= _FEWEST_WORDS and _NUMBER.search(text) and "|" not in text]
    return {_NUMBER.sub("#", text.casefold()): text for text in held}
