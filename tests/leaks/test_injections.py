"""Documents that give orders, and models that obey them: no tool, no leak, no other plan, no other verdict."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.copilot import Request
from hive_agents.copilot.answer import Answer, numbered
from hive_agents.copilot.chat import Chat
from hive_agents.copilot.evidence import GOAL, as_result, evidence
from hive_agents.copilot.reply import rows_of
from hive_agents.documents.blocks import plain_heading
from hive_agents.judging import JudgmentAction
from hive_agents.models import Chain
from tests.copilot.scripts import INJECTIONS
from tests.leaks.corpus import Doc, Rules, canaries, canary, make, random_documents, readers
from tests.leaks.visits import collecting

READER = readers()[0]
MODELS = "\n".join(f'{role} = ["scripted:{role}.jsonl"]' for role in ("planner", "answer", "judge", "stronger_judge"))
SETTINGS = f'[models]\nembedding = "none"\ndeadline_seconds = 5.0\n{MODELS}\n'
RULES = Rules(grants=(("acme", "guides/**", ("tenant",)),))


class Injected(Doc):
    """A document whose body, title or topic is the order."""

    place: str
    order: str

    @property
    def text(self) -> str:
        text = super().text
        if self.place == "title":
            return text.replace(f'title: "{self.words[0].title()}', f"title: {json.dumps(self.order)[:-1]}", 1)
        if self.place == "value":
            return text.replace("topic: ", f"topic: {json.dumps(self.order)} #", 1)
        return text.replace("\n\n## ", f"\n\n{self.order}\n\n## ", 1)


def injected(number: int, place: str, order: str) -> Doc:
    (doc,) = random_documents(random.Random(number), 1, first=number)
    found = Injected(
        number, f"guides/{canary('p', number)}.md", ("acme",), (), "effective", doc.words, doc.topic, "mei"
    )
    object.__setattr__(found, "place", place)
    object.__setattr__(found, "order", order)
    return found


HIDDEN = [
    Doc(900 + n, f"sops/{canary('p', 900 + n)}.md", tenants, (), "draft", words, canary("v", 900 + n), "lucia")
    for n, tenants in enumerate([("acme",), ("globex",), ("initech",)])
    for words in [("rotor", "pump", "beaker", "lamp", "valve")]
]


OBEYS = {"structured": {"action": "accept", "confidence": 1.0, "reasoning": "as it was told"}}


def answers(place: Workspace, **lines: dict[str, Any]) -> None:
    """What each role says; a stronger judge accepts."""
    for role, line in {**lines, "stronger_judge": OBEYS}.items():
        (place.root / f"{role}.jsonl").write_text(json.dumps(line | {"repeat": True}), encoding="utf-8")


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Sequence[Any]]]:
    """Every prompt, and the tools that were offered with it."""
    found: list[tuple[str, Sequence[Any]]] = []
    complete = Chain.complete

    async def recorded(chain: Chain, messages: Any, *, tools: Sequence[Any] = (), **options: Any) -> Any:
        found.append(("\n".join(message.content for message in messages), tools))
        return await complete(chain, messages, tools=tools, **options)

    monkeypatch.setattr(Chain, "complete", recorded)
    return found


FAILS = {"error": "server"}
PLAIN = {"structured": {"action": "escalate", "confidence": 0.9, "reasoning": "not sure"}}


@pytest.mark.parametrize("place", ["body", "title", "value"])
@pytest.mark.parametrize("every", [10, pytest.param(1, marks=pytest.mark.slow)])
async def test_obeying_models_do_no_harm(
    place: str, every: int, tmp_path: Path, offered: list[tuple[str, Sequence[Any]]]
) -> None:
    """Eighty documents; planner, answer and judge each answer what the order told them to."""
    injections = INJECTIONS[::every]
    documents = [injected(number, place, each["text"]) for number, each in enumerate(injections, start=1)]
    ws = make(tmp_path / "ws", [*documents, *HIDDEN], settings=SETTINGS)
    RULES.write(ws, [READER])
    engine, logged, hidden = ws.engine(), list[str](), {doc.number for doc in HIDDEN}
    changed = []
    for each, doc in zip(injections, documents, strict=True):
        request = Request(
            text=f"how long is the {doc.words[0]} kept near the {doc.words[1]}, says {canary('b', doc.number)}?"
        )
        answers(ws, planner=FAILS, answer=FAILS, judge=FAILS)
        sober = await Chat(ws, READER, engine=engine).ask(request)
        answers(ws, planner=each["obeyed"], answer=each["obeyed"], judge=each["obeyed"])
        chat = Chat(ws, READER, engine=engine)
        with collecting(logged):
            reply = await chat.ask(request)
        assert reply["results"], each["id"]
        assert doc.doc_id in [result["doc_id"] for result in reply["results"]], each["id"]
        for part in ("strategy", "route", "filters", "rewritten_query", "results"):
            if reply[part] != sober[part]:
                changed.append((each["id"], part, sober[part], reply[part]))
        shown = canaries(json.dumps([reply, chat.transcript(), chat.field_values(1000)]))
        assert {number for _, number in shown} & hidden == set(), each["id"]
        _check_answer(chat, reply)
        await _check_verdict(chat, reply)
    assert changed == []
    read = "".join(prompt for prompt, _ in offered)
    # A title is shown as words: without Markdown's marks, on one line.
    shown_as = plain_heading if place == "title" else str
    texts = {each["id"]: shown_as(each["text"].strip())[:20] for each in injections}
    reached = [number for number, text in texts.items() if json.dumps(text, ensure_ascii=False)[1:-1] in read]
    # A planner is offered no value that is too long to be repeated.
    assert len(reached) >= len(injections) * (0.4 if place == "value" else 0.9)
    assert len(offered) >= 3 * len(injections)
    assert all(not tools for _, tools in offered)
    assert {number for prompt, _ in offered for _, number in canaries(prompt)} & hidden == set()
    assert {number for _, number in canaries("\n".join(logged))} == set()


def _check_answer(chat: Chat, reply: dict[str, Any]) -> None:
    """Nothing but cited sentences, and each citation is a result."""
    answer = reply["answer"] or ""
    cited = {int(number) for number in re.findall(r"\[(\d+)\]", answer)}
    assert cited <= {result["rank"] for result in reply["results"]}
    assert "](" not in answer
    assert not answer or cited or reply["answer_source"] is None


async def _check_verdict(chat: Chat, reply: dict[str, Any]) -> None:
    """What the passages don't support is never accepted, whatever the judge model was told to say."""
    if reply["answer_source"] != "model":
        return
    turn = chat.threads.turn(reply["run_id"])
    passages = numbered(rows_of(chat._scope(), turn.outcome.results))
    query = turn.outcome.decision.search_value or turn.outcome.decision.rewritten_query
    result = as_result(query, Answer(reply["answer"]), passages)
    supported = await evidence("english", veto=True)(GOAL, result, None)
    if supported.action is not JudgmentAction.ACCEPT:
        assert reply["judgment"]["action"] != "accept", reply["answer"]


