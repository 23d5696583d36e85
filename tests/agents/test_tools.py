from __future__ import annotations

import asyncio
import itertools
import json
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from langchain_core.tools import BaseTool, tool as langchain_tool
from pydantic import BaseModel, Field

from hive_agents import Workspace
from hive_agents.agents import ToolContext, ToolRegistry
from hive_agents.agents.guards.retries import RetryPolicy
from hive_agents.agents.tool import as_result
from hive_agents.approvals import ToolRule
from hive_agents.base.errors import HiveError
from hive_agents.memory import ToolResult
from hive_agents.workspace.credentials import Secret

SOON = RetryPolicy(attempts=3, base=0.0)


class Place(BaseModel):
    city: str
    zone: int = 1


def forecast(place: Place, days: Annotated[int, Field(ge=1, le=7)] = 3, unit: Literal["c", "f"] = "c") -> str:
    """The weather of a place.

    Args:
        place: Where.
        unit: Degrees of what.
    """
    return f"{place.city}: {days} days in {unit}"


def rules(**decisions: str) -> list[ToolRule]:
    return [ToolRule(match=name.replace("ANY", "*"), decision=said) for name, said in decisions.items()]  # type: ignore[arg-type]


def registry(*functions: Any, **options: Any) -> ToolRegistry:
    made = ToolRegistry()
    for function in functions:
        made.register(function, **{"policy": "allow", **options})
    return made


@pytest.fixture
def context(text_workspace: Workspace) -> ToolContext:
    return ToolContext(text_workspace, run_id="r1")


def test_a_function_is_described_by_its_hints_and_docstring() -> None:
    (shown,) = registry(forecast).for_model()
    assert (shown.name, shown.description) == ("forecast", "The weather of a place.")
    properties = shown.parameters["properties"]
    assert shown.parameters["required"] == ["place"]
    assert properties["days"] == {"type": "integer", "minimum": 1, "maximum": 7, "default": 3}
    assert properties["unit"] == {
        "type": "string", "enum": ["c", "f"], "default": "c", "description": "Degrees of what.",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        ({}, "place is missing"),
        ({"place": {"city": 1}}, "place.city is 1, not string"),
        ({"place": {"city": "x", "zoen": 1}}, 'place.zoen is not allowed; did you mean "zone"?'),
        ({"place": {"city": "x"}, "days": 9}, "days is 9, more than 7"),
        ({"place": {"city": "x"}, "unit": "k"}, "unit is 'k', none of ['c', 'f']"),
        ({"place": {"city": "x"}, "dayz": 2}, 'dayz is not allowed; did you mean "days"?'),
    ],
)
async def test_arguments_are_checked_before_anything_runs(
    context: ToolContext, arguments: dict[str, Any], wrong: str
) -> None:
    found = await registry(forecast).call("forecast", arguments, context)
    assert found.is_error
    assert wrong in found.content


async def test_values_become_what_the_function_asked_for(context: ToolContext) -> None:
    found = await registry(forecast).call("forecast", {"place": {"city": "Rome"}}, context)
    assert found == ToolResult("Rome: 3 days in c")


async def test_langchain_tools_and_mcp_tools_are_called_alike(context: ToolContext) -> None:
    @langchain_tool
    def double(n: int) -> int:
        """Twice a number."""
        return 2 * n

    @dataclass
    class Text:
        text: str
        type: str = "text"

    @dataclass
    class Answer:
        content: list[Text]
        is_error: bool = False

    @dataclass
    class Listed:
        name: str = "echo"
        description: str = "Says it again."
        input_schema: dict[str, Any] = field(
            default_factory=lambda: {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
        )

    async def call_tool(name: str, arguments: dict[str, Any]) -> Answer:
        return Answer([Text(f"{name}: {arguments['text']}")], is_error=arguments["text"] == "bad")

    tools = registry(double)
    tools.register(Listed(), call=call_tool, side_effect="external", policy="allow")
    assert [shown.description for shown in tools.for_model()] == ["Twice a number.", "Says it again."]
    assert await tools.call("double", {"n": 4}, context) == ToolResult("8")
    assert await tools.call("echo", {"text": "hi"}, context) == ToolResult("echo: hi")
    assert await tools.call("echo", {"text": "bad"}, context) == ToolResult("echo: bad", is_error=True)
    assert (await tools.call("double", {"n": "4"}, context)).is_error


class Waits(BaseTool):
    """A LangChain tool with blocking code alone, which ends as soon as the event loop goes on."""

    name: str = "waits"
    description: str = "Waits."
    free: threading.Event = Field(default_factory=threading.Event)

    def _run(self, n: int = 1) -> str:
        return f"{self.free.wait(10)} in {threading.current_thread().name}"


@pytest.mark.parametrize("kind", ["LangChain", "MCP"])
async def test_blocking_tools_of_others_leave_the_event_loop_alone(context: ToolContext, kind: str) -> None:
    waits = Waits()

    @dataclass
    class Listed:
        name: str = "waits"
        description: str = "Waits."
        input_schema: dict[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})

    tools = ToolRegistry()
    if kind == "MCP":
        tools.register(Listed(), call=lambda name, arguments: waits._run(), policy="allow")
    else:
        tools.register(waits, policy="allow")
    calling = asyncio.create_task(tools.call("waits", {}, context))
    asyncio.get_running_loop().call_later(0.01, waits.free.set)
    assert await calling == ToolResult("True in hive-model")


