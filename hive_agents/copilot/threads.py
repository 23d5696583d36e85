"""Conversations, each of one reader: their questions, and ids of documents."""

from __future__ import annotations

import hashlib
import json
import sys
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hive_agents import judging
from hive_agents.access import Principal, ViewGate
from hive_agents.base import HiveError, NotFound
from hive_agents.copilot.dropped import forget_files
from hive_agents.copilot.outcome import Trace, TurnOutcome
from hive_agents.copilot.plan import PastTurn, SearchStrategy
from hive_agents.copilot.vocabulary import Vocabulary
from hive_agents.runs import RunStore
from hive_agents.store import RecordsConnection, audit, connected, transaction
from hive_agents.workspace import Workspace

TITLE = 80
UNTITLED = "untitled"
REMEMBERED = 6
"""Turns that a follow-up may refer to."""
LONGEST_REMEMBERED = 2000
"""Characters kept of an earlier question that a client sends."""
_TURN = "SELECT run_id, thread_id, n, at, text, outcome, trace FROM turns"
_OF_THREAD = "WHERE tenant = ? AND user = ? AND thread_id = ?"


@dataclass(frozen=True)
class Turn:
    """One question and its outcome; `n` counts from 1 in its thread."""

    run_id: str
    thread_id: str
    n: int
    at: str
    text: str
    outcome: TurnOutcome
    trace: dict[str, Any]


@dataclass(frozen=True)
class ModelAnswer:
    """A model's answer, and the documents that it was made from."""

    text: str
    documents: tuple[str, ...]


