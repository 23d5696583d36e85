"""A conversation in memory: results matched to calls, and the messages for the model."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from hive_agents.memory.entries import Change, Entry, Mark, message_tokens
from hive_agents.models import Message, ToolCall

INTERRUPTED = "[No result: the run was interrupted before this call was done.]"


@dataclass(frozen=True, slots=True)
class TimelinePiece:
    """A message for the model; `n` is its number in the store, 0 where it isn't stored."""

    n: int
    message: Message
    tokens: int
    is_error: bool = False
    pointer: str | None = None

    def with_message(self, message: Message) -> TimelinePiece:
        return TimelinePiece(self.n, message, message_tokens(message), self.is_error, self.pointer)

    def with_content(self, content: str) -> TimelinePiece:
        return self.with_message(self.message.model_copy(update={"content": content}))

    def without_words(self, notice: str) -> TimelinePiece:
        """Return the message with the notice for its words, and without the arguments of its calls."""
        calls = [call.model_copy(update={"args": {}}) for call in self.message.tool_calls]
        content = notice if self.message.content else ""
        return self.with_message(self.message.model_copy(update={"content": content, "tool_calls": calls}))


@dataclass(frozen=True, slots=True)
class Group:
    """A message and the results of its tool calls in the order of the calls, which are kept or removed together."""

    head: TimelinePiece
    results: tuple[TimelinePiece, ...] = ()

    @property
    def pieces(self) -> tuple[TimelinePiece, ...]:
        return (self.head, *self.results)

    def without(self, withheld: Collection[int], notice: str) -> Group:
        """Return the group with the notice for the words of the `withheld` messages; of calls their names stay."""
        head, *results = (piece.without_words(notice) if piece.n in withheld else piece for piece in self.pieces)
        return Group(head, tuple(results))


def tokens_of(lead: str | None, groups: Sequence[Group]) -> int:
    return sum(message_tokens(message) for message in _lead(lead)) + sum(
        piece.tokens for group in groups for piece in group.pieces
    )


def sent(lead: str | None, groups: Sequence[Group]) -> list[Message]:
    """Return the messages in an order that every provider accepts: results directly after their calls."""
    return [*_lead(lead), *(piece.message for group in groups for piece in group.pieces)]


def _lead(lead: str | None) -> list[Message]:
    return [] if lead is None else [Message(role="user", content=lead)]


@dataclass(slots=True)
class _Head:
    piece: TimelinePiece
    results: list[TimelinePiece | None]


@dataclass
class Timeline:
    """All entries of a conversation and its marks, in order."""

    entries: list[Entry] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    lead: str | None = None
    by_key: dict[str, Entry] = field(default_factory=dict)
    _changes: dict[int, Change] = field(default_factory=dict)
    _heads: list[_Head] = field(default_factory=list)
    _open: list[_Head] = field(default_factory=list)

    def add(self, entry: Entry) -> None:
        piece = TimelinePiece(entry.n, entry.message, entry.tokens, entry.is_error, entry.pointer)
        if entry.message.role == "tool":
            found = self._call(entry.message.tool_call_id)
            if found is not None:
                head, place = found
                head.results[place] = piece
                if None not in head.results:
                    self._open.remove(head)
        else:
            head = _Head(piece, [None] * len(entry.message.tool_calls))
            self._heads.append(head)
            if head.results:
                self._open.append(head)
        self.entries.append(entry)
        self.by_key[entry.key] = entry

    def mark(self, mark: Mark) -> None:
        for n, change in mark.changes.items():
            earlier = self._changes.get(n)
            self._changes[n] = {**earlier, **change} if earlier and change else change
        self.lead = self.lead if mark.lead is None else mark.lead
        self.marks.append(mark)

    def awaits(self, call_id: str) -> bool:
        """Return whether a call of that id has no result yet."""
        return self._call(call_id) is not None

    def groups(self) -> Iterator[Group]:
        """Yield what is sent: a call that got no result is answered with `INTERRUPTED`, for no provider takes it
        alone."""
        for head in self._heads:
            shown = self._shown(head.piece)
            if shown is None:
                continue
            calls = zip(shown.message.tool_calls, head.results, strict=True)
            yield Group(shown, tuple(self._result(call, result) for call, result in calls))

    def _result(self, call: ToolCall, result: TimelinePiece | None) -> TimelinePiece:
        shown = None if result is None else self._shown(result)
        if shown is not None:
            return shown
        message = Message(role="tool", content=INTERRUPTED, tool_call_id=call.id)
        return TimelinePiece(0, message, message_tokens(message), is_error=True)

    def _shown(self, piece: TimelinePiece) -> TimelinePiece | None:
        if piece.n not in self._changes:
            return piece
        change = self._changes[piece.n]
        return None if change is None else piece.with_message(_changed(piece.message, change))

    def _call(self, call_id: str) -> tuple[_Head, int] | None:
        # The latest call first: providers number their calls anew in every turn.
        for head in reversed(self._open):
            for place, (call, result) in enumerate(zip(head.piece.message.tool_calls, head.results, strict=True)):
                if result is None and call.id == call_id:
                    return head, place
        return None


def _changed(message: Message, change: dict[str, object]) -> Message:
    args = change.get("args")
    if not isinstance(args, list):
        return message.model_copy(update={"content": change["content"]})
    calls = [call.model_copy(update={"args": new}) for call, new in zip(message.tool_calls, args, strict=True)]
    return message.model_copy(update={"content": change["content"], "tool_calls": calls})


def difference(before: Sequence[Group], after: Sequence[Group]) -> dict[int, Change]:
    """Return the changes that turn one view into the other, by the numbers of the stored messages."""
    kept = {piece.n: piece for group in after for piece in group.pieces}
    changes: dict[int, Change] = {}
    for piece in (piece for group in before for piece in group.pieces if piece.n):
        new = kept.get(piece.n)
        if new is None:
            changes[piece.n] = None
        elif new.message != piece.message:
            args = [call.args for call in new.message.tool_calls]
            same = json.dumps(args) == json.dumps([call.args for call in piece.message.tool_calls])
            changes[piece.n] = {"content": new.message.content} | ({} if same else {"args": args})
    return changes
