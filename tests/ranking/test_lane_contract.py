"""What an index offers, whoever ranks its chunks: the same tests over the embedded engine and each bigger one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np
import pytest

from hive_agents import Workspace
from hive_agents.base.errors import HiveError
from hive_agents.documents import load_collection
from hive_agents.evaluation import load_golden
from hive_agents.index import BM25Params, ScopedIndex, SqliteIndex
from hive_agents.index.filters import Condition, condition
from hive_agents.ranking import RetrievalConfig, build_index, explain_hit
from hive_agents.workspace.trusted import trust
from tests.real_engines import opensearch, postgres
from tests.sample import copied_sample

KB = "knowledge-base"
PARAMS = BM25Params()
FILTERS: list[dict[str, Any]] = [
    {"category": "sops"},
    {"category": ["faqs", "tutorials"]},
    {"status": {"not": ["retired"]}},
    {"updated": {"gte": "2025-01-01"}, "category": "api-docs"},
]


@contextmanager
def _pgvector() -> Iterator[str]:
    with postgres() as server:
        yield f'[vectors]\nurl = "{server.url}"\n'


@contextmanager
def _opensearch(knn: bool) -> Iterator[str]:
    with opensearch(knn=knn) as server:
        yield f'[search]\nurl = "{server.url("contract")}"\ntimeout_seconds = 60.0\n'


ENGINES: dict[str, Callable[[], AbstractContextManager[str]]] = {
    "embedded": lambda: nullcontext(""),
    "pgvector": _pgvector,
    "opensearch": lambda: _opensearch(False),
    "opensearch with k-NN": lambda: _opensearch(True),
}
"""What each engine has in `hive.toml`, while its server runs."""


@pytest.fixture(
    scope="module",
    params=[name if name == "embedded" else pytest.param(name, marks=pytest.mark.slow) for name in ENGINES],
)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    with ENGINES[request.param]() as settings:
        found = copied_sample(tmp_path_factory.mktemp("engine") / "ws")
        if settings:
            with (found.root / "hive.toml").open("a", encoding="utf-8") as file:
                file.write(settings)
            found = Workspace(found.root)
            trust(found)
            found.index()
        yield found


@pytest.fixture
def index(place: Workspace) -> SqliteIndex:
    return place.engine().index(KB)


@pytest.fixture
def embedded(place: Workspace) -> SqliteIndex:
    return SqliteIndex(place, load_collection(place, KB))


def questions(place: Workspace, most: int = 20) -> list[str]:
    return [one.query for one in load_golden(place, None)][:most]


def conditions(filters: dict[str, Any]) -> dict[str, Condition]:
    return {field: condition(value) for field, value in filters.items()}


def half(index: SqliteIndex) -> ScopedIndex:
    visible = np.zeros(index.n_documents, np.bool_)
    visible[::2] = True
    return index.within(visible)


def lanes(index: SqliteIndex | ScopedIndex, query: str, depth: int, mask: Any = None) -> dict[str, Any]:
    return {
        "keyword": index.keyword(query, depth, PARAMS, mask),
        "vector": index.vector([query], depth, mask)[0],
    }


def test_a_lane_is_best_first_with_ties_by_number_and_never_deeper_than_asked(
    place: Workspace, index: SqliteIndex
) -> None:
    for query in questions(place, 5):
        for depth in (1, 7, index.n_chunks):
            for lane in lanes(index, query, depth).values():
                assert 0 < len(lane.chunks) == len(lane.scores) <= depth
                assert len(set(lane.chunks.tolist())) == len(lane.chunks)
                order = np.lexsort((lane.chunks, -lane.scores))
                assert order.tolist() == list(range(len(order)))


def test_a_lane_agrees_with_the_embedded_one(place: Workspace, index: SqliteIndex, embedded: SqliteIndex) -> None:
    shares: dict[str, list[float]] = {"keyword": [], "vector": []}
    for query in questions(place):
        theirs = lanes(index, query, 10)
        for name, lane in lanes(embedded, query, 10).items():
            ours, others = set(lane.chunks.tolist()), set(theirs[name].chunks.tolist())
            shares[name].append(len(ours & others) / max(len(ours), len(others)) if ours | others else 1.0)
    for name, found in shares.items():
        assert np.mean(found) >= 0.9, name


def test_a_vector_lane_asked_for_many_questions_is_that_of_each(place: Workspace, index: SqliteIndex) -> None:
    asked = questions(place, 6)
    for query, lane in zip(asked, index.vector(asked, 12, None), strict=True):
        alone = index.vector([query], 12, None)[0]
        assert (lane.chunks.tolist(), lane.scores.tolist()) == (alone.chunks.tolist(), alone.scores.tolist())


@pytest.mark.parametrize("filters", FILTERS, ids=str)
def test_a_filter_holds_before_the_best_are_chosen(
    place: Workspace, index: SqliteIndex, filters: dict[str, Any]
) -> None:
    mask = index.select(conditions(filters))
    assert mask is not None
    for query in questions(place, 5):
        for depth in (5, 100):
            found = lanes(index, query, depth, mask)
            assert all(mask[lane.chunks].all() for lane in found.values())
            assert len(found["vector"].chunks) == min(depth, mask.sum()), "no hidden chunk took a place"


def test_nothing_is_found_where_a_filter_leaves_nothing(place: Workspace, index: SqliteIndex) -> None:
    nothing = np.zeros(index.n_chunks, np.bool_)
    for lane in lanes(index, questions(place)[0], 10, nothing).values():
        assert len(lane.chunks) == 0


def test_a_scope_finds_its_own_documents_alone_and_as_many_as_it_has(place: Workspace, index: SqliteIndex) -> None:
    scope = half(index)
    for query in questions(place, 5):
        for lane in lanes(scope, query, 10).values():
            assert set(scope.documents_of(lane.chunks)) <= set(scope.doc_ids())
        assert len(scope.vector([query], scope.n_chunks, None)[0].chunks) == scope.n_chunks
        mask = scope.select(conditions(FILTERS[0]), checked=True)
        assert mask is not None
        assert len(scope.vector([query], 10, mask)[0].chunks) == min(10, mask.sum())


def test_a_cosine_by_itself_is_the_one_that_the_lane_reports(place: Workspace, index: SqliteIndex) -> None:
    for some in (index, half(index)):
        query = questions(place)[0]
        lane = some.vector([query], 20, None)[0]
        backwards = lane.chunks[::-1]
        assert np.abs(some.vector_scores(query, backwards) - lane.scores[::-1]).max() < 1e-5


def test_counts_values_and_look_ups_are_those_of_the_documents(
    place: Workspace, index: SqliteIndex, embedded: SqliteIndex
) -> None:
    for ours, theirs in ((embedded, index), (half(embedded), half(index))):
        chunks = np.arange(ours.n_chunks)
        assert theirs.doc_ids() == ours.doc_ids()
        assert theirs.chunk_ids(chunks) == ours.chunk_ids(chunks)
        assert theirs.rows(chunks[:20].tolist()) == ours.rows(chunks[:20].tolist())
        assert theirs.index_hash == ours.index_hash
        for field in index.collection.filterable:
            assert theirs.values(field) == ours.values(field)
        for filters in FILTERS:
            mask = theirs.select(conditions(filters), checked=True)
            assert mask is not None
            assert theirs.count(mask) == len(set(theirs.documents_of(mask.nonzero()[0])))
        for doc_id in ours.doc_ids()[:5]:
            assert theirs.chunks_of(doc_id).tolist() == ours.chunks_of(doc_id).tolist()


def test_a_filter_by_mistake_is_told_as_ever(index: SqliteIndex) -> None:
    for filters, code in (({"colour": "red"}, "HIVE-206"), ({"status": "efective"}, "HIVE-208")):
        with pytest.raises(HiveError, match=code):
            index.select(conditions(filters))


def test_unknown_words_find_nothing_by_words(index: SqliteIndex) -> None:
    assert len(index.keyword("zxqvw qqqqzz", 10, PARAMS, None).chunks) == 0


def test_a_search_is_explained(place: Workspace, index: SqliteIndex) -> None:
    engine, query = place.engine(), questions(place)[0]
    wanted = RetrievalConfig.model_validate(
        {"name": "x", "collection": KB, "retrieval": {"method": "hybrid", "top_k": 10}}
    )
    first = engine.search(query, wanted).hits[0]
    told = explain_hit(engine, query, wanted, first.doc_id)
    assert (told["returned"], told["rank"]) == (True, 1)
    last = index.doc_ids()[-1]
    assert set(explain_hit(engine, query, wanted, last)["lanes"]) == {"keyword", "vector"}


def test_indexing_again_sends_nothing_and_changes_nothing(place: Workspace) -> None:
    told: list[tuple[str, int, int]] = []
    before = place.engine().index(KB).index_hash
    report = build_index(place, lambda *step: told.append(step))
    assert (report.added, report.updated, report.deleted) == (0, 0, 0)
    assert not [step for step in told if step[0].startswith("sending")]
    assert place.engine().index(KB).index_hash == before
