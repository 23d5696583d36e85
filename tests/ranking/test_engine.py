from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.base.errors import HiveError
from hive_agents.ranking import Ranking, SearchEngine, build_index
from tests.conftest import config_json, make_workspace, write_document
from tests.rerankers import Longest

QUERY = "How do I rotate an API key?"


def refused(workspace: Workspace, query: str, config: Any) -> tuple[str, int]:
    with pytest.raises(HiveError) as caught:
        workspace.engine().search(query, config)
    assert caught.value.diagnostics[0].fix
    return caught.value.diagnostics[0].code, caught.value.exit_code


def chunk_ids(ranking: Ranking) -> list[str]:
    return [hit.chunk_id for hit in ranking.hits]


@pytest.fixture
def alike(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """Twelve documents that only their names tell apart: ties everywhere."""
    documents = {f"d{number}.md": "---\ntitle: Bees\n---\nBees make honey.\n" for number in range(12)}
    workspace = make_workspace(tmp_path_factory.mktemp("alike") / "ws", embedding=False, documents=documents)
    build_index(workspace)
    return workspace


def test_hybrid_hits_carry_both_lanes(indexed: Workspace) -> None:
    ranking = indexed.engine().search(QUERY, "v1")
    first = ranking.hits[0]
    assert (ranking.query, ranking.config) == (QUERY, "v1")
    assert (first.rank, first.doc_id, first.chunk_id) == (1, "faqs/rotate-key.md", "faqs/rotate-key.md#0")
    assert (first.bm25_rank, first.vector_rank) == (1, 1)
    assert first.score == pytest.approx(1 / 61 + 1 / 61)
    assert first.excerpt.startswith("Open Settings")
    assert [hit.rank for hit in ranking.hits] == list(range(1, 11))


def test_a_hit_has_the_documented_fields(indexed: Workspace) -> None:
    shown = indexed.engine().search(QUERY, "v1").to_json()
    assert set(shown) == {"query", "config", "hits", "cut"}
    assert set(shown["cut"]) == {"reason", "at"}
    assert list(shown["hits"][0]) == (
        "rank doc_id chunk_id title heading excerpt score bm25_rank vector_rank bm25_score vector_score"
        " disagreement flagged relevance"
    ).split(" ")


def test_a_chunk_that_one_lane_lacks_has_a_null_rank_and_adds_nothing(indexed: Workspace) -> None:
    hits = indexed.engine().search(QUERY, "v1").hits
    absent = [hit for hit in hits if hit.bm25_rank is None]
    assert absent
    for hit in absent:
        assert hit.bm25_score is None
        assert hit.vector_rank is not None
        assert hit.score == pytest.approx(1 / (60 + hit.vector_rank))


@pytest.mark.parametrize(("config", "lane", "other"), [("words", "bm25", "vector"), ("meaning", "vector", "bm25")])
def test_one_lane_alone_scores_its_own_rrf_and_reports_the_raw_score(
    indexed: Workspace, config: str, lane: str, other: str
) -> None:
    hits = indexed.engine().search(QUERY, config).hits
    assert hits[0].doc_id == "faqs/rotate-key.md"
    for rank, hit in enumerate(hits, start=1):
        shown = hit.to_json()
        assert shown["score"] == pytest.approx(1 / (60 + rank))
        assert shown[f"{lane}_rank"] == rank
        assert shown[f"{other}_rank"] is None
        assert shown[f"{other}_score"] is None
    raw = [hit.to_json()[f"{lane}_score"] for hit in hits]
    assert raw == sorted(raw, reverse=True)


def test_ties_break_by_chunk_id(alike: Workspace) -> None:
    hits = alike.engine().search("honey", config_json("all", "keyword", retrieval={"top_k": 20})).hits
    assert len({hit.bm25_score for hit in hits}) == 1
    assert [hit.chunk_id for hit in hits] == sorted(f"d{number}.md#0" for number in range(12))


def test_chunk_ids_sort_as_text_also_past_ten_chunks(text_workspace: Workspace) -> None:
    write_document(text_workspace, "z.md", "".join("## Part\n\nzebra\n\n" for _ in range(12)))
    build_index(text_workspace)
    hits = text_workspace.engine().search("zebra", config_json("all", "keyword", retrieval={"top_k": 20})).hits
    assert [hit.chunk_id for hit in hits] == sorted(f"z.md#{number}" for number in range(12))


@pytest.mark.parametrize("query", ["", " ", "?!…", "___", "\U0001f41d"])
@pytest.mark.parametrize("config", ["words", "v1"])
def test_a_query_without_words_is_wrong_usage(indexed: Workspace, query: str, config: str) -> None:
    assert refused(indexed, query, config) == ("HIVE-409", 2)


def test_unknown_words_find_nothing_by_keyword_and_something_by_meaning(indexed: Workspace) -> None:
    engine = indexed.engine()
    nothing = engine.search("xylophone quokka", "words")
    assert (nothing.hits, nothing.cut.reason, nothing.cut.at) == ([], "exhausted", 0)
    assert len(engine.search("xylophone quokka", "meaning").hits) == 10
    assert {hit.bm25_rank for hit in engine.search("xylophone quokka", "v1").hits} == {None}


def test_without_a_model_keyword_configs_work_and_the_others_say_how_to_get_one(text_workspace: Workspace) -> None:
    report = build_index(text_workspace)
    assert [(w.code, w.severity) for w in report.warnings] == [("HIVE-401", "warning")]
    assert text_workspace.engine().search(QUERY, "words").hits
    assert refused(text_workspace, QUERY, "v1") == ("HIVE-401", 3)
    assert refused(text_workspace, QUERY, "meaning") == ("HIVE-401", 3)
    assert refused(text_workspace, QUERY, config_json("a", "keyword", abstain={"min_cosine": 0.1})) == ("HIVE-401", 3)


def test_an_index_of_another_model_is_refused(indexed: Workspace) -> None:
    (indexed.root / "hive.toml").write_text('[models]\nembedding = "none"\n', encoding="utf-8")
    workspace = Workspace(indexed.root)
    assert refused(workspace, QUERY, "v1")[0] == "HIVE-401"
    assert workspace.engine().search(QUERY, "words").hits


def test_before_the_first_index_a_search_says_so(text_workspace: Workspace) -> None:
    assert refused(text_workspace, QUERY, "words") == ("HIVE-406", 3)


def test_a_config_without_its_collection_is_refused(indexed: Workspace) -> None:
    assert refused(indexed, QUERY, config_json("a") | {"collection": "other"}) == ("HIVE-211", 1)


def test_a_workspace_without_documents_has_no_hits(tmp_path_factory: pytest.TempPathFactory) -> None:
    workspace = make_workspace(tmp_path_factory.mktemp("empty") / "ws", documents={})
    assert build_index(workspace).chunks == 0
    for config in ("words", "meaning", "v1"):
        assert workspace.engine().search(QUERY, config).hits == []


def test_a_batch_gives_what_each_query_gives_alone(indexed: Workspace) -> None:
    engine = indexed.engine()
    queries = [QUERY, "alarm 14", "too many requests", "xylophone"]
    assert [r.to_json() for r in engine.search_many(queries, "v1")] == [
        SearchEngine(indexed).search(query, "v1").to_json() for query in queries
    ]
    assert engine.search_many([], "v1") == []


def test_weights_change_the_order_of_hybrid_only(indexed: Workspace) -> None:
    engine = indexed.engine()
    query = "too many requests for a revoked key"
    words = chunk_ids(engine.search(query, "words"))
    heavy = engine.search(query, config_json("a", retrieval={"weights": {"keyword": 100, "vector": 0.01}}))
    assert chunk_ids(heavy)[: len(words)] == words
    alone = config_json("a", "keyword", retrieval={"weights": {"keyword": 0, "vector": 5}})
    assert engine.search(query, alone).hits[0].score == 1 / 61


def test_candidates_are_the_depth_of_each_lane(indexed: Workspace) -> None:
    hits = indexed.engine().search(QUERY, config_json("a", retrieval={"candidates": 2})).hits
    assert len(hits) <= 4
    assert max(hit.vector_rank or 0 for hit in hits) == 2


def test_the_title_and_the_ancestors_are_found_as_text(indexed: Workspace) -> None:
    engine = indexed.engine()
    assert engine.search("centrifuge", "words").hits[0].doc_id == "guides/centrifuge.md"
    assert "guides/webhooks.md#1" in chunk_ids(engine.search("webhook", "words"))


def test_title_boost_is_tuned_at_query_time(alike: Workspace) -> None:
    write_document(alike, "body.md", "---\ntitle: Insects\n---\nBees, bees, bees, bees.\n")
    build_index(alike)
    engine = alike.engine()

    def rank(boost: float) -> list[str]:
        return chunk_ids(engine.search("bees", config_json("a", "keyword", bm25={"title_boost": boost})))

    assert rank(0.0)[0] == "body.md#0"
    assert rank(10.0)[0] == "d0.md#0"


def test_a_document_without_body_is_found_by_its_title(text_workspace: Workspace) -> None:
    write_document(text_workspace, "stub.md", "---\ntitle: Quokka care\n---\n\n")
    build_index(text_workspace)
    (hit,) = text_workspace.engine().search("quokka", "words").hits
    assert (hit.chunk_id, hit.title, hit.excerpt) == ("stub.md#0", "Quokka care", "Quokka care")


def cut(workspace: Workspace, query: str = QUERY, reranker: Longest | None = None, **blocks: Any) -> tuple[str, int]:
    method = blocks.pop("method", "hybrid")
    ranking = SearchEngine(workspace, reranker).search(query, config_json("cut", method, **blocks))
    assert ranking.cut.at == len(ranking.hits)
    return ranking.cut.reason, ranking.cut.at


def test_the_cut_says_what_ended_the_list(indexed: Workspace) -> None:
    on = {"enabled": True}
    assert cut(indexed, retrieval={"top_k": 10}) == ("none", 10)
    assert cut(indexed, retrieval={"top_k": 3}) == ("top_k", 3)
    assert cut(indexed, retrieval={"top_k": 50}) == ("exhausted", 10)
    assert cut(indexed, dynamic_k={**on, "gap_threshold_factor": 3.0}) == ("gap", 4)
    assert cut(indexed, dynamic_k={**on, "gap_threshold_factor": 1000.0, "max_results": 4}) == ("max_results", 4)
    assert cut(indexed, dynamic_k={**on, "gap_threshold_factor": 1000.0}, retrieval={"top_k": 4}) == ("top_k", 4)
    assert cut(indexed, abstain={"min_cosine": 0.99}) == ("abstain", 0)
    floor = {**on, "floor": 0.08}
    assert cut(indexed, reranker=Longest(), rerank=floor) == ("floor", 8)
    assert cut(indexed, "quokka", method="keyword") == ("exhausted", 0)


def test_min_results_are_returned_past_a_gap(indexed: Workspace) -> None:
    block = {"enabled": True, "gap_threshold_factor": 3.0}
    assert cut(indexed, dynamic_k={**block, "min_results": 5}) != ("gap", 4)
    assert cut(indexed, dynamic_k={**block, "min_results": 10}) == ("none", 10)


def test_a_disabled_dynamic_k_changes_nothing(indexed: Workspace) -> None:
    assert cut(indexed, dynamic_k={"enabled": False, "max_results": 1}) == ("none", 10)


@pytest.mark.parametrize("method", ["hybrid", "vector", "keyword"])
def test_nothing_is_returned_when_the_best_cosine_is_too_low(indexed: Workspace, method: str) -> None:
    best = indexed.engine().search(QUERY, "meaning").hits[0].vector_score
    assert best is not None
    plain = indexed.engine().search(QUERY, config_json("a", method))
    at = indexed.engine().search(QUERY, config_json("a", method, abstain={"min_cosine": best}))
    assert (at.hits, at.cut) == (plain.hits, plain.cut)
    assert cut(indexed, method=method, abstain={"min_cosine": best + 0.001}) == ("abstain", 0)


def test_every_word_of_a_query_in_one_chunk_is_near_enough(indexed: Workspace) -> None:
    words = " ".join(indexed.engine().search(QUERY, config_json("a", "keyword")).hits[0].title.split()[:2])
    strict = {"min_cosine": 0.99}
    assert indexed.engine().search(words, config_json("a", "hybrid", abstain=strict)).cut.reason == "abstain"
    lenient = strict | {"unless_all_words": True}
    found = indexed.engine().search(words, config_json("a", "hybrid", abstain=lenient))
    assert found.cut.reason != "abstain"
    assert found.hits == indexed.engine().search(words, config_json("a", "hybrid")).hits
    absent = indexed.engine().search(f"{words} zebra", config_json("a", "hybrid", abstain=lenient))
    assert (absent.hits, absent.cut.reason) == ([], "abstain")
    by_meaning = indexed.engine().search(words, config_json("a", "vector", abstain=lenient))
    assert by_meaning.cut.reason == "abstain"  # no lane of words is searched


def test_a_word_that_only_a_filtered_chunk_has_makes_nothing_near(indexed: Workspace) -> None:
    engine, lenient = indexed.engine(), {"min_cosine": 0.99, "unless_all_words": True}
    first = engine.search(QUERY, config_json("a", "keyword")).hits[0]
    category = first.metadata["category"]
    words = first.title
    found = engine.search(words, config_json("a", "hybrid", abstain=lenient, filters={"category": category}))
    assert found.hits
    without = engine.search(
        words, config_json("a", "hybrid", abstain=lenient, filters={"category": {"not": [category]}})
    )
    assert (without.hits, without.cut.reason) == ([], "abstain")


def test_abstaining_looks_at_the_filtered_documents_alone(indexed: Workspace) -> None:
    assert cut(indexed, abstain={"min_cosine": 0.5})[0] == "none"
    assert cut(indexed, abstain={"min_cosine": 0.5}, filters={"category": "guides"}) == ("abstain", 0)


def test_rerank_reorders_the_candidates_and_the_rest_follow(indexed: Workspace) -> None:
    reranker = Longest()
    plain = SearchEngine(indexed).search(QUERY, "v1").hits
    config = config_json("a", rerank={"enabled": True, "candidates": 4})
    hits = SearchEngine(indexed, reranker).search(QUERY, config).hits
    assert len(reranker.read) == 4
    head = {hit.chunk_id for hit in plain[:4]}
    assert {hit.chunk_id for hit in hits[:4]} == head
    assert [hit.relevance for hit in hits[:4]] == sorted((len(text) / 1000 for text in reranker.read), reverse=True)
    assert [hit.chunk_id for hit in hits[4:]] == [hit.chunk_id for hit in plain[4:]]
    assert {hit.relevance for hit in hits[4:]} == {None}
    fused = {hit.chunk_id: (hit.score, hit.bm25_rank, hit.vector_rank) for hit in plain}
    assert all(fused[hit.chunk_id] == (hit.score, hit.bm25_rank, hit.vector_rank) for hit in hits)


def test_top_k_is_taken_after_the_rerank(indexed: Workspace) -> None:
    everything = config_json("a", rerank={"enabled": True})
    few = config_json("a", rerank={"enabled": True}, retrieval={"top_k": 2})
    engine = SearchEngine(indexed, Longest())
    assert chunk_ids(engine.search(QUERY, few)) == chunk_ids(engine.search(QUERY, everything))[:2]


def test_how_many_comes_from_the_fused_scores_and_which_from_the_rerank(indexed: Workspace) -> None:
    block = {"enabled": True, "gap_threshold_factor": 3.0}
    reranked = config_json("a", rerank={"enabled": True}, dynamic_k=block)
    engine = SearchEngine(indexed, Longest())
    ranking = engine.search(QUERY, reranked)
    whole = engine.search(QUERY, config_json("a", rerank={"enabled": True}))
    assert (ranking.cut.reason, ranking.cut.at) == ("gap", 4)
    assert chunk_ids(ranking) == chunk_ids(whole)[:4]


def test_the_floor_drops_what_is_less_relevant(indexed: Workspace) -> None:
    config = config_json("a", rerank={"enabled": True, "floor": 0.09})
    hits = SearchEngine(indexed, Longest()).search(QUERY, config).hits
    assert hits
    assert all(hit.relevance is not None and hit.relevance >= 0.09 for hit in hits)


def test_the_reranker_reads_the_title_of_a_document_without_body(text_workspace: Workspace) -> None:
    write_document(text_workspace, "stub.md", "---\ntitle: Quokka care\n---\n")
    build_index(text_workspace)
    reranker = Longest()
    SearchEngine(text_workspace, reranker).search("quokka", config_json("a", "keyword", rerank={"enabled": True}))
    assert reranker.read == ["Quokka care"]


def test_rerank_without_a_reranker_is_refused(indexed: Workspace) -> None:
    assert refused(indexed, QUERY, config_json("a", rerank={"enabled": True})) == ("HIVE-214", 1)


def test_run_gives_the_chunks_that_search_shows(indexed: Workspace) -> None:
    engine = indexed.engine()
    config = engine.resolve("v1")
    (search,) = engine.run([QUERY], config)
    index = engine.index("kb")
    assert index.chunk_ids(search.returned) == chunk_ids(engine.search(QUERY, config))
    assert index.documents_of(search.returned) == [hit.doc_id for hit in engine.search(QUERY, config).hits]
