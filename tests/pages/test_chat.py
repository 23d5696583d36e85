"""The chat: what a reader asks, sees and opens, told as a browser is told it."""

from __future__ import annotations

import asyncio
import html
import json
import re
import threading
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from hive_agents.access import Principal, known_principal, mint
from hive_agents.host import Host
from hive_agents.runs import RunStore
from hive_agents.server import copilot, runs
from hive_agents.server.pages.chat import GLANCE
from hive_agents.workspace.trusted import trust
from tests.agents.conftest import agent_json, node, write_json
from tests.server.serving import asked, bearer, followed, sample, served

QUESTION = "smallest volume the P50 can do"


async def answered(client: httpx.AsyncClient, headers: dict[str, str], text: str, **given: Any) -> dict[str, Any]:
    run = await asked(client, headers, text, **given)
    await followed(client, run["events"], headers)
    return run


async def test_a_result_opens_its_document_with_its_passages_marked(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    async with served(place) as client:
        dana = bearer(place)
        run = await answered(client, dana, QUESTION)
        page = await client.get(f"/chat/{run['thread_id']}", headers=dana)
        assert page.status_code == 200
        assert "Asking as dana of acme" in page.text
        opened = re.search(r'<a href="(/chat/documents/[^"]+)"', page.text)
        assert opened is not None
        document = await client.get(opened[1].replace("&amp;", "&"), headers=dana)
        assert '<mark id="passage">' in document.text
        assert page.text.count('class="passage large"') == 1
        unfolding = re.search(r'hx-get="(/chat/runs/[^"]+/passages[^"]+)"', page.text)
        assert unfolding is not None
        more = await client.get(unfolding[1].replace("&amp;", "&"), headers=dana)
        folded = page.text.split('<div class="passages">')[1].split("<p><button")[0]
        assert more.text.count('class="passage') == folded.count('class="passage')
        assert "<mark>" in more.text
        assert (await client.get(unfolding[1], headers=bearer(place, "alice"))).status_code == 404
        assert (await client.get(f"/chat/{run['thread_id']}", headers=bearer(place, "alice"))).status_code == 404


async def test_a_reader_names_the_document_that_is_missing_and_reads_why_it_is(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    async with served(place) as client:
        dana = bearer(place)
        run = (await answered(client, dana, "effective documents about API tokens"))["run_id"]
        others = f"/chat/runs/{run}/others"
        reply = (await client.get(f"/api/runs/{run}", headers=dana)).json()["result"]
        first = reply["results"][0]
        shown = (await client.get(others, params={"search": first["title"]}, headers=dana)).text
        assert "It is result 1." in shown
        retired = (await client.get(others, params={"search": "2.0"}, headers=dana)).text
        assert "Benchline 2.0" in retired
        assert "<dt>left out by</dt><dd>the filters of the question</dd>" in retired
        free = (await answered(client, dana, "API tokens"))["run_id"]
        below = (await client.get(f"/chat/runs/{free}/others", params={"search": "2.0"}, headers=dana)).text
        assert re.search(r"<dt>place among documents</dt><dd>\d+</dd>", below)
        none = (await client.get(f"/chat/runs/{free}/others", params={"search": "balances"}, headers=dana)).text
        assert "nothing: it is below all that the config looks at" in none
        assert 'name="doc_id" value="changelogs/2.0.md"' in retired
        assert (
            "No document that you may open" in (await client.get(others, params={"search": "xyzzy"}, headers=dana)).text
        )
        body = {"run_id": run, "doc_id": "changelogs/2.0.md", "verdict": "relevant"}
        filed = await client.post("/api/feedback", json=body, headers=dana)
        assert filed.status_code == 201, filed.text
        path = f"/api/feedback/{filed.json()['id']}/review"
        accepted = await client.post(path, json={"accept": True}, headers=bearer(place, "root"))
        assert accepted.status_code == 200, accepted.text
        golden = json.loads((place.root / "evals" / "golden.json").read_text(encoding="utf-8"))["queries"]
        assert [one["relevant"] for one in golden if one["query"] == "effective documents about API tokens"] == [
            ["changelogs/2.0.md"]
        ]
        for refused in ({"verdict": "outdated"}, {"doc_id": "changelogs/none.md"}, {"doc_id": "../hive.toml"}):
            answer = await client.post("/api/feedback", json=body | refused, headers=dana)
            assert answer.status_code == 404, answer.text
        assert (await client.get(others, params={"search": "2.0"}, headers=bearer(place, "alice"))).status_code == 404


async def test_a_table_in_a_passage_is_a_table(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    async with served(place) as client:
        dana = bearer(place)
        run = await answered(client, dana, "smallest volume the P50 can do")
        page = (await client.get(f"/chat/{run['thread_id']}", headers=dana)).text
        tried = (await client.get("/documents/try?query=smallest volume the P50 can do", headers=dana)).text
    for text in (page, tried):
        assert '<th scope="col">head</th><th scope="col"><mark>smallest</mark> <mark>volume</mark></th>' in text
        assert "<tr><td><mark>P50</mark></td><td>0.5 µl</td><td>50 µl</td></tr>" in text


async def test_a_run_that_is_no_turn_of_the_conversation_is_unknown(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    calls = [{"name": "set_output", "args": {"key": "results", "value": ["x"]}}]
    write_json(place, "script.jsonl", json.dumps({"tool_calls": calls}))
    write_json(place, "goals/digest.json", {"id": "digest", "name": "Digest", "description": "d"})
    spec = agent_json(node("write", output_keys=["results"]), id="writer", model="scripted:script.jsonl")
    write_json(place, "agents/writer.json", spec)
    trust(place)
    async with served(place) as client:
        root = bearer(place, "root", "operator", "reader")
        turn = await answered(client, root, QUESTION)
        other = await answered(client, root, QUESTION)
        body = {"graph": "event_loop", "agent": "writer", "input": {}}
        started = (await client.post("/api/runs", json=body, headers=root)).json()
        await followed(client, started["events"], root)
        found = await client.get(f"/api/runs/{started['run_id']}", headers=root)
        assert found.json()["result"]["outputs"] == {"results": ["x"]}
        reply = (await client.get(f"/api/runs/{turn['run_id']}", headers=root)).json()["result"]
        doc = quote(reply["results"][0]["doc_id"])
        for run, status in ((turn, 200), (other, 404), (started, 404), ({"run_id": "r-none"}, 404)):
            page = f"/chat/{turn['thread_id']}/turns/{run['run_id']}"
            assert (await client.get(page, headers=root)).status_code == status, page
        for run, status in ((turn, 200), (started, 404), ({"run_id": "r-none"}, 404)):
            of_run = f"/chat/runs/{run['run_id']}"
            for page in (
                f"/chat/documents/{doc}?run={run['run_id']}",
                f"{of_run}/why?doc_id={doc}",
                f"{of_run}/passages?doc_id={doc}",
            ):
                assert (await client.get(page, headers=root)).status_code == status, page
            assert (await client.get(f"/chat/runs/{run['run_id']}/trace", headers=root)).status_code == status


async def test_a_long_conversation_says_that_its_last_questions_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hive_agents.server.copilot.MOST_TURNS", 2)
    place = sample(tmp_path / "ws")
    async with served(place) as client:
        root, thread = bearer(place, "root", "operator", "reader"), None
        for shown in (False, True, True):
            turn = await answered(client, root, QUESTION, thread_id=thread)
            thread = turn["thread_id"]
            page = await client.get(f"/chat/{thread}", headers=root)
            assert ("The last 2 questions of this conversation are shown." in page.text) == shown
        assert page.text.count('class="turn"') == 2


async def test_an_open_question_is_followed_after_a_reload(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    async with served(place, roles=("http",)) as client:  # nobody answers it
        dana = bearer(place)
        run = await asked(client, dana, QUESTION)
        page = await client.get(f"/chat/{run['thread_id']}", headers=dana)
        assert f'data-stream="/api/runs/{run["run_id"]}/events"' in page.text
        assert QUESTION in page.text


@pytest.mark.parametrize("part", ["state", "reply"])
@pytest.mark.parametrize("whole", [True, False], ids=["conversation", "turn"])
async def test_a_run_that_ends_while_its_turn_is_read_is_open_or_has_its_reply(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str, whole: bool
) -> None:
    place = sample(tmp_path / "ws")
    reads, ended = threading.Event(), threading.Event()
    module, name = (copilot, "thread_runs") if part == "state" else (copilot, "thread") if whole else (runs, "show_run")
    read = getattr(module, name)

    def once_it_ended(*given: Any) -> Any:
        reads.set()
        assert ended.wait(60)
        return read(*given)

    async with served(place, roles=("http",)) as client:
        dana = bearer(place)
        run = await asked(client, dana, QUESTION)
        monkeypatch.setattr(module, name, once_it_ended)
        page = f"/chat/{run['thread_id']}" + ("" if whole else f"/turns/{run['run_id']}")
        shown = asyncio.create_task(client.get(page, headers=dana))
        assert await asyncio.to_thread(reads.wait, 60)
        async with Host(place, roles=("runs",)):
            while RunStore(place).get(run["run_id"]).status != "done":
                await asyncio.sleep(0.02)
        ended.set()
        text = (await shown).text
    assert 'class="passage large"' in text
    assert "The answer is gone" not in text


async def test_a_filter_that_was_read_out_of_the_question_can_be_taken_away(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    async with served(place) as client:
        dana = bearer(place)
        run = await answered(client, dana, "effective SOPs about cleaning validation")
        first = (await client.get(f"/api/runs/{run['run_id']}", headers=dana)).json()["result"]
        assert "status" in {one["field"] for one in first["filters"]}
        again = {"text": "effective SOPs about cleaning validation", "dropped": ["status"]}
        sent = await client.post("/api/runs", json={"input": again, "thread_id": run["thread_id"]}, headers=dana)
        await followed(client, sent.json()["events"], dana)
        second = (await client.get(f"/api/runs/{sent.json()['run_id']}", headers=dana)).json()["result"]
        assert "status" not in {one["field"] for one in second["filters"]}
        page = await client.get(f"/chat/{run['thread_id']}", headers=dana)
        assert "Ask again without status = effective" in page.text


async def test_golden_pages_show_coverage_pool_and_worth(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    async with served(place) as client:
        root = bearer(place, "root")
        for path in (
            "/golden",
            "/golden/worth",
            f"/golden/label?query={QUESTION}",
            "/golden/feedback",
            "/golden/queries",
        ):
            page = await client.get(path, headers=root)
            assert page.status_code == 200, page.text
        assert (await client.get("/golden", headers=bearer(place))).status_code == 403


async def test_a_passage_of_two_releases_is_shown_once(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    for release in ("one", "two"):
        head = "title: Zephyr valve\ntenant: acme\nview: [tenant]"
        text = f"---\n{head}\n---\nThe zephyr valve is opened by its red lever.\n"
        (place.documents / f"zephyr-{release}.md").write_text(text, encoding="utf-8")
    place.index()
    async with served(place) as client:
        dana = bearer(place)
        run = await answered(client, dana, "open the zephyr valve")
        page = (await client.get(f"/chat/{run['thread_id']}", headers=dana)).text
        assert page.count("red lever") + page.count("lever</mark>") == 1
        assert "The same passage as 1." in page


async def test_the_first_result_is_open_and_the_others_are_a_line_that_opens_in_place(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    async with served(place) as client:
        dana = bearer(place)
        run = await answered(client, dana, QUESTION)
        page = (await client.get(f"/chat/{run['thread_id']}", headers=dana)).text
    results = page.split('<li class="card result">')[1:]
    assert len(results) > 2
    assert ["in-place" in one for one in results] == [False] + [True] * (len(results) - 1)
    glances = re.findall(r'<span class="glance">([^<]*)</span>', page)
    assert len(glances) == len(results) - 1
    assert all(0 < len(html.unescape(one)) <= GLANCE for one in glances)


@pytest.mark.parametrize(("split", "by_hand"), [("train", False), ("validation", True), ("holdout", False)])
async def test_feedback_on_a_question_that_measures_says_what_can_be_done(
    tmp_path: Path, split: str, by_hand: bool
) -> None:
    place = sample(tmp_path / "ws")
    file = place.root / "evals" / "golden.json"
    value = json.loads(file.read_text(encoding="utf-8"))
    question = "effective documents about API tokens"
    labelled = {"id": "mine", "query": question, "relevant": ["faqs/which-token.md"], "split": split}
    file.write_text(json.dumps(value | {"queries": [*value["queries"], labelled]}), encoding="utf-8")
    async with served(place) as client:
        dana, root = bearer(place), bearer(place, "root")
        run = (await answered(client, dana, question))["run_id"]
        opinion = {"run_id": run, "verdict": "relevant", "result": 1}
        given = await client.post("/api/feedback", json=opinion, headers=dana)
        assert given.status_code == 201, given.text
        page = (await client.get("/golden/feedback", headers=root)).text
        path = f"/api/feedback/{given.json()['id']}/review"
        answer = await client.post(path, json={"accept": True}, headers=root)
    assert question in page
    assert ("one of those that measure" in page) == (split != "train")
    assert ('href="/golden/label?query=effective' in page) == by_hand
    assert '{"accept": false}' in page
    assert ('{"accept": true}' in page) == (split == "train") == (answer.status_code == 200), answer.text
    assert "`hive" not in answer.text


async def test_feedback_is_offered_to_whoever_may_review_it_and_they_are_told_that_it_waits(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    file = place.root / "access" / "principals.json"
    people = json.loads(file.read_text(encoding="utf-8"))
    rights = {"maria": ["reader"], "alice": ["reader", "operator"], "kim": ["approver"]}
    people["principals"] |= {user: {"tenant": "acme", "roles": roles} for user, roles in rights.items()}
    file.write_text(json.dumps(people), encoding="utf-8")
    root = known_principal(place, "root")

    def made_by(maker: Principal, user: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {mint(place, known_principal(place, user), maker=maker).token}"}

    maria, alice, of_maria = made_by(root, "maria"), made_by(root, "alice"), made_by(Principal("acme", "maria"), "kim")
    told, path = "Readers&#39; feedback to review: 1", "/golden/feedback"
    async with served(place) as client:
        run = (await answered(client, maria, "how do I rotate an API token?"))["run_id"]
        opinion = {"run_id": run, "verdict": "relevant", "result": 1}
        given = await client.post("/api/feedback", json=opinion, headers=maria)
        assert given.status_code == 201, given.text
        for headers, tells in ((maria, False), (alice, True), (of_maria, False), (bearer(place, "root"), False)):
            assert (told in (await client.get("/", headers=headers)).text) == tells
            if headers is maria:
                continue
            page = (await client.get(path, headers=headers)).text
            assert (told in (await client.get("/approvals", headers=headers)).text) == tells
            assert ('{"accept": true}' in page) == tells
            assert ("a third person reviews it" in page) == (not tells)
        review = f"/api/feedback/{given.json()['id']}/review"
        assert (await client.post(review, json={"accept": True}, headers=of_maria)).status_code == 403
        accepted = await client.post(review, json={"accept": True}, headers=alice)
        assert accepted.status_code == 200, accepted.text
        assert told not in (await client.get("/", headers=alice)).text


async def test_a_wrong_passage_is_told_as_such_beside_the_readers_own_words(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    kept = "data-given>You have said what you think of this."
    async with served(place) as client:
        dana, root = bearer(place), bearer(place, "root")
        run = await answered(client, dana, QUESTION)
        thread = f"/chat/{run['thread_id']}"
        pages = (thread, f"{thread}/turns/{run['run_id']}")
        for page in pages:
            assert kept not in (await client.get(page, headers=dana)).text
        opinion = {"run_id": run["run_id"], "verdict": "relevant", "result": 1, "comment": "it is the table"}
        given = await client.post("/api/feedback", json=opinion | {"passage": "wrong"}, headers=dana)
        assert (given.status_code, given.json()["passage"]) == (201, "wrong"), given.text
        for page in pages:
            assert (await client.get(page, headers=dana)).text.count(kept) == 1
        page = html.unescape((await client.get("/golden/feedback", headers=root)).text)
        assert '<span class="badge warn">right document, wrong passage</span>' in page
        assert "<p>“it is the table”</p>" in page
        assert '<span class="badge good">' not in page
        assert re.search(r'<div class="passages"><div class="passage[^>]*>.*<mark>P50</mark>', page, re.DOTALL)
        plain = await client.post("/api/feedback", json=opinion, headers=dana)
        assert (plain.status_code, plain.json()["passage"]) == (201, None)
        page = html.unescape((await client.get("/golden/feedback", headers=root)).text)
        assert '<span class="badge good">relevant</span>' in page
        assert "wrong passage" not in page


@pytest.mark.parametrize(
    "on", [{"verdict": "outdated", "result": 1}, {"verdict": "right"}, {"verdict": "relevant", "doc_id": "faqs/x.md"}]
)
async def test_only_of_a_relevant_result_can_the_passage_be_wrong(tmp_path: Path, on: dict[str, Any]) -> None:
    place = sample(tmp_path / "ws")
    async with served(place) as client:
        run = await answered(client, bearer(place), QUESTION)
        opinion = {"run_id": run["run_id"], "passage": "wrong"} | on
        given = await client.post("/api/feedback", json=opinion, headers=bearer(place))
        assert (given.json()["code"], given.status_code >= 400) == ("HIVE-409", True)


async def test_a_greeting_is_no_question_to_label(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    async with served(place) as client:
        root = bearer(place, "root", "reader", "operator")
        for text in ("hello", "show me stuff", QUESTION):
            await answered(client, root, text)
        page = (await client.get("/", headers=root)).text
    listed = re.findall(r'<a href="/golden/label\?query=[^"]*">([^<]*)</a>', page)
    assert listed == [QUESTION]
