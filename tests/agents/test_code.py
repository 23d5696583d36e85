"""Agents in code: flows, typed agents, effects and trials."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from hive_agents import (
    Agent,
    AgentRun,
    Goal,
    HiveError,
    NodeSpec,
    SuccessCriterion,
    Trial,
    Workspace,
    effect,
    flow,
    tool,
)
from hive_agents.agents import AgentSpec, retry
from hive_agents.approvals import ApprovalStore
from hive_agents.models import Chain
from tests.agents.loops import Told, said
from tests.agents.refund_desk import Decision, Ticket, Verdict, checker, clerk, desk, refund, shop

TICKET = Ticket(order="A-2", message="never came")


def trial(amount: float, trusted: bool = True) -> Trial[Ticket, Decision]:
    made = Trial(desk, {checker: Verdict(trusted=trusted, why="new"), clerk: Decision(amount=amount, letter="…")})
    return made.stub(refund, returns="R-1")


def models(*answers: Any) -> tuple[Any, Told]:
    told = said(*answers)
    return (lambda _: Chain([told])), told


async def test_waits_and_pays_once() -> None:
    trial = Trial(desk, {checker: Verdict(trusted=True, why="new"), clerk: Decision(amount=180, letter="…")})
    trial.stub(refund, returns="R-1")
    waits = await trial.run(Ticket(order="A-2", message="never came"))
    assert waits.asks == [refund.call("A-2", 180)]
    done = await trial.approve(by="dana")
    assert done.output.amount == 180 and trial.count(refund) == 1  # noqa: PT018 (as printed in the documentation)


async def test_a_small_refund_asks_nobody() -> None:
    done = await trial(20).run(TICKET)
    assert (done.status, done.asks, done.count(refund)) == ("done", [], 1)


async def test_a_refused_refund_fails_the_flow() -> None:
    waits = await trial(180).run(TICKET)
    done = await waits.reject(by="dana", reason="twice already")
    assert (done.status, done.count(refund)) == ("failed", 0)
    assert "twice already" in str(done.error)
    with pytest.raises(HiveError, match="HIVE-409"):
        _ = done.output


async def test_never_holds_whoever_approves() -> None:
    done = await trial(501).run(TICKET)
    assert (done.status, done.count(refund)) == ("failed", 0)
    assert "denies" in str(done.error)
    waits = await trial(180).run(TICKET)
    edited = await waits.edit(by="dana", amount=900)
    assert (edited.status, edited.count(refund)) == ("failed", 0)


async def test_a_person_edits_what_is_paid() -> None:
    waits = await trial(180).run(TICKET)
    edited = await waits.edit(by="dana", amount=90)
    assert (edited.status, edited.count(refund)) == ("done", 1)


async def test_a_trial_says_what_has_no_stub() -> None:
    done = await Trial(desk, {checker: Verdict(trusted=True, why="new")}).run(TICKET)
    assert "clerk has no stub" in str(done.error)
    with pytest.raises(HiveError, match="the stub of checker doesn't fit"):
        Trial(desk, {checker: Decision(amount=1, letter="")})


async def test_agents_of_a_flow_run_on_models(place: Workspace) -> None:
    shop.paid.clear()
    sets, told = models(
        [("past_refunds", {"order": "A-2"})],
        [("set_output", {"trusted": True, "why": "none before"})],
        [("set_output", {"amount": "a lot", "letter": "Dear"})],
        [("set_output", {"amount": 180, "letter": "Dear"})],
    )
    run = AgentRun.start(place, desk, TICKET, models=sets)
    waits = await run.work()
    assert waits["status"] == "waiting"
    (request,) = ApprovalStore(place).list("pending")
    assert request.context["args"] == {"order": "A-2", "amount": 180.0}
    ApprovalStore(place).decide(request.id, "approve", by="dana")
    done = await AgentRun.resume(place, run.run_id, agent=desk, models=sets).work()
    assert desk.output(done["outputs"]) == Decision(amount=180, letter="Dear")
    assert [paid[:2] for paid in shop.paid] == [("A-2", 180.0)]
    assert len(told.prompts) == 4
    assert "none before" in told.prompts[2][1].content
    assert "amount" in told.prompts[3][-1].content
    first, second = told.prompts[:2]
    assert first[0].content == second[0].content == "A pattern of refunds?"
    assert told.offered[:2] == [["past_refunds", "set_output"]] * 2


async def test_an_input_that_does_not_fit_is_refused_with_its_place(place: Workspace) -> None:
    with pytest.raises(HiveError) as refused:
        AgentRun.start(place, desk, {"order": {"$ne": 1}, "message": "x"}, models=models()[0])
    assert [(one.code, one.path) for one in refused.value.diagnostics] == [("HIVE-105", "order")]


async def test_branches_of_a_flow_wait_together() -> None:
    @effect
    async def send(to: str) -> int:
        """Send a letter."""
        return len(to)

    @flow
    async def letters(names: list[str]) -> list[int]:
        return list(await asyncio.gather(*(send(name) for name in names)))

    made = Trial(letters).stub(send, returns=7)
    waits = await made.run(["a", "bb"])
    assert waits.asks == [send.call("a"), send.call("bb")]
    done = await made.approve(by="dana")
    assert (done.output, done.count(send)) == ([7, 7], 2)


async def test_changed_code_of_a_waiting_run_stops_and_says_what_to_do(place: Workspace) -> None:
    paid: list[tuple[str, float]] = []

    @effect(ask=False)
    async def note(text: str) -> str:
        """Note something."""
        paid.append((text, 0))
        return "noted"

    @effect
    async def pay(order: str, amount: float) -> str:
        """Pay."""
        paid.append((order, amount))
        return "R"

    @flow(name="pays")
    async def before(order: str) -> str:
        await note("begun")
        return await pay(order, 5)

    @flow(name="pays")
    async def changed(order: str) -> str:
        await note("begun")
        return await pay(order, 50)

    @flow(name="pays")
    async def reordered(order: str) -> str:
        await pay(order, 7)
        await note("begun")
        return await pay(order, 5)

    for other, how in ((changed, "pay with other arguments"), (reordered, "comes to")):
        paid.clear()
        run = AgentRun.start(place, before, "A-1")
        assert (await run.work())["status"] == "waiting"
        (request,) = ApprovalStore(place).list("pending")
        ApprovalStore(place).decide(request.id, "approve", by="dana")
        stopped = await AgentRun.resume(place, run.run_id, agent=other).work()
        assert (stopped["status"], stopped["error"]["code"]) == ("failed", "HIVE-436")
        assert how in stopped["error"]["message"] or "arguments" in stopped["error"]["message"]
        assert paid == [("begun", 0)]
        await retry(place, run.run_id, "dana")
        again = await AgentRun.resume(place, run.run_id, agent=before).work()
        assert again["status"] == "done"
        assert paid == [("begun", 0), ("A-1", 5)]


async def test_a_failed_step_is_done_anew_when_a_person_has_it_tried_again(place: Workspace) -> None:
    calls: list[str] = []

    @effect(ask=False)
    async def first(order: str) -> str:
        """The first."""
        calls.append("first")
        return "1"

    @effect(ask=False)
    async def second(order: str) -> str:
        """The second."""
        calls.append("second")
        if calls.count("second") == 1:
            raise OSError("the shop is down")
        return "2"

    @flow
    async def both(order: str) -> str:
        return await first(order) + await second(order)

    run = AgentRun.start(place, both, "A-1")
    failed = await run.work()
    assert "the shop is down" in failed["error"]["message"]
    await retry(place, run.run_id, "dana")
    done = await AgentRun.resume(place, run.run_id, agent=both).work()
    assert done["outputs"] == {"output": "12"}
    assert calls == ["first", "second", "second"]


async def test_a_file_may_only_tighten_the_policy_of_code(place: Workspace) -> None:
    write = place.root / "agents" / "desk.json"
    write.parent.mkdir()
    node = {"id": "desk", "code": "desk", "input_keys": ["order", "message"], "output_keys": ["amount", "letter"]}
    policies = {"allow": ("waiting", 180), "ask": ("waiting", 20), "deny": ("failed", 20)}
    (place.root / "tools").mkdir()
    (place.root / "tools" / "desk.py").write_text(Path(__file__).with_name("refund_desk.py").read_text())
    (place.root / "hive.toml").write_text('[tools]\npython = ["tools/*.py"]\n')
    from hive_agents.workspace import trust

    trust(place)
    for decision, (status, amount) in policies.items():
        policy = [{"match": "refund", "decision": decision}]
        spec = {"id": "desk", "goal": "digest", "entry": "desk", "nodes": [node], "tool_policy": policy}
        write.write_text(json.dumps(spec))
        answers, _ = models(
            [("set_output", {"trusted": True, "why": "new"})], [("set_output", {"amount": amount, "letter": "x"})]
        )
        run = AgentRun.start(Workspace(place.root), "desk", TICKET.model_dump(), models=answers)
        assert (decision, (await run.work())["status"]) == (decision, status)


async def test_functions_and_graphs_are_nodes(place: Workspace) -> None:
    from langgraph.graph import END, START, StateGraph
    from typing_extensions import TypedDict

    class State(TypedDict):
        n: int

    builder = StateGraph(State)
    builder.add_node("add", lambda state: {"n": state["n"] + 1})
    builder.add_edge(START, "add")
    builder.add_edge("add", END)

    async def double(n: int) -> dict[str, int]:
        return {"twice": 2 * n}

    nodes = [
        NodeSpec(id="graph", system_prompt="", code=builder.compile(), input_keys=["n"], output_keys=["n"]),
        NodeSpec(id="double", system_prompt="", code=double, input_keys=["n"], output_keys=["twice"]),
    ]
    edges: Any = [{"source": "graph", "target": "double", "on": "success"}]
    spec = AgentSpec(id="sums", goal="sums", entry="graph", nodes=nodes, edges=edges)
    run = AgentRun.start(place, spec, {"n": 4}, goal=Goal(id="sums", name="Sums"))
    assert (await run.work())["outputs"] == {"n": 5, "twice": 10}


async def test_code_outside_of_a_flow_says_how_it_runs() -> None:
    with pytest.raises(HiveError, match="start it with"):
        checker(TICKET)
    with pytest.raises(HiveError, match="start it with"):
        await desk(TICKET)
    with pytest.raises(HiveError, match="no idempotency key"):
        await refund("A-2", 5)


def test_an_effect_is_async() -> None:
    with pytest.raises(HiveError, match="async"):
        effect(lambda: None)  # type: ignore[call-overload]


def test_the_command_line_runs_a_flow_of_a_module(place: Workspace, tmp_path: Path) -> None:
    (tmp_path / "parcels.py").write_text(
        "from hive_agents import effect, flow\n"
        "@effect\nasync def send(to: str) -> str:\n    '''Send it.'''\n    return f'sent to {to}'\n"
        "@flow\nasync def parcel(to: str) -> str:\n    return await send(to)\n"
    )

    def hive(*words: str) -> Any:
        command = [sys.executable, "-m", "hive_agents", *words, "--workspace", str(place.root), "--json"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        return json.loads(done.stdout)

    waits = hive("run", "parcels:parcel", "--input", '{"input": "Dana"}')
    assert waits["status"] == "waiting"
    hive("approvals", "approve", waits["approval_ids"][0])
    done = hive("run", "parcels:parcel", "--resume", waits["run_id"])
    assert done["outputs"] == {"output": "sent to Dana"}
    assert hive("run", "parcels:nothing")["diagnostics"][0]["code"] == "HIVE-409"


def test_a_tool_stays_a_function() -> None:
    @tool
    def add(a: int, b: int) -> int:
        """The sum."""
        return a + b

    assert add(1, 2) == 3
    assert Agent(Ticket, Verdict, prompt="?", tools=[add], name="adder").asked.tool_policy[0].decision == "allow"


async def test_what_may_be_null_is_given_and_returned_as_null() -> None:
    class Order(BaseModel):
        id: str
        note: str | None
        sender: str | None = "the shop"

    @flow
    async def same(order: Order) -> Order:
        return order

    @flow
    async def number(n: int | None) -> tuple[int | None, None]:
        return n, None

    @flow
    async def nothing(n: int) -> None:
        return None

    order = Order(id="A-1", note=None, sender=None)
    assert (await Trial(same).run(order)).output == order
    assert same.accepted({"id": "A-1", "note": None}) == {"id": "A-1", "note": None, "sender": "the shop"}
    with pytest.raises(HiveError, match="note"):
        same.accepted({"id": "A-1"})
    assert (await Trial(number).run(None)).output == (None, None)
    assert (await Trial(nothing).run(3)).output is None


async def test_a_mapping_is_the_input_of_a_flow_that_takes_one() -> None:
    @flow
    async def total(prices: dict[str, int]) -> int:
        return sum(prices.values())

    assert (await Trial(total).run({"lamp": 3, "bed": 4})).output == 7
    assert total.accepted({"input": {"lamp": 3}}) == {"input": {"lamp": 3}}


async def test_a_trial_counts_agents_and_the_tools_that_a_flow_calls_itself() -> None:
    @tool
    def rate(currency: str) -> float:
        """The rate of a currency."""
        raise AssertionError("it has a stub")

    @flow
    async def convert(ticket: Ticket) -> float:
        decisions = [await clerk(ticket), await clerk(ticket)]
        return sum(one.amount for one in decisions) * rate("EUR")

    trial = Trial(convert, {clerk: Decision(amount=10, letter="")}).stub(rate, returns=1.5)
    done = await trial.run(TICKET)
    assert (done.output, done.count(clerk), done.count(rate), done.count(refund)) == (30, 2, 1, 0)


async def test_a_flow_cannot_catch_what_is_wrong_with_its_trial() -> None:
    @flow
    async def careful(ticket: Ticket) -> str:
        try:
            await refund(ticket.order, 10.0)
            return (await checker(ticket)).why
        except Exception:
            return "it failed"

    done = await Trial(careful).run(TICKET)
    assert (done.status, "refund has no stub" in str(done.error)) == ("failed", True)
    misfit: Any = {checker: lambda _: Decision(amount=1, letter="")}
    done = await Trial(careful, misfit).stub(refund, returns="R-1").run(TICKET)
    assert "the stub of checker doesn't fit" in str(done.error)


async def test_a_person_decides_in_a_trial_about_an_output_that_misses_the_goal() -> None:
    low = SuccessCriterion(id="low", metric="numeric_at_most", target={"field": "amount", "value": 100})

    @flow(goal=Goal(id="cheap", name="Cheap", success_criteria=[low]))
    async def decide(amount: float) -> Decision:
        return Decision(amount=amount, letter="")

    waits = await Trial(decide).run(180.0)
    assert (waits.status, waits.asks) == ("waiting", [])
    assert (await waits.approve(by="dana")).output.amount == 180


MISTAKES = """
from hive_agents import Trial, effect, flow
from tests.agents.refund_desk import Decision, Ticket, Verdict, checker, desk, large, refund

