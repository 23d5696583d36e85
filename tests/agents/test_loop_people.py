"""People in the loop: policies, questions, permission to begin; each asked once, resumed by the answer."""

from __future__ import annotations

from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.access import Principal
from hive_agents.agents import ToolRegistry
from hive_agents.agents.run import AgentRun
from hive_agents.approvals import ApprovalStore
from tests.agents.conftest import node
from tests.agents.loops import Told, agent, asked, decide, events, said, sets, start, words

ITEMS = [sets("items", [1])]
MAIL = ("mail", {"to": "dana", "n": 1})


class Post:
    """A tool with an effect, and what it did."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, int]] = []
        self.registry = ToolRegistry()
        self.registry.register(self.mail, side_effect="external")

    def mail(self, to: str, n: int) -> str:
        """Send a mail."""
        self.sent.append((to, n))
        return f"sent to {to}"


def mailing(place: Workspace, model: Told, decision: str | None, post: Post) -> AgentRun:
    policy = [] if decision is None else [{"match": "mail", "decision": decision}]
    spec = agent(node("collect", output_keys=["items"], tools=["mail"]), tool_policy=policy)
    return start(place, spec, model, tools=post.registry)


def test_allow_runs_and_deny_tells_the_model(place: Workspace) -> None:
    post = Post()
    assert mailing(place, said([MAIL], ITEMS), "allow", post).go()["status"] == "done"
    assert post.sent == [("dana", 1)]
    model = said([MAIL], ITEMS)
    run = mailing(place, model, "deny", post)
    assert run.go()["status"] == "done"
    assert post.sent == [("dana", 1)]
    assert any("the policy denies it" in one for one in words(run))


@pytest.mark.parametrize("decision", ["ask", None])
def test_ask_waits_for_a_person_and_runs_once_when_approved(place: Workspace, decision: str | None) -> None:
    post = Post()
    run = mailing(place, said([MAIL, MAIL], ITEMS), decision, post)
    first, second = asked(place, run.go())
    assert (first.kind, first.context["tool"], first.context["args"]) == ("tool_call", "mail", {"to": "dana", "n": 1})
    assert (first.run_id, first.thread_id, first.requester) == (run.run_id, run.row.thread_id, "agent:digest")
    assert post.sent == []
    decide(place, first, "approve")
    assert [one.id for one in asked(place, run.go())] == [second.id]
    decide(place, second, "reject", reason="one is enough")
    assert run.go()["status"] == "done"
    assert post.sent == [("dana", 1)]
    assert any("one is enough" in one for one in words(run))
    assert len(ApprovalStore(place).list()) == 2
    assert len(events(place, run, "approval.requested")) == 2


@pytest.mark.parametrize(
    ("dana", "makers"),
    [
        (Principal("local", "dana"), ["owner:dana"]),
        (Principal("acme", "dana", makers=("user:kim", "owner:ann")), ["user:kim"]),
    ],
)
def test_a_request_names_the_person_whom_the_run_works_for(
    place: Workspace, dana: Principal, makers: list[str]
) -> None:
    """And whoever made their token."""
    post = Post()
    nodes = node("collect", output_keys=["items"], tools=["mail"], requires_approval=True)
    spec = agent(nodes, tool_policy=[{"match": "*", "decision": "ask"}])
    model = said([MAIL, ("ask_user", {"question": "Which?"})], ITEMS)
    run = start(place, spec, model, tools=post.registry, principal=dana)
    (begin,) = asked(place, run.go())
    decide(place, begin, "approve")
    found = [begin, *asked(place, run.go())]
    assert {one.kind for one in found} == {"question", "tool_call"}
    assert {(one.requester, one.on_behalf_of) for one in found} == {("agent:digest", "user:dana")}
    assert [one.makers for one in found] == [makers] * len(found)


def test_an_edited_call_runs_with_the_persons_arguments(place: Workspace) -> None:
    post = Post()
    run = mailing(place, said([MAIL], ITEMS), "ask", post)
    (request,) = asked(place, run.go())
    decide(place, request, "edit", patch=[{"op": "replace", "path": "/to", "value": "kim"}])
    assert run.go()["status"] == "done"
    assert post.sent == [("kim", 1)]


def test_a_resumed_run_asks_the_same_request_again(place: Workspace) -> None:
    post = Post()
    run = mailing(place, said([MAIL], ITEMS), "ask", post)
    (request,) = asked(place, run.go())
    again = AgentRun.resume(place, run.run_id, tools=post.registry, models=run.models)
    assert asked(place, again.go())[0].id == request.id
    decide(place, request, "approve")
    assert again.go()["status"] == "done"
    assert post.sent == [("dana", 1)]


def test_a_tool_that_was_changed_while_a_person_thought_is_called_as_they_agreed(place: Workspace) -> None:
    sent: list[tuple[str, int, str]] = []

    def mail(to: str, n: int, signed: str = "the desk") -> str:
        """Send a mail, signed."""
        sent.append((to, n, signed))
        return "sent"

    run = mailing(place, said([MAIL], ITEMS), "ask", Post())
    (request,) = asked(place, run.go())
    decide(place, request, "approve")
    newer = ToolRegistry()
    newer.register(mail, side_effect="write")
    again = AgentRun.resume(place, run.run_id, agent=run.agent, tools=newer, models=run.models)
    assert again.go()["status"] == "done"
    assert sent == [("dana", 1, "the desk")]
    assert len(ApprovalStore(place).list()) == 1


def test_a_call_that_a_changed_tool_no_longer_takes_is_told_to_the_model(place: Workspace) -> None:
    sent: list[str] = []

    def mail(to: str) -> str:
        """Send a mail."""
        sent.append(to)
        return "sent"

    run = mailing(place, said([MAIL], ITEMS), "ask", Post())
    (request,) = asked(place, run.go())
    decide(place, request, "approve")
    newer = ToolRegistry()
    newer.register(mail, side_effect="external")
    again = AgentRun.resume(place, run.run_id, agent=run.agent, tools=newer, models=run.models)
    assert (again.go()["status"], sent) == ("done", [])
    assert any("n is not allowed" in one for one in words(again))


def test_a_question_is_answered_in_the_tools_result(place: Workspace) -> None:
    model = said([("ask_user", {"question": "Which bees?", "options": ["honey", "wild"]})], ITEMS)
    run = start(place, agent(node("collect", output_keys=["items"])), model)
    (request,) = asked(place, run.go())
    assert (request.kind, request.title) == ("question", "Which bees?")
    decide(place, request, "respond", message="wild ones")
    assert run.go()["status"] == "done"
    assert model.prompts[1][-1].content == "wild ones"


@pytest.mark.parametrize("how", ["requires_approval", "pause_before", "pause_nodes"])
def test_a_node_may_have_to_ask_before_it_begins(place: Workspace, how: str) -> None:
    changes: dict[str, Any] = {} if how == "pause_nodes" else {how: True}
    more = {"pause_nodes": ["collect"]} if how == "pause_nodes" else {}
    spec = agent(node("collect", output_keys=["items"], **changes), **more)
    model = said(ITEMS)
    run = start(place, spec, model)
    (request,) = asked(place, run.go())
    assert model.prompts == []
    decide(place, request, "respond", message="only wild bees")
    assert run.go()["status"] == "done"
    assert "[Advice]: only wild bees" in model.prompts[0][-1].content


def test_a_node_that_may_not_begin_fails(place: Workspace) -> None:
    run = start(place, agent(node("collect", output_keys=["items"], requires_approval=True)), said())
    (request,) = asked(place, run.go())
    decide(place, request, "reject", reason="not today")
    ended = run.go()
    assert (ended["status"], ended["stopped_by"]) == ("failed", "rejected")
    assert "not today" in ended["error"]["message"]


def test_a_wrong_call_is_not_worth_a_persons_time(place: Workspace) -> None:
    post = Post()
    run = mailing(place, said([("mail", {"to": 3})], [("post", {})], ITEMS), "ask", post)
    assert run.go()["status"] == "done"
    assert ApprovalStore(place).list() == []
