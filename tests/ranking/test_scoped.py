"""What a scope shows must be what an index of the visible documents alone would show."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hive_agents import Workspace
from hive_agents.base.errors import HiveError
from hive_agents.documents import load_collection
from hive_agents.index import ScopedIndex, SqliteIndex, StaleIndex
from hive_agents.index.bm25 import BM25Params
from hive_agents.index.filters import Condition, condition
from hive_agents.index.lanes import LaneIndex
from hive_agents.ranking import RetrievalConfig, SearchEngine, build_index
from tests.conftest import DOCUMENTS, config_json, make_workspace, write_document

WORDS = "assay balance beaker buffer column dilute filter flask heater lamp mixer pump rotor sample valve".split()
REPEATED = ["all valve and pump rights are reserved", "see the rotor page of the beaker site\nfor a lamp"]
PARAMS = [BM25Params(), BM25Params(k1=2.0, b=0.3, title_boost=0.0), BM25Params(b=0.0, title_boost=3.0)]
FILTERS: list[dict[str, Any]] = [
    {},
    {"category": "a"},
    {"category": {"not": ["b"]}},
    {"status": ["draft", "effective"]},
    {"status": "efective"},
    {"labels": "secret"},
    {"labels": {"not": ["secret"]}},
    {"version": {"gte": 2, "lt": 5}},
    {"effective": {"gt": "2024-06-01"}},
    {"public": True},
    {"owner": "kim"},
    {"colour": "red"},
    {"version": "2"},
    {"version": {"gte": "two"}},
    {"category": {"lt": 1}},
]


def random_documents(rng: random.Random, n: int) -> dict[str, str]:
    documents = {}
    for number in range(n):
        front = [f"version: {rng.randrange(1, 7)}", f"effective: 202{rng.randrange(3, 6)}-0{rng.randrange(1, 9)}-01"]
        if rng.random() < 0.8:
            front.append(f"status: {rng.choice(['draft', 'effective', 'retired'])}")
        if rng.random() < 0.3:
            front.append(f"labels: [{rng.choice(['qa', 'secret', 'legal'])}, all]")
        if rng.random() < 0.5:
            front.append(f"public: {rng.choice(['true', 'false'])}")
        parts = [" ".join(rng.choices(WORDS, k=rng.randrange(3, 30))) + "." for _ in range(rng.randrange(1, 4))]
        parts += [line for line in REPEATED if rng.random() < 0.6]
        body = "\n\n".join(f"## {rng.choice(WORDS)}\n\n{part}" for part in parts)
        title = " ".join(rng.choices(WORDS, k=2))
        text = f"---\ntitle: {title}\n" + "\n".join(front) + f"\n---\n{body}\n"
        documents[f"{rng.choice('abc')}/d{number}.md"] = text
    return documents


def opened(workspace: Workspace) -> SqliteIndex:
    return SqliteIndex(workspace, load_collection(workspace))


def built(root: Path, documents: dict[str, str]) -> SqliteIndex:
    workspace = make_workspace(root, embedding=False, documents=documents)
    build_index(workspace)
    return opened(workspace)


def outcome(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except HiveError as error:
        return [diagnostic.to_json() for diagnostic in error.diagnostics], error.exit_code


def listed(mask: Any) -> Any:
    return mask.tolist() if isinstance(mask, np.ndarray) else mask


def observed(index: SqliteIndex | ScopedIndex, queries: Sequence[str], doc_ids: Sequence[str]) -> dict[str, Any]:
    """Everything that a caller can learn from an index."""
    chunks = np.arange(index.n_chunks)
    seen: dict[str, Any] = {
        "size": (index.n_chunks, index.n_documents, index.index_hash, index.embedding_model),
        "documents": (index.doc_ids(), index.documents(), index.documents_of(chunks), index.chunk_ids(chunks)),
        "rows": index.rows(chunks.tolist()),
        "boilerplate": index.boilerplate_shares(chunks).tolist(),
        "chunks": [index.chunks_of(doc_id).tolist() for doc_id in doc_ids],
        "only": [index.only([doc_id]).tolist() for doc_id in doc_ids],
        "values": {field: index.values(field) for field in (*index.collection.fields, "colour")},
    }
    masks: list[Any] = []
    for filters in FILTERS:
        conditions = {field: condition(value) for field, value in filters.items()}
        mask = outcome(lambda conditions=conditions: index.select(conditions))
        seen[f"select {filters}"] = listed(mask)
        if isinstance(mask, np.ndarray):
            masks.append(mask)
            seen[f"count {filters}"] = index.count(mask)
    for query in queries:
        for params in PARAMS:
            for mask in [None, *masks]:
                lane = index.keyword(query, 7, params, mask)
                seen.setdefault("lanes", []).append((lane.chunks.tolist(), lane.scores.tobytes()))
            seen.setdefault("scores", []).append(index.keyword_scores(query, chunks, params).tobytes())
        if index.embedding_model:
            for mask in [None, *masks]:
                (lane,) = index.vector([query], 7, mask)
                seen.setdefault("vector", []).append((lane.chunks.tolist(), lane.scores.tobytes()))
            seen.setdefault("cosines", []).append(index.vector_scores(query, chunks).tobytes())
    return seen


def scope(index: SqliteIndex, doc_ids: Sequence[str], owner: str | None = None) -> ScopedIndex:
    return index.within(np.isin(index.doc_ids(), list(doc_ids)), owner)


@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 40))])
def test_a_scope_is_an_index_of_the_visible_documents(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    documents = random_documents(rng, rng.randrange(1, 40))
    whole = built(tmp_path / "all", documents)
    queries = [" ".join(rng.choices(WORDS, k=rng.randrange(1, 4))) for _ in range(4)] + ["unheard"]
    for number, share in enumerate([0.0, rng.random(), 1.0]):
        visible = {doc_id: text for doc_id, text in documents.items() if rng.random() < share}
        alone = built(tmp_path / f"only{number}", visible)
        assert observed(scope(whole, list(visible)), queries, list(documents)) == observed(
            alone, queries, list(documents)
        )


def test_a_scope_of_vectors_is_an_index_of_the_visible_documents(indexed: Workspace, tmp_path: Path) -> None:
    queries = ["How do I rotate an API key?", "alarm", "too many requests"]
    visible = [doc_id for doc_id in DOCUMENTS if not doc_id.startswith("guides/")]
    workspace = make_workspace(tmp_path / "only", documents={doc_id: DOCUMENTS[doc_id] for doc_id in visible})
    build_index(workspace)
    inside, alone = scope(opened(indexed), visible), opened(workspace)
    assert observed(inside, queries, list(DOCUMENTS)) == observed(alone, queries, list(DOCUMENTS))
    for config in [
        config_json("a"),
        config_json("a", abstain={"min_cosine": 0.5}),
        config_json("a", "vector", filters={"category": ["faqs"]}),
        config_json("a", dynamic_k={"enabled": True, "gap_threshold_factor": 1.5}),
    ]:
        parsed = RetrievalConfig.model_validate(config)
        engine = SearchEngine(workspace)
        expected = [engine.present(alone, search, parsed) for search in engine.run_on(alone, queries, parsed)]
        assert [engine.present(inside, search, parsed) for search in engine.run_on(inside, queries, parsed)] == expected


def test_a_scope_is_a_lane_index(indexed: Workspace) -> None:
    index: LaneIndex = scope(opened(indexed), ["welcome.md"])
    assert (index.n_chunks, index.n_documents, index.language) == (1, 1, "english+")


def test_hidden_documents_do_not_move_a_bit(tmp_path: Path) -> None:
    """0 and 500 hidden documents, all of them full of the query's words: the reader can't tell."""
    documents = random_documents(random.Random(1), 12)
    hidden = {f"hidden/{n}.md": f"---\nlabels: [hidden{n}]\n---\nrotor valve pump {n}\n" for n in range(500)}
    few, many = built(tmp_path / "few", documents), built(tmp_path / "many", documents | hidden)
    queries = ["rotor valve", "pump", "499"]
    names = [*documents, *hidden]
    assert observed(scope(many, list(documents)), queries, names) == observed(few, queries, names)


def test_what_hidden_documents_repeat_is_no_boilerplate_to_who_sees_it_once(tmp_path: Path) -> None:
    """Whether hidden documents repeat a reader's line or each says another, the reader sees the same."""
    line = "see the rotor page of the beaker site"
    own = {f"own/{n}.md": f"# {n}\n\n{line if n < 3 else 'a filter'}\n\nvalve {n}\n" for n in range(40)}
    alike = {f"hidden/{n}.md": f"# {n}\n\n{line}\n" for n in range(200)}
    whole = built(tmp_path / "all", own | alike)
    assert max(whole.boilerplate_shares(np.arange(whole.n_chunks))) > 0
    inside = scope(whole, list(own))
    assert max(inside.boilerplate_shares(np.arange(inside.n_chunks))) == 0
    assert {row.own for row in inside.rows(range(inside.n_chunks))} == {None}