@flow
async def wrong(ticket: Ticket) -> Decision:
    await checker("a ticket")  # argument
    await refund(ticket.order)  # argument
    await refund(ticket.order, "much")  # argument
    verdict = await checker(ticket)
    verdict.amount  # output
    return verdict  # output

@effect(ask=large)
async def other(order: int) -> str:  # ask
    return ""

Trial(desk).stub(refund, returns=5)  # stub
Trial(desk).stub(checker, returns=Decision(amount=1, letter=""))  # stub
refund.call("A-2", amount="much")  # argument

async def test() -> None:
    done = await Trial(desk).run(Verdict(trusted=True, why=""))  # argument
    done.output.trusted  # output
"""


ROOT = Path(__file__).parents[2]


def by_mypy(file: Path) -> list[str]:
    return ["mypy", "--strict", str(file), "--cache-dir", str(ROOT / ".mypy_cache")]


def by_pyright(file: Path) -> list[str]:
    pytest.importorskip("pyright", reason="pyright isn't installed: it brings Node.js")
    where = {"venvPath": str(Path(sys.prefix).parent), "venv": Path(sys.prefix).name, "extraPaths": [str(ROOT)]}
    settings = {"typeCheckingMode": "strict", "include": [file.name], **where}
    (file.parent / "pyrightconfig.json").write_text(json.dumps(settings))
    return ["pyright", "-p", str(file.parent)]


@pytest.mark.slow  # without a cache it checks the whole package
@pytest.mark.parametrize("checker", [by_mypy, by_pyright])
def test_type_checkers_find_planted_mistakes(tmp_path: Path, checker: Callable[[Path], list[str]]) -> None:
    file = tmp_path / "mistakes.py"
    file.write_text(MISTAKES)
    command = [sys.executable, "-m", *checker(file)]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    marked = [n for n, line in enumerate(MISTAKES.split("\n"), 1) if "  # " in line]
    lines = re.findall(r"mistakes\.py:(\d+)(?::\d+)?(?: - |: )error", found)
    told = sorted(set(map(int, lines)))
    # The decorator above a function stands in the line before it.
    assert [n for n in marked if n not in told and n - 1 not in told] == [], found
    assert [n for n in told if n not in marked and n + 1 not in marked] == [], found
