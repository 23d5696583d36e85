"""Conversations: one row a message, only ever appended, committed before the step that wrote it counts as done.

The outputs of a node stand beside its messages: `OutputAccumulator` sets and reads them.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from hive_agents.base import HiveError, NotFound, did_you_mean
from hive_agents.memory.entries import ConversationPointer, Entry, Mark, from_parts, message_tokens, to_parts
from hive_agents.memory.timeline import Timeline, sent
from hive_agents.memory.values import to_json, value_line
from hive_agents.models import Message
from hive_agents.store import RecordsConnection, audit, connected, database, transaction, undone_by

if TYPE_CHECKING:
    from hive_agents.workspace import Workspace


_CACHED = 32
_MESSAGES = "SELECT n, key, role, parts, tokens, at FROM messages WHERE conversation_id = ?"
# One statement, since each step looks several times whether others have written.
_READ_ON = (
    "SELECT 0 AS is_mark, n, key, role, parts, tokens, at FROM messages WHERE conversation_id = ? AND n > ?"
    " UNION ALL SELECT 1, n, tier, lead, changes, 0, at FROM compactions WHERE conversation_id = ? AND n > ?"
    " ORDER BY is_mark, n"
)


class ConversationStore:
    """The conversations of one tenant; safe to share between threads, and beside other processes.

    Memory is a cache: each read includes what other processes have appended meanwhile. Another tenant's conversation is
    unknown.

    Raises, in every method: HIVE-409 for an unknown conversation; HIVE-402, HIVE-403, HIVE-407 from the database.

    >>> import tempfile, pathlib
    >>> from hive_agents import Workspace
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> (folder / "collections").mkdir()
    >>> store = ConversationStore(Workspace(folder))
    >>> chat = store.create("digest", "r1")
    >>> store.append(chat, Message(role="user", content="hello"), key="step-1").n
    1
    >>> store.append(chat, Message(role="user", content="hello again"), key="step-1").message.content
    'hello'
    >>> store.pointer(chat)["cursor"]
    1
    """

    def __init__(self, workspace: Workspace, *, tenant: str = "local") -> None:
        self.workspace = workspace
        self.tenant = tenant
        self.lock = threading.RLock()
        """Held while a connection is used. Whoever begins a transaction and then comes here takes it before."""
        self._cache: OrderedDict[str, Timeline] = OrderedDict()
        self._cached_from: tuple[int, int, int] | None = None

    def create(self, agent_id: str, run_id: str, *, node_id: str | None = None, key: str | None = None) -> str:
        """Return a new conversation's id; with a `key` that this run used before, the id of then."""
        conversation_id = f"c{uuid.uuid4().hex[:12]}"
        row = (conversation_id, self.tenant, agent_id, run_id, node_id, key, audit.now())
        insert = "INSERT INTO conversations VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
        with self._connection() as connection:
            found = connection.execute(f"{insert} RETURNING conversation_id", row).fetchall()
            if not found:
                query = "SELECT conversation_id FROM conversations WHERE tenant = ? AND run_id = ? AND key = ?"
                found = connection.execute(query, (self.tenant, run_id, key)).fetchall()
            else:
                self._add_to_cache(conversation_id)
                undone_by(lambda: self._cache.pop(conversation_id, None))
        return str(found[0][0])

    def of_run(self, run_id: str) -> list[str]:
        """Return the conversations of a run, oldest first."""
        query = "SELECT conversation_id FROM conversations WHERE tenant = ? AND run_id = ? ORDER BY rowid"
        with self._connection() as connection:
            return [row[0] for row in connection.execute(query, (self.tenant, run_id))]

    def order(self, run_id: str) -> list[tuple[str, int]]:
        """Return the messages of a run's conversations as (conversation_id, n), in the order in which they were
        written."""
        query = (
            "SELECT conversation_id, n FROM messages JOIN conversations USING (conversation_id)"
            " WHERE tenant = ? AND run_id = ? ORDER BY messages.rowid"
        )
        with self._connection() as connection:
            return [(row[0], row[1]) for row in connection.execute(query, (self.tenant, run_id))]

    def append(
        self,
        conversation_id: str,
        message: Message | Mapping[str, Any],
        *,
        key: str | None = None,
        is_error: bool = False,
        pointer: str | None = None,
    ) -> Entry:
        """Return the stored message. A `key` names the step that writes it: a second write returns the first message.

        `is_error` and `pointer` belong to a tool's result; see `Spillover.deliver`.

        Raises: ValueError for a tool's result that answers no open call.
        """
        message = message if isinstance(message, Message) else Message.model_validate(message)
        key = key or uuid.uuid4().hex
        with self._connection() as connection:
            timeline = self._known(connection, conversation_id)
            if key in timeline.by_key:
                return timeline.by_key[key]
            with transaction(connection, f"conversation {conversation_id}"):
                self._read_on(connection, conversation_id, timeline)
                if key in timeline.by_key:
                    return timeline.by_key[key]
                if message.role == "tool" and not timeline.awaits(message.tool_call_id):
                    raise ValueError(f"no open tool call has the id {message.tool_call_id!r}")
                n = timeline.entries[-1].n + 1 if timeline.entries else 1
                parts, at = to_parts(message, is_error, pointer), audit.now()
                entry = from_parts(n, key, message.role, parts, message_tokens(message), at)
                connection.execute(
                    "INSERT INTO messages VALUES (?, ?, ?, ?, ?, ?, ?)",
                    (conversation_id, n, key, message.role, parts, entry.tokens, at),
                )
            timeline.add(entry)
            undone_by(lambda: self._cache.pop(conversation_id, None))
            return entry

    def find(self, conversation_id: str, key: str) -> Entry | None:
        """Return the message that a step wrote under that key before a crash; None if it didn't."""
        with self._connection() as connection:
            known = self._known(connection, conversation_id).by_key.get(key)
            if known is not None:
                return known  # rows are never changed
            found = connection.execute(f"{_MESSAGES} AND key = ?", (conversation_id, key)).fetchone()
        return None if found is None else from_parts(*found)

    def messages(self, conversation_id: str, since: int = 0) -> list[Entry]:
        """Return every message after the cursor `since`, as it was written, whatever compaction did since."""
        with self._connection() as connection:
            entries = self._fresh(connection, conversation_id).entries
            # Numbers have no gaps, but the oldest messages may be forgotten.
            first = entries[0].n if entries else 1
            return entries[max(since - first + 1, 0) :]

    def view(self, conversation_id: str, *, withheld: Collection[int] = (), notice: str = "") -> list[Message]:
        """Return the messages for the model: compacted, each tool call followed by its result.

        A `notice` replaces the words of `withheld` messages, by their numbers, and of summaries.
        """
        with self._connection() as connection:
            timeline = self._fresh(connection, conversation_id)
            groups, lead = list(timeline.groups()), timeline.lead
        if withheld:
            groups = [group.without(withheld, notice) for group in groups]
            lead = notice if lead is not None else None
        return sent(lead, groups)

    def pointer(self, conversation_id: str) -> ConversationPointer:
        """Return the reference for a graph's state; its size doesn't grow with the conversation."""
        with self._connection() as connection:
            entries = self._fresh(connection, conversation_id).entries
            return {"conversation_id": conversation_id, "cursor": entries[-1].n if entries else 0}

    @contextmanager
    def timeline(self, conversation_id: str) -> Iterator[Timeline]:
        """The conversation as compaction reads it; no other thread changes it meanwhile."""
        with self._connection() as connection:
            yield self._fresh(connection, conversation_id)

    def mark(self, conversation_id: str, mark: Mark, n: int) -> bool:
        """Record the `n`th compaction, from 1; False where another one came first."""
        changes = json.dumps(mark.changes, ensure_ascii=False)
        with self._connection() as connection:
            self._known(connection, conversation_id)
            added = connection.execute(
                "INSERT INTO compactions VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
                (conversation_id, n, mark.tier, mark.lead, changes, audit.now()),
            )
            return added.rowcount == 1

    def outputs(self, conversation_id: str) -> dict[str, Any]:
        """Return what `set_output` has set, in the order it was first set."""
        query = "SELECT key, value FROM cursors WHERE conversation_id = ? ORDER BY rowid"
        with self._connection() as connection:
            self._known(connection, conversation_id)
            return {key: json.loads(value) for key, value in connection.execute(query, (conversation_id,))}

    def set_output(self, conversation_id: str, key: str, value: Any) -> None:
        """Raises: HIVE-104 for what isn't plain JSON, HIVE-105 for too much of it."""
        text = to_json(key, value)
        with self._connection() as connection:
            self._known(connection, conversation_id)
            connection.execute(
                "INSERT INTO cursors VALUES (?, ?, ?, ?)"
                " ON CONFLICT (conversation_id, key) DO UPDATE SET value = excluded.value, at = excluded.at",
                (conversation_id, key, text, audit.now()),
            )

    def close(self) -> None:
        """Close the connection that this thread keeps; the next use opens it again."""
        database.disconnect(self.workspace.records)

    @contextmanager
    def _connection(self) -> Iterator[RecordsConnection]:
        used = connected(self.workspace.records)
        with self.lock, used as connection:
            if self._cached_from != used.file:
                self._cache.clear()
                self._cached_from = used.file
            yield connection

    def _fresh(self, connection: RecordsConnection, conversation_id: str) -> Timeline:
        """Return the conversation, including what others have appended."""
        timeline = self._known(connection, conversation_id)
        self._read_on(connection, conversation_id, timeline)
        return timeline

    def _known(self, connection: RecordsConnection, conversation_id: str) -> Timeline:
        """Return the cached part of a conversation, which may be empty."""
        timeline = self._cache.get(conversation_id)
        if timeline is None:
            known = connection.execute(
                "SELECT 1 FROM conversations WHERE conversation_id = ? AND tenant = ?", (conversation_id, self.tenant)
            ).fetchone()
            if known is None:
                why = f"there is no conversation {conversation_id}"
                raise NotFound.of("HIVE-409", why, fix="`hive runs`, or GET /api/runs, lists the runs")
            timeline = self._add_to_cache(conversation_id)
        self._cache.move_to_end(conversation_id)
        return timeline

    def _add_to_cache(self, conversation_id: str) -> Timeline:
        timeline = self._cache[conversation_id] = Timeline()
        if len(self._cache) > _CACHED:
            self._cache.popitem(last=False)
        return timeline

    def _read_on(self, connection: RecordsConnection, conversation_id: str, timeline: Timeline) -> None:
        last = timeline.entries[-1].n if timeline.entries else 0
        since = (conversation_id, last, conversation_id, len(timeline.marks))
        for is_mark, n, key, role, parts, tokens, at in connection.execute(_READ_ON, since):
            if is_mark:
                changes = {int(n): change for n, change in json.loads(parts).items()}
                timeline.mark(Mark(key, role, changes))
            else:
                timeline.add(from_parts(n, key, role, parts, tokens, at))