def test_a_value_that_only_hidden_documents_have_is_unknown(text_workspace: Workspace) -> None:
    build_index(text_workspace)
    inside = scope(opened(text_workspace), ["faqs/rotate-key.md", "welcome.md"])
    with pytest.raises(HiveError) as caught:
        inside.select({"labels": Condition(include=("retries",))})
    assert [d.message for d in caught.value.diagnostics] == ['no document has labels = "retries"']
    assert caught.value.diagnostics[0].fix == "values in use: auth, keys"
    assert inside.values("labels") == [("auth", 1), ("keys", 1)]
    assert inside.values("owner") == []


def test_a_configs_filter_on_what_the_reader_has_not_matches_nothing(text_workspace: Workspace) -> None:
    """The config was checked against the whole collection: a reader without drafts must still be able to search."""
    build_index(text_workspace)
    index = opened(text_workspace)
    inside, engine = scope(index, ["faqs/rotate-key.md"]), SearchEngine(text_workspace)
    for filters, found in [({"status": {"not": ["draft"]}}, 1), ({"status": "draft"}, 0)]:
        config = RetrievalConfig.model_validate(config_json("a", "keyword", filters=filters))
        (search,) = engine.run_on(inside, ["key"], config)
        assert len(search.returned) == found
    unknown = RetrievalConfig.model_validate(config_json("a", "keyword", filters={"status": "nowhere"}))
    with pytest.raises(HiveError, match="HIVE-208"):
        engine.run_on(index, ["key"], unknown)