async def test_a_function_that_gives_something_to_await_is_awaited(context: ToolContext) -> None:
    async def later(n: int) -> str:
        return f"{n} later"

    def soon(n: int) -> Any:
        """Later."""
        return later(n)

    assert await registry(soon).call("soon", {"n": 1}, context) == ToolResult("1 later")


@pytest.mark.parametrize(
    ("source", "options", "code"),
    [
        (forecast, {"name": "bad name"}, "HIVE-113"),
        (forecast, {"name": "set_output"}, "HIVE-113"),
        (forecast, {"credentials": {"place": "credential:x"}}, "HIVE-409"),
        (lambda *args: None, {"name": "f"}, "HIVE-409"),
        (42, {}, "HIVE-409"),
        (forecast, {}, "HIVE-111"),
    ],
)
def test_what_cannot_be_a_tool_is_refused(source: Any, options: dict[str, Any], code: str) -> None:
    tools = registry(forecast)
    with pytest.raises(HiveError, match=code):
        tools.register(source, **options)


async def test_errors_are_results_and_lasting_ones_are_not_tried_again(context: ToolContext) -> None:
    calls: list[str] = []

    def flaky() -> str:
        calls.append("flaky")
        if len(calls) < 3:
            raise ConnectionResetError
        return "done"

    def broken() -> str:
        calls.append("broken")
        raise FileNotFoundError("no such page")

    def refused() -> str:
        raise HiveError.of("HIVE-408", "nothing is deployed", fix="deploy")

    tools = registry(flaky, broken, refused)
    assert await tools.call("flaky", {}, context, retry=SOON) == ToolResult("done")
    missing = await tools.call("broken", {}, context, retry=SOON)
    assert missing == ToolResult("broken did not run or failed: FileNotFoundError: no such page", is_error=True)
    assert calls.count("broken") == 1
    assert "HIVE-408: nothing is deployed (deploy)" in (await tools.call("refused", {}, context)).content


async def test_a_tool_with_effects_is_never_called_twice(context: ToolContext) -> None:
    calls: list[int] = []

    def send() -> None:
        calls.append(1)
        raise ConnectionResetError

    for effect in ("write", "external"):
        assert (await registry(send, side_effect=effect).call("send", {}, context, retry=SOON)).is_error
    assert len(calls) == 2


def one() -> str:
    return "1"


def two() -> str:
    return "2"


def outside() -> str:
    return "3"


async def test_a_person_approves_what_the_policy_asks_about(context: ToolContext) -> None:
    tools = registry(one, two, outside, policy="ask").view(policy=rules(one="allow", two="deny"))
    assert [tools.decide(name) for name in ("one", "two", "outside", "nothing")] == ["allow", "deny", "ask", "deny"]
    assert [shown.name for shown in tools.for_model()] == ["one", "outside"]
    assert await tools.call("one", {}, context) == ToolResult("1")
    assert "approve" in (await tools.call("outside", {}, context)).content
    assert await tools.call("outside", {}, context, approved=True) == ToolResult("3")
    assert (await tools.call("two", {}, context, approved=True)).is_error


def test_a_view_never_widens() -> None:
    tools = registry(one, two)
    tools.register(outside, sub_agents_only=True, policy="allow")
    agent = tools.view(policy=rules(one="ask", two="deny", outside="ask"))
    assert agent.names == ["one", "two"]
    sub = agent.view(["one", "outside"], policy=rules(ANY="allow"), sub_agent=True)
    assert sub.names == ["one", "outside"]
    assert [sub.decide(name) for name in ("one", "outside", "two")] == ["ask", "ask", "deny"]
    node = agent.view(["one"])
    for missing in (["two"], ["outside"], ["onee"]):
        with pytest.raises(HiveError, match="HIVE-107"):
            node.view(missing, sub_agent=True)
    tools.register(forecast)
    assert "forecast" not in agent.names


