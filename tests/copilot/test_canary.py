"""A deployed config against the one before, by what readers do with drafted lists."""

from __future__ import annotations

import asyncio
import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hive_agents import HiveError, RouterDecision, SearchStrategy, Workspace
from hive_agents.access import known_principal
from hive_agents.copilot import CopilotContext, Request, TurnSession
from hive_agents.copilot.chat import Chat
from hive_agents.copilot.drafting import results_under
from hive_agents.copilot.receipt import checks_of, receipt_of
from hive_agents.evaluation import load_golden
from hive_agents.events import EventLog
from hive_agents.gate import CanaryStatus, canary_status, deploy, rollback
from hive_agents.gate.canary import Impression, credit, decide_canary, record_impression, running_canary
from hive_agents.host.housekeeping import keep_house
from hive_agents.ranking import active_config, find_config, versions
from hive_agents.runs import load_graph
from hive_agents.store import audit, connected
from tests.conftest import write_config
from tests.copilot.chats import ask, copied_knowledge_base
from tests.sample import hive

LATER = "2100-01-01T00:00:00+00:00"


GOLDEN = {
    "collection": "kb",
    "queries": [{"id": "q1", "query": "a lost key", "relevant": ["faqs/lost.md"], "distractors": []}],
}


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    """`words` served before, `drafts` serves, which finds drafts alone, and every search is drafted of both."""
    found = copied_knowledge_base(tmp_path / "w")
    with (found.root / "hive.toml").open("a") as toml:
        toml.write("\n[canary]\nshare = 1.0\n")
    (found.root / "evals").mkdir()
    (found.root / "evals" / "golden.json").write_text(json.dumps(GOLDEN))
    write_config(found, "drafts", "keyword", filters={"status": "draft"})
    place = Workspace(found.root)
    switched(place, "drafts")
    return place


def switched(place: Workspace, name: str) -> None:
    accepted = {"accept": ["reach", "hidden"], "reason": "readers ask for drafts", "by": "user:root"}
    done = deploy(place, find_config(place, name), load_golden(place), allow_inconclusive=True, **accepted)
    assert (done.deployed, done.result.accepted) == (name, ("reach", "hidden") if name == "drafts" else ())


def shown(reply: dict[str, Any]) -> list[str]:
    return [one["doc_id"] for one in reply["results"]]


def impressions(place: Workspace) -> list[Any]:
    with connected(place.records, rows=True) as connection:
        return connection.execute("SELECT * FROM canary_impressions ORDER BY rowid").fetchall()


def opened(place: Workspace, user: str, reply: dict[str, Any], doc_id: str) -> None:
    Chat(place, known_principal(place, user), reply["thread_id"]).document(doc_id)


def opens(place: Workspace, doc_id: str, times: int, *, user: str = "root") -> None:
    """Ask that often, each time in other words, and open the document; root may roll back anyway."""
    first = len(impressions(place))
    for n in range(first, first + times):
        reply = ask(place, user, f"how do I rotate a lost key near the lamp {n}?")
        assert {"faqs/rotate.md", "faqs/lost.md"} <= set(shown(reply))
        opened(place, user, reply, doc_id)


def voices(place: Workspace, reader: str, *signals: str) -> None:
    """As many settled impressions of a reader, each with a signal about what the config that serves placed."""
    canary = running_canary(place)
    assert canary is not None
    first = len(impressions(place))
    for n, signal in enumerate(signals, first):
        settled = "2020-01-01T00:00:00+00:00"
        record_impression(place, Impression(f"r{n}", canary.version.id, "drafted", "n", reader, f"q{n}"), now=settled)
        credit(place, f"r{n}", 1, signal, now=settled)  # type: ignore[arg-type]


WORSE, BETTER = "distractor", "relevant"


def status(place: Workspace, now: str | None = LATER) -> CanaryStatus:
    return canary_status(place, now=now)


def test_without_the_setting_nothing_is_drafted(place: Workspace) -> None:
    toml = place.root / "hive.toml"
    toml.write_text(toml.read_text().replace("share = 1.0", ""))
    off = Workspace(place.root)
    reply = ask(off, "dana", "how do I rotate a lost key near the lamp?")
    assert "faqs/rotate.md" not in shown(reply)
    assert impressions(off) == []
    assert status(off).state == "off"


def test_a_live_search_is_drafted_of_both_lists(place: Workspace) -> None:
    reply = ask(place, "dana", "how do I rotate a lost key near the lamp?")
    [row] = impressions(place)
    assert (row["run_id"], row["kind"], len(row["teams"])) == (reply["run_id"], "drafted", 10)
    by_doc = dict(zip(shown(reply), row["teams"], strict=True))
    assert (by_doc["faqs/lost.md"], by_doc["faqs/rotate.md"]) == ("n", "p")
    again = Chat(place, known_principal(place, "dana"), reply["thread_id"]).render(reply["run_id"])
    assert again["results"] == reply["results"]


