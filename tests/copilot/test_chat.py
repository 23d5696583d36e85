"""A turn from question to reply: strategies, what each of them touches, and what a reader is told."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from hive_agents import HiveError, Workspace
from hive_agents.access import Asker, Principal, known_principal, mint, revoke
from hive_agents.approvals import ApprovalStore
from hive_agents.cli.surface import Surface
from hive_agents.copilot import DocumentFilter, Request, ThreadStore, search
from hive_agents.copilot.chat import Chat
from hive_agents.events import EventLog
from hive_agents.judging.decision_log import DecisionLog
from hive_agents.models.breaker import forget_breakers
from hive_agents.ranking import SearchEngine, build_index
from hive_agents.runs import RunStore
from hive_agents.workspace.trusted import trust
from tests.conftest import make_workspace
from tests.copilot.chats import PEOPLE, as_bytes, ask, copied_knowledge_base, knowledge_base, use_models
from tests.leaks.service import Service, allowing, serving
from tests.models.openai_server import model_server
from tests.models.trusting import endpoint_settings, workspace_with
from tests.records import all_records
from tests.sample import copied_sample

KEYS = [
    *("thread_id", "run_id", "route", "strategy", "planner", "rewritten_query", "filters", "status", "answer"),
    *("answer_source", "question", "options", "results", "judgment", "notice", "removed_citations", "next_cursor"),
    "usage",
]
RESULT_KEYS = [
    *("rank", "doc_id", "chunk_id", "title", "excerpt", "windows", "reason", "relevance", "relevance_source"),
    "metadata",
    "citation",
]
ASKED = {
    "list all drafts": ("documents.search", "MetadataOnly", "results"),
    "how do I rotate a key?": ("documents.search", "ContentOnly", "results"),
    "rotate a key in effective documents": ("documents.search", "Hybrid", "results"),
    "hello": ("documents.search", "NoMatch", "no_match"),
    "what can you do?": ("general.help", "NoMatch", "no_match"),
    "show me stuff": ("documents.search", "NeedsClarification", "needs_clarification"),
}
ALLOWED = ("guides/g01.md", "guides/g02.md", "guides/g04.md")
PLAN = {"rewritten_query": "rotate a key", "strategy": "ContentOnly", "search_value": "rotate a key"}


class Counted(SearchEngine):
    """The engine, and how often each of its steps was asked for."""

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace)
        self.calls: Counter[str] = Counter()

    def retrieve(self, *args: Any, **more: Any) -> Any:
        self.calls["retrieve"] += 1
        return super().retrieve(*args, **more)

    def rerank(self, *args: Any, **more: Any) -> Any:
        self.calls["rerank"] += 1
        return super().rerank(*args, **more)


@pytest.fixture
def shared() -> Workspace:
    return knowledge_base()


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    return copied_knowledge_base(tmp_path / "w")


def trace_of(place: Workspace, reply: dict[str, Any]) -> dict[str, Any]:
    return Chat(place, known_principal(place, "root")).trace(reply["run_id"])


def nodes_of(trace: dict[str, Any]) -> list[str]:
    return [node["node"] for node in trace["nodes"]]


@pytest.mark.parametrize("text", ASKED)
def test_a_reply_has_exactly_the_declared_fields(shared: Workspace, text: str) -> None:
    reply = ask(shared, "dana", text)
    assert list(reply) == KEYS
    assert (reply["route"], reply["strategy"], reply["status"]) == ASKED[text]
    assert reply["planner"] == "deterministic"
    assert reply["usage"] == {"model_calls": 0, "input_tokens": 0, "output_tokens": 0, "usd": 0.0}
    for result in reply["results"]:
        assert list(result) == RESULT_KEYS
        assert not {"view", "tenant"} & set(result["metadata"])
    assert json.loads(json.dumps(reply)) == reply


@pytest.mark.parametrize(
    ("text", "retrieved", "nodes"),
    [
        ("list all drafts", 0, ["rewrite", "route", "retrieve", "rerank", "permission_gate", "finalize"]),
        ("how do I rotate a key?", 1, ["rewrite", "route", "retrieve", "rerank", "permission_gate", "finalize"]),
        ("rotate a key in drafts", 1, ["rewrite", "route", "retrieve", "rerank", "permission_gate", "finalize"]),
        ("hello", 0, ["rewrite", "route", "finalize"]),
        ("show me stuff", 0, ["rewrite", "route", "finalize"]),
    ],
)
def test_a_turn_has_one_strategy_and_lanes_never_mix(
    shared: Workspace, text: str, retrieved: int, nodes: list[str]
) -> None:
    engine = Counted(shared)
    reply = ask(shared, "dana", text, engine=engine)
    trace = trace_of(shared, reply)
    assert engine.calls["retrieve"] == retrieved
    assert engine.calls["rerank"] == 0  # the config names no reranker
    assert nodes_of(trace) == nodes
    assert trace["strategy"] == reply["strategy"]
    assert len({result["relevance_source"] for result in reply["results"]}) <= 1


def test_a_list_by_fields_is_not_ranked_and_newest_comes_first(shared: Workspace) -> None:
    reply = ask(shared, "dana", "list all effective documents")
    assert {(one["relevance"], one["relevance_source"], one["citation"]) for one in reply["results"]} == {
        (None, "filter", None)
    }
    dates = [one["metadata"]["effective"] for one in reply["results"]]
    assert dates == sorted(dates, reverse=True)
    assert (reply["answer"], reply["judgment"]) == (None, None)


@pytest.fixture
def service() -> Iterator[Service]:
    """A permission service that allows three guides and nothing else."""
    with serving() as service:
        service.answer = allowing(lambda doc_id: doc_id in ALLOWED)
        yield service


def ask_service(place: Workspace, service: Service, candidates: int = 100) -> None:
    with (place.root / "hive.toml").open("a") as settings:
        settings.write(f'[access]\nservice_url = "{service.url}"\n')
    trust(place)
    config = json.loads((place.configs / "words.json").read_text())
    config["retrieval"] |= {"candidates": candidates, "top_k": 5}
    (place.configs / "words.json").write_text(json.dumps(config))


@pytest.mark.parametrize("text", ["hello", "show me stuff", "what can you do?"])
def test_what_is_not_searched_is_not_gated(place: Workspace, service: Service, text: str) -> None:
    """Whose values the router may know is all that is asked."""
    ask_service(place, service)
    assert ask(place, "dana", text)["results"] == []
    assert len(service.asked) <= 1


def test_a_gate_that_drops_hits_is_refilled_and_the_universe_is_counted_once(
    place: Workspace, service: Service
) -> None:
    ask_service(place, service, candidates=5)
    reply = ask(place, "dana", "the lamp in drafts")
    trace = trace_of(place, reply)
    assert {result["doc_id"] for result in reply["results"]} == {"guides/g02.md", "guides/g04.md"}
    assert nodes_of(trace).count("retrieve") > 1
    assert trace["hybrid"] == {"branch": "filter_first", "count": 13}


def test_a_question_back_offers_values_of_visible_documents(shared: Workspace) -> None:
    reply = ask(shared, "guest", "show me stuff")
    assert reply["question"]
    assert {"guides", "faqs"} <= set(reply["options"])
    assert "sops" not in reply["options"]
    assert "sops" in ask(shared, "dana", "show me stuff")["options"]


def test_the_branch_of_a_hybrid_search_and_its_count_are_for_operators_only(shared: Workspace) -> None:
    reply = ask(shared, "dana", "the lamp in drafts")
    assert reply["strategy"] == "Hybrid"
    assert trace_of(shared, reply)["hybrid"] == {"branch": "filter_first", "count": 13}
    assert "filter_first" not in json.dumps(reply)
    with pytest.raises(HiveError, match="HIVE-415"):
        Chat(shared, known_principal(shared, "dana")).trace(reply["run_id"])
    with pytest.raises(HiveError, match="HIVE-409"):
        Chat(shared, known_principal(shared, "root")).trace("r0000000000")


def test_a_broad_filter_ranks_first(place: Workspace) -> None:
    with (place.root / "hive.toml").open("a") as settings:
        settings.write("[copilot]\nhybrid_threshold = 5\n")
    reply = ask(place, "dana", "the lamp in drafts")
    assert trace_of(place, reply)["hybrid"] == {"branch": "rank_then_filter", "count": 13}
    assert {result["metadata"]["status"] for result in reply["results"]} == {"draft"}


def test_a_question_about_one_document_stays_inside_it(shared: Workspace) -> None:
    reply = ask(shared, "dana", "do keys cost anything?", doc_id="faqs/rotate.md")
    assert (reply["route"], reply["strategy"]) == ("documents.doc_context", "ContentOnly")
    assert {result["doc_id"] for result in reply["results"]} == {"faqs/rotate.md"}


@pytest.mark.parametrize("reader", ["guest", "hana"])
def test_a_forbidden_document_is_as_unknown_as_none(shared: Workspace, reader: str) -> None:
    forbidden = ask(shared, reader, "how many signatures does a recall take?", doc_id="sops/recall.md")
    unknown = ask(shared, reader, "how many signatures does a recall take?", doc_id="sops/nothing.md")
    assert as_bytes(forbidden) == as_bytes(unknown)
    assert (forbidden["status"], forbidden["results"]) == ("not_found", [])
    seen = ask(shared, "dana", "how many signatures does a recall take?", doc_id="sops/recall.md")
    assert "signatures" in seen["results"][0]["excerpt"]


def test_filters_know_values_of_visible_documents_only(shared: Workspace) -> None:
    chat = Chat(shared, known_principal(shared, "guest"))
    with pytest.raises(HiveError) as hidden:
        chat.filters(["status=secret"])
    with pytest.raises(HiveError) as typo:
        chat.filters(["status=drafd"])
    with pytest.raises(HiveError) as reserved:
        chat.filters(["tenant=acme"])
    assert "secret" not in (hidden.value.diagnostics[0].fix or "")
    assert 'did you mean "draft"' in (typo.value.diagnostics[0].fix or "")
    assert reserved.value.diagnostics[0].code == "HIVE-206"
    assert {hidden.value.exit_code, typo.value.exit_code, reserved.value.exit_code} == {2}
    assert Chat(shared, known_principal(shared, "dana")).filters(["status=secret"])


def test_a_filter_that_the_reader_pins_goes_before_the_question(shared: Workspace) -> None:
    pinned = [DocumentFilter(field="status", value="draft")]
    reply = ask(shared, "dana", "how do I rotate a key?", pinned=pinned)
    assert reply["strategy"] == "Hybrid"
    assert reply["filters"] == [{"field": "status", "op": "eq", "value": "draft", "source": "reader"}]
    assert {result["metadata"]["status"] for result in reply["results"]} == {"draft"}


def test_filters_that_the_reader_pins_are_never_ignored(shared: Workspace) -> None:
    """Not where the question alone says too little, and not about one document."""
    drafts, effective = ([DocumentFilter(field="status", value=value)] for value in ("draft", "effective"))
    listed = ask(shared, "dana", "list all", pinned=drafts)
    assert (listed["strategy"], listed["question"], listed["options"]) == ("MetadataOnly", None, [])
    assert {result["metadata"]["status"] for result in listed["results"]} == {"draft"}
    asked: dict[str, Any] = {"text": "do keys cost anything?", "doc_id": "faqs/rotate.md"}
    assert ask(shared, "dana", pinned=drafts, **asked)["status"] == "not_found"
    assert ask(shared, "dana", pinned=effective, **asked)["results"]


def test_a_document_that_is_to_be_summed_up_is_shown_from_its_beginning(shared: Workspace) -> None:
    reply = ask(shared, "dana", "Summarize this document, please", doc_id="faqs/rotate.md")
    assert [result["chunk_id"] for result in reply["results"]] == ["faqs/rotate.md#0"]
    hidden = ask(shared, "guest", "summarize this", doc_id="sops/recall.md")
    assert as_bytes(hidden) == as_bytes(ask(shared, "guest", "summarize this", doc_id="sops/nothing.md"))
    assert hidden["status"] == "not_found"


def test_pages_cover_each_document_once_also_after_a_follow_up(shared: Workspace) -> None:
    first = ask(shared, "dana", "list all guides")
    assert len(first["results"]) == 10
    seen, reply = [], first
    while True:
        seen += [result["doc_id"] for result in reply["results"]]
        if reply["next_cursor"] is None:
            break
        reply = ask(shared, "dana", "list all guides", thread=first["thread_id"], cursor=reply["next_cursor"])
    assert sorted(seen) == [f"guides/g{n:02}.md" for n in range(1, 26)]
    assert seen == sorted(seen, reverse=True)
    with pytest.raises(HiveError, match="cursor"):
        ask(shared, "guest", "list all guides", cursor=first["next_cursor"])
    with pytest.raises(HiveError, match="cursor"):
        ask(shared, "dana", "list all drafts", cursor=first["next_cursor"])


def test_a_follow_up_is_resolved_from_the_thread(shared: Workspace) -> None:
    first = ask(shared, "dana", "list all guides")
    then = ask(shared, "dana", "only drafts", thread=first["thread_id"])
    assert {(one["field"], one["value"]) for one in then["filters"]} == {("category", "guides"), ("status", "draft")}
    assert len(then["results"]) == 10
    assert then["next_cursor"]


def test_threads_belong_to_their_reader(place: Workspace) -> None:
    reply = ask(place, "dana", "how do I rotate a key?")
    thread = reply["thread_id"]
    dana, guest = (Chat(place, known_principal(place, user)) for user in ("dana", "guest"))
    ((listed),) = dana.threads.threads()
    assert (listed["thread_id"], listed["title"], listed["turns"]) == (thread, "how do I rotate a key?", 1)
    assert guest.threads.threads() == []
    for missing in (thread, "t0000000000"):
        with pytest.raises(HiveError) as error:
            Chat(place, known_principal(place, "guest"), missing)
        assert error.value.exit_code == 2
        assert error.value.diagnostics[0].message == f"there is no thread {missing}"
    dana.threads.rename(thread, "Keys")
    assert dana.threads.threads()[0]["title"] == "Keys"
    (turn,) = Chat(place, known_principal(place, "dana"), thread).transcript()
    assert turn.pop("text") == "how do I rotate a key?"
    assert turn == reply
    dana.threads.delete(thread)
    assert dana.threads.threads() == []
    with pytest.raises(HiveError, match="there is no run"):
        dana.render(reply["run_id"])


def test_a_deleted_thread_leaves_no_words_of_its_reader(place: Workspace) -> None:
    """Not in the decision log, whose numbers stay, and not in a run that was killed before its turn."""
    use_models(place, answer=[{"content": "Create a second key, then revoke the first key [1].", "repeat": True}])
    reply, kept = (ask(place, "dana", f"how do I rotate a {key} key?") for key in ("first", "second"))
    dana = known_principal(place, "dana")
    RunStore(place).insert("worker", {"text": "how do I rotate a first key?"}, owner=dana, thread_id=reply["thread_id"])
    before = DecisionLog(place).rows()
    ThreadStore(place, dana).delete(reply["thread_id"])
    records = all_records(place)
    assert "rotate a first" not in str(records)
    assert {row[0] for row in records["leases"]} == {kept["thread_id"]}
    after = DecisionLog(place).rows()
    assert [row.judgment for row in after] == [row.judgment for row in before]
    assert [row.result["question"] for row in after] == ["", "how do I rotate a second key?"]
    assert ThreadStore(place, dana).turns(kept["thread_id"])


@pytest.mark.sqlite_file
def test_a_reader_is_told_that_a_damaged_database_was_set_aside(
    place: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    """Their conversations are gone with it; which documents are wrong they are not told."""
    (place.documents / "faqs" / "broken.md").write_text("---\na: [\n---\n")
    place.database.write_bytes(b"not a database" * 1000)
    place.database.with_name("hive.db-wal").unlink(missing_ok=True)  # it holds whole pages while somebody else reads
    Surface(as_json=False, quiet=True, folder=place.root).keep_fresh(warnings=False)
    told = capsys.readouterr().err
    assert "HIVE-407" in told
    assert "broken.md" not in told


def test_a_model_plans_answers_and_is_judged_in_three_calls(place: Workspace) -> None:
    use_models(
        place,
        planner=[{"structured": {"steps": [PLAN]}, "usage": {"input_tokens": 100, "output_tokens": 20}}],
        answer=[{"content": "Create a second key, then revoke the first key [1]. It is cheap [9]."}],
        judge=[{"structured": {"action": "accept", "confidence": 0.95, "reasoning": "as the passage says"}}],
    )
    reply = ask(place, "dana", "swap my key please")
    assert (reply["planner"], reply["answer_source"], reply["status"]) == ("model", "model", "answered")
    assert reply["answer"] == "Create a second key, then revoke the first key [1]."
    assert reply["removed_citations"] == 1
    assert reply["judgment"]["action"] == "accept"
    assert reply["usage"]["model_calls"] == 3
    spent = RunStore(place).get(reply["run_id"]).summary
    assert (spent["steps"], spent["tokens"], spent["usd"]) == (3, 120, 0.0)
    assert reply["usage"]["input_tokens"] >= 100


def test_the_decision_log_knows_what_the_judge_of_an_answer_cost(place: Workspace) -> None:
    verdict = {"action": "accept", "confidence": 0.2, "reasoning": "not sure"}
    use_models(
        place,
        answer=[{"content": "A recall takes two signatures [1].", "usage": {"input_tokens": 900, "output_tokens": 9}}],
        judge=[{"structured": verdict, "usage": {"input_tokens": 70, "output_tokens": 5}}],
    )
    ask(place, "dana", "how many signatures does a recall take?")
    (decision,) = DecisionLog(place).rows()
    assert (decision.llm_calls, decision.input_tokens, decision.output_tokens) == (1, 70, 5)


@pytest.mark.parametrize(
    "answer",
    [
        {"error": "throttling"},
        {"error": "garbage"},
        {"structured": {"steps": [PLAN, PLAN]}},
        {"structured": {"steps": [PLAN | {"strategy": "Hybrid", "filters": [{"field": "status", "value": "nope"}]}]}},
        {"content": "too late", "delay_seconds": 30},
    ],
    ids=["throttled", "garbage", "two steps", "unknown value", "late"],
)
def test_whatever_the_planner_does_a_reply_comes(place: Workspace, answer: dict[str, Any]) -> None:
    """The late one answers after half a minute; the deadline is half a second."""
    use_models(place, planner=[answer | {"repeat": True}])
    reply = ask(place, "dana", "how do I rotate a key?")
    assert (reply["planner"], reply["strategy"], reply["status"]) == ("fallback", "ContentOnly", "results")
    assert reply["answer_source"] is None
    assert trace_of(place, reply)["notes"]


def test_an_answer_that_the_judge_escalates_is_shown_with_a_notice_and_filed(place: Workspace) -> None:
    use_models(
        place,
        answer=[{"content": "A recall takes two signatures [1]."}],
        judge=[{"structured": {"action": "accept", "confidence": 0.2, "reasoning": "not sure"}}],
    )
    reply = ask(place, "dana", "how many signatures does a recall take?")
    assert reply["status"] == "answered"
    assert reply["judgment"]["action"] == "escalate"
    assert reply["notice"]
    (filed,) = ApprovalStore(place).list()
    assert (filed.kind, filed.tenant, filed.run_id) == ("judgment", "acme", reply["run_id"])


def test_a_model_that_answers_garbage_leaves_it_to_the_documents(place: Workspace) -> None:
    use_models(place, answer=[{"error": "garbage", "repeat": True}])
    reply = ask(place, "dana", "how do I rotate a key?")
    assert (reply["status"], reply["answer"], reply["answer_source"]) == ("results", None, None)


@pytest.mark.parametrize("kind", ["server", "timeout", "throttling", "authentication"])
@pytest.mark.parametrize("role", ["answer", "judge"])
def test_an_outage_is_called_one_shows_the_passages_and_asks_nobody(place: Workspace, role: str, kind: str) -> None:
    answers = {
        "answer": [{"content": "Create a second key, then revoke the first key [1].", "repeat": True}],
        "judge": [{"structured": {"action": "accept", "confidence": 0.95, "reasoning": "so"}, "repeat": True}],
    }
    use_models(place, **answers | {role: [{"error": kind, "repeat": True}]})
    reply = ask(place, "dana", "how do I rotate a key?")
    assert reply["status"] == "unavailable"
    assert (reply["answer"], reply["answer_source"], reply["judgment"]) == (None, None, None)
    assert "can't be asked" in reply["notice"]
    assert reply["results"][0]["excerpt"]
    assert ApprovalStore(place).list() == []


def test_a_planner_that_is_out_is_replaced_and_nothing_else_changes(place: Workspace) -> None:
    use_models(place, planner=[{"error": "server", "repeat": True}])
    reply = ask(place, "dana", "how do I rotate a key?")
    assert (reply["status"], reply["planner"], reply["notice"]) == ("results", "fallback", None)


def test_a_dead_embedding_server_leaves_a_search_by_words(place: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    forget_breakers()
    (place.configs / "active.json").unlink()
    (place.configs / "active.json").symlink_to("meaning.json")
    with model_server() as server:
        settings = endpoint_settings(server.url, models='embedding = "lab:small"')
        place = workspace_with(place.root, settings, monkeypatch)
        build_index(place)
    reply = ask(place, "dana", "how do I rotate a key?")
    assert (reply["status"], bool(reply["results"])) == ("unavailable", True)
    assert {result["relevance_source"] for result in reply["results"]} == {"none"}
    forget_breakers()


def test_a_dead_database_of_vectors_leaves_a_search_by_words_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = copied_sample(tmp_path / "ws")
    monkeypatch.setenv("HIVE_VECTORS__URL", "postgresql://127.0.0.1:1/hive")
    place, text = Workspace(place.root), "How do I rotate an API key?"
    reply = ask(place, "dana", text)
    assert (reply["status"], bool(reply["results"])) == ("unavailable", True)
    assert {result["relevance_source"] for result in reply["results"]} == {"none"}
    assert "by meaning" in reply["notice"]
    found = asyncio.run(search(place, known_principal(place, "dana"), text))
    assert found.results
    assert (found.notice or "").startswith("Nothing can be searched by meaning at the moment: these are the passages")


def test_a_turn_that_a_host_has_given_up_is_done_when_it_ends(place: Workspace) -> None:
    chat, runs = Chat(place, known_principal(place, "dana")), RunStore(place)

    def give_up(_: str) -> None:
        (row,) = runs.list()
        runs.move(row.run_id, "running", "interrupted", to="stopped")

    turn = asyncio.run(chat.ask(Request(text="how do I rotate a key?"), give_up))
    row = runs.get(turn["run_id"])
    assert (row.status, row.summary["stopped_by"]) == ("done", None)
    told = [(event.type, event.tenant) for event in EventLog(place).replay(run_id=row.run_id)]
    assert told == [("run.stopped", "acme"), ("run.completed", "acme")]


def test_a_version_that_only_another_product_has_is_a_word_of_the_question(tmp_path: Path) -> None:
    head = "tenant: acme\nview: [tenant]\n"
    pages = {
        "hub/limits.md": f"---\n{head}version: v2.11\n---\n# Limits\nThe hub takes ten requests.\n",
        "lamps/limits.md": f"---\n{head}---\n# Limits\nLamps 2.11 take two requests.\n",
    }
    place = make_workspace(tmp_path / "ws", embedding=False, documents=pages)
    collection = place.root / "collections" / "kb.json"
    declared = {name: {"type": "keyword", "filterable": True} for name in ("category", "version")}
    fields = {"title": {"type": "text"}, "content": {"type": "text"}} | declared
    collection.write_text(json.dumps({"name": "kb", "fields": fields}))
    (place.root / "access").mkdir()
    (place.root / "access" / "principals.json").write_text(json.dumps(PEOPLE), encoding="utf-8")
    (place.configs / "active.json").symlink_to("words.json")
    place.index()
    for text, doc_id, filters in (
        ("requests of hub 2.11", "hub/limits.md", ["category", "version"]),
        ("requests of lamps 2.11", "lamps/limits.md", ["category"]),
    ):
        reply = ask(place, "guest", text)
        assert [one["doc_id"] for one in reply["results"]] == [doc_id]
        assert [one["field"] for one in reply["filters"]] == filters


def test_an_empty_question_is_refused(shared: Workspace) -> None:
    with pytest.raises(HiveError) as error:
        ask(shared, "dana", "  \n")
    assert error.value.exit_code == 2


def ways_in(chat: Chat, run_id: str) -> list[Callable[[], Any]]:
    return [
        lambda: asyncio.run(chat.ask(Request(text="list all drafts"))),
        chat.transcript,
        chat.field_values,
        chat.feedback,
        lambda: chat.render(run_id),
        lambda: chat.document("faqs/rotate.md"),
        lambda: chat.filters(["status=draft"]),
        lambda: chat.why(run_id, "faqs/rotate.md"),
        lambda: chat.trace(run_id),
        lambda: chat.threads,
    ]


def test_a_revoked_token_ends_an_open_chat(place: Workspace) -> None:
    token = mint(place, known_principal(place, "root"))
    chat = Chat(place, Asker(place, None, {"HIVE_TOKEN": token.token}).reader)
    run_id = asyncio.run(chat.ask(Request(text="how do I rotate a key?")))["run_id"]
    ways = ways_in(chat, run_id)
    for way in ways:
        way()
    revoke(place, token.jti)
    for number, way in enumerate(ways):
        with pytest.raises(HiveError) as caught:
            way()
        assert caught.value.diagnostics[0].code == "HIVE-417", number


def test_who_leaves_a_group_reads_its_documents_no_more(place: Workspace) -> None:
    chat = Chat(place, Asker(place, "dana", {}).reader)
    assert chat.document("sops/recall.md")["text"]
    file = place.root / "access" / "principals.json"
    file.write_text(file.read_text().replace('"groups": ["qa"], ', ""))
    with pytest.raises(HiveError, match="HIVE-409"):
        chat.document("sops/recall.md")
    reply = asyncio.run(chat.ask(Request(text="how many signatures does a recall take?")))
    assert "sops/recall.md" not in [result["doc_id"] for result in reply["results"]]


@pytest.mark.parametrize("other", [Principal("acme", "guest"), Principal("globex", "dana")])
def test_a_chat_stays_with_who_began_it(shared: Workspace, other: Principal) -> None:
    people = [known_principal(shared, "dana"), other]
    chat = Chat(shared, lambda: people.pop(0))
    with pytest.raises(HiveError, match="HIVE-417"):
        chat.document("faqs/rotate.md")


@pytest.mark.parametrize("more", [{"cursor": "abc"}, {"doc_id": " "}])
def test_what_a_question_can_not_have_is_refused(shared: Workspace, more: dict[str, str]) -> None:
    with pytest.raises(HiveError) as caught:
        ask(shared, "dana", "how do I rotate a key?", **more)
    assert (caught.value.diagnostics[0].code, caught.value.exit_code) == ("HIVE-409", 2)


def test_a_cursor_counts_only_as_it_was_written(shared: Workspace) -> None:
    cursor = ask(shared, "dana", "list all guides")["next_cursor"]
    for altered in (f"{cursor}==", f"{cursor[:5]}\n{cursor[5:]}", f"{cursor}!"):
        with pytest.raises(HiveError, match="cursor"):
            ask(shared, "dana", "list all guides", cursor=altered)


def test_questions_asked_side_by_side_in_one_conversation_are_all_answered(place: Workspace) -> None:
    """They wait for each other, and what waits keeps no thread that whoever is before it needs."""
    chat = Chat(place, known_principal(place, "dana"))

    async def side_by_side() -> list[dict[str, Any]]:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2))
        return await asyncio.gather(*(chat.ask(Request(text=f"how do I rotate key {n}?")) for n in range(8)))

    replies = asyncio.run(side_by_side())
    assert [reply["status"] for reply in replies] == ["results"] * 8
    assert len(chat.transcript()) == 8
