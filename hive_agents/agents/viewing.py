"""What of a run may be seen now: documents that it read are asked about each time something of it is shown.

What a run says after it has read a document may say what the document says. Once somebody may not view one of them,
everything from there on is withheld from them; from the run's own model at least the words.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from hive_agents.access import ViewGate
from hive_agents.approvals import WITHHELD
from hive_agents.memory import ConversationStore
from hive_agents.store import documents_read

if TYPE_CHECKING:
    from hive_agents.access import Principal
    from hive_agents.memory import AcceptedNote, Entry
    from hive_agents.workspace import Workspace

NOTES = "notes"
"""The key in the ledger of the accepted notes that a run began with."""
PERSON = "person:"
"""How the keys of messages begin that people wrote."""
_TEXTS = ("feedback", "error", "message", "data", "task", "title")
"""Parts of events that may quote what a run has read."""


class RunView:
    """What a reader may see of a run at this moment; None is the workspace's owner, who can read the files."""

    def __init__(
        self,
        workspace: Workspace,
        run_id: str,
        tenant: str,
        reader: Principal | None,
        read: Mapping[str, frozenset[str]] | None = None,
    ) -> None:
        """`read` is what `documents_read` gives, where it is known already."""
        self._store, self._run_id = ConversationStore(workspace, tenant=tenant), run_id
        if read is None:
            read = documents_read(workspace, run_id) if reader is not None else {}
        every: frozenset[str] = frozenset().union(*read.values())
        self.documents = every
        """All that the run has read."""
        self.hidden: frozenset[str] = frozenset()
        """Those of them that the reader may not view."""
        if every and reader is not None:
            self.hidden = every - ViewGate.of(workspace, reader).allowed(sorted(every))
        self._sources = {key for key, documents in read.items() if documents & self.hidden}

    @classmethod
    def of_notes(
        cls, workspace: Workspace, tenant: str, reader: Principal | None, notes: Iterable[AcceptedNote]
    ) -> dict[int, AcceptedNote]:
        """Return the notes by number, from 1, without those of runs that have read what the reader may not view."""
        numbered = dict(enumerate(notes, start=1))
        runs = {note.run_id for note in numbered.values() if note.run_id is not None}
        hidden = {run_id for run_id in runs if cls(workspace, run_id, tenant, reader).hidden}
        return {number: note for number, note in numbered.items() if note.run_id not in hidden}

    def withholds(self, conversation: str, entry: Entry) -> bool:
        """Return whether the message may say what a hidden document says; a person's words to the run never do."""
        if self._first is None or entry.key.startswith(PERSON):
            return False
        return self._ranks.get((conversation, entry.n), self._first) >= self._first

    def withheld_from_model(self, conversation: str) -> frozenset[int]:
        """Return the numbers of the messages whose words a model is not sent any more.

        Results of calls that read nothing stay: without them it would do again what it has done.
        """
        found, reading = set(), set()
        for entry in self._store.messages(conversation) if self.hidden else ():
            reading |= {call.id for call in entry.message.tool_calls if call.name == "load_data"}
            quotes = entry.message.role != "tool" or entry.key in self._sources or entry.message.tool_call_id in reading
            if quotes and self.withholds(conversation, entry):
                found.add(entry.n)
        return frozenset(found)

    def values(self, values: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values, of which only those that the run was `given` are sure to quote no document."""
        if not self.hidden:
            return dict(values)
        return {key: value if key in given else WITHHELD for key, value in values.items()}

    def payload(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        """Return an event's payload, without the texts of a run that has read a hidden document."""
        if not self.hidden:
            return dict(payload)
        return {key: _withheld(value) if key in _TEXTS and value else value for key, value in payload.items()}

    @cached_property
    def _ranks(self) -> dict[tuple[str, int], int]:
        return {place: rank for rank, place in enumerate(self._store.order(self._run_id))}

    @cached_property
    def _first(self) -> int | None:
        """Where in the run a hidden document was read first; None where none was."""
        if not self.hidden or NOTES in self._sources:
            return 0 if self.hidden else None
        places = (
            (conversation, entry.n)
            for conversation in self._store.of_run(self._run_id)
            for entry in self._store.messages(conversation)
            if entry.key in self._sources
        )
        return min((self._ranks[place] for place in places), default=len(self._ranks))


def _withheld(value: Any) -> Any:
    return {**value, "message": WITHHELD} if isinstance(value, Mapping) and "message" in value else WITHHELD