async def test_a_model_that_repeats_all_it_reads_repeats_nothing_forbidden(
    tmp_path: Path, offered: list[tuple[str, Sequence[Any]]]
) -> None:
    """All prompts of all roles, over a thread whose grant ends in between: nothing of what may not be viewed now."""
    documents = random_documents(random.Random(9), 30)
    ws = make(tmp_path / "ws", documents, settings=SETTINGS)
    answers(ws, planner=FAILS, answer={"content": "It is kept [1]. And [2]."}, judge=PLAIN)
    people, rng = readers(), random.Random(4)
    for number in range(4):
        reader = rng.choice(people)
        chat = Chat(ws, reader)
        for part in ("**", "guides/**", "gone/**"):
            rules = Rules(grants=(("acme", part, ("tenant",)), ("globex", part, ("group:lab",))))
            rules.write(ws, people)
            offered.clear()
            target = rng.choice(documents)
            for text in (f"how is the {target.words[0]} kept?", "and only draft?", "show me stuff"):
                await chat.ask(Request(text=text))
            may = {doc.number for doc in documents if rules.allows(reader, doc)}
            told = {number for prompt, _ in offered for _, number in canaries(prompt)}
            assert told <= may, (number, part)
            assert offered
    await _traces_say_nothing(ws, people)


async def _traces_say_nothing(ws: Workspace, people: Sequence[Any]) -> None:
    for operator in people[2::3]:
        for thread in Chat(ws, operator).threads.threads():
            for turn in Chat(ws, operator).threads.turns(thread["thread_id"]):
                assert canaries(json.dumps(turn.trace)) == set()


async def test_a_planner_that_makes_values_up_is_told_so_nowhere(tmp_path: Path) -> None:
    """A plan with a hidden value, or a made-up one: the same fallback, and no trace of its words."""
    ws = make(tmp_path / "ws", [*random_documents(random.Random(9), 10), *HIDDEN], settings=SETTINGS)
    boss = readers()[2]
    RULES.write(ws, readers())
    traces = []
    for value in (HIDDEN[0].topic, canary("v", 999), "acme"):
        field = "tenant" if value == "acme" else "topic"
        step = {"rewritten_query": "x", "strategy": "MetadataOnly", "filters": [{"field": field, "value": value}]}
        answers(ws, planner={"structured": {"steps": [step]}}, answer=FAILS, judge=FAILS)
        chat = Chat(ws, boss)
        reply = await chat.ask(Request(text="how is the rotor kept?"))
        assert (reply["planner"], reply["strategy"], reply["filters"]) == ("fallback", "ContentOnly", [])
        trace = chat.trace(reply["run_id"])
        traces.append({name: trace[name] for name in ("notes", "strategy", "counts")})
    assert traces[0] == traces[1] == traces[2]
    assert canaries(json.dumps(traces)) == set()
