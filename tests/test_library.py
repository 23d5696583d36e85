"""The library where an event loop runs already, as in a notebook, and in graphs of others."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command
from typing_extensions import TypedDict

from hive_agents import Chat, Goal, Principal, Workspace
from hive_agents.adapters import HiveRetriever, approval_node, judge_node, search_node
from hive_agents.approvals import ApprovalStore
from hive_agents.cli.sample import init_workspace
from hive_agents.models import ModelError, waited
from hive_agents.runs import RunStore
from tests.copilot.chats import copied_knowledge_base

DOCS = Path(__file__).parent.parent / "docs"
GUEST, DANA = Principal("acme", "guest"), Principal("acme", "dana", groups=frozenset({"qa"}))
GOAL = Goal(id="answers", name="Answers")


class State(TypedDict, total=False):
    query: str
    documents: list[dict[str, Any]]
    result: dict[str, Any]
    judgment: dict[str, Any]


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    return copied_knowledge_base(tmp_path / "w")


def blocks(page: str, language: str) -> list[str]:
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.S)


async def cell(source: str, names: dict[str, Any]) -> None:
    """Run a block as a notebook does: beneath a running event loop, with `await` allowed."""
    code = compile(source, "<cell>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    found = eval(code, names)
    if inspect.isawaitable(found):
        await found


async def test_a_question_is_a_text_and_who_names_nobody_is_the_local_owner(tmp_path: Path) -> None:
    place = Workspace(init_workspace(tmp_path / "w", empty=True))
    (place.root / "documents" / "bees.md").write_text("# Bees\n\nBees dance.\n", encoding="utf-8")
    place.index()
    reply = await Chat(place).ask("What do bees do?")
    assert [result["doc_id"] for result in reply["results"]] == ["bees.md"]
    (place.root / "hive.toml").write_text('[access]\nmode = "enforced"\n', encoding="utf-8")
    assert (await Chat(Workspace(place.root)).ask("What do bees do?"))["results"] == []


async def test_every_block_of_the_page_runs_in_a_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    found = blocks("library.md", "python")
    assert len(found) == 5
    for source in found:
        await cell(source, names)
    assert names["reply"]["results"]
    assert names["report"].added == ["lab/lamp.md"]
    assert names["run"].row.status == "done"
    assert RunStore(names["ws"]).get(names["waiting"].run_id).status == "done"
    assert names["state"]["__interrupt__"]
    assert names["store"].get(names["request"].id).status == "approved"


async def test_code_that_waits_for_a_coroutine_does_so_beneath_a_running_loop() -> None:
    async def work() -> str:
        await asyncio.sleep(0)
        return "done"

    assert waited(work()) == "done"


def test_code_that_waits_for_a_coroutine_does_so_without_a_loop() -> None:
    async def work() -> str:
        return "done"

    assert waited(work()) == "done"


def test_a_retriever_gives_what_its_principal_may_view(place: Workspace) -> None:
    dana, guest = (HiveRetriever(workspace=place, principal=one).invoke("recall of a batch") for one in (DANA, GUEST))
    assert "sops/recall.md" in {document.metadata["doc_id"] for document in dana}
    assert "sops/recall.md" not in {document.metadata["doc_id"] for document in guest}


def test_a_retrieved_document_is_a_whole_chunk_with_the_fields_of_its_document(place: Workspace) -> None:
    steps = " ".join(f"Step {number} of the recall takes {number} minutes." for number in range(20))
    head = "title: Steps\ntenant: acme\nview: [tenant]\ncategory: plans\n"
    (place.documents / "steps.md").write_text(f"---\n{head}---\n{steps}\n")
    place.index()
    found = HiveRetriever(workspace=place, principal=GUEST).invoke("steps of the recall in minutes")
    [passage] = [document for document in found if document.metadata["doc_id"] == "steps.md"]
    assert passage.page_content.strip() == steps
    assert passage.metadata["category"] == "plans"
    assert passage.metadata["excerpt"] in steps
    assert {"tenant", "view"}.isdisjoint(passage.metadata)


def test_a_retriever_and_a_node_take_filters(place: Workspace) -> None:
    def categories(retriever: HiveRetriever, **how: Any) -> set[str]:
        return {document.metadata["category"] for document in retriever.invoke("recall of a batch", **how)}

    assert len(categories(HiveRetriever(workspace=place, principal=DANA))) > 1
    assert categories(HiveRetriever(workspace=place, principal=DANA, filters=["category=sops"])) == {"sops"}
    assert categories(HiveRetriever(workspace=place, principal=DANA), filters=["category!=sops"]).isdisjoint({"sops"})
    update = asyncio.run(search_node(place, DANA, filters=["category=sops"])({"query": "recall of a batch"}))
    assert {passage["category"] for passage in update["documents"]} == {"sops"}


async def test_a_search_node_writes_plain_passages(place: Workspace) -> None:
    update = await search_node(place, GUEST)({"query": "rotate a key"})
    assert update["documents"][0]["doc_id"] == "faqs/rotate.md"
    assert "second key" in update["documents"][0]["text"]


def judged_graph(place: Workspace, llm: Any = None) -> Any:
    builder = StateGraph(State)
    builder.add_node("judge", judge_node(place, GOAL, llm=llm, principal=DANA))
    builder.add_node("approval", approval_node(place))
    builder.add_edge(START, "judge").add_edge("judge", "approval").add_edge("approval", END)
    return builder.compile(checkpointer=InMemorySaver())


async def test_a_graph_waits_for_the_person_and_not_for_whoever_resumes_it(place: Workspace) -> None:
    graph, thread = judged_graph(place), {"configurable": {"thread_id": "1"}}
    waiting = await graph.ainvoke({"result": {"answer": "A lamp."}}, thread)
    (asked,) = waiting["__interrupt__"]
    assert (await graph.ainvoke(Command(resume="approved"), thread))["__interrupt__"]
    ApprovalStore(place).decide(asked.value["approval_id"], "approve", by="dana")
    done = await graph.ainvoke(Command(resume=True), thread)
    assert (done["judgment"]["person"], done["judgment"]["action"]) == ("approved", "escalate")
    assert len(ApprovalStore(place).list()) == 1


async def test_an_outage_files_nothing_and_the_graph_goes_on(place: Workspace) -> None:
    async def down(*_: Any) -> Any:
        raise ModelError("server", "nobody there")

    done = await judged_graph(place, down).ainvoke({"result": {"answer": "x"}}, {"configurable": {"thread_id": "1"}})
    assert (done["judgment"]["unavailable"], done["judgment"]["approval_id"]) == (True, None)
    assert ApprovalStore(place).list() == []


def test_naming_the_parts_of_the_library_imports_nothing_heavy() -> None:
    heavy = "{'langgraph', 'boto3', 'mcp'}"
    code = f"import sys; from hive_agents import ToolRegistry, tool; print({heavy} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"
