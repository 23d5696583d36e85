"""What a model is told: words that people say meanwhile, and summaries of what no longer fits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.agents import ToolRegistry
from hive_agents.agents.guards.budget import Limits
from hive_agents.agents.run import AgentRun
from hive_agents.approvals import ApprovalStore
from hive_agents.base.text import fenced
from hive_agents.memory import ConversationStore
from hive_agents.models import Message, ModelError, Tool, Usage
from tests.agents.conftest import edge, node
from tests.agents.loops import Answer, Told, agent, say, sets, start

SUMMARY = "Pages one to nine were noted."
LONG = "bees " * 300


def is_summary(messages: Sequence[Message]) -> bool:
    return messages[0].role == "user" and "The summary alone" in messages[0].content


class Noting(Told):
    """Notes long pages until they no longer fit; then `summary` is what it makes of them. It counts summaries."""

    def __init__(self, summary: Any, pages: int = 9) -> None:
        super().__init__(self._answer)
        self.summary, self.left, self.summaries = summary, pages, 0

    def _answer(self, messages: Sequence[Message], tools: Sequence[Tool]) -> Answer:
        if is_summary(messages):
            self.summaries += 1
            return self.summary if isinstance(self.summary, ModelError) else say(self.summary, tokens=1_000)
        self.left -= 1
        return say([("note", {"page": f"{self.left} {LONG}"})] if self.left > 0 else [sets("items", [1])])


def noting(place: Workspace, model: Told, **seams: Any) -> AgentRun:
    (place.root / "hive.toml").write_text("[agents]\ncontext_tokens = 4000\n")
    registry = ToolRegistry()

    def note(page: str) -> str:
        """Note a page."""
        return "noted"

    registry.register(note, policy="allow")
    place = Workspace(place.root)
    return start(place, agent(node("collect", output_keys=["items"], tools=["note"])), model, tools=registry, **seams)


def told(model: Told) -> str:
    """The last conversation that the model was sent, without the system prompt."""
    return "\n".join(message.content for message in model.prompts[-1][1:])


def test_a_summary_stands_for_what_no_longer_fits_and_is_paid_for(place: Workspace) -> None:
    model = Noting(SUMMARY)
    run = noting(place, model)
    assert run.go()["status"] == "done"
    assert model.summaries == 1
    assert f"Summary of it:\n{fenced(SUMMARY)}" in told(model)
    assert "Use load_data('conversation_1.md')" in told(model)
    assert run.row.summary["tokens"] == 1_000


@pytest.mark.parametrize("summary", [ModelError("authentication", "no"), "  "], ids=["dead model", "nothing"])
def test_without_a_summary_the_emergency_tier_does(place: Workspace, summary: Any) -> None:
    model = Noting(summary)
    assert noting(place, model).go()["status"] == "done"
    assert model.summaries == 1
    assert "Summary of it" not in told(model)
    assert "Previous conversation saved to 'conversation_1.md'" in told(model)


def test_a_summary_counts_before_the_turn_that_needed_it(place: Workspace) -> None:
    model = Noting(SUMMARY)
    ended = noting(place, model, limits=Limits(tokens=1_000)).go()
    assert (ended["status"], ended["stopped_by"]) == ("failed", "tokens")
    assert is_summary(model.prompts[-1])


def test_a_summary_is_not_paid_twice_after_a_crash(place: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process dies after the summary, before the conversation is marked."""
    model = Noting(SUMMARY)
    run = noting(place, model)

    def dies(*_: Any) -> bool:
        raise RuntimeError("killed")

    with monkeypatch.context() as patched:
        patched.setattr(ConversationStore, "mark", dies)
        with pytest.raises(RuntimeError):
            run.go()
    again = AgentRun.resume(run.workspace, run.run_id, tools=run.tools, models=run.models)
    assert again.go()["status"] == "done"
    assert model.summaries == 1
    assert SUMMARY in told(model)