def test_one_scope_and_owner_is_one_object_and_its_query_vectors_are_its_own(indexed: Workspace) -> None:
    embedded: list[str] = []

    class Counting(SqliteIndex):
        def _embed(self, query: str) -> NDArray[np.float32]:
            embedded.append(query)
            return super()._embed(query)

    index = Counting(indexed, load_collection(indexed))
    dana, again = scope(index, ["welcome.md"], "dana"), scope(index, ["welcome.md"], "dana")
    others = [scope(index, ["welcome.md"], "kim"), scope(index, ["reference/limits.md"], "dana")]
    assert dana is again
    assert all(other is not dana for other in others)
    for asked in [dana, again, *others, index, dana, index]:
        asked.vector(["a private question"], 3, None)
    assert len(embedded) == 4


def test_readers_and_others_search_side_by_side(tmp_path: Path) -> None:
    """All scorers of an index add up on one board: no thread may see another's scores, no query an earlier one's."""
    documents = random_documents(random.Random(9), 60)
    index = built(tmp_path / "ws", documents)
    lanes = [index, scope(index, list(documents)[::2], "dana"), scope(index, list(documents)[::3], "kim")]
    work = [(lane, query, params) for query in WORDS for lane in lanes for params in PARAMS]

    def ask(one: tuple[LaneIndex, str, BM25Params]) -> tuple[Any, bytes]:
        found = one[0].keyword(f"{one[1]} rotor", 9, one[2], None)
        return found.chunks.tolist(), found.scores.tobytes()

    alone = [ask(one) for one in work]
    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(ask, work)) == alone


def test_the_least_used_scope_is_forgotten(text_workspace: Workspace) -> None:
    build_index(text_workspace)
    index = opened(text_workspace)
    first = scope(index, ["welcome.md"], "0")
    for number in range(1, 33):
        scope(index, ["welcome.md"], str(number))
    assert scope(index, ["welcome.md"], "32") is scope(index, ["welcome.md"], "32")
    assert scope(index, ["welcome.md"], "0") is not first


def test_a_scope_of_a_replaced_index_says_so(text_workspace: Workspace) -> None:
    build_index(text_workspace)
    inside = scope(opened(text_workspace), ["welcome.md"])
    write_document(text_workspace, "new.md", "new")
    build_index(text_workspace)
    for ask in (
        lambda: inside.keyword("welcome", 3, BM25Params(), None),
        lambda: inside.rows([0]),
        lambda: inside.values("category"),
        lambda: inside.documents(),
    ):
        with pytest.raises(StaleIndex):
            ask()


def test_a_scope_needs_a_place_for_every_document(text_workspace: Workspace) -> None:
    build_index(text_workspace)
    index = opened(text_workspace)
    for wrong in (np.ones(3, np.bool_), np.ones(index.n_documents, np.int8)):
        with pytest.raises(ValueError, match="8 booleans"):
            index.within(wrong)


def test_front_matter_is_all_that_the_files_say(text_workspace: Workspace) -> None:
    write_document(text_workspace, "sop.md", "---\ntenant: acme\nview: [group:qa]\nsecret: 1\n---\nText.\n")
    build_index(text_workspace)
    index = opened(text_workspace)
    found = index.front_matter()
    assert [doc_id for doc_id, _ in found] == index.doc_ids()
    assert dict(found)["sop.md"] == {"tenant": "acme", "view": ["group:qa"], "secret": 1}
    assert dict(found)["reference/limits.md"] == {}
    assert index.n_documents == len(found) == len(DOCUMENTS) + 1
