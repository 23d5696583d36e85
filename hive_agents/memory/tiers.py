"""The tiers of compaction: pure functions from one view of a conversation to a smaller one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from hive_agents.base import fenced
from hive_agents.memory.timeline import Group, TimelinePiece
from hive_agents.models import ToolCall

PREVIEW = 300
SET_OUTPUT = "set_output"
Tier = Literal["none", "results", "structure", "summary", "emergency"]


@dataclass(frozen=True, slots=True)
class TierPlan:
    """A smaller view, and the removed text, for its file."""

    tier: Tier
    lead: str | None
    groups: tuple[Group, ...]
    spilled: str = ""


def conversation_pointer(file: str) -> str:
    """
    >>> conversation_pointer("conversation_1.md")
    "[Previous conversation saved to 'conversation_1.md'. Use load_data('conversation_1.md') to review if needed.]"
    """
    return f"[Previous conversation saved to '{file}'. Use load_data('{file}') to review if needed.]"


def last_turn(groups: Sequence[Group]) -> int:
    """Return where the last turn begins: at the last message of the assistant, or before that at the person's words
    to it."""
    start = len(groups) - 1
    while start > 0 and groups[start].head.message.role != "assistant":
        start -= 1
    if start > 0 and groups[start - 1].head.message.role == "user":
        start -= 1
    return max(start, 0)


def results_to_pointers(lead: str | None, groups: Sequence[Group]) -> TierPlan:
    """Tier 1: a result before the last turn that is in a file becomes its pointer; errors and set_output stay."""
    start = last_turn(groups)
    return TierPlan("results", lead, (*map(_with_pointers, groups[:start]), *groups[start:]))


def compact_preserving_structure(lead: str | None, groups: Sequence[Group], file: str) -> TierPlan:
    """Tier 2: free text before the last turn goes to `file`; tool calls, errors and set_output stay."""
    start = last_turn(groups)
    kept: list[Group] = []
    spilled = _rendered_lead(lead)
    for group in groups[:start]:
        head = group.head
        if head.message.content:
            spilled.append(_section(head, head.message.content))
        if head.message.tool_calls:
            calls = zip(head.message.tool_calls, group.results, strict=True)
            results = tuple(_kept_result(call, result, file, spilled) for call, result in calls)
            kept.append(Group(head.with_content(""), results))
    return _plan("structure", conversation_pointer(file), (*kept, *groups[start:]), "\n\n".join(spilled))


def summarised(lead: str | None, groups: Sequence[Group], file: str, summary: str) -> TierPlan:
    """Tier 3: everything before the last turn goes to `file` and is replaced by a summary."""
    start = last_turn(groups)
    words = f"{conversation_pointer(file)}\n\nSummary of it:\n{fenced(summary)}"
    return _plan("summary", words, tuple(groups[start:]), transcript(lead, groups[:start]))


def emergencies(lead: str | None, groups: Sequence[Group], file: str) -> Iterator[TierPlan]:
    """Tier 4, each plan smaller than the one before: pointers and the last turn, whole, shortened, or not at all."""
    start = last_turn(groups)
    words = "\n".join([conversation_pointer(file), *_pointers(groups[:start])])
    old = transcript(lead, groups[:start])
    yield _plan("emergency", words, tuple(groups[start:]), old)
    for first in sorted({start, len(groups) - 1}):
        before = [transcript(lead, groups[:first])]
        short = tuple(_shortened(group, file, before) for group in groups[first:])
        text = "\n\n".join(filter(None, before))
        yield _plan("emergency", words, short, text)
        yield _plan("emergency", conversation_pointer(file), short, text)
    yield _plan("emergency", conversation_pointer(file), (), transcript(lead, groups))


def transcript(lead: str | None, groups: Sequence[Group]) -> str:
    """Return the messages' full text for a person."""
    sections = _rendered_lead(lead)
    for group in groups:
        sections += [_section(piece, _whole(piece)) for piece in group.pieces]
    return "\n\n".join(sections)


def _plan(tier: Tier, lead: str, groups: tuple[Group, ...], spilled: str) -> TierPlan:
    # Without removed text no file is written, and no line may point to it.
    return TierPlan(tier, lead if spilled else None, groups, spilled)


def _pointers(groups: Sequence[Group], most: int = 20) -> list[str]:
    found = [piece.pointer for group in groups for piece in group.results if piece.pointer]
    return list(dict.fromkeys(found))[-most:]


def _with_pointers(group: Group) -> Group:
    calls = zip(group.head.message.tool_calls, group.results, strict=True)
    return replace(
        group, results=tuple(result if call.name == SET_OUTPUT else _pointed(result) for call, result in calls)
    )


def _pointed(piece: TimelinePiece) -> TimelinePiece:
    if piece.pointer is None or len(piece.pointer) >= len(piece.message.content):
        return piece
    return piece.with_content(piece.pointer)


def _kept_result(call: ToolCall, result: TimelinePiece, file: str, spilled: list[str]) -> TimelinePiece:
    if result.is_error or call.name == SET_OUTPUT or result.pointer is not None:
        return result
    return _spilled(result, f"[Saved to '{file}']", spilled)


def _spilled(piece: TimelinePiece, short: str, spilled: list[str]) -> TimelinePiece:
    if len(short) >= len(piece.message.content):
        return piece
    spilled.append(_section(piece, piece.message.content))
    return piece.with_content(short)


def _shortened(group: Group, file: str, spilled: list[str]) -> Group:
    def short(piece: TimelinePiece) -> TimelinePiece:
        pointed = _pointed(piece)
        text = pointed.message.content
        if pointed is not piece or len(text) <= PREVIEW:
            return pointed
        return _spilled(piece, f"{text[: PREVIEW // 2]}…\n[Saved to '{file}']", spilled)

    head = short(group.head)
    calls = [call.model_copy(update={"args": _short_args(call.args, file)}) for call in head.message.tool_calls]
    if calls != head.message.tool_calls:
        spilled.append(_section(group.head, _calls(group.head)))
        head = head.with_message(head.message.model_copy(update={"tool_calls": calls}))
    return Group(head, tuple(map(short, group.results)))


def _short_args(args: dict[str, Any], file: str) -> dict[str, Any]:
    long = len(json.dumps(args, ensure_ascii=False)) > PREVIEW
    return {"saved_to": file} if long else args


def _rendered_lead(lead: str | None) -> list[str]:
    return [] if lead is None else [lead]


def _section(piece: TimelinePiece, text: str) -> str:
    failed = ", error" if piece.is_error else ""
    return f"## {piece.n or '–'} {piece.message.role}{failed}\n{text}"


def _whole(piece: TimelinePiece) -> str:
    return "\n".join(filter(None, [piece.message.content, _calls(piece)]))


def _calls(piece: TimelinePiece) -> str:
    return "\n".join(f"→ {call.name} {json.dumps(call.args, ensure_ascii=False)}" for call in piece.message.tool_calls)
