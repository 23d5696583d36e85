"""Search, judge and approvals as components of LangChain and LangGraph programs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langgraph.types import interrupt
from pydantic import ConfigDict, PrivateAttr

from hive_agents.access import LOCAL_TENANT, RESERVED, Principal
from hive_agents.agents import scoped_search
from hive_agents.approvals import ApprovalStore
from hive_agents.goals import Goal
from hive_agents.judging import Runtime
from hive_agents.ranking import Ranking, SearchEngine
from hive_agents.workspace import Workspace

Update = dict[str, Any]
NodeFunction = Callable[[Mapping[str, Any]], Awaitable[Update]]


class HiveRetriever(BaseRetriever):
    """A LangChain retriever over the documents that the principal may view, by the active config.

    Each result is a whole chunk; its metadata are the filterable fields of its document, and `doc_id`, `chunk_id`,
    `title`, `heading`, `excerpt`, `rank`, `score`. `filters` are written as on the command line ("version=v2.11") and
    apply to every question; `invoke(question, filters=[…])` adds some for one question.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from hive_agents import Principal, Workspace
    >>> from hive_agents.cli.sample import init_workspace
    >>> folder = TemporaryDirectory()
    >>> place = Workspace(init_workspace(Path(folder.name)))
    >>> _ = place.index()
    >>> retriever = HiveRetriever(workspace=place, principal=Principal("acme", "dana"))
    >>> passage = retriever.invoke("rotate an API key")[0]
    >>> passage.metadata["doc_id"], passage.metadata["category"]
    ('api-docs/api-tokens.md', 'api-docs')
    >>> folder.cleanup()

    Raises: as a search: HIVE-206 to 208 for filters, HIVE-406 before the first index, HIVE-408 without an active
    config, HIVE-409 without words.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    workspace: Workspace
    principal: Principal
    top_k: int = 5
    filters: Sequence[str] = ()
    _engine: SearchEngine | None = PrivateAttr(default=None)

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, filters: Sequence[str] = ()
    ) -> list[Document]:
        self._engine = self._engine or SearchEngine(self.workspace)
        return _documents(scoped_search(self._engine, self.principal, query, [*self.filters, *filters]), self.top_k)


def search_node(
    workspace: Workspace,
    principal: Principal,
    *,
    query: str = "query",
    documents: str = "documents",
    top_k: int = 5,
    filters: Sequence[str] = (),
) -> NodeFunction:
    """Return a LangGraph node that reads `state[query]` and writes the passages to `state[documents]`.

    They are plain dicts (`text` and the metadata of `HiveRetriever`), so that checkpoints stay small and readable.
    `filters` are those of `HiveRetriever`.
    """
    engine = SearchEngine(workspace)

    async def search(state: Mapping[str, Any]) -> Update:
        ranking = await asyncio.to_thread(scoped_search, engine, principal, str(state[query]), filters)
        passages = _documents(ranking, top_k)
        return {documents: [{"text": one.page_content, **one.metadata} for one in passages]}

    return search


def judge_node(
    workspace: Workspace,
    goal: Goal,
    *,
    result: str = "result",
    judgment: str = "judgment",
    llm: Any = None,
    principal: Principal | None = None,
) -> NodeFunction:
    """Return a LangGraph node that judges `state[result]` and writes the verdict to `state[judgment]`.

    The verdict is that of `Runtime.evaluate`, logged, with `approval_id` and `unavailable`: an escalated result is
    filed for approval, unless no model was available. `approval_node` waits for the decision.
    """
    runtime = Runtime(workspace, tenant=principal.tenant if principal else LOCAL_TENANT, reader=lambda: principal)

    async def judge(state: Mapping[str, Any]) -> Update:
        verdict = await runtime.evaluate(goal, state[result], llm=llm)
        approval_id = None
        if verdict.escalated and not verdict.outage and verdict.decision_id is not None:
            title = f"accept a result for {goal.name}?"
            approval_id = await asyncio.to_thread(runtime.file_judgment, verdict.decision_id, title=title)
        return {judgment: verdict.model_dump(mode="json") | {"approval_id": approval_id, "unavailable": verdict.outage}}

    return judge


def approval_node(workspace: Workspace, *, judgment: str = "judgment") -> NodeFunction:
    """Return a LangGraph node that interrupts until a person has decided the request of `judge_node`.

    It writes the decision into `state[judgment]` as `person` ("approved", "rejected", "responded", …) and `comment`. It
    is read from the workspace, where `hive approvals` and the inbox store it: whoever resumes the graph can't forge it.
    """
    store = ApprovalStore(workspace)

    async def approval(state: Mapping[str, Any]) -> Update:
        verdict = dict(state[judgment])
        id = verdict.get("approval_id")
        if id is None:
            return {}
        request = await asyncio.to_thread(store.get, id)
        while not request.decided:  # a graph may be resumed before a decision
            interrupt({"approval_id": id, "title": request.title})
            request = await asyncio.to_thread(store.get, id)
        last = request.decisions[-1] if request.decisions else None
        return {judgment: verdict | {"person": request.status, "comment": last.message if last else None}}

    return approval


def _documents(ranking: Ranking, top_k: int) -> list[Document]:
    return [
        Document(
            page_content=hit.text,
            metadata={
                **{name: value for name, value in hit.metadata.items() if name not in RESERVED},
                "doc_id": hit.doc_id,
                "chunk_id": hit.chunk_id,
                "title": hit.title,
                "heading": hit.heading,
                "excerpt": hit.excerpt,
                "rank": rank,
                "score": hit.score,
            },
        )
        for rank, hit in enumerate(ranking.hits[:top_k], start=1)
    ]
