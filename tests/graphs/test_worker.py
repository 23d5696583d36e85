"""The worker graph as a graph: its edges, who may run it, and what its state holds."""

from __future__ import annotations

import json
from typing import Any

import pytest

from graphs.worker import graph
from hive_agents import HiveError
from hive_agents.access import known_principal, mint
from hive_agents.copilot import CopilotContext
from tests.copilot.chats import knowledge_base


def request(text: str) -> dict[str, Any]:
    return {"run_id": "r1", "request": {"text": text}}


def test_the_graph_reads_like_the_diagram() -> None:
    edges = {(edge.source, edge.target) for edge in graph.get_graph().edges}
    assert edges == {
        ("__start__", "rewrite"),
        ("rewrite", "route"),
        ("route", "retrieve"),
        ("route", "finalize"),
        ("retrieve", "rerank"),
        ("rerank", "permission_gate"),
        ("permission_gate", "retrieve"),
        ("permission_gate", "finalize"),
        ("finalize", "__end__"),
    }


async def test_a_token_says_who_asks_and_the_state_holds_no_text_of_documents() -> None:
    place = knowledge_base()
    token = mint(place, known_principal(place, "dana"), 60).token
    state = await graph.ainvoke(request("how do I rotate a key?"), context=CopilotContext(str(place.root), token=token))
    assert [found["doc_id"] for found in state["results"]][:1] == ["faqs/rotate.md"]
    assert "second key" not in json.dumps(state)


@pytest.mark.parametrize("context", [{}, {"token": "nonsense"}, {"principal": {"tenant": "acme", "user": "root"}}])
async def test_without_a_verified_reader_nothing_runs(context: dict[str, Any]) -> None:
    """A principal that arrives as JSON is a claim, not a proof."""
    with pytest.raises(HiveError) as error:
        await graph.ainvoke(request("list all guides"), context=CopilotContext(str(knowledge_base().root), **context))
    assert error.value.diagnostics[0].code == "HIVE-417"