class OutputAccumulator:
    """The declared outputs of one node; a new one over the same conversation finds what was set before a crash.

    >>> import tempfile, pathlib
    >>> from hive_agents import Workspace
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> (folder / "collections").mkdir()
    >>> store = ConversationStore(Workspace(folder))
    >>> outputs = OutputAccumulator(store, store.create("digest", "r1"), ["items", "note"])
    >>> outputs.set("items", [1, 2])
    >>> outputs.missing(), outputs.missing(nullable=["note"]), outputs.values
    (['note'], [], {'items': [1, 2]})
    """

    def __init__(self, store: ConversationStore, conversation_id: str, output_keys: Iterable[str]) -> None:
        self.store = store
        self.conversation_id = conversation_id
        self.output_keys = tuple(dict.fromkeys(output_keys))

    @property
    def values(self) -> dict[str, Any]:
        """A copy of the set outputs, declared keys only, since other nodes may share the conversation."""
        stored = self.store.outputs(self.conversation_id)
        return {key: value for key, value in stored.items() if key in self.output_keys}

    def set(self, key: str, value: Any) -> None:
        """Set an output, also again.

        Raises: HIVE-103 for a key that isn't declared, HIVE-104 for what isn't plain JSON, HIVE-105 for too much.
        """
        if key not in self.output_keys:
            known = ", ".join(self.output_keys) or "none"
            raise HiveError.of(
                "HIVE-103",
                f'"{value_line(key, 80)}" is no declared output',
                fix=did_you_mean(key, self.output_keys, f"the declared outputs are: {known}"),
            )
        self.store.set_output(self.conversation_id, key, value)

    def missing(self, keys: Iterable[str] | None = None, nullable: Iterable[str] = ()) -> list[str]:
        """Return which of `keys` (all declared ones) are not set; null counts as set where it is allowed to be."""
        values, may_be_null = self.values, set(nullable)
        wanted = self.output_keys if keys is None else keys
        return [key for key in wanted if key not in may_be_null and values.get(key) is None]


