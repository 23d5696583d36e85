import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from hive_agents import Workspace
from hive_agents.base.errors import HiveError
from hive_agents.documents import load_collection
from hive_agents.index import SqliteIndex, StaleIndex
from hive_agents.index.bm25 import BM25Params
from hive_agents.index.filters import Condition
from hive_agents.index.lanes import LaneIndex
from hive_agents.ranking import SearchEngine, build_index
from tests.conftest import DOCUMENTS, write_document

QUERY = "How do I rotate an API key?"
PARAMS = BM25Params()


def opened(workspace: Workspace) -> SqliteIndex:
    return SqliteIndex(workspace, load_collection(workspace))


def test_the_index_is_a_lane_index(indexed: Workspace) -> None:
    index: LaneIndex = opened(indexed)
    assert index.n_chunks == 10
    assert index.embedding_model is not None
    assert len(index.index_hash) == 64


def test_chunk_numbers_ascend_with_chunk_id(indexed: Workspace) -> None:
    index = opened(indexed)
    ids = index.chunk_ids(np.arange(index.n_chunks))
    assert ids == sorted(ids)
    assert [row.chunk_id for row in index.rows(range(index.n_chunks))] == ids
    assert index.documents_of(np.arange(index.n_chunks)) == [name.split("#")[0] for name in ids]


def test_a_row_tells_all_about_a_chunk(indexed: Workspace) -> None:
    index = opened(indexed)
    row = index.rows(index.chunks_of("guides/webhooks.md")[1:2].tolist())[0]
    assert (row.chunk_id, row.doc_id, row.title) == ("guides/webhooks.md#1", "guides/webhooks.md", "Webhooks")
    assert row.heading == "Webhooks > Retries"
    assert row.text.startswith("## Retries\n")
    assert row.metadata["labels"] == ["events", "retries"]
    assert index.rows([]) == []


def test_the_chunks_of_a_document_are_its_body(indexed: Workspace) -> None:
    index = opened(indexed)
    for doc_id, text in DOCUMENTS.items():
        body = "".join(row.text for row in index.rows(index.chunks_of(doc_id).tolist()))
        assert text.endswith(body)
        assert body.startswith(text.split("---\n")[2] if text.startswith("---") else text)


def test_the_lists_of_documents_are_by_doc_id(indexed: Workspace) -> None:
    index = opened(indexed)
    assert index.doc_ids() == [doc_id for doc_id, _, _ in index.documents()] == sorted(DOCUMENTS)


def test_scores_of_chosen_chunks_are_those_of_the_lanes(indexed: Workspace) -> None:
    index = opened(indexed)
    keyword = index.keyword(QUERY, 100, PARAMS, None)
    assert index.keyword_scores(QUERY, keyword.chunks, PARAMS).tolist() == keyword.scores.tolist()
    (vector,) = index.vector([QUERY], 100, None)
    assert index.vector_scores(QUERY, vector.chunks).tolist() == vector.scores.tolist()


def test_many_parameters_are_scored_side_by_side(indexed: Workspace) -> None:
    index = opened(indexed)
    first = index.keyword(QUERY, 10, PARAMS, None).scores.tolist()
    for k1 in range(10):
        index.keyword(QUERY, 10, BM25Params(k1=float(k1)), None)
    assert index.keyword(QUERY, 10, PARAMS, None).scores.tolist() == first


def test_the_index_hash_is_of_documents_schema_and_model(indexed: Workspace, text_workspace: Workspace) -> None:
    build_index(text_workspace)
    first = opened(text_workspace).index_hash
    assert first != opened(indexed).index_hash
    write_document(text_workspace, "new.md", "new")
    build_index(text_workspace)
    assert opened(text_workspace).index_hash != first
    (text_workspace.documents / "new.md").unlink()
    build_index(text_workspace)
    assert opened(text_workspace).index_hash == first


def test_a_collection_that_was_never_indexed_says_so(text_workspace: Workspace) -> None:
    with pytest.raises(HiveError) as caught:
        opened(text_workspace)
    found = caught.value.diagnostics[0]
    assert (found.code, found.fix, caught.value.exit_code) == ("HIVE-406", "run `hive index`", 3)


