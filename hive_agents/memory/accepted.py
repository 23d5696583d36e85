"""Notes accepted for all runs of an agent for a user or a thread: each with its run, who accepted it and when."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from pydantic import ValidationError

from hive_agents.base import HiveError, cut, encodable
from hive_agents.base.files import Format, atomic_write, disk_errors, jsontext, locked, read_bytes
from hive_agents.memory.names import memory_folder

if TYPE_CHECKING:
    from hive_agents.workspace import Workspace

FILE = "accepted.jsonl"
MOST, CHARS = 200, 500


class AcceptedNote(Format):
    """A note for later runs; `run_id` is its run, None for one by a person."""

    text: str
    run_id: str | None
    by: str
    at: str

    @property
    def line(self) -> str:
        """The note in the agent's prompt."""
        return f"- {self.text} (accepted by {self.by}, {self.at[:10]})\n"


class AcceptedNotes:
    """The notes of one agent `of` a user, or of `thread:ID`, which only people write.

    Safe to use from several threads and processes. Methods raise HIVE-407 for a file that is damaged.
    """

    def __init__(self, workspace: Workspace, *, tenant: str, agent_id: str, of: str) -> None:
        self.path = memory_folder(workspace, tenant, agent_id, of) / FILE
        self._file = workspace.relative(self.path)

    def all(self) -> list[AcceptedNote]:
        """Return the notes, oldest first."""
        with disk_errors(self.path):
            text = jsontext.decode(read_bytes(self.path), self._file) if self.path.exists() else ""
        return list(self._read(text))

    def add(self, notes: Iterable[AcceptedNote]) -> None:
        """Add notes, each once. Raises: HIVE-105 for more than 200 of them."""
        with locked(self.path.with_name(".accepted.lock"), "writing accepted notes"):
            kept = self.all()
            known = {note.text for note in kept}
            for note in notes:
                text = cut(" ".join(encodable(note.text).split()), CHARS)
                if text and text not in known:
                    kept.append(note.model_copy(update={"text": text}))
                    known.add(text)
            if len(kept) > MOST:
                why = f"there would be {len(kept)} accepted notes; {MOST} are allowed"
                raise HiveError.of("HIVE-105", why, file=self._file, fix="remove some first: hive agents memory clear")
            self._write(kept)

    def replace(self, number: int, note: AcceptedNote) -> None:
        """Replace a note by its number, from 1. Raises: HIVE-409 (exit code 2) for another number."""
        with locked(self.path.with_name(".accepted.lock"), "writing accepted notes"):
            kept = self.all()
            self._require(number, kept)
            self._write([*kept[: number - 1], note, *kept[number:]])

    def remove(self, *, number: int | None = None, run_id: str | None = None) -> int:
        """Remove the note of a number, those of a run, or without either all; return their number."""
        with locked(self.path.with_name(".accepted.lock"), "writing accepted notes"):
            kept = self.all()
            if number is not None:
                self._require(number, kept)
                left = [note for n, note in enumerate(kept, start=1) if n != number]
            else:
                left = [note for note in kept if run_id is not None and note.run_id != run_id]
            if len(left) != len(kept):
                self._write(left)
        return len(kept) - len(left)

    def _require(self, number: int, kept: list[AcceptedNote]) -> None:
        if not 1 <= number <= len(kept):
            why, fix = f"there is no note {number}", f"name one of the {len(kept)} that there are"
            raise HiveError.of("HIVE-409", why, fix=fix, exit_code=2)

    def _read(self, text: str) -> Iterator[AcceptedNote]:
        for line in text.splitlines():
            try:
                yield AcceptedNote.model_validate_json(line)
            except ValidationError:
                fix = "remove the line, or the file: what it held is accepted no more"
                raise HiveError.of("HIVE-407", "an accepted note is damaged", file=self._file, fix=fix) from None

    def _write(self, notes: list[AcceptedNote]) -> None:
        lines = [json.dumps(note.model_dump(), ensure_ascii=False) + "\n" for note in notes]
        atomic_write(self.path, "".join(lines).encode(), mode=0o600)
