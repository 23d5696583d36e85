from __future__ import annotations

import json
import socket
import ssl
from typing import Any

import httpx
import pytest
from botocore.exceptions import ClientError, ConnectTimeoutError

from hive_agents.agents.guards.budget import Budget, BudgetExhausted, BudgetSpent, Limits
from hive_agents.agents.guards.loops import doom_loop, fingerprint
from hive_agents.agents.guards.retries import RetryPolicy, is_transient, retried
from hive_agents.agents.progress import LoopTurn, is_stalled
from hive_agents.base.errors import HiveError
from hive_agents.memory import ToolResult
from hive_agents.models import ModelError, ToolCall, Usage
from hive_agents.workspace.settings.keys import Runs


def status(code: int, **headers: str) -> httpx.HTTPStatusError:
    request = httpx.Request("GET", "http://127.0.0.1")
    return httpx.HTTPStatusError("x", request=request, response=httpx.Response(code, headers=headers))


def aws(code: str, http: int) -> ClientError:
    return ClientError({"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": http}}, "Converse")  # type: ignore[typeddict-item]


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    "error",
    [
        ConnectionRefusedError(),
        TimeoutError(),
        socket.gaierror(socket.EAI_AGAIN, "again"),
        httpx.ConnectError("x"),
        httpx.ReadTimeout("x"),
        httpx.RemoteProtocolError("x"),
        ConnectTimeoutError(endpoint_url="x"),
        status(429),
        status(500),
        status(599),
        aws("ThrottlingException", 400),
        aws("InternalServerException", 500),
        *(ModelError(kind, "x") for kind in ("throttling", "timeout", "server")),  # type: ignore[arg-type]
    ],
)
def test_what_passes_by_itself_is_tried_again(error: Exception) -> None:
    assert is_transient(error)


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError(),
        PermissionError(),
        ValueError(),
        KeyError(),
        socket.gaierror(socket.EAI_NONAME, "no such host"),
        httpx.UnsupportedProtocol("x"),
        httpx.TooManyRedirects("x"),
        caused(httpx.ConnectError("x"), ssl.SSLCertVerificationError("x")),
        status(400),
        status(401),
        status(404),
        status(428),
        status(499),
        status(600),
        aws("AccessDeniedException", 403),
        HiveError.of("HIVE-402", "locked"),
        *(ModelError(kind, "x") for kind in ("authentication", "garbage", "exhausted")),  # type: ignore[arg-type]
    ],
)
def test_what_does_not_is_told_at_once(error: Exception) -> None:
    assert not is_transient(error)


class Failing:
    def __init__(self, *errors: Exception) -> None:
        self.errors, self.calls = list(errors), 0

    async def __call__(self) -> str:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return "done"


async def run(call: Failing, **policy: Any) -> tuple[str, list[float]]:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    return await retried(call, RetryPolicy(**policy), sleep=sleep, chance=lambda: 1.0), waits


async def test_waits_grow_and_the_server_may_ask_for_longer_ones() -> None:
    failing = Failing(TimeoutError(), TimeoutError(), status(429, **{"retry-after": "7"}))
    assert await run(failing) == ("done", [0.5, 1.0, 7.0])


async def test_the_last_attempt_tells_its_error() -> None:
    failing = Failing(*(ConnectionResetError() for _ in range(9)))
    with pytest.raises(ConnectionResetError):
        await run(failing, attempts=3)
    assert failing.calls == 3


async def test_a_lasting_error_is_not_tried_again() -> None:
    failing = Failing(FileNotFoundError())
    with pytest.raises(FileNotFoundError):
        await run(failing)
    assert failing.calls == 1


@pytest.mark.parametrize("asked", ["soon", "-1", "nan", "inf", "Wed, 21 Oct 2026 07:28:00 GMT"])
async def test_a_retry_after_that_is_no_number_of_seconds_is_ignored(asked: str) -> None:
    assert await run(Failing(status(503, **{"retry-after": asked}))) == ("done", [0.5])


def call(name: str, **args: Any) -> ToolCall:
    return ToolCall(name=name, args=args)


def test_the_order_of_calls_counts_and_that_of_arguments_does_not() -> None:
    a, b = call("a", x=1, y={"p": 1, "q": 2}), call("b")
    assert fingerprint([a]) == fingerprint([call("a", y={"q": 2, "p": 1}, x=1)])
    assert fingerprint([a, b]) != fingerprint([b, a])
    assert fingerprint([a]) != fingerprint([call("a", x=2, y={"p": 1, "q": 2})])
    assert fingerprint([call("a", x=[1, 2])]) != fingerprint([call("a", x=[2, 1])])
    assert fingerprint([call("a", x=1)]) != fingerprint([call("a", x=True)])


@pytest.mark.parametrize(
    ("turns", "period"),
    [
        ("", None),
        ("aa", None),
        ("aaa", 1),
        ("baaa", 1),
        ("aaab", None),
        ("ababa", None),
        ("ababab", 2),
        ("abcabcab", None),
        ("abcabcabc", 3),
        ("aabaabaab", 3),
        ("abcdabcdabcd", None),
    ],
)
def test_doom_loops_have_a_period_of_one_to_three(turns: str, period: int | None) -> None:
    assert doom_loop(turns) == period


def test_turns_without_a_call_are_no_loop_and_hide_none() -> None:
    assert doom_loop(["", "", ""]) is None
    assert doom_loop(["a", "", "a", "", "a", ""]) == 2


