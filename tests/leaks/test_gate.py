"""The gate stands between every search and every reader, and takes every doubt for a no."""

from __future__ import annotations

import json
import logging
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from langgraph.graph import END, START, StateGraph

from graphs import worker
from hive_agents import Workspace
from hive_agents.base.errors import HiveError
from hive_agents.copilot import CopilotContext, Request, TurnSession, steps
from hive_agents.copilot.chat import Chat
from hive_agents.copilot.documents import page_of
from hive_agents.copilot.dropped import DroppedFiles
from hive_agents.copilot.outcome import TurnOutcome
from hive_agents.copilot.reply import fresh_reply
from hive_agents.copilot.threads import Turn
from hive_agents.ranking import SearchEngine, build_index
from hive_agents.workspace.trusted import trust
from tests.leaks.corpus import COLLECTION, Doc, canaries, canary, make, random_documents, readers
from tests.leaks.service import Service, allowing, serving
from tests.ports import lasting_port
from tests.ranking.test_engine import Longest

READER = readers()[1]
QUESTIONS = (
    "how long is the rotor kept near the pump?",
    "newest documents",
    "effective documents",
    "the rotor in draft documents",
)


@pytest.fixture
def service() -> Iterator[Service]:
    with serving() as found:
        yield found


@pytest.fixture(scope="module")
def documents() -> list[Doc]:
    return [doc for doc in random_documents(random.Random(5), 120) if READER.tenant in doc.tenants]


@pytest.fixture(scope="module")
def _made(tmp_path_factory: pytest.TempPathFactory, documents: list[Doc]) -> Path:
    return make(tmp_path_factory.mktemp("made") / "ws", documents).root


@pytest.fixture
def place(tmp_path: Path, _made: Path, service: Service) -> Workspace:
    """The documents of one tenant, and a remote service that says which of them may be viewed."""
    root = shutil.copytree(_made, tmp_path / "ws", symlinks=True)
    with (root / "hive.toml").open("a", encoding="utf-8") as settings:
        settings.write(f'[access]\nservice_url = "{service.url}"\ntimeout_seconds = 10.0\n')
    trust(Workspace(root))
    return Workspace(root)


async def everything(workspace: Workspace) -> str:
    """All that a reader is shown who asks for anything."""
    chat, parts = Chat(workspace, READER), []
    doc_ids = workspace.engine().index("kb").doc_ids()
    for text in QUESTIONS:
        parts.append(json.dumps(await chat.ask(Request(text=text))))
    parts.append(json.dumps(await chat.ask(Request(text="the rotor", doc_id=doc_ids[0]))).replace(doc_ids[0], ""))
    parts += [json.dumps(chat.transcript()), json.dumps(chat.field_values(1000))]
    for call in (
        lambda: chat.document(doc_ids[0]),
        lambda: chat.filters(["topic=zq"]),
        lambda: [str(one) for one in chat.filters(["status=effective"])],
        lambda: chat.why(str(json.loads(parts[0])["run_id"]), doc_ids[0]),
        lambda: chat.feedback().add(json.loads(parts[0])["run_id"], 1, "relevant").to_json(),
    ):
        try:
            parts.append(json.dumps(call()))
        except HiveError as error:
            parts.append(str(error).replace(doc_ids[0], ""))
    return "\n".join(parts)


async def test_a_service_that_answers_shows_what_it_allows(place: Workspace, service: Service) -> None:
    assert len(canaries(await everything(place))) > 20
    assert service.asked[0].keys() == {"tenant", "user", "groups", "doc_ids"}


def _hangs(service: Service) -> Callable[[dict[str, Any]], bytes]:
    def answer(question: dict[str, Any]) -> bytes:
        service.released.wait(60.0)
        return json.dumps({"allowed": question["doc_ids"]}).encode()

    return answer