@pytest.mark.parametrize("summary", ["Bees were found.", ModelError("authentication", "no")], ids=["model", "dead"])
def test_isolated_branches_get_one_summary_of_what_was_before(place: Workspace, summary: Any) -> None:
    """Paid once for both; where the model fails the phase's last words do."""

    def answering(messages: Sequence[Message], tools: Sequence[Tool]) -> Answer:
        if is_summary(messages):
            return summary if isinstance(summary, ModelError) else say(summary)
        name = next(one for one in "abc" if f"Do {one}." in messages[0].content)
        return say([sets(name, 1)]).model_copy(update={"text": f"{name} is done."})

    model = Told(answering)
    nodes = [node(one, output_keys=[one]) for one in "abc"]
    spec = agent(*nodes, mode="isolated", edges=[edge("a", "b"), edge("a", "c")])
    assert start(place, spec, model).go()["status"] == "done"
    assert sum(map(is_summary, model.prompts)) == 1
    first, *begun = [prompt[1].content for prompt in model.prompts if not is_summary(prompt)]
    assert "Begin with a." in first
    words = "a is done." if isinstance(summary, ModelError) else "Bees were found."
    assert [words in one for one in begun] == [True, True]


class Interrupted(Told):
    """While the model works on the turns of `when`, a person says the words; a list of answers, as `said`."""

    def __init__(self, *answers: Any, when: dict[int, Sequence[str]]) -> None:
        super().__init__(lambda *_: say(self.answers.pop(0)))
        self.answers, self.when = list(answers), when
        self.speak: Callable[[str], None] = lambda _: None

    async def complete(self, messages: Sequence[Message], **more: Any) -> Any:
        for words in self.when.get(len(self.prompts), ()):
            self.speak(words)
        return await super().complete(messages, **more)


ASK = [("ask_user", {"question": "Which bees?"})]
DONE = [sets("items", [1])]


@pytest.mark.parametrize("mode", ["continuous", "isolated"])
def test_two_quick_messages_are_heard_in_order_before_the_next_turn(place: Workspace, mode: str) -> None:
    model = Interrupted([("list_data_files", {})], DONE, when={0: ["wild ones", "not honey bees"]})
    run = start(place, agent(node("collect", output_keys=["items"]), mode=mode), model)
    model.speak = run.say
    assert run.go()["status"] == "done"
    assert len(model.prompts) == 2
    said = [message.content for message in model.prompts[1] if message.role == "user"]
    assert said[-2:] == ["wild ones", "not honey bees"]


@pytest.mark.parametrize("mode", ["continuous", "isolated"])
def test_words_during_the_last_turn_are_answered_before_the_node_ends(place: Workspace, mode: str) -> None:
    model = Interrupted(DONE, [sets("items", [2])], when={0: ["wild ones", "please"]})
    run = start(place, agent(node("collect", output_keys=["items"]), mode=mode), model)
    model.speak = run.say
    assert run.go()["outputs"] == {"items": [2]}
    assert [message.role for message in model.prompts[1]][-1] == "user"
    assert model.prompts[1][-1].content.endswith("please")


@pytest.mark.parametrize("mode", ["continuous", "isolated"])
def test_words_while_the_run_waits_are_not_lost(place: Workspace, mode: str) -> None:
    model = Interrupted(ASK, DONE, when={})
    run = start(place, agent(node("collect", output_keys=["items"]), mode=mode), model)
    (id,) = run.go()["approval_ids"]
    run.say("take your time")
    run.say("but not too much")
    ApprovalStore(place).decide(id, "respond", by="dana", message="wild ones")
    assert run.go()["status"] == "done"
    roles = [(message.role, message.content) for message in model.prompts[1][-4:]]
    assert [role for role, _ in roles] == ["assistant", "tool", "user", "user"]
    assert [content for _, content in roles[1:]] == ["wild ones", "take your time", "but not too much"]
    assert len(model.prompts) == 2


def test_usage_of_a_summary_that_failed_is_counted(place: Workspace) -> None:
    lost = ModelError("authentication", "no", usage=Usage(input_tokens=70))
    run = noting(place, Noting(lost))
    assert run.go()["status"] == "done"
    assert run.row.summary["tokens"] == 70
