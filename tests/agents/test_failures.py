"""Small things fail no run: what a model garbles it is told, what is too long for it is sent shorter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.agents import ToolRegistry
from hive_agents.models import Message, ModelError, Tool
from tests.agents.conftest import node
from tests.agents.loops import Answer, Told, agent, said, say, sets, start, words
from tests.agents.test_budgets import NODE, registry

ITEMS = [sets("items", [1])]


def test_arguments_that_are_no_json_go_back_to_the_model(place: Workspace) -> None:
    garbled = ModelError("garbage", "the arguments of page are not JSON")
    run = start(place, agent(NODE), said(garbled, [("page", {"n": 1})], ITEMS), tools=registry())
    assert run.go()["status"] == "done"
    assert any("the arguments of page are not JSON" in one for one in words(run))


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_a_number_that_json_lacks_goes_back_to_the_model(place: Workspace, number: float) -> None:
    run = start(place, agent(NODE), said([("page", {"n": number})], [("page", {"n": 1})], ITEMS), tools=registry())
    assert run.go()["status"] == "done"
    assert any("page has a number that is not JSON" in one for one in words(run))
    again = start(place, agent(NODE), said(*[[("page", {"n": [{"of": number}]})]] * 9), tools=registry()).go()
    assert (again["status"], again["stopped_by"]) == ("failed", "model_error")


def test_a_model_that_garbles_every_turn_fails(place: Workspace) -> None:
    model = said(*[ModelError("garbage", "no JSON")] * 9)
    ended = start(place, agent(NODE), model, tools=registry()).go()
    assert (ended["status"], ended["stopped_by"], len(model.prompts)) == ("failed", "model_error", 4)


@pytest.mark.parametrize("call", [("pages", {"n": 1}), ("page", {"n": "one"}), ("page", {})])
def test_unknown_tools_and_wrong_arguments_go_back_to_the_model(place: Workspace, call: Any) -> None:
    run = start(place, agent(NODE), said([call], [("page", {"n": 1})], ITEMS), tools=registry())
    assert run.go()["status"] == "done"
    assert any(one.startswith(f"{call[0]} did not run or failed") for one in words(run))


def test_a_context_that_is_too_long_for_the_model_is_compacted(place: Workspace) -> None:
    size = 6_000

    def answering(messages: Sequence[Message], tools: Sequence[Tool]) -> Answer:
        if sum(len(message.content) for message in messages) > size:
            return ModelError("overflow", "the context holds less")
        read = sum("read" in message.content for message in messages if message.role == "tool")
        return say(ITEMS if read > 5 or "Previous conversation" in str(messages) else [("page", {"n": read})])

    def page(n: int) -> str:
        """Read a page."""
        return f"read {n}: " + "bees " * 400

    tools = registry()
    tools.register(page, name="long", policy="allow")
    spec = agent(node("collect", output_keys=["items"], tools=["page", "long"]))
    model = Told(lambda messages, _: _with_long(answering(messages, _)))
    assert start(place, spec, model, tools=tools).go()["status"] == "done"


def _with_long(answer: Answer) -> Answer:
    if isinstance(answer, ModelError):
        return answer
    calls = [call.model_copy(update={"name": "long"}) if call.name == "page" else call for call in answer.tool_calls]
    return answer.model_copy(update={"tool_calls": calls})


def test_a_job_that_is_polled_is_no_loop_while_its_answer_changes(place: Workspace) -> None:
    tools, states = ToolRegistry(), iter(["20 %", "40 %", "60 %", "80 %", "done"])

    def poll(job: str) -> str:
        """How far a job is."""
        return next(states)

    tools.register(poll, policy="allow")
    polls = [[("poll", {"job": "a"})]] * 5
    spec = agent(node("collect", output_keys=["items"], tools=["poll"]))
    assert start(place, spec, said(*polls, ITEMS), tools=tools).go()["status"] == "done"


@pytest.mark.parametrize(("repeats", "turns"), [(None, 3), (5, 5)])
def test_how_many_equal_turns_are_a_loop_is_the_agents_to_say(place: Workspace, repeats: Any, turns: int) -> None:
    model = said(*[[("page", {"n": 1})]] * 9)
    run = start(place, agent(NODE, loop_repeats=repeats), model, tools=registry())
    assert (run.go()["stopped_by"], len(model.prompts)) == ("doom_loop", turns)


def test_calls_that_fail_one_after_the_other_without_a_word_are_no_stall(place: Workspace) -> None:
    """What a model tries anew each time is an attempt, though it says nothing and every one of them fails."""
    wrong = [[("page", {"n": number})] for number in ("one", "two", "three", "four")]
    run = start(place, agent(NODE), said(*wrong, [("page", {"n": 1})], ITEMS), tools=registry())
    assert run.go()["status"] == "done"