@pytest.mark.parametrize(
    "answer",
    [
        lambda _: 500,
        lambda _: 403,
        lambda _: 302,
        lambda _: 204,
        lambda _: None,
        lambda _: b"",
        lambda _: b"yes",
        lambda _: b"\xff\xfe",
        lambda _: b'{"allowed": "all"}',
        lambda _: b'{"allowed": true}',
        lambda _: b'{"allowed": null}',
        lambda _: b'{"allowed": ["*"]}',
        lambda asked: json.dumps(asked["doc_ids"]).encode(),
        lambda asked: json.dumps({"allowed": dict.fromkeys(asked["doc_ids"], True)}).encode(),
        lambda asked: json.dumps({"allowed": [asked["doc_ids"]]}).encode(),
        lambda asked: json.dumps({"allowed": [*asked["doc_ids"], 1]}).encode(),
        lambda asked: json.dumps({"allowed": [*asked["doc_ids"], "not/asked.md"]}).encode(),
        lambda asked: json.dumps({"allowed": asked["doc_ids"], "also": 1}).encode(),
        lambda asked: json.dumps({"allowed": asked["doc_ids"]}).encode()[:-1],
        lambda asked: json.dumps({"allowed": asked["doc_ids"]}).encode() + b" " * 500_000,
    ],
)
async def test_a_service_that_errs_or_lies_denies_everything(
    place: Workspace, service: Service, answer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    service.answer = answer
    with caplog.at_level(logging.DEBUG, "hive_agents"):
        assert canaries(await everything(place)) == set()
    assert service.asked
    assert canaries(caplog.text) == set()


async def test_a_service_that_hangs_denies_everything(place: Workspace, service: Service) -> None:
    settings = place.root / "hive.toml"
    settings.write_text(settings.read_text().replace("10.0", "0.3"))
    service.answer = _hangs(service)
    shown = await Chat(Workspace(place.root), READER).ask(Request(text=QUESTIONS[0]))
    assert (shown["status"], shown["results"]) == ("not_found", [])
    assert canaries(json.dumps(shown)) == set()


async def test_after_one_fault_a_turn_asks_nobody_again(
    place: Workspace, service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    """It would look deeper, and wait, once for each batch; the next turn asks afresh."""
    chat, allow = Chat(place, READER), service.answer

    def later(asked: dict[str, Any]) -> bytes | int | None:
        return 500 if len(service.asked) > 1 else allow(asked)

    for broken, times in ((lambda _: 500, 1), (later, 2)):
        service.asked.clear()
        service.answer = broken
        shown = await chat.ask(Request(text=QUESTIONS[0]))
        assert (shown["status"], len(service.asked)) == ("not_found", times)
        (turn,) = chat.threads.turns(str(chat.thread_id), last=1)
        assert turn.trace["notes"] == ["permissions: it answered with status 500"]
    assert set(caplog.messages) == {"permissions: it answered with status 500; all that was asked about is denied"}
    service.answer = allow
    assert (await chat.ask(Request(text=QUESTIONS[0])))["results"]


async def test_a_service_that_is_not_there_denies_everything(tmp_path: Path, documents: list[Doc]) -> None:
    url = f"http://127.0.0.1:{lasting_port()}"
    place = make(tmp_path / "ws", documents, settings=f'[access]\nservice_url = "{url}"\n')
    trust(place)
    assert canaries(await everything(place)) == set()


async def test_what_a_remote_service_denies_is_in_no_value_and_no_error(
    place: Workspace, service: Service, documents: list[Doc]
) -> None:
    """It can't list, so that the scope is the tenant's documents; what a reader is told of is asked about."""
    mine = {doc.doc_id for doc in documents[::2]}
    service.answer = allowing(mine.__contains__)
    hidden = {doc.number for doc in documents[1::2]}
    shown = canaries(await everything(place))
    assert {number for _, number in shown} & hidden == set()
    assert shown


async def test_hits_that_the_gate_drops_are_refilled(place: Workspace, service: Service, documents: list[Doc]) -> None:
    """Every second document is denied, and the lanes are as deep as they have to be; a document is one chunk here."""
    (place.root / "collections" / "kb.json").write_text(json.dumps(COLLECTION | {"chunking": {"heading_level": 1}}))
    build_index(place)
    config = json.loads((place.configs / "v1.json").read_text())
    config["retrieval"] |= {"candidates": 10}
    (place.configs / "v1.json").write_text(json.dumps(config))
    mine = [doc.doc_id for doc in documents][::2]
    service.answer = allowing(set(mine).__contains__)
    for text in QUESTIONS[:2]:
        shown = await Chat(place, READER).ask(Request(text=text))
        found = [result["doc_id"] for result in shown["results"]]
        assert len(found) == 10, text
        assert set(found) <= set(mine)


async def test_a_document_revoked_between_scope_and_gate_is_not_shown(
    place: Workspace, service: Service, documents: list[Doc]
) -> None:
    """Allowed while the question was planned, denied from the moment that something was found."""
    first = await Chat(place, READER).ask(Request(text=QUESTIONS[0]))
    revoked = first["results"][0]["doc_id"]
    searched = []

    def answer(question: dict[str, Any]) -> bytes | int | None:
        if len(question["doc_ids"]) < len(documents):
            searched.append(question)
        return allowing(lambda one: one != revoked or not searched)(question)

    service.answer = answer
    shown = await Chat(place, READER).ask(Request(text=QUESTIONS[0]))
    assert searched
    assert shown["results"]
    assert revoked not in json.dumps(shown)


def test_every_way_from_retrieve_to_the_reader_passes_the_gate() -> None:
    drawn = worker.graph.get_graph()
    edges: dict[str, set[str]] = {}
    for edge in drawn.edges:
        edges.setdefault(edge.source, set()).add(edge.target)

    def reachable(start: str, without: str) -> set[str]:
        found, left = set[str](), [start]
        while left:
            node = left.pop()
            if node not in found and node != without:
                found.add(node)
                left += edges.get(node, ())
        return found

    assert {"finalize", END} <= reachable("retrieve", without="")
    assert not {"finalize", END} & reachable("retrieve", without="permission_gate")
    # What needs no gate has retrieved nothing.
    assert {"retrieve", "finalize"} == edges["route"]


async def ungated(session: TurnSession, state: steps.TurnState) -> steps.TurnUpdate:
    """What a gate would be that asked nobody."""
    if steps.decision_of(state).strategy is steps.SearchStrategy.METADATA_ONLY:
        doc_ids = page_of(session.found.rows, lambda asked: asked, 10).doc_ids
        return {"results": [{"doc_id": one, "relevance_source": "filter"} for one in doc_ids], "short": False}
    assert session.found.search is not None
    session.found.search = session.engine.finish(session.found.search, session.config)
    return {"results": [found.model_dump() for found in steps._results(session, state)], "short": False}


async def run_with(gate: worker.Step, place: Workspace, text: str) -> str:
    """A turn of the worker's graph with another gate, shown as `Chat.ask` shows it."""
    builder = StateGraph(worker.WorkerState, context_schema=CopilotContext)
    for step in worker.STEPS:
        builder.add_node(step.__name__, worker.node(gate if step is steps.permission_gate else step))
    for source, target in ((START, "rewrite"), ("rewrite", "route"), ("retrieve", "rerank"), ("finalize", END)):
        builder.add_edge(source, target)
    builder.add_edge("rerank", "permission_gate")
    builder.add_conditional_edges("route", worker.strategy)
    builder.add_conditional_edges("permission_gate", worker.enough)
    context = CopilotContext(str(place.root), principal=READER)
    request = {"text": text}
    state = await builder.compile().ainvoke({"run_id": "r1", "request": request}, context=context)
    outcome, session = TurnOutcome.model_validate_json(json.dumps(state["outcome"])), context.turns["r1"]
    turn = Turn("r1", "t1", 1, "", text, outcome, {})
    answer = session.conclusion.answer
    told = answer.text if answer else None
    files = DroppedFiles(place, READER, "t1")
    return json.dumps(fresh_reply(session.index, turn, told, session.conclusion.rows, session.vocabulary, files))


@pytest.mark.parametrize("text", QUESTIONS[:2])
async def test_without_the_gate_documents_leak(place: Workspace, service: Service, text: str) -> None:
    """The control of these tests: they would see it, were the node taken out."""
    service.answer = allowing(lambda _: False)
    assert canaries(await run_with(steps.permission_gate, place, text)) == set()
    assert canaries(await run_with(ungated, place, text))


async def test_the_gate_is_asked_about_all_that_is_shown(place: Workspace, service: Service) -> None:
    shown = await Chat(place, READER).ask(Request(text=QUESTIONS[0]))
    asked = {one for question in service.asked[1:] for one in question["doc_ids"]}
    assert {result["doc_id"] for result in shown["results"]} <= asked
    assert canary("b", 0) not in json.dumps(shown)


async def test_a_reranker_is_sent_no_text_that_the_service_denies(place: Workspace, service: Service) -> None:
    """The service can't list, so the scope is the whole tenant: only a check before the reranker keeps texts back."""
    config = json.loads((place.configs / "v1.json").read_text())
    (place.configs / "v1.json").write_text(json.dumps(config | {"rerank": {"enabled": True, "candidates": 30}}))
    reranker = Longest()
    chat = Chat(place, READER, engine=SearchEngine(place, reranker))
    denied = {doc_id for doc_id in chat.engine.index("kb").doc_ids() if hash_of(doc_id) % 2}
    service.answer = allowing(lambda doc_id: doc_id not in denied)
    for text in QUESTIONS:
        await chat.ask(Request(text=text))
    sent = {number for _, number in canaries(" ".join(reranker.read))}
    names = {next(number for _, number in canaries(doc_id)): doc_id for doc_id in chat.engine.index("kb").doc_ids()}
    assert len(sent) > 5
    assert {names[number] for number in sent} & denied == set()


def hash_of(text: str) -> int:
    return sum(text.encode())
