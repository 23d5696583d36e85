from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.base.errors import HiveError
from hive_agents.ranking.explain import explain_hit, explain_text
from tests.conftest import config_json, write_document

QUERY = "How do I rotate an API key?"


def explained(workspace: Workspace, doc_id: str, method: str = "hybrid", **blocks: Any) -> dict[str, Any]:
    engine = workspace.engine()
    return explain_hit(engine, QUERY, engine.resolve(config_json("explained", method, **blocks)), doc_id)


def test_a_returned_document_has_its_rank_in_every_lane(indexed: Workspace) -> None:
    found = explained(indexed, "faqs/rotate-key.md")
    hit = indexed.engine().search(QUERY, "v1").hits[0]
    assert (found["returned"], found["rank"], found["fused_rank"], found["filtered_by"]) == (True, 1, 1, [])
    assert found["lanes"] == {
        "keyword": {"rank": 1, "score": hit.bm25_score},
        "vector": {"rank": 1, "score": hit.vector_score},
    }
    assert explain_text(found).startswith("faqs/rotate-key.md is returned at rank 1. keyword: rank 1 (score ")


def test_a_document_past_the_cut_says_where_it_is_and_what_ended_the_list(indexed: Workspace) -> None:
    found = explained(indexed, "guides/pipettes.md", retrieval={"top_k": 2})
    assert (found["returned"], found["rank"], found["cut"]) == (False, None, {"reason": "top_k", "at": 2})
    assert found["lanes"]["keyword"] is None
    text = explain_text(found)
    assert f"its best chunk at rank {found['fused_rank']} of all chunks; the list ended at 2 (top_k)" in text
    assert "keyword: no match" in text


def test_the_place_after_fusion_counts_documents_beside_chunks(text_workspace: Workspace) -> None:
    sections = "".join(f"## Rotate an API key {n}\n\nRotate an API key, an API key.\n\n" for n in range(4))
    write_document(text_workspace, "faqs/rotations.md", f"---\ntitle: Rotate an API key\n---\n{sections}")
    text_workspace.index()
    found = explained(text_workspace, "faqs/lost-key.md", "keyword", retrieval={"top_k": 1, "per_document": 1})
    assert (found["fused_rank"], found["fused_documents"]) == (6, 3)
    told = "faqs/lost-key.md is document 3 after fusion, its best chunk at rank 6 of all chunks; the list ended at 1"
    assert explain_text(found).startswith(told)


def test_a_document_past_the_candidates_has_its_rank_over_all_documents(indexed: Workspace) -> None:
    found = explained(indexed, "guides/pipettes.md", "vector", retrieval={"candidates": 2, "top_k": 2})
    assert found["fused_rank"] is None
    assert found["lanes"]["vector"]["rank"] > 2
    assert "is no candidate of any lane" in explain_text(found)
    assert "past the 2 candidates" in explain_text(found)


def test_a_filtered_document_names_the_filters(indexed: Workspace) -> None:
    filters = {"category": ["faqs", "guides"], "status": "draft"}
    found = explained(indexed, "faqs/rotate-key.md", filters=filters)
    assert (found["filtered_by"], found["lanes"], found["returned"]) == (["status"], {}, False)
    assert explain_text(found) == "faqs/rotate-key.md is filtered away by status"


def test_a_document_is_named_in_any_usual_way(indexed: Workspace) -> None:
    for name in ("faqs/rotate-key.md", "documents/faqs/rotate-key.md", "faqs/rotate-key.md#0"):
        assert explained(indexed, name)["doc_id"] == "faqs/rotate-key.md"


def test_a_hash_sign_in_a_name_is_part_of_it(text_workspace: Workspace) -> None:
    write_document(text_workspace, "issue #7.md", "Rotate keys.\n")
    text_workspace.index()
    assert explained(text_workspace, "issue #7.md#0", "keyword")["doc_id"] == "issue #7.md"


def test_a_folder_may_be_called_documents(text_workspace: Workspace) -> None:
    write_document(text_workspace, "documents/keys.md", "Rotate keys.\n")
    text_workspace.index()
    for name in ("documents/keys.md", "documents/documents/keys.md", "documents/keys.md#0"):
        assert explained(text_workspace, name, "keyword")["doc_id"] == "documents/keys.md"


def test_a_document_without_text_is_known_and_has_nothing_to_be_found_by(text_workspace: Workspace) -> None:
    write_document(text_workspace, "faqs/empty.md", "")
    text_workspace.index()
    found = explained(text_workspace, "faqs/empty.md", "keyword", filters={"category": "faqs"})
    assert (found["chunks"], found["returned"], found["filtered_by"], found["boost"]) == (0, False, [], 1.0)
    assert explain_text(found) == "faqs/empty.md has no text and no title, so nothing finds it"


def test_the_best_chunk_speaks_for_its_document(indexed: Workspace) -> None:
    hits = indexed.engine().search(QUERY, "meaning").hits
    first = next(hit for hit in hits if hit.doc_id == "guides/webhooks.md")
    assert explained(indexed, "guides/webhooks.md", "vector")["rank"] == first.rank


def test_an_unknown_document_is_wrong_usage_with_a_guess(indexed: Workspace) -> None:
    with pytest.raises(HiveError) as caught:
        explained(indexed, "faqs/rotate-keys.md")
    found = caught.value.diagnostics[0]
    assert (found.code, found.fix, caught.value.exit_code) == ("HIVE-409", 'did you mean "faqs/rotate-key.md"?', 2)