class ThreadStore:
    """One reader's threads; another reader's are reported as unknown."""

    def __init__(self, workspace: Workspace, reader: Principal) -> None:
        self.workspace = workspace
        self.reader = reader
        self._owner = (reader.tenant, reader.user)

    def create(self, title: str) -> str:
        """Create an empty thread, and return its id."""
        return self._create(f"t{uuid.uuid4().hex[:10]}", title)

    def of_client(self, name: str, title: str) -> str:
        """Return the reader's thread with the id `name`, else one that is created for that name and reader."""
        with connected(self.workspace.records) as connection:
            if connection.execute(f"SELECT 1 FROM threads {_OF_THREAD}", (*self._owner, name)).fetchone() is not None:
                return name
        digest = hashlib.sha256(json.dumps([*self._owner, name]).encode()).hexdigest()
        return self._create(f"t{digest[:20]}", title)

    def of_questions(self, texts: Sequence[str]) -> str | None:
        """Return the latest thread of exactly these questions into which no file was dropped; None without one.

        Files are those of the conversation that the reader dropped them into, and another client may ask the same. The
        first of the questions may be missing in it, if they are the earlier ones that its first turn was sent with.
        """
        of_it = "WHERE tenant = t.tenant AND user = t.user AND thread_id = t.thread_id"
        ending = (
            "SELECT thread_id FROM turns t WHERE tenant = ? AND user = ? AND n <= ? AND text = ?"
            f" AND n = (SELECT max(n) FROM turns {of_it}) AND NOT EXISTS (SELECT 1 FROM thread_files {of_it})"
            " ORDER BY at DESC LIMIT 50"
        )
        asked = f"SELECT run_id, text FROM turns {_OF_THREAD} ORDER BY n"  # what came of it may be much longer
        with connected(self.workspace.records) as connection:
            ids = connection.execute(ending, (*self._owner, len(texts), texts[-1])).fetchall()
            threads = {str(id): connection.execute(asked, (*self._owner, id)).fetchall() for (id,) in ids}
        for thread_id, turns in threads.items():
            earlier = texts[: len(texts) - len(turns)]
            same = [text for _, text in turns] == list(texts[len(earlier) :])
            if same and remembered(earlier) == self._before(turns[0][0]):
                return thread_id
        return None

    def _before(self, run_id: str) -> list[str]:
        """Return the earlier questions that a client sent with a run's."""
        with connected(self.workspace.records) as connection:
            row = connection.execute("SELECT input FROM runs WHERE run_id = ?", (run_id,)).fetchone()
        return list(json.loads(row[0])["request"].get("before", ())) if row is not None else []

    def _create(self, thread_id: str, title: str) -> str:
        now = audit.now()
        with connected(self.workspace.records) as connection:
            connection.execute(
                "INSERT OR IGNORE INTO threads VALUES (?, ?, ?, ?, ?, ?)",
                (*self._owner, thread_id, _title(title), now, now),
            )
        return thread_id

    def name(self, thread_id: str, question: str) -> None:
        """Call a conversation that began without a question by its first one."""
        with connected(self.workspace.records) as connection, transaction(connection):
            named = f"UPDATE threads SET title = ? {_OF_THREAD} AND title = ?"
            connection.execute(named, (_title(question), *self._owner, thread_id, UNTITLED))

    def require_room(self, most: int) -> None:
        """Raises: HIVE-433 where the records keep `most` conversations, questions or unreviewed opinions of the
        reader."""
        own = "tenant = ? AND user = ?"
        with connected(self.workspace.records) as connection:
            row = connection.execute(
                f"SELECT (SELECT count(*) FROM threads WHERE {own}), (SELECT count(*) FROM turns WHERE {own}),"
                " (SELECT count(*) FROM threads t JOIN runs r ON r.thread_id = t.thread_id"  # answered or not
                " WHERE t.tenant = ? AND t.user = ?),"
                " (SELECT count(*) FROM feedback WHERE status = 'pending' AND tenant = ? AND by = ?)",
                self._owner * 4,
            ).fetchone()
        threads, turns, runs, opinions = row
        kept = {"conversations": threads, "questions": max(turns, runs), "opinions that wait for a review": opinions}
        for what, number in kept.items():
            if number >= most:
                fix = "delete conversations, or have the opinions reviewed; the owner can raise server.kept_per_caller"
                why = f"{number:,} {what} of {self.reader.user} are kept, and {most:,} are the most"
                raise HiveError.of("HIVE-433", why, path="server.kept_per_caller", fix=fix, exit_code=1)

    def require(self, thread_id: str) -> None:
        """Check that a thread is this reader's. Raises: HIVE-409."""
        with connected(self.workspace.records) as connection:
            self._require(connection, thread_id)

    def threads(self, search: str | None = None) -> list[dict[str, Any]]:
        """Return {thread_id, title, turns, created_at, updated_at} of each thread, the one used last first.

        `search` keeps those whose title or a question contains it, ignoring case.
        """
        with connected(self.workspace.records) as connection:
            rows = connection.execute(
                "SELECT t.thread_id, t.title, count(u.run_id), t.created_at, t.updated_at FROM threads t"
                " LEFT JOIN turns u ON u.tenant = t.tenant AND u.user = t.user AND u.thread_id = t.thread_id"
                " WHERE t.tenant = ? AND t.user = ? GROUP BY t.tenant, t.user, t.thread_id"
                " ORDER BY t.updated_at DESC, t.thread_id",
                self._owner,
            ).fetchall()
            if search is not None:
                wanted = search.casefold()
                questions = connection.execute(
                    "SELECT thread_id, text FROM turns WHERE tenant = ? AND user = ?", self._owner
                ).fetchall()
                matching = {thread_id for thread_id, text in questions if wanted in text.casefold()}
                rows = [row for row in rows if row[0] in matching or wanted in row[1].casefold()]
        return [
            dict(zip(("thread_id", "title", "turns", "created_at", "updated_at"), row, strict=True)) for row in rows
        ]

    def turns(self, thread_id: str, last: int | None = None) -> list[Turn]:
        """Return the turns in order, or only the `last` ones. Raises: HIVE-409."""
        with connected(self.workspace.records) as connection:
            self._require(connection, thread_id)
            rows = connection.execute(
                f"{_TURN} {_OF_THREAD} ORDER BY n DESC LIMIT ?",
                (*self._owner, thread_id, sys.maxsize if last is None else last),
            ).fetchall()
        return [_turn(row) for row in reversed(rows)]

    def turn(self, run_id: str) -> Turn:
        """Return the turn of a run. Raises: HIVE-409 for another reader's."""
        with connected(self.workspace.records) as connection:
            row = connection.execute(
                f"{_TURN} WHERE tenant = ? AND user = ? AND run_id = ?", (*self._owner, run_id)
            ).fetchone()
        if row is None:
            raise NotFound.of("HIVE-409", f"there is no run {run_id}", fix="`hive chat --threads` lists yours")
        return _turn(row)

    def add(
        self,
        thread_id: str,
        run_id: str,
        text: str,
        outcome: TurnOutcome,
        trace: Trace,
        answer: ModelAnswer | None = None,
    ) -> Turn:
        """Append a turn; adding the same run again changes nothing. Raises: HIVE-409."""
        traced = json.dumps(vars(trace), ensure_ascii=False)
        now = audit.now()
        with connected(self.workspace.records) as connection, transaction(connection):
            self._require(connection, thread_id)
            key = (*self._owner, thread_id)
            added = connection.execute(
                "INSERT OR IGNORE INTO turns SELECT ?, ?, ?, ?, coalesce(max(n), 0) + 1, ?, ?, ?, ? FROM turns"
                f" {_OF_THREAD} RETURNING n",
                (run_id, *key, now, text, outcome.model_dump_json(), traced, *key),
            ).fetchone()
            if answer is not None:
                connection.execute(
                    "INSERT OR IGNORE INTO answers VALUES (?, ?, ?)",
                    (run_id, answer.text, json.dumps(answer.documents)),
                )
            connection.execute(f"UPDATE threads SET updated_at = ? {_OF_THREAD}", (now, *key))
        if added is None:
            return self.turn(run_id)
        return Turn(run_id, thread_id, added[0], now, text, outcome, json.loads(traced))

    def answer(self, run_id: str) -> ModelAnswer | None:
        """Return the model's answer in a turn; the caller checks that all its documents may be viewed."""
        with connected(self.workspace.records) as connection:
            row = connection.execute(
                "SELECT a.text, a.documents FROM answers a JOIN turns t ON t.run_id = a.run_id"
                " WHERE t.tenant = ? AND t.user = ? AND a.run_id = ?",
                (*self._owner, run_id),
            ).fetchone()
        return ModelAnswer(row[0], tuple(json.loads(row[1]))) if row is not None else None

    def rename(self, thread_id: str, title: str) -> None:
        """Give a thread another title. Raises: HIVE-409."""
        with connected(self.workspace.records) as connection, transaction(connection):
            self._require(connection, thread_id)
            connection.execute(f"UPDATE threads SET title = ? {_OF_THREAD}", (_title(title), *self._owner, thread_id))

    def delete(self, thread_id: str) -> None:
        """Delete a thread with its turns, runs, files, models' answers and opinions on them, and its questions in the
        decision log.

        Raises: HIVE-409.
        """
        key = (*self._owner, thread_id)
        with connected(self.workspace.records) as connection:
            self._require(connection, thread_id)
            # A run that was killed has no turn.
            query = f"SELECT run_id FROM turns {_OF_THREAD} UNION SELECT run_id FROM runs {_OF_THREAD}"
            run_ids = [run_id for (run_id,) in connection.execute(query, key + key)]
        judging.DecisionLog(self.workspace).forget_questions(*run_ids)
        with connected(self.workspace.records) as connection, transaction(connection):
            connection.execute(f"DELETE FROM answers WHERE run_id IN (SELECT run_id FROM turns {_OF_THREAD})", key)
            connection.execute(f"DELETE FROM feedback WHERE doc_id = '' AND run_id IN"
                               f" (SELECT run_id FROM turns {_OF_THREAD})", key)  # fmt: skip
            RunStore.forget_thread(connection, *key)
            forget_files(connection, *key)
            connection.execute(f"DELETE FROM turns {_OF_THREAD}", key)
            connection.execute(f"DELETE FROM threads {_OF_THREAD}", key)

    def _require(self, connection: RecordsConnection, thread_id: str) -> None:
        if connection.execute(f"SELECT 1 FROM threads {_OF_THREAD}", (*self._owner, thread_id)).fetchone() is None:
            fix = "`hive chat --threads` lists yours; without --thread a new one begins"
            raise NotFound.of("HIVE-409", f"there is no thread {thread_id}", fix=fix, exit_code=2)


