"""Compaction: a conversation that outgrows the context is shortened, and each removed text is kept in a file."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass

from hive_agents.base import HiveError, cut, encodable
from hive_agents.memory.conversation import ConversationStore
from hive_agents.memory.data_files import DataFiles
from hive_agents.memory.entries import Mark
from hive_agents.memory.tiers import (
    Tier,
    TierPlan,
    compact_preserving_structure,
    emergencies,
    last_turn,
    results_to_pointers,
    summarised,
    transcript,
)
from hive_agents.memory.timeline import Group, difference, tokens_of

Summarise = Callable[[str], Awaitable[str]]
"""Return the summary of a transcript; after an error or "" the next tier is used."""

PERCENT = 80
_SUMMARY_CHARS = 4000
_NUMBERED = re.compile(r"conversation_([0-9]{1,9})\.md")
_ANY_FILE = "conversation_999999999.md"


@dataclass(frozen=True, slots=True)
class Compaction:
    """The result of a compaction; tokens are estimates and include the prompt. `file` is the new file."""

    tier: Tier
    before: int
    after: int
    budget: int
    file: str | None = None


@dataclass(frozen=True, slots=True)
class _View:
    lead: str | None
    groups: tuple[Group, ...]
    marks: int

    @property
    def tokens(self) -> int:
        return tokens_of(self.lead, self.groups)


async def compact(
    store: ConversationStore,
    conversation_id: str,
    files: DataFiles,
    *,
    context_tokens: int | None = None,
    prompt_tokens: int = 0,
    summarise: Summarise | None = None,
) -> Compaction:
    """Shorten the conversation below 80 % of the context, by the first sufficient tier; a shorter one stays.

    `prompt_tokens` are those of the system prompt and the tools' schemas, which count and are never shortened.
    adapt.md is a part of that prompt, so it survives every tier. `context_tokens` is `settings.agents.context_tokens`
    by default.

    A file is written before the mark that points to it, so that a crash leaves an unused file and never a broken
    pointer. Rows of messages are never changed.

    Raises: HIVE-105 where the prompt leaves no room, HIVE-409 for an unknown conversation; HIVE-402, HIVE-403.
    """
    budget = (context_tokens or store.workspace.settings.agents.context_tokens) * PERCENT // 100
    room = budget - prompt_tokens
    view = _view(store, conversation_id)
    before = view.tokens + prompt_tokens
    while view.tokens > room:
        summary = None
        if summarise is not None and _first_fit(_without_model(view, _ANY_FILE), room) is None:
            summary = await _summary(view, room, summarise)
        done = await asyncio.to_thread(_carry_out, store, conversation_id, files, view, room, summary)
        if done is not None:
            plan, file = done
            return Compaction(plan.tier, before, tokens_of(plan.lead, plan.groups) + prompt_tokens, budget, file)
        view = _view(store, conversation_id)  # another process compacted it first
    return Compaction("none", before, view.tokens + prompt_tokens, budget)


def _view(store: ConversationStore, conversation_id: str) -> _View:
    with store.timeline(conversation_id) as timeline:
        return _View(timeline.lead, tuple(timeline.groups()), len(timeline.marks))


def _without_model(view: _View, file: str) -> Iterator[TierPlan]:
    pointed = results_to_pointers(view.lead, view.groups)
    yield pointed
    yield compact_preserving_structure(view.lead, pointed.groups, file)


def _plans(view: _View, file: str, summary: str | None) -> Iterator[TierPlan]:
    yield from _without_model(view, file)
    pointed = results_to_pointers(view.lead, view.groups).groups
    if summary:
        yield summarised(view.lead, pointed, file, summary)
    yield from emergencies(view.lead, pointed, file)


def _first_fit(plans: Iterator[TierPlan], room: int) -> TierPlan | None:
    return next((plan for plan in plans if tokens_of(plan.lead, plan.groups) <= room), None)


def _carry_out(
    store: ConversationStore, conversation_id: str, files: DataFiles, view: _View, room: int, summary: str | None
) -> tuple[TierPlan, str | None] | None:
    with files.lock():
        file = f"conversation_{files.next_number(_NUMBERED)}.md"
        plan = _first_fit(_plans(view, file, summary), room)
        if plan is None:
            raise HiveError.of(
                "HIVE-105",
                f"the prompt leaves {max(room, 0):,} tokens for the conversation, which is too few",
                file="hive.toml",
                path="agents.context_tokens",
                fix="allow more tokens, or shorten the node's prompt, its tools or adapt.md",
            )
        if plan.spilled:
            files.seal(file, plan.spilled)
    mark = Mark(plan.tier, plan.lead, difference(view.groups, plan.groups))
    if not store.mark(conversation_id, mark, view.marks + 1):
        return None
    return plan, file if plan.spilled else None


async def _summary(view: _View, room: int, summarise: Summarise) -> str | None:
    pointed = results_to_pointers(view.lead, view.groups).groups
    text = transcript(view.lead, pointed[: last_turn(pointed)])
    half = max(room, 1)  # tokens: with four characters each, both halves together take half of the room
    if len(text) > 2 * half:
        text = f"{text[:half]}\n\n[…]\n\n{text[-half:]}"
    try:
        summary = await summarise(text)
    except HiveError as error:
        if error.exit_code == 3:  # the database failed, or another worker has the run
            raise
        return None
    except Exception:
        return None
    return cut(encodable(summary).strip(), min(_SUMMARY_CHARS, max(room, 1)))  # a quarter of the room at most