POLICIES = [("allow", "deny"), ("deny", "allow"), ("ask", "deny"), ("ask", "allow")]


@pytest.mark.parametrize(("first", "second"), POLICIES)
def test_the_strictest_policy_holds_whichever_comes_first(first: str, second: str) -> None:
    sub = registry(one).view(policy=rules(one=first)).view(policy=rules(one=second), sub_agent=True)
    assert sub.decide("one") == ("deny" if "deny" in (first, second) else "ask")


async def test_an_unknown_tool_is_a_result_with_a_guess(context: ToolContext) -> None:
    found = await registry(forecast).call("forecsat", {}, context)
    assert found.is_error
    assert 'did you mean "forecast"?' in found.content


async def test_credentials_are_given_to_the_tool_and_to_nobody_else(
    context: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def login(user: str, token: Secret, where: ToolContext) -> Sequence[str]:
        """Log in."""
        seen.append(token.reveal())
        return [user, where.run_id, f"Bearer {token.reveal()}", repr(token)]

    monkeypatch.setenv("TOKEN", "hunter2000")
    tools = registry(login, credentials={"token": "env:TOKEN"})
    assert list(tools["login"].parameters["properties"]) == ["user"]
    found = await tools.call("login", {"user": "dana"}, context)
    assert seen == ["hunter2000"]
    assert found == ToolResult('["dana", "r1", "Bearer ***", "Secret(\'env:TOKEN\')"]')
    monkeypatch.delenv("TOKEN")
    assert "HIVE-421" in (await tools.call("login", {"user": "dana"}, context)).content
    assert (await tools.call("login", {"user": "dana", "token": "x"}, context)).is_error


async def test_half_a_credential_is_not_told_either(context: ToolContext, monkeypatch: pytest.MonkeyPatch) -> None:
    def login(token: Secret) -> str:
        """Log in."""
        raise RuntimeError("x" * 1_978 + token.reveal())

    monkeypatch.setenv("TOKEN", "hunter2000")
    found = await registry(login, credentials={"token": "env:TOKEN"}).call("login", {}, context)
    assert found.is_error
    assert "hunt" not in found.content


def test_two_registries_describe_a_method_once_and_call_it_on_their_own_object(context: ToolContext) -> None:
    class Desk:
        def __init__(self, name: str) -> None:
            self.name = name

        def greet(self, whom: str) -> str:
            """Say good morning."""
            return f"{self.name}: good morning, {whom}"

    made = [ToolRegistry().register(Desk(name).greet, policy="allow") for name in ("one", "two")]
    assert made[0].parameters == made[1].parameters == {
        "properties": {"whom": {"type": "string"}}, "required": ["whom"], "type": "object"
    }  # fmt: skip
    assert [tool("Dana") for tool in made] == ["one: good morning, Dana", "two: good morning, Dana"]


def test_a_description_kept_for_a_function_says_again_what_is_missing() -> None:
    def pay(key: Secret) -> str:
        return "paid"

    for _ in range(2):
        with pytest.raises(HiveError, match="annotated Secret"):
            ToolRegistry().register(pay)
    made = ToolRegistry().register(pay, credentials={"key": "credential:bank"})
    assert made.parameters["properties"] == {}


def test_what_a_tool_returns_is_json_at_any_depth() -> None:
    class Colour(Enum):
        RED = "red"

    class Order(BaseModel):
        id: str

    @dataclass
    class Parcel:
        orders: list[Order]
        colour: Colour

    def parcels() -> Iterator[Parcel]:
        yield Parcel([Order(id="o1")], Colour.RED)

    found = as_result({"parcels": parcels(), "tags": {"new"}, "raw": b"text"})
    assert json.loads(found.content) == {
        "parcels": [{"orders": [{"id": "o1"}], "colour": "red"}],
        "tags": ["new"],
        "raw": "text",
    }
    assert json.loads(as_result({"raw": b"\xff"}).content) == {"raw": "b'\\xff'"}
    ring: dict[str, Any] = {}
    ring["ring"] = ring
    with pytest.raises(ValueError, match="Circular"):
        as_result(ring)


@pytest.mark.parametrize("endless", [itertools.count(), {"rows": [itertools.repeat("row")]}])
def test_an_iterator_without_an_end_is_an_error(endless: Any) -> None:
    with pytest.raises(ValueError, match="more than 10,000 items: return a list"):
        as_result(endless)
