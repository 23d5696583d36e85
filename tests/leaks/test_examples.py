"""Examples of a judge model hold what others wrote: it is shown those that everyone who sees its verdict may see."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from hive_agents import Runtime, Workspace
from hive_agents.access import Principal
from hive_agents.agents.bundled import bundled_tools
from hive_agents.agents.run import AgentRun
from hive_agents.judging import DecisionLog
from hive_agents.judging.finer import shareable
from hive_agents.models import Chain, ChatResult, Message, Tool
from tests.agents.conftest import GOAL, node, write_json
from tests.agents.loops import Told, agent, goal, say, sets
from tests.leaks.corpus import Doc, canaries, canary, make

WORDS = ("rotor", "pump", "beaker", "lamp", "valve")
DANA = Principal("acme", "dana", frozenset(), frozenset({"reader", "operator"}))
KIM = dataclasses.replace(DANA, user="kim")
ELSEWHERE = dataclasses.replace(DANA, tenant="globex")
GRANTED, OPEN = (Doc(n, f"{folder}/{canary('p', n)}.md", ("acme",), view, "effective", WORDS, "t", "mei")
                 for n, folder, view in ((1, "granted", ()), (2, "open", ("tenant",))))  # fmt: skip
MANY = 10**6


def rules(place: Workspace, *, grant: bool = True) -> None:
    principals = {each.user: {"tenant": "acme", "roles": sorted(each.roles)} for each in (DANA, KIM)}
    grants = [{"tenant": "acme", "match": "granted/**", "view": ["user:dana"]}] if grant else []
    write_json(place, "access/people.json", {"principals": principals, "grants": grants})


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    place = make(tmp_path / "ws", [GRANTED, OPEN], settings=f"[judge]\nexamples_until = {MANY}\n")
    write_json(place, "goals/digest.json", GOAL)
    rules(place)
    return place


class Work:
    """A run that searches or doesn't, and the prompts that its judge was given."""

    def __init__(
        self, place: Workspace, who: Principal | None, *, reads: bool, before: Callable[[], object] = lambda: None
    ) -> None:
        turns = iter([say([("search_documents", {"query": "rotor"})])] * reads)

        def answer(_: Sequence[Message], __: Sequence[Tool]) -> ChatResult:
            turn = next(turns, None)
            if turn is None:
                before()
            return turn or say([sets("text", "a report on pumps")])

        self.judge = Told(lambda *_: say({"action": "accept", "confidence": 0.9, "reasoning": "complete"}))
        chains = {"judge": Chain([self.judge])}
        tools = bundled_tools(place, only=["search_documents"])
        spec = agent(node("read", tools=tools.all_names, output_keys=["text"]))
        criteria = [{"id": "good", "metric": "llm_judge"}]
        run = AgentRun.start(
            place, spec, {}, models=lambda role: chains.get(role, Chain([Told(answer)])), tools=tools,
            principal=who, goal=goal(success_criteria=criteria, goal_type="digest"),
        )  # fmt: skip
        run.go()
        self.id = run.run_id

    @property
    def shown(self) -> set[int]:
        """The examples that the model was shown, by their canaries."""
        assert len(self.judge.prompts) == 1
        return {number for _, number in canaries(self.judge.prompts[0][0].content)}


def enter(place: Workspace, cases: Sequence[tuple[int, str | None, str]]) -> None:
    """Log labelled decisions, (canary's number, run, tenant), whose result is the canary."""
    judgment = {"action": "accept", "confidence": 0.9, "reasoning": canary("b", 99), "signals": []}
    label = {"action": "retry", "by": "user:mei", "at": "2026-01-02", "blind": True, "comment": canary("b", 98)}
    base = {"at": "2026-01-01T00:00:00+00:00", "goal_type": "digest", "judge_hash": "old", "audit": 1}
    DecisionLog(place).load(
        json.dumps(base | {"judgment": judgment, "result": f"a report on pumps {canary('b', number)}",
                           "run_id": run, "tenant": tenant, "labels": [label]})
        for number, run, tenant in cases
    )  # fmt: skip


@pytest.mark.slow
def test_an_example_is_shown_only_where_everyone_who_sees_the_verdict_may_see_all_of_it(place: Workspace) -> None:
    """Not other people's requests, other tenants', what no run is known of, or documents that this run hasn't read or
    may no longer be read; nor what a judge or a person said of them."""
    read, plain, kims = Work(place, DANA, reads=True), Work(place, DANA, reads=False), Work(place, KIM, reads=False)
    foreign, owners = Work(place, ELSEWHERE, reads=False), Work(place, None, reads=False)
    enter(place, [
        (11, read.id, "acme"), (12, plain.id, "acme"), (13, kims.id, "acme"), (14, foreign.id, "globex"),
        (15, None, "acme"), (16, plain.id, "globex"), (17, "unknown", "acme"), (18, owners.id, "local"),
        (19, None, "local"),
    ])  # fmt: skip
    assert Work(place, DANA, reads=True).shown == {11, 12}
    assert Work(place, DANA, reads=False).shown == {12}, "who sees this run may not be one who may view the document"
    assert Work(place, KIM, reads=True).shown == {13}
    assert Work(place, ELSEWHERE, reads=False).shown == {14}
    assert Work(place, None, reads=True).shown == {18}, "the owner's runs are seen by others, too"
    assert Work(place, DANA, reads=True, before=lambda: rules(place, grant=False)).shown == {12}
    assert Work(place, DANA, reads=True).shown == {12}


def test_outside_of_runs_examples_are_for_the_owner_of_the_workspace_only(place: Workspace) -> None:
    enter(place, [(11, None, "local"), (12, None, "acme")])
    owners = shareable(place, MANY, "local", None, lambda: None)
    assert [row.result for row in owners] == [f"a report on pumps {canary('b', 11)}"]
    assert shareable(place, 1, "acme", None, lambda: None) == [], "of the first decision at most"
    assert shareable(place, MANY, "acme", None, lambda: DANA) == []


async def test_a_judge_that_is_shown_examples_is_another_one(place: Workspace) -> None:
    said = say({"action": "accept", "confidence": 0.9, "reasoning": "complete"})
    model = Told(lambda *_: said)
    with_examples = Runtime(place).judge(llm=model).fingerprint
    (place.root / "hive.toml").write_text('[models]\nembedding = "none"\n', encoding="utf-8")
    assert Runtime(Workspace(place.root)).judge(llm=model).fingerprint != with_examples
