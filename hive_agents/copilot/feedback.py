"""Readers' feedback on results: a queue that another person reviews; accepted items become labels."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

from hive_agents.access import Principal, ViewGate, asked_by, labels_in_file, owner, people, same_hands
from hive_agents.base import HiveError, NotFound
from hive_agents.base.files import locked
from hive_agents.copilot.threads import ThreadStore, Turn
from hive_agents.documents import MOVED_DOCUMENTS
from hive_agents.evaluation import FILE, question_key, viewable_golden
from hive_agents.gate import credit, label
from hive_agents.ranking import active_config
from hive_agents.store import audit, connected, transaction
from hive_agents.workspace import Workspace

Opinion = Literal["relevant", "distractor", "outdated", "wrong_document"]
VERDICTS: tuple[Opinion, ...] = get_args(Opinion)
REVIEWERS = frozenset({"approver", "operator", "admin"})
A_HOUR = 60
"""The most opinions of one reader in an hour, so that nobody can flood the queue."""
MAX_COMMENT = 1000
"""Characters."""

_COLUMNS = "id, created_at, tenant, thread_id, run_id, query, doc_id, verdict, by, comment, status, reviewed_by, makers"


@dataclass(frozen=True)
class Item:
    """One opinion; `status` is pending, accepted or rejected, `makers` (JSON) made the token that it was given by."""

    id: str
    created_at: str
    tenant: str
    thread_id: str
    run_id: str
    query: str
    doc_id: str
    verdict: Opinion
    by: str
    comment: str | None
    status: str
    reviewed_by: str | None
    makers: str = "[]"

    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if name not in ("run_id", "makers")}


class FeedbackQueue:
    """The queue as one person sees it: items of their tenant on documents that they may view."""

    def __init__(
        self, workspace: Workspace, person: Principal, gate: ViewGate, *, now: Callable[[], str] = audit.now
    ) -> None:
        self.workspace, self.person = workspace, person
        self._gate, self._now = gate, now
        self._viewer = None if person == owner() else person

    def add(self, run_id: str, result: int | None, verdict: Opinion, *, doc_id: str | None = None,
            comment: str | None = None) -> Item:  # fmt: skip
        """File an opinion on a result of the reader's turn, by its rank from 1 or `doc_id`; it replaces a pending one.

        A document that isn't among the results can be said to be relevant.

        Raises: HIVE-409 for a run, result or document that this reader can't see, HIVE-415 for too many opinions,
        HIVE-414 where theirs on that result is reviewed already, HIVE-105 for a comment that is too long.
        """
        if comment is not None and len(comment) > MAX_COMMENT:
            message = f"the comment has {len(comment)} characters"
            raise HiveError.of("HIVE-105", message, fix=f"use at most {MAX_COMMENT}", exit_code=2)
        turn = ThreadStore(self.workspace, self.person).turn(run_id)
        shown = [one.doc_id for one in turn.outcome.results]
        if doc_id is None and result is not None and 1 <= result <= len(shown):
            doc_id = shown[result - 1]
        # The same answer for forbidden, unknown and out of range.
        named = doc_id in shown or (verdict == "relevant" and self._exists(doc_id))
        if doc_id is None or not named or doc_id not in self._gate.allowed([doc_id]):
            raise NotFound.of("HIVE-409", "that result is not found", fix="name a result of the turn: --result 1")
        at = self._now()
        hour_ago = (dt.datetime.fromisoformat(at) - dt.timedelta(hours=1)).isoformat(timespec="seconds")
        with connected(self.workspace.records) as connection, transaction(connection):
            recent = connection.execute(
                "SELECT count(*) FROM feedback WHERE tenant = ? AND by = ? AND created_at > ?",
                (self.person.tenant, self.person.user, hour_ago),
            ).fetchone()[0]
            if recent >= A_HOUR:
                message = f"{self.person.user} has given {recent} opinions within an hour"
                raise HiveError.of("HIVE-415", message, fix="go on in an hour", exit_code=1)
            item = Item(
                id=f"f{uuid.uuid4().hex[:10]}",
                created_at=at,
                tenant=self.person.tenant,
                thread_id=turn.thread_id,
                run_id=run_id,
                query=_question(turn),
                doc_id=doc_id,
                verdict=verdict,
                by=self.person.user,
                comment=comment,
                status="pending",
                reviewed_by=None,
                makers=json.dumps(people(self.person.makers)),
            )
            connection.execute(
                "DELETE FROM feedback WHERE run_id = ? AND doc_id = ? AND by = ? AND status = 'pending'",
                (run_id, doc_id, self.person.user),
            )
            done = connection.execute(
                f"INSERT OR IGNORE INTO feedback ({_COLUMNS}) VALUES ({', '.join('?' * 13)})",
                tuple(asdict(item).values()),
            ).rowcount
        if not done:
            fix = "what came of it is listed with the feedback"
            raise HiveError.of("HIVE-414", "your opinion on this result was reviewed already", fix=fix, exit_code=1)
        if doc_id in shown:
            credit(self.workspace, run_id, shown.index(doc_id) + 1, verdict)
        return item

    def _exists(self, doc_id: str | None) -> bool:
        return doc_id is not None and labels_in_file(self.workspace, doc_id) is not None

    def items(self, status: str | None = None) -> list[Item]:
        """Return the items that the person may review or filed themselves, oldest first."""
        with connected(self.workspace.records) as connection:
            rows = connection.execute(
                f"SELECT {_COLUMNS} FROM feedback WHERE tenant = ? ORDER BY created_at, rowid", (self.person.tenant,)
            ).fetchall()
        every = self._found_again([Item(*row) for row in rows])
        may = self._gate.allowed([item.doc_id for item in every])
        return [
            item
            for item in every
            if item.doc_id in may and status in (None, item.status) and (self._reviews or item.by == self.person.user)
        ]

    def _found_again(self, items: list[Item]) -> list[Item]:
        """Return the items, each about its document under the name that it has now."""
        moved = audit.recorded(self.workspace, MOVED_DOCUMENTS) if items else []
        named = []
        for item in items:
            doc_id = item.doc_id
            for entry in moved:
                doc_id = entry["moves"].get(doc_id, doc_id) if entry["at"] >= item.created_at else doc_id
            named.append(replace(item, doc_id=doc_id))
        return named

    def review(self, item_id: str, *, accept: bool) -> Item:
        """Decide an item, and return it; the label of an accepted one goes to the golden set's training queries.

        Raises: HIVE-409 for an item that this person can't see, HIVE-415 for its author and for people without a
        reviewer's role, HIVE-414 for one that was decided otherwise.
        """
        item = next((one for one in self.items() if one.id == item_id), None)
        if item is None:
            raise NotFound.of("HIVE-409", f"there is no feedback {item_id}", fix="see `hive feedback list`")
        if not self._reviews:
            fix = "somebody with the role approver, operator or admin does"
            raise HiveError.of("HIVE-415", f"{self.person.user} reviews no feedback", fix=fix, exit_code=1)
        if same_hands([item.by, *json.loads(item.makers)], self.person.hands):
            fix = "another person must review it, by a token or link that they didn't get from its author: four eyes"
            raise HiveError.of("HIVE-415", f"{item.by} gave this feedback", fix=fix, exit_code=1)
        status = "accepted" if accept else "rejected"
        with locked(self.workspace.state / "feedback.lock", "reviewing feedback"):
            item = next(one for one in self.items() if one.id == item_id)
            if item.status == "pending":
                if accept:
                    self._label(item)  # idempotent: after a crash here the review can be repeated
                with connected(self.workspace.records) as connection, transaction(connection):
                    connection.execute(
                        "UPDATE feedback SET status = ?, reviewed_by = ?, reviewed_at = ? WHERE id = ?",
                        (status, self.person.user, self._now(), item_id),
                    )
                item = replace(item, status=status, reviewed_by=self.person.user)
        if item.status != status:
            why = f"{item_id} is already {item.status} by {item.reviewed_by}"
            raise HiveError.of("HIVE-414", why, fix="correct the label in the golden set", exit_code=1)
        return item

    @property
    def _reviews(self) -> bool:
        return bool(self.person.roles & REVIEWERS)

    def _label(self, item: Item) -> None:
        """Add the label to the training queries. Raises: HIVE-415 for a question of another split, which measures."""
        collection = active_config(self.workspace).stored.config.collection
        exists = (self.workspace.root / FILE).exists()
        golden = viewable_golden(self.workspace, self._viewer) if exists else None
        key = question_key(item.query)
        labelled = next((query for query in golden or () if question_key(query.query) == key), None)
        if labelled is not None and labelled.split != "train":  # without an explicit split it may measure, too
            fix = "label it by hand with `hive label`, or reject the feedback"
            message = "this question is one of those that measure, and feedback only teaches"
            raise HiveError.of("HIVE-415", message, file=FILE, fix=fix, exit_code=1)
        relevant = item.verdict == "relevant"
        label(
            self.workspace,
            item.query,
            collection,
            relevant=[item.doc_id] if relevant else [],
            distractors=[] if relevant else [item.doc_id],
            irrelevant=None,
            tags=() if labelled is not None else ["feedback"],
            split="train",
            by=asked_by(self.person.user),
            reason="hive feedback",
            viewer=self._viewer,
        )


def _question(turn: Turn) -> str:
    """Return the question; its rewritten form only where that can't name values that a reviewer may not view."""
    outcome = turn.outcome
    rewritten = outcome.decision.rewritten_query
    return rewritten if rewritten and outcome.planner != "model" and not outcome.named else turn.text
