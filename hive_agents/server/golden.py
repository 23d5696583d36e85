"""The golden set: its questions and labels, documents to judge, open questions, and what the labels can show."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import Field

from hive_agents.access import ViewGate
from hive_agents.base import HiveError, NotFound
from hive_agents.base.files import AnyCase, FewEntries, QuestionText, Reference, ShortName
from hive_agents.copilot import asked_questions, open_scope
from hive_agents.documents import load_collection, words
from hive_agents.evaluation import (
    GENERATED,
    PROVING,
    GoldenSet,
    LabelYield,
    Split,
    golden_size,
    labelling,
    load_golden,
    missing_labels,
    open_questions,
    question_key,
    viewable_golden,
)
from hive_agents.gate import is_accepted, label as save_label
from hive_agents.ranking import find_active
from hive_agents.server.api import Api, Body, Query, Value
from hive_agents.server.auth import OPERATOR, Call, CallContext

api = Api("configs")
MOST_OPEN = 200
Labels = Annotated[list[Reference], FewEntries]
MORE = (20, 50, 100, 200, 500)


class Pool(Query):
    query: Annotated[QuestionText, Field(min_length=1)]


class Pooled(Value):
    """One document to judge; `label` is its present label in the golden set."""

    doc_id: str
    title: str
    heading: str
    excerpt: str
    label: str


class PoolShown(Value):
    """`measures` says that the question belongs to the holdout, whose labels are never shown."""

    query: str
    measures: bool
    tags: list[str]
    documents: list[Pooled]


class OpenQuestions(Value):
    questions: list[str]


class Worth(Value):
    """The smallest gain in nUDCG that the labelled questions show with a power of 0.8; null below five of them.

    `later` is the same by a larger number of questions; `enough` says why more of them would change little.
    """

    questions: int
    smallest_gain: float | None
    later: dict[int, float]
    enough: str | None


class Golden(Value):
    """The golden set's queries, with labels of documents that the caller may view, and those without any; those of the
    holdout are only counted. `hash` is that of what is shown, `accepted` speaks of the whole set."""

    file: str
    hash: str
    accepted: bool
    holdout: int
    queries: list[dict[str, Any]]


class LabelQuery(Body):
    """`irrelevant` marks the query as fully judged."""

    query: Annotated[QuestionText, Field(min_length=1)]
    relevant: Labels = []
    distractors: Labels = []
    irrelevant: Labels | None = None
    tags: Annotated[list[ShortName], FewEntries] = []
    split: Annotated[Split, AnyCase] | None = None


class Labelled(Value):
    query_id: str
    relevant: list[str]
    distractors: list[str]
    irrelevant: list[str]


@api.get("/api/golden", OPERATOR)
def golden(call: CallContext) -> Golden:
    """The labelled questions without those of the holdout."""
    golden_set = viewable_golden(call.workspace, call.reaches())
    listed = [query.model_dump(mode="json") for query in golden_set if query.split != "holdout"]
    return Golden(
        file=golden_set.file,
        hash=golden_set.hash,
        accepted=_is_accepted(call),
        holdout=sum(query.split == "holdout" for query in golden_set),
        queries=listed,
    )


@api.post("/api/golden/labels", OPERATOR)
def label(call: CallContext, body: LabelQuery) -> Labelled:
    """Label a question with documents that the caller may view, for training unless another split is named."""
    active = find_active(call.workspace)
    collection = load_collection(call.workspace, active.stored.config.collection if active else None)
    entry = save_label(
        call.workspace,
        body.query,
        collection.name,
        relevant=body.relevant,
        distractors=body.distractors,
        irrelevant=body.irrelevant,
        tags=body.tags,
        split=body.split,
        by=call.by,
        reason="a label by HTTP",
        viewer=call.reaches(),
    )
    labels = {name: entry.get(name, []) for name in ("relevant", "distractors", "irrelevant")}
    return Labelled(query_id=entry["id"], **labels)


@api.get("/api/golden/pool", OPERATOR)
def label_pool(call: Call, query: Pool) -> PoolShown:
    """What keyword and vector search find for a question, among the documents that the caller may view."""
    if not words(query.query):
        raise HiveError.of("HIVE-409", "there is no question", fix="ask in a reader's words", exit_code=2)
    call.request.app.state.freshness.refresh()
    collection = _collection(call)
    hits = call.engine.with_index(
        collection,
        lambda _: labelling.LabelPool(
            call.engine, collection, open_scope(call.workspace, call.engine, call.principal, collection)
        ).documents(query.query),
    )
    allowed = ViewGate.of(call.workspace, call.principal).allowed([hit.doc_id for hit in hits])
    known = next((one for one in _golden(call) or () if question_key(one.query) == question_key(query.query)), None)
    in_holdout = known is not None and known.split == "holdout"
    documents = [
        Pooled(
            doc_id=hit.doc_id,
            title=hit.title,
            heading=hit.heading,
            excerpt=hit.excerpt,
            label=known.label(hit.doc_id) if known is not None and not in_holdout else "unjudged",
        )
        for hit in hits
        if hit.doc_id in allowed
    ]
    tags = list(known.tags) if known is not None and not in_holdout else []
    return PoolShown(query=query.query, measures=in_holdout, tags=tags, documents=documents)


@api.get("/api/golden/open", OPERATOR)
def open_to_label(call: Call) -> OpenQuestions:
    """The questions that the caller asked and that have no labels yet, oldest first."""
    labelled = [one.query for one in _golden(call) or ()]
    unlabelled = open_questions(asked_questions(call.workspace, call.principal), labelled)
    return OpenQuestions(questions=[one for one in unlabelled if words(one)][:MOST_OPEN])


@api.get("/api/golden/worth", OPERATOR)
def worth(call: Call) -> Worth:
    """The smallest gain that the labels can show that the caller may view, less the holdout."""
    call.request.app.state.freshness.refresh()
    queries = [one for one in _golden(call) or () if one.split != "holdout" and GENERATED not in one.tags]
    reader, collection = call.reaches(), _collection(call)

    def count(_: object) -> LabelYield:
        within = None if reader is None else open_scope(call.workspace, call.engine, reader, collection)
        counted = LabelYield(labelling.LabelPool(call.engine, collection, within))
        for query in queries:
            counted.add(query)
        return counted

    counted = call.engine.with_index(collection, count)
    n = len(counted.differences)
    later = {more: gain for more in MORE if more > n and (gain := counted.smallest_gain(more)) is not None}
    return Worth(questions=n, smallest_gain=counted.smallest_gain(), later=later, enough=counted.enough())


def _collection(call: Call) -> str:
    active = find_active(call.workspace)
    return load_collection(call.workspace, active.stored.config.collection if active else None).name


def labels_left(call: CallContext) -> tuple[int, int]:
    """Return how many questions are labelled, and how many more until so many are held out that a gain can be proved.

    It counts as the gate does, which names the second where it refuses.
    """
    try:
        labelled = viewable_golden(call.workspace, call.reaches())
    except HiveError:  # there is none, or none that can be read
        return 0, golden_size(PROVING)
    return len(labelled), missing_labels(labelled, PROVING)


def measuring(call: Call, questions: Iterable[str]) -> dict[str, str | None]:
    """Return those of the questions that measure, and so learn nothing of feedback, with their split."""
    known = {question_key(one.query): one.split for one in _golden(call) or () if one.split != "train"}
    return {one: known[question_key(one)] for one in questions if question_key(one) in known}


def _golden(call: Call) -> GoldenSet | None:
    try:
        return viewable_golden(call.workspace, call.reaches())
    except NotFound:
        return None  # the first label creates it


def _is_accepted(call: CallContext) -> bool:
    try:
        return is_accepted(call.workspace, load_golden(call.workspace))
    except HiveError:  # a label that the caller may not know of lacks its document
        return False