@pytest.mark.parametrize("text", ["list all drafts", "hello", "what can you do?", "show me stuff"])
def test_what_searches_no_content_is_no_impression(place: Workspace, text: str) -> None:
    ask(place, "dana", text)
    assert impressions(place) == []


def test_a_resumed_turn_is_drafted_alike(place: Workspace) -> None:
    reader = known_principal(place, "dana")
    request = Request(text="how do I rotate a lost key near the lamp?")

    def turn(run_id: str) -> list[dict[str, Any]]:
        context = CopilotContext(str(place.root), principal=reader, engine=place.engine())
        graph = load_graph("worker")
        value = {"run_id": run_id, "request": request.model_dump(mode="json")}
        found = asyncio.run(graph.ainvoke(value, context=context))
        return found["outcome"]["results"]

    lists = {run_id: [one["doc_id"] for one in turn(run_id)] for run_id in ("r1", "r2", "r3", "r4", "r5", "r6")}
    assert len({tuple(each) for each in lists.values()}) > 1
    assert [one["doc_id"] for one in turn("r1")] == lists["r1"]
    assert [one["doc_id"] for one in turn("r4")] == lists["r4"]


def test_a_share_of_the_runs_takes_part(place: Workspace) -> None:
    canary = running_canary(place)
    assert canary is not None
    taken = [canary.takes(f"r{n:010x}", 0.1) for n in range(5000)]
    assert sum(taken) / 5000 == pytest.approx(0.1, abs=0.02)
    assert taken == [canary.takes(f"r{n:010x}", 0.1) for n in range(5000)]


def test_a_list_is_drafted_of_documents_that_its_reader_may_view(place: Workspace) -> None:
    """`words` would find the recall that only quality may see, and the one of another tenant."""
    for n in range(6):
        reply = ask(place, "guest", f"a lost key near the lamp or the recall {n}")
        assert not {"sops/recall.md", "sops/globex.md"} & set(shown(reply))
        assert shown(ask(place, "dana", f"a lost key near the lamp or the recall {n}"))
    assert any(
        "sops/recall.md" in shown(ask(place, "dana", f"a lost key near the lamp or its recall {n}")) for n in range(8)
    )


def test_an_open_credits_who_placed_the_document_once(place: Workspace) -> None:
    reply = ask(place, "dana", "how do I rotate a lost key near the lamp?")
    for _ in range(3):
        opened(place, "dana", reply, "faqs/rotate.md")
    tally = status(place).tally
    assert (tally.credit_new, tally.credit_previous, tally.lost, tally.readers) == (0, 1, 1, 1)


def test_nobody_elses_open_counts(place: Workspace) -> None:
    reply = ask(place, "dana", "how do I rotate a lost key near the lamp?")
    opened(place, "guest", ask(place, "guest", "hello"), "faqs/rotate.md")
    assert status(place).tally.silent == 1
    with pytest.raises(HiveError):
        Chat(place, known_principal(place, "guest")).feedback().add(reply["run_id"], 1, "relevant")
    assert status(place).tally.silent == 1


def test_what_is_said_of_a_document_outweighs_that_it_was_opened(place: Workspace) -> None:
    reply = ask(place, "dana", "how do I rotate a lost key near the lamp?")
    opened(place, "dana", reply, "faqs/rotate.md")
    queue = Chat(place, known_principal(place, "dana")).feedback()
    queue.add(reply["run_id"], None, "outdated", doc_id="faqs/rotate.md")
    assert (status(place).tally.won, status(place).tally.credit_previous) == (1, -1)
    queue.add(reply["run_id"], None, "relevant", doc_id="faqs/rotate.md")
    assert (status(place).tally.lost, status(place).tally.credit_previous) == (1, 3)


def test_an_impression_is_decided_once_and_not_before_it_settles(place: Workspace) -> None:
    reply = ask(place, "dana", "how do I rotate a lost key near the lamp?")
    opened(place, "dana", reply, "faqs/rotate.md")
    assert (status(place, None).tally.open, status(place, None).tally.lost) == (1, 0)
    credit(place, reply["run_id"], 1, "relevant", now=LATER)
    credit(place, reply["run_id"], 2, "relevant", now=LATER)
    assert (status(place).tally.credit_new, status(place).tally.credit_previous) == (0, 1)


def test_the_same_question_of_a_reader_counts_once(place: Workspace) -> None:
    ask(place, "dana", "How do I rotate a lost key near the lamp?")
    again = ask(place, "dana", "how do I  rotate a lost key near the lamp?")
    assert "faqs/rotate.md" not in shown(again)
    assert len(impressions(place)) == 1
    ask(place, "guest", "how do I rotate a lost key near the lamp?")
    assert len(impressions(place)) == 2