def forget_run(connection: RecordsConnection, run_id: str) -> None:
    """Delete the conversations of a run, and the values that only it sees."""
    of_run = "IN (SELECT conversation_id FROM conversations WHERE run_id = ?)"
    connection.execute(f"DELETE FROM messages WHERE conversation_id {of_run}", (run_id,))
    connection.execute(f"DELETE FROM compactions WHERE conversation_id {of_run}", (run_id,))
    connection.execute(f"DELETE FROM cursors WHERE conversation_id {of_run}", (run_id,))
    connection.execute("DELETE FROM conversations WHERE run_id = ?", (run_id,))
    connection.execute("DELETE FROM buffers WHERE scope = 'execution' AND scope_key = ?", (run_id,))


def forget_queen(connection: RecordsConnection, before: str) -> None:
    """Delete the queen's messages from before a moment, and her conversations from before it without messages."""
    queens = "SELECT conversation_id FROM conversations WHERE agent_id = 'queen' AND run_id LIKE 'queen:%'"
    empty = f"IN ({queens} AND created_at < ? AND conversation_id NOT IN (SELECT conversation_id FROM messages))"
    connection.execute(f"DELETE FROM messages WHERE at < ? AND conversation_id IN ({queens})", (before,))
    connection.execute(f"DELETE FROM compactions WHERE conversation_id {empty}", (before,))
    connection.execute(f"DELETE FROM cursors WHERE conversation_id {empty}", (before,))
    connection.execute(f"DELETE FROM conversations WHERE conversation_id {empty}", (before,))