def test_an_index_that_was_replaced_never_gives_half_an_answer(indexed: Workspace) -> None:
    write = "guides/pipettes.md"
    fresh = [opened(indexed) for _ in range(8)]
    used = opened(indexed)
    used.keyword(QUERY, 10, PARAMS, None)
    used.vector([QUERY], 10, None)
    write_document(indexed, write, "---\ntitle: Pipettes\n---\nRotate them.\n")
    build_index(indexed)
    everything = np.arange(10)
    for index, ask in zip(
        fresh,
        [
            lambda index: index.keyword(QUERY, 10, PARAMS, None),
            lambda index: index.vector([QUERY], 10, None),
            lambda index: index.select({"category": Condition(include=("faqs",))}),
            lambda index: index.select({"version": Condition(bounds=(("gte", 1),))}),
            lambda index: index.rows([0]),
            lambda index: index.chunks_of(write),
            lambda index: index.documents_of(everything),
            lambda index: index.values("category"),
        ],
        strict=True,
    ):
        assert not index.is_live()
        with pytest.raises(StaleIndex):
            ask(index)
    with pytest.raises(StaleIndex):
        used.rows([0])
    assert StaleIndex().diagnostics[0].code == "HIVE-402"


def test_an_open_engine_sees_the_new_index(indexed: Workspace) -> None:
    engine = indexed.engine()
    assert engine.search("quokka", "words").hits == []
    before = engine.search(QUERY, "v1").to_json()
    write_document(indexed, "new.md", "# Quokka\n\nA quokka is small.\n")
    build_index(indexed)
    assert [hit.doc_id for hit in engine.search("quokka", "words").hits] == ["new.md"]
    assert len(engine.search("quokka", "meaning").hits) == 10
    assert "new.md" in engine.index("kb").doc_ids()
    (indexed.documents / "new.md").unlink()
    build_index(indexed)
    assert engine.search(QUERY, "v1").to_json() == before


def test_an_open_engine_sees_the_index_of_a_database_made_anew(indexed: Workspace) -> None:
    engine = indexed.engine()
    engine.search(QUERY, "v1")
    indexed.database.write_bytes(b"no database" * 1000)
    write_document(indexed, "new.md", "# Quokka\n\nA quokka is small.\n")
    assert [warning.code for warning in build_index(indexed).warnings] == ["HIVE-407"]
    assert [hit.doc_id for hit in engine.search("quokka", "words").hits] == ["new.md"]


def test_threads_keep_searching_while_the_index_is_replaced_under_them(indexed: Workspace) -> None:
    engine = SearchEngine(indexed)
    done = threading.Event()
    queries = {"words": "balance", "meaning": QUERY, "v1": "too many requests"}
    expected = {config: engine.search(query, config).hits[0].doc_id for config, query in queries.items()}

    def search(config: str) -> int:
        count = 0
        while not done.is_set():
            hits = engine.search(queries[config], config).hits
            assert hits[0].doc_id == expected[config]
            assert len({hit.chunk_id for hit in hits}) == len(hits)
            count += 1
        return count

    with ThreadPoolExecutor(3) as pool:
        searches = [pool.submit(search, config) for config in queries]
        try:
            for number in range(6):
                write_document(indexed, "welcome.md", f"# Welcome\n\nVersion {number} of the welcome.\n")
                write_document(indexed, f"aaa/{number}.md", f"# Bee {number}\n\nHoney.\n")
                build_index(indexed)
        finally:
            done.set()
        assert all(future.result() > 0 for future in searches)
    assert {hit.doc_id for hit in engine.search("honey", "words").hits} == {f"aaa/{number}.md" for number in range(6)}


def test_threads_share_one_engine(indexed: Workspace) -> None:
    engine = indexed.engine()
    queries = [QUERY, "alarm 14", "too many requests", "distilled water", "signature", "webhook"] * 4
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda query: engine.search(query, "v1").to_json(), queries))
    assert found == [SearchEngine(indexed).search(query, "v1").to_json() for query in queries]