def test_a_config_that_is_shown_worse_is_rolled_back_at_once(place: Workspace) -> None:
    opens(place, "faqs/rotate.md", 6)
    assert decide_canary(place, now=LATER) is None
    opens(place, "faqs/rotate.md", 1)
    assert active_config(place).stored.name == "drafts"
    assert decide_canary(place, now=LATER) == "worse"
    serving = versions(place)[0]
    assert (serving.name, serving.via, serving.by) == ("words", "rollback", "canary")
    reason = "the canary shows drafts worse than words: it lost 7 of 7 decided searches, E = 31.9"
    assert serving.reason == reason
    assert [entry["reason"] for entry in audit.entries(place, "deployment")][-1] == reason
    with closing(EventLog(place)) as log:
        [event] = log.replay(types=["config.rolled_back"])  # type: ignore[list-item]
    assert (event.payload["config"], event.payload["by"]) == ("words", "canary")
    assert decide_canary(place, now=LATER) is None
    ended = status(place)
    assert (ended.state, ended.config, ended.previous) == ("rolled_back", "drafts", "words")
    assert len(impressions(place)) == 7
    ask(place, "dana", "how do I rotate a lost key near the lamp again?")
    assert len(impressions(place)) == 7


def test_a_reader_alone_steers_neither_a_rollback_nor_a_confirmation(place: Workspace) -> None:
    opens(place, "faqs/rotate.md", 8, user="dana")
    assert decide_canary(place, now=LATER) is None
    assert (status(place).tally.lost, status(place).tally.e_worse) == (8, 1.0)
    voices(place, "a", *[BETTER] * 40)
    voices(place, "b", *[WORSE] * 40)
    assert decide_canary(place, now=LATER) is None


def test_three_readers_who_agree_decide_and_two_do_not(place: Workspace) -> None:
    voices(place, "a", *[WORSE] * 9)
    voices(place, "b", *[WORSE] * 9)
    assert decide_canary(place, now=LATER) is None
    told = canary_status(place, now=LATER).to_json()
    assert (told["tally"]["lost"], told["tally"]["worse"], told["losses_missing"]) == (18, (5, 0), 2)
    voices(place, "c", WORSE, WORSE)
    assert decide_canary(place, now=LATER) == "worse"


def test_who_praises_a_bad_config_all_day_keeps_it_no_longer_than_five_praises_do(place: Workspace) -> None:
    voices(place, "mallory", *[BETTER] * 60)
    for reader in "abcdef":
        voices(place, reader, *[WORSE] * 5)
    assert decide_canary(place, now=LATER) == "worse"


def test_the_next_search_or_click_rolls_it_back(place: Workspace) -> None:
    opens(place, "faqs/rotate.md", 7)
    with connected(place.records) as connection:
        connection.execute("UPDATE canary_impressions SET settles_at = at")
    ask(place, "guest", "how do I rotate a lost key near the lamp?")
    assert active_config(place).stored.name == "words"


async def test_a_host_rolls_it_back_without_another_search(place: Workspace) -> None:
    await asyncio.to_thread(opens, place, "faqs/rotate.md", 7)
    with connected(place.records) as connection:
        connection.execute("UPDATE canary_impressions SET settles_at = at")
    house = asyncio.create_task(keep_house(place))
    while (await asyncio.to_thread(versions, place))[0].name != "words":
        await asyncio.sleep(0.05)
    house.cancel()


def test_why_says_that_the_config_before_placed_a_document(place: Workspace) -> None:
    reply = ask(place, "dana", "how do I rotate a lost key near the lamp?")
    chat = Chat(place, known_principal(place, "dana"), reply["thread_id"])
    assert "drafted by the canary" in chat.why(reply["run_id"], "faqs/rotate.md")["ranked by"]
    assert chat.why(reply["run_id"], "faqs/lost.md")["config"] == "drafts"


def test_a_deployment_in_between_is_not_rolled_back(place: Workspace) -> None:
    number = versions(place)[0].id
    write_config(place, "later", "keyword", filters={"status": "draft"}, retrieval={"top_k": 9})
    switched(place, "later")
    with pytest.raises(HiveError, match="doesn't serve any more"):
        rollback(place, of=number)
    assert active_config(place).stored.name == "later"


def test_a_config_that_is_shown_better_is_confirmed(place: Workspace) -> None:
    opens(place, "faqs/lost.md", 7)
    assert decide_canary(place, now=LATER) == "better"
    assert active_config(place).stored.name == "drafts"
    assert decide_canary(place, now=LATER) is None
    [entry] = audit.entries(place, "canary.confirmed")
    assert (entry["config"], entry["won"], entry["lost"]) == ("drafts", 7, 0)
    assert status(place).state == "confirmed"
    assert "faqs/rotate.md" not in shown(ask(place, "dana", "how do I rotate a lost key near the lamp again?"))