def said(*texts: str, **rest: Any) -> list[LoopTurn]:
    return [LoopTurn(text=text, **rest) for text in texts]


@pytest.mark.parametrize(
    ("texts", "stalled"),
    [
        (["I am thinking about it."] * 3, True),
        (["I am thinking about it."] * 2, False),
        (["I am thinking about it.", "I am  THINKING about it!", "I am thinking about it."], True),
        (["page 11 of 40", "page 12 of 40", "page 13 of 40"], False),
        (["3 left to do", "2 left to do", "1 left to do"], False),
        (["page 11", "page 12", "page 11"], True),
        (["page 11", "page 11", "page 12"], True),
        (["Still at it, 10:31", "Still at it, 10:32", "Still at it, 10:33"], True),
        (["As of 2026-01-01 nothing", "As of 2026-01-02 nothing", "As of 2026-01-03 nothing"], True),
        (["The first chapter tells of bees.", "Honey is made of nectar.", "Winter comes early here."], False),
        (["", "", ""], True),
    ],
)
def test_near_identical_answers_are_a_stall_unless_a_counter_moves(texts: list[str], stalled: bool) -> None:
    assert is_stalled(said(*texts)) is stalled


def test_a_new_output_or_tool_result_is_progress() -> None:
    same = said("Working on it.", "Working on it.")
    assert is_stalled([*same, LoopTurn.of("Working on it.")])
    assert not is_stalled([*same, LoopTurn.of("Working on it.", [ToolResult("a page")])])
    assert is_stalled([*same, LoopTurn.of("Working on it.", [ToolResult("no such page", is_error=True)])])
    assert not is_stalled([*same, LoopTurn.of("Working on it.", outputs={"items": "[1]"})])


def test_a_tool_result_that_came_before_is_no_progress() -> None:
    seen = LoopTurn.of("Working on it.", [ToolResult("a page")])
    assert is_stalled([seen, seen, seen, seen])
    changed = [LoopTurn.of("On it.", outputs={"n": value}) for value in ("1", "2", "3")]
    assert not is_stalled(changed)
    assert is_stalled([changed[0]] * 3)


def test_turns_can_be_kept_as_json() -> None:
    turn = LoopTurn.of("x", [ToolResult("y")], {"k": "1"})
    assert LoopTurn.model_validate(json.loads(turn.model_dump_json())) == turn


def test_a_budget_is_exhausted_exactly_at_its_limit() -> None:
    budget = Budget(Limits(steps=2, tool_calls=3))
    budget.spend(steps=1, tool_calls=2)
    assert budget.exhausted(steps=1) is None
    assert budget.exhausted(tool_calls=2) == "tool_calls"
    budget.spend(steps=1)
    assert (budget.exhausted(steps=1), budget.exhausted(tool_calls=1)) == ("steps", None)


@pytest.mark.parametrize(
    ("limits", "spending", "measure"),
    [
        (Limits(tokens=10), {"usage": Usage(input_tokens=6, output_tokens=4)}, "tokens"),
        (Limits(tokens=11), {"usage": Usage(input_tokens=6, output_tokens=4)}, None),
        (Limits(usd=0.5), {"usage": Usage(usd=0.5)}, "usd"),
        (Limits(usd=0.5), {"usage": Usage(priced=False)}, "usd"),
        (Limits(), {"usage": Usage(priced=False)}, None),
        (Limits(seconds=2.0), {"seconds": 2.0}, "seconds"),
        (Limits(seconds=2.0), {"seconds": 1.99}, None),
        (Limits(), {"steps": 10**9, "seconds": 1e9}, None),
    ],
)
def test_every_budget_is_named_when_it_is_used_up(
    limits: Limits, spending: dict[str, Any], measure: str | None
) -> None:
    budget = Budget(limits)
    budget.spend(**spending)
    assert budget.exhausted() == measure
    if measure is None:
        budget.require()
    else:
        with pytest.raises(BudgetExhausted, match=f"budget of {measure} is used up") as raised:
            budget.require()
        assert raised.value.measure == measure


def test_a_budget_survives_a_restart_and_a_damaged_one_is_refused() -> None:
    budget = Budget(Limits(steps=5), BudgetSpent(steps=4, usd=0.25, unpriced=1))
    again = Budget.from_json(json.loads(json.dumps(budget.to_json())))
    assert (again.limits, again.spent) == (budget.limits, budget.spent)
    for damaged in ({}, None, {"limits": {}, "spent": {"steps": -1}}, {"limits": {"steps": "5"}, "spent": {}}):
        with pytest.raises(HiveError):
            Budget.from_json(damaged)


def test_the_settings_limit_a_run() -> None:
    limits = Limits.of(Runs(max_tokens=7), tool_calls=3)
    assert limits == Limits(steps=200, tokens=7, tool_calls=3)


def test_nothing_that_was_spent_comes_back() -> None:
    budget = Budget(Limits(seconds=1))
    for amount in ({"steps": -1}, {"seconds": -0.1}, {"seconds": float("nan")}):
        with pytest.raises(ValueError, match="comes back"):
            budget.spend(**amount)  # type: ignore[arg-type]


def test_a_budget_warns_from_four_fifths_on() -> None:
    budget = Budget(Limits(steps=10, tokens=10), BudgetSpent(steps=7))
    assert budget.nearly() == []
    budget.spend(steps=1)
    assert budget.nearly() == ["steps"]
