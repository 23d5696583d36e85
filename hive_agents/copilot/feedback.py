"""Readers' feedback: a queue that another person reviews; accepted opinions on results become labels."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, cast, get_args

from hive_agents.access import Principal, ViewGate, asked_by, labels_in_file, owner, people, same_hands
from hive_agents.base import HiveError, NotFound
from hive_agents.base.files import locked
from hive_agents.copilot.reply import result_rows, rows_of, viewable_rows
from hive_agents.copilot.session import certain_scope, open_scope, vocabulary_of
from hive_agents.copilot.threads import ThreadStore, Turn
from hive_agents.copilot.unknown import still_known
from hive_agents.copilot.vocabulary import Vocabulary
from hive_agents.documents import MOVED_DOCUMENTS
from hive_agents.evaluation import FILE, question_key, viewable_golden
from hive_agents.gate import canary, label
from hive_agents.index import ScopedIndex
from hive_agents.ranking import SearchEngine, active_config
from hive_agents.store import audit, connected, transaction
from hive_agents.workspace import Workspace

OnResult = Literal["relevant", "distractor", "outdated", "wrong_document"]
OnAnswer = Literal["right", "wrong", "outdated", "incomplete"]
Opinion = OnResult | OnAnswer
VERDICTS: tuple[OnResult, ...] = get_args(OnResult)
ANSWER_VERDICTS: tuple[OnAnswer, ...] = get_args(OnAnswer)
"""On the answer of a model."""
REVIEWERS = frozenset({"approver", "operator", "admin"})
A_HOUR = 60
"""The most opinions of one reader in an hour, so that nobody can flood the queue."""
MAX_COMMENT = 1000
"""Characters."""

_COLUMNS = (
    "id, created_at, tenant, thread_id, run_id, query, doc_id, verdict, by, comment, status, reviewed_by, makers,"
    " passage"
)


@dataclass(frozen=True)
class Item:
    """One opinion; `status` is pending, accepted or rejected, `makers` (JSON) made the token that it was given by.

    One on the `answer` of a model, whose text is never stored here, has no `doc_id`. Of a relevant document the
    `passage` that was shown may be wrong.
    """

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
    passage: Literal["wrong"] | None = None
    answer: str | None = None

    def to_json(self) -> dict[str, Any]:
        shown = {name: value for name, value in asdict(self).items() if name not in ("run_id", "makers", "answer")}
        return shown if self.doc_id else shown | {"doc_id": None, "answer": self.answer}


class FeedbackQueue:
    """The queue as one person sees it: items of their tenant on documents that they may view."""

    def __init__(
        self,
        workspace: Workspace,
        person: Principal,
        gate: ViewGate,
        *,
        now: Callable[[], str] = audit.now,
        engine: SearchEngine | None = None,
    ) -> None:
        self.workspace, self.person, self.engine = workspace, person, engine or SearchEngine(workspace)
        self._gate, self._now = gate, now
        self._viewer = None if person == owner() else person

    def add(self, run_id: str, result: int | None, verdict: Opinion, *, doc_id: str | None = None,
            comment: str | None = None, passage: Literal["wrong"] | None = None) -> Item:  # fmt: skip
        """File an opinion on a result of the reader's turn, by its rank from 1 or `doc_id`, or without both on its
        model's answer; it replaces a pending one.

        A document that isn't among the results can be said to be relevant.

        Raises: HIVE-409 for a run, result, answer or document that this reader can't see and for a verdict on something
        else, HIVE-415 for too many opinions, HIVE-414 where theirs is reviewed already, HIVE-105 for a comment that is
        too long.
        """
        if comment is not None and len(comment) > MAX_COMMENT:
            message = f"the comment has {len(comment)} characters"
            raise HiveError.of("HIVE-105", message, fix=f"use at most {MAX_COMMENT}", exit_code=2)
        on_answer = result is None and doc_id is None
        if verdict not in (fitting := ANSWER_VERDICTS if on_answer else VERDICTS):
            what = "the answer" if on_answer else "a result"
            fix = f"the verdict on {what} is one of {', '.join(fitting)}"
            raise HiveError.of("HIVE-409", f"nothing is known of {what} that is {verdict}", fix=fix, exit_code=2)
        if passage is not None and (on_answer or verdict != "relevant"):
            fix = "leave the passage out, or say that its document is relevant"
            raise HiveError.of("HIVE-409", f"no passage is wrong of what is {verdict}", fix=fix, exit_code=2)
        threads = ThreadStore(self.workspace, self.person)
        turn = threads.turn(run_id)
        shown = [one.doc_id for one in turn.outcome.results]
        if doc_id is None and result is not None and 1 <= result <= len(shown):
            doc_id = shown[result - 1]
        # The same answer for forbidden, unknown and out of range.
        named = doc_id in shown or (verdict == "relevant" and passage is None and self._exists(doc_id))
        answer = self._answer(threads, run_id) if on_answer else None
        if answer is None and (doc_id is None or not named or doc_id not in self._gate.allowed([doc_id])):
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
                doc_id=doc_id or "",
                verdict=verdict,
                by=self.person.user,
                comment=comment,
                status="pending",
                reviewed_by=None,
                makers=json.dumps(people(self.person.makers)),
                passage=passage,
                answer=answer,
            )
            connection.execute(
                "DELETE FROM feedback WHERE run_id = ? AND doc_id = ? AND by = ? AND status = 'pending'",
                (run_id, item.doc_id, self.person.user),
            )
            done = connection.execute(
                f"INSERT OR IGNORE INTO feedback ({_COLUMNS}) VALUES ({', '.join('?' * 14)})",
                tuple(asdict(item).values())[:14],
            ).rowcount
        if not done:
            fix = "what came of it is listed with the feedback"
            raise HiveError.of("HIVE-414", "your opinion on this was reviewed already", fix=fix, exit_code=1)
        if doc_id is not None and doc_id in shown:
            canary.credit(self.workspace, run_id, shown.index(doc_id) + 1, cast(OnResult, verdict))
        return item

    def _exists(self, doc_id: str | None) -> bool:
        return doc_id is not None and labels_in_file(self.workspace, doc_id) is not None

    def _answer(self, threads: ThreadStore, run_id: str) -> str | None:
        """Return the model's answer in a turn; None where the person may not view all that the turn shows of it."""
        with suppress(HiveError):  # the conversation is gone, or nothing is indexed
            turn = threads.turn(run_id)
            index, vocabulary = self._scope()
            if turn.outcome.answer_source is not None and viewable_rows(index, self._gate, turn.outcome, vocabulary):
                answer = threads.answer(run_id)
                return answer.text if answer is not None else None
        return None

    def _scope(self) -> tuple[ScopedIndex, Vocabulary]:
        collection = active_config(self.workspace).stored.config.collection
        index = open_scope(self.workspace, self.engine, self.person, collection)
        return index, vocabulary_of(certain_scope(self.workspace, self.engine, self.person, index, self._gate))

    def result(self, item: Item) -> dict[str, Any] | None:
        """Return the result that an opinion is on, with its passages as they are now; None where it is no result, or
        the question names what the person may not view."""
        with suppress(HiveError):  # the conversation is gone, or nothing is indexed
            outcome = ThreadStore(self.workspace, Principal(item.tenant, item.by)).turn(item.run_id).outcome
            may = self._gate.allowed([item.doc_id])
            found = [one for one in outcome.results if one.doc_id in may]
            index, vocabulary = self._scope()
            rows = rows_of(index, found)
            if len(rows) == len(found) and outcome.names_known(vocabulary) and still_known(index, outcome.corrected):
                return next(iter(result_rows(index, outcome.decision, found, rows, unfold=False)), None)
        return None

    def given(self, run_ids: Collection[str]) -> set[tuple[str, str]]:
        """Return on what of these turns the person has given an opinion, as (run, document); "" is the answer."""
        if not run_ids:
            return set()
        with connected(self.workspace.records) as connection:
            rows = connection.execute(
                f"SELECT {_COLUMNS} FROM feedback WHERE run_id IN ({', '.join('?' * len(run_ids))}) AND by = ?"
                " AND tenant = ?",
                (*run_ids, self.person.user, self.person.tenant),
            ).fetchall()
        return {(one.run_id, one.doc_id) for one in self._found_again([Item(*row) for row in rows])}

    def items(self, status: str | None = None) -> list[Item]:
        """Return the items that the person may review or filed themselves, oldest first; one on a model's answer only
        to whoever may view all that the answer was made from."""
        with connected(self.workspace.records) as connection:
            rows = connection.execute(
                f"SELECT {_COLUMNS} FROM feedback WHERE tenant = ? ORDER BY created_at, rowid", (self.person.tenant,)
            ).fetchall()
        every = [
            item
            for item in self._found_again([Item(*row) for row in rows])
            if status in (None, item.status) and (self._reviews or item.by == self.person.user)
        ]
        may = self._gate.allowed([item.doc_id for item in every if item.doc_id])
        shown = [item if item.doc_id else replace(item, answer=self._answer_of(item)) for item in every]
        return [item for item in shown if item.doc_id in may or item.answer is not None]

    def _answer_of(self, item: Item) -> str | None:
        author = Principal(item.tenant, item.by)  # whose conversation it is; what is shown is decided by the person
        return self._answer(ThreadStore(self.workspace, author), item.run_id)

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

    def hindrance(self, item: Item) -> Literal["own", "made"] | None:
        """Return why the person can't review an opinion, whatever their role: it is their own, or one of them and its
        author made the other's token.

        That an admin made the tokens of both hinders nobody, unlike with requests: all that comes of an opinion is a
        label, which that admin may give alone.
        """
        author, reviewer = item.by, self.person.hands
        if same_hands([author], reviewer[:1]):
            return "own"
        made = same_hands([author], reviewer) or same_hands(json.loads(item.makers), reviewer[:1])
        return "made" if made else None

    def waiting(self) -> list[Item]:
        """Return the pending items of others that the person may decide, oldest first."""
        if not self._reviews:
            return []
        return [one for one in self.items("pending") if one.by != self.person.user and self.hindrance(one) is None]

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
        if (hindered := self.hindrance(item)) is not None:
            why, who = f"{item.by} gave this feedback", "another"
            if hindered == "made":
                why, who = f"{why}, and one of {item.by} and {self.person.user} made the other's token", "a third"
            raise HiveError.of("HIVE-415", why, fix=f"{who} person must review it: four eyes", exit_code=1)
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
        """Add the label to the training queries; an answer has none.

        Raises: HIVE-415 for a question of another split, which measures.
        """
        if not item.doc_id:
            return
        collection = active_config(self.workspace).stored.config.collection
        exists = (self.workspace.root / FILE).exists()
        golden = viewable_golden(self.workspace, self._viewer) if exists else None
        key = question_key(item.query)
        labelled = next((query for query in golden or () if question_key(query.query) == key), None)
        if labelled is not None and labelled.split != "train":  # without an explicit split it may measure, too
            fix = "label the question by hand, or reject the feedback"
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