def test_what_is_kept_names_no_document_question_or_person(place: Workspace) -> None:
    opens(place, "faqs/rotate.md", 2)
    with connected(place.records) as connection:
        kept = [
            str(row)
            for table in ("canary_impressions", "canary_credits")
            for row in connection.execute(f"SELECT * FROM {table}")
        ]
    assert len(kept) == 4
    assert not [row for row in kept for word in ("rotate", "lost", "faqs", "dana", "acme", "key") if word in row]


def test_nothing_that_a_reader_does_shows_in_another_readers_replies(place: Workspace) -> None:
    reader = known_principal(place, "guest")

    def told() -> dict[str, Any]:
        context = CopilotContext(str(place.root), principal=reader, engine=place.engine())
        value = {"run_id": "r1", "request": {"text": "rotate a lost key near the lamp"}}
        found = asyncio.run(load_graph("worker").ainvoke(value, context=context))
        return {name: found["outcome"][name] for name in ("results", "status", "decision", "rests_on")}

    before = told()
    opens(place, "faqs/rotate.md", 6)
    assert told() == before


def test_a_rollback_that_fails_fails_no_reader(place: Workspace, caplog: pytest.LogCaptureFixture) -> None:
    opens(place, "faqs/rotate.md", 7)
    with connected(place.records) as connection:
        connection.execute("UPDATE canary_impressions SET settles_at = at")
    (place.configs / "active.json").unlink()
    (place.configs / "active.json").mkdir()
    assert shown(ask(place, "guest", "rotate a lost key near the lamp"))
    assert "the canary can't be decided" in caplog.text


def test_a_deleted_conversation_does_no_harm(place: Workspace) -> None:
    chat = Chat(place, known_principal(place, "dana"))
    asyncio.run(chat.ask(Request(text="how do I rotate a lost key near the lamp?")))
    chat.threads.delete(str(chat.thread_id))
    Chat(place, known_principal(place, "dana")).document("faqs/rotate.md")
    assert status(place).tally.silent == 1


async def test_a_config_before_that_can_no_longer_search_costs_the_reader_nothing(place: Workspace) -> None:
    """Its reranker was taken out of the settings, say."""
    write_config(place, "reranked", "keyword", rerank={"enabled": True})
    reader, request = known_principal(place, "dana"), Request(text="a lost key near the lamp")
    session = TurnSession(place, reader, "r1", request, engine=place.engine())
    decision = RouterDecision(rewritten_query=request.text, strategy=SearchStrategy.CONTENT_ONLY)
    assert await results_under(find_config(place, "reranked"), session, decision) is None
    assert session.trace.notes == ["canary: reranked can't search: HIVE-214"]
    assert session.active.name == "drafts"


def test_the_receipt_of_a_drafted_answer_is_derived_again(place: Workspace) -> None:
    chat = Chat(place, known_principal(place, "dana"))

    async def search_again(run_id: str) -> str:
        return {check.name: check.outcome async for check in checks_of(chat, receipt_of(chat, run_id))}["search"]

    for n in range(4):
        reply = asyncio.run(chat.ask(Request(text=f"how do I rotate a lost key near the lamp {n}?")))
        assert asyncio.run(search_again(reply["run_id"])) == "same"


def test_the_command_says_what_is_missing(place: Workspace) -> None:
    opens(place, "faqs/rotate.md", 2)
    with connected(place.records) as connection:
        connection.execute("UPDATE canary_impressions SET settles_at = at")
    told = hive("canary", "-w", place.root).out
    assert "drafts against words: undecided" in told
    assert "2 settled: 0 won, 2 lost, 0 tied, 0 without a word" in told
    assert "5 more lost in a row roll it back" in told
    opens(place, "faqs/rotate.md", 5)
    with connected(place.records) as connection:
        connection.execute("UPDATE canary_impressions SET settles_at = at")
    told = hive("canary", "-w", place.root).out
    assert "missing: nothing; the host, or the next search or click, carries it out" in told
    value = hive("canary", "status", "--json", "-w", place.root).json
    assert (value["state"], value["tally"]["lost"], value["losses_missing"]) == ("running", 7, 0)
    assert value["e_worse"] == pytest.approx(255 / 8)


def test_the_command_says_why_there_is_none(tmp_path: Path) -> None:
    found = copied_knowledge_base(tmp_path / "w")
    assert "no canary: [canary] share in hive.toml is 0" in hive("canary", "-w", found.root).out
    with (found.root / "hive.toml").open("a") as toml:
        toml.write("\n[canary]\nshare = 0.1\n")
    assert "no canary: no deployed config has one before it" in hive("canary", "-w", found.root).out