def remembered(texts: Sequence[str]) -> list[str]:
    """Return the last `REMEMBERED` of a client's earlier questions, each cut to `LONGEST_REMEMBERED` characters."""
    return [text[:LONGEST_REMEMBERED] for text in texts[-REMEMBERED:]]


def past_turns(store: ThreadStore, gate: ViewGate, thread_id: str, vocabulary: Vocabulary) -> list[PastTurn]:
    """Return the last turns whose documents and values may all still be viewed, oldest first.

    Raises: HIVE-409 for another reader's thread.
    """
    turns = store.turns(thread_id, last=REMEMBERED)
    may = gate.allowed([doc_id for turn in turns for doc_id in turn.outcome.documents])
    return [
        PastTurn(turn.text, outcome.decision, tuple(result.doc_id for result in outcome.results), outcome.tally)
        for turn, outcome in ((turn, turn.outcome) for turn in turns)
        if all(doc_id in may for doc_id in outcome.documents) and outcome.names_known(vocabulary)
    ]


def asked_questions(workspace: Workspace, reader: Principal | None = None) -> list[str]:
    """Return the questions of all threads, or of the `reader`'s, oldest first; without what looked for nothing, such
    as a greeting."""
    unsearched = [f'%"strategy":"{one.value}"%' for one in SearchStrategy if not one.retrieves]
    where, values = " AND ".join(["outcome NOT LIKE ?"] * len(unsearched)), [*unsearched]
    if reader is not None:
        where, values = f"{where} AND tenant = ? AND user = ?", [*values, reader.tenant, reader.user]
    with connected(workspace.records) as connection:
        return [text for (text,) in connection.execute(f"SELECT text FROM turns WHERE {where} ORDER BY at", values)]


def trace_of(workspace: Workspace, tenant: str, run_id: str) -> dict[str, Any]:
    """Return the trace of any turn within a tenant. Raises: HIVE-409."""
    with connected(workspace.records) as connection:
        row = connection.execute("SELECT trace FROM turns WHERE tenant = ? AND run_id = ?", (tenant, run_id)).fetchone()
    if row is None:
        raise NotFound.of("HIVE-409", f"there is no run {run_id}", fix="a reply names its run_id", exit_code=2)
    trace: dict[str, Any] = json.loads(row[0])
    return trace


def _turn(row: Any) -> Turn:
    run_id, thread_id, n, at, text, outcome, trace = row
    return Turn(run_id, thread_id, n, at, text, TurnOutcome.model_validate_json(outcome), json.loads(trace))


def _title(text: str) -> str:
    plain = " ".join(text.split()) or UNTITLED
    return plain if len(plain) <= TITLE else plain[: TITLE - 1].rstrip() + "…"
