"""The ledger of a run by itself: who lost the run begins nothing and records nothing; what was spent stays spent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.agents import Effects
from hive_agents.agents.effects import Done
from hive_agents.agents.guards.budget import Budget, BudgetExhausted, Limits
from hive_agents.memory import ConversationStore, OutputAccumulator
from hive_agents.models import Message, Usage
from hive_agents.runs import LeaseLost, Leases, RunStore
from tests.conftest import make_workspace


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    return make_workspace(tmp_path / "ws", embedding=False, documents={})


class Calls:
    """An effect that counts how often it was begun; `then` happens while it is at work."""

    def __init__(self, then: Any = None) -> None:
        self.begun, self.then = 0, then

    async def __call__(self, again: bool) -> Done:
        self.begun += 1
        if self.then is not None:
            self.then()
        return Done("done", Usage(input_tokens=10))


def held(place: Workspace) -> tuple[Effects, Any, str]:
    """A run's ledger in the hands of one worker, and how another one takes the run over."""
    row, _ = RunStore(place).insert("event_loop", {"input": {}})
    clock = [1000.0]
    lease = Leases(place, seconds=5, clock=lambda: clock[0]).acquire(row.thread_id, row.run_id)
    assert lease is not None

    def taken_over() -> None:
        clock[0] += 1000
        later = Leases(place, seconds=5, clock=lambda: clock[0])
        lease.release()
        assert later.acquire(row.thread_id, row.run_id) is not None

    return Effects(place, row.run_id, Budget(Limits()), lease=lease), taken_over, row.run_id


async def test_a_worker_that_lost_its_run_begins_no_effect(place: Workspace) -> None:
    effects, taken_over, _ = held(place)
    taken_over()
    call = Calls()
    with pytest.raises(LeaseLost):
        await effects.once("a", "tool", "send", call)
    assert call.begun == 0


async def test_a_worker_that_loses_its_run_meanwhile_records_no_effect(place: Workspace) -> None:
    effects, taken_over, run_id = held(place)
    call = Calls(taken_over)
    with pytest.raises(LeaseLost):
        await effects.once("a", "tool", "send", call)
    assert call.begun == 1
    later = Effects(place, run_id, Budget(Limits()))
    assert later.find("a") is None
    assert later.budget.spent.tokens == 0


def setting(place: Workspace, run_id: str, then: Any = None) -> tuple[OutputAccumulator, Callable[[], Done]]:
    """An effect within the records: it sets an output; `then` comes after that."""
    store = ConversationStore(place)
    outputs = OutputAccumulator(store, store.create("digest", run_id, key="agent"), ["x"])

    def work() -> Done:
        outputs.set("x", 1)
        if then is not None:
            then()
        return Done("set")

    return outputs, work


async def test_what_an_effect_does_within_the_records_is_there_with_its_result_or_not_at_all(place: Workspace) -> None:
    effects, _, run_id = held(place)

    def fail() -> None:
        raise RuntimeError

    outputs, work = setting(place, run_id, fail)
    with pytest.raises(RuntimeError):
        await effects.within("a", "synthetic", "set_output", work, node="read")
    assert (outputs.values, effects.find("a")) == ({}, None)
    outputs, work = setting(place, run_id)
    assert await effects.within("a", "synthetic", "set_output", work, node="read") == "set"
    assert (outputs.values, effects.find("a")) == ({"x": 1}, "set")
    outputs.set("x", 2)
    assert await effects.within("a", "synthetic", "set_output", work, node="read") == "set"
    assert outputs.values == {"x": 2}  # it was not done again


async def test_what_comes_before_a_commit_is_in_its_transaction(place: Workspace) -> None:
    effects, _, run_id = held(place)
    outputs, work = setting(place, run_id)

    def fail() -> None:
        raise RuntimeError

    effects.before_commit = fail
    with pytest.raises(RuntimeError):
        await effects.within("a", "synthetic", "set_output", work, node="read")
    with pytest.raises(RuntimeError):
        await effects.write(lambda: outputs.set("x", 1))
    assert (outputs.values, effects.find("a")) == ({}, None)


async def test_a_worker_that_lost_its_run_does_nothing_within_the_records(place: Workspace) -> None:
    effects, taken_over, run_id = held(place)
    outputs, work = setting(place, run_id)
    taken_over()
    with pytest.raises(LeaseLost):
        await effects.within("a", "synthetic", "set_output", work, node="read")
    assert (outputs.values, Effects(place, run_id, Budget(Limits())).find("a")) == ({}, None)


async def test_an_effect_that_was_only_begun_is_done_within_the_records(place: Workspace) -> None:
    effects, _, run_id = held(place)

    def fail() -> None:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        await effects.once("a", "synthetic", "set_output", Calls(fail))
    outputs, work = setting(place, run_id)
    assert await effects.within("a", "synthetic", "set_output", work, node="read") == "set"
    assert (outputs.values, effects.find("a")) == ({"x": 1}, "set")


async def test_what_goes_with_a_result_is_recorded_with_it_or_neither_is(place: Workspace) -> None:
    effects, _, run_id = held(place)
    store = ConversationStore(place)
    talk = store.create("digest", run_id, key="agent")

    def fails(result: Any) -> None:
        store.append(talk, Message(role="assistant", content=result), key="a")
        raise RuntimeError

    with pytest.raises(RuntimeError):
        await effects.once("a", "model", "m", Calls(), also=fails)
    assert (effects.find("a"), store.messages(talk)) == (None, [])
    store.append(talk, Message(role="user", content="meanwhile"))

    def works(result: Any) -> None:
        store.append(talk, Message(role="assistant", content=result), key="a")

    assert await effects.once("a", "model", "m", Calls(), also=works) == "done"
    assert [(entry.n, entry.key == "a") for entry in store.messages(talk)] == [(1, False), (2, True)]


async def test_what_was_spent_counts_for_the_process_that_goes_on(place: Workspace) -> None:
    row, _ = RunStore(place).insert("event_loop", {"input": {}})
    limits = Limits(tool_calls=2)
    first = Effects(place, row.run_id, Budget(limits))
    for key in ("a", "b"):
        await first.once(key, "tool", "send", Calls(), tool_calls=1)
    resumed, call = Effects(place, row.run_id, Budget(limits)), Calls()
    assert (resumed.budget.spent.tool_calls, resumed.budget.spent.tokens) == (2, 20)
    with pytest.raises(BudgetExhausted):
        await resumed.once("c", "tool", "send", call, tool_calls=1)
    assert call.begun == 0
    assert await resumed.once("a", "tool", "send", call, tool_calls=1) == "done"
    assert call.begun == 0


async def test_an_effect_that_is_not_permitted_is_not_begun_and_one_that_was_done_is_found(place: Workspace) -> None:
    row, _ = RunStore(place).insert("event_loop", {"input": {}})
    await Effects(place, row.run_id, Budget(Limits())).once("a", "tool", "send", Calls())

    def refuse() -> None:
        raise PermissionError

    effects, call = Effects(place, row.run_id, Budget(Limits()), permitted=refuse), Calls()
    assert await effects.once("a", "tool", "send", call) == "done"
    with pytest.raises(PermissionError):
        await effects.once("b", "tool", "send", call)
    assert call.begun == 0


async def test_what_an_effect_cost_counts_at_once(place: Workspace) -> None:
    row, _ = RunStore(place).insert("event_loop", {"input": {}})
    effects = Effects(place, row.run_id, Budget(Limits(tokens=15)))
    await effects.once("a", "model", "m", Calls())
    assert (effects.budget.spent.tokens, effects.left("b", "tokens")) == (10, 5)
    await effects.once("b", "model", "m", Calls())
    call = Calls()
    with pytest.raises(BudgetExhausted):
        await effects.once("c", "model", "m", call)
    assert call.begun == 0


async def test_a_raised_limit_holds_for_the_process_that_goes_on(place: Workspace) -> None:
    row, _ = RunStore(place).insert("event_loop", {"input": {}})
    first = Effects(place, row.run_id, Budget(Limits(tokens=10)))
    await first.raise_limit("tokens", 10, 40)
    resumed = Effects(place, row.run_id, Budget(Limits(tokens=10)))
    assert resumed.budget.limits.tokens == first.budget.limits.tokens == 40


async def test_a_delegations_budget_is_of_its_own_effects_alone(place: Workspace) -> None:
    row, _ = RunStore(place).insert("event_loop", {"input": {}})
    effects = Effects(place, row.run_id, Budget(Limits()))
    effects.limit("a#1/2/1", Limits(tokens=10))
    await effects.once("a#1/2/1/b#1/1", "model", "m", Calls())
    await effects.once("a#1/2/10/b#1/1", "model", "m", Calls())
    assert effects.left("a#1/2/1/b#1/2", "tokens") == 0
    assert effects.left("a#1/2/10/b#1/2", "tokens") is None
    with pytest.raises(BudgetExhausted) as error:
        await effects.once("a#1/2/1/b#1/2", "model", "m", Calls())
    assert error.value.scope == "a#1/2/1"
    await effects.once("a#1/2/10/b#1/2", "model", "m", Calls())


@pytest.mark.parametrize("measure", ["tokens", "usd"])
async def test_sub_agents_that_work_at_once_spend_no_more_than_the_run_has(place: Workspace, measure: str) -> None:
    """Forty calls of five delegations at once: what has begun is held back, so that the sum never passes the limit."""
    row, _ = RunStore(place).insert("event_loop", {"input": {}})
    effects = Effects(place, row.run_id, Budget(Limits(tokens=100) if measure == "tokens" else Limits(usd=1.0)))

    async def do(_: bool) -> Done:
        await asyncio.sleep(0.001)
        return Done("done", Usage(input_tokens=10, usd=0.1))

    await effects.once("first", "model", "m", do, tokens=10)
    for part in range(5):
        effects.limit(f"a#1/{part}", Limits(tokens=1_000))
    calls = (effects.once(f"a#1/{n % 5}/b#1/{n}", "model", "m", do, tokens=10) for n in range(40))
    found = await asyncio.gather(*calls, return_exceptions=True)
    assert sum(one == "done" for one in found) == 9
    assert all(isinstance(one, BudgetExhausted) and one.measure == measure for one in found if one != "done")
    assert effects.budget.spent.tokens == 100
    assert effects.budget.spent.usd == pytest.approx(1.0)


async def test_estimates_are_corrected_by_what_models_counted(place: Workspace) -> None:
    row, _ = RunStore(place).insert("event_loop", {"input": {}})
    effects = Effects(place, row.run_id, Budget(Limits(tokens=100)))
    await effects.once("a", "model", "m", Calls(), tokens=50)
    assert await effects.once("b", "model", "m", Calls(), tokens=95) == "done", "a fifth of it was used the last time"


async def test_what_one_run_has_done_is_not_done_for_another(place: Workspace) -> None:
    calls = Calls()
    for _ in range(2):
        row, _ = RunStore(place).insert("event_loop", {"input": {}})
        await Effects(place, row.run_id, Budget(Limits())).once("a", "tool", "send", calls)
    assert calls.begun == 2


class Death(BaseException):
    """The end of a process in the middle of an effect."""


@pytest.mark.parametrize(("kind", "sent", "tokens"), [("model", [1], 20), ("model", [1, -1], 10), ("tool", [1], 10)])
async def test_an_answer_that_no_process_lived_to_record_counts_as_one_more(
    place: Workspace, kind: str, sent: list[int], tokens: int
) -> None:
    """A server has counted the request, unless it was refused; how much is estimated by the one that is made again."""
    row, _ = RunStore(place).insert("event_loop", {"input": {}})
    first = Effects(place, row.run_id, Budget(Limits()))

    def die() -> None:
        for number in sent:
            first.sending("a")(number)
        raise Death

    with pytest.raises(Death):
        await first.once("a", kind, "think", Calls(die))
    later = Effects(place, row.run_id, Budget(Limits()))
    await later.once("a", kind, "think", Calls(lambda: later.sending("a")(1)))
    again = Effects(place, row.run_id, Budget(Limits()))
    assert (again.budget.spent.tokens, again.budget.spent.estimated) == (tokens, int(tokens > 10))
    assert RunStore(place).get(row.run_id).summary["tokens"] == tokens


@pytest.mark.parametrize(("requests", "tokens"), [(1, 20), (2, 15)])
async def test_what_was_lost_counts_as_one_request_and_not_as_all_that_it_took(
    place: Workspace, requests: int, tokens: int
) -> None:
    """Also what another worker sends, which has lost the run without knowing it, while this one is at work."""
    row, _ = RunStore(place).insert("event_loop", {"input": {}})
    first, later = (Effects(place, row.run_id, Budget(Limits())) for _ in range(2))

    def die() -> None:
        raise Death

    def both() -> None:
        first.sending("a")(1)
        for _ in range(requests):
            later.sending("a")(1)

    with pytest.raises(Death):
        await first.once("a", "model", "think", Calls(die))
    await later.once("a", "model", "think", Calls(both))
    assert RunStore(place).get(row.run_id).summary["tokens"] == tokens


async def dies(effects: Effects, key: str, tokens: int) -> None:
    """A process that sends one request, and dies."""

    def die() -> None:
        effects.sending(key)(1)
        raise Death

    with pytest.raises(Death):
        await effects.once(key, "model", "think", Calls(die), tokens=tokens)


async def test_a_call_whose_process_died_counts_by_its_estimate_until_it_is_made_again(place: Workspace) -> None:
    row, _ = RunStore(place).insert("event_loop", {"input": {}})
    await dies(Effects(place, row.run_id, Budget(Limits(tokens=100))), "a", 50)
    assert RunStore(place).get(row.run_id).summary["tokens"] == 50
    later = Effects(place, row.run_id, Budget(Limits(tokens=100)))
    with pytest.raises(BudgetExhausted):
        await later.once("b", "model", "think", Calls(), tokens=51)
    await later.once("a", "model", "think", Calls(lambda: later.sending("a")(1)), tokens=50)
    assert RunStore(place).get(row.run_id).summary["tokens"] == later.budget.spent.tokens == 20
    await later.once("b", "model", "think", Calls(), tokens=51)


async def test_a_call_is_not_made_again_where_what_was_lost_of_it_leaves_no_room(place: Workspace) -> None:
    """However often its process dies: a server has counted each time."""
    row, _ = RunStore(place).insert("event_loop", {"input": {}})
    for _ in range(3):
        await dies(Effects(place, row.run_id, Budget(Limits(tokens=35))), "a", 10)
    effects, call = Effects(place, row.run_id, Budget(Limits(tokens=35))), Calls()
    with pytest.raises(BudgetExhausted):
        await effects.once("a", "model", "think", call, tokens=10)
    assert (call.begun, RunStore(place).get(row.run_id).summary["tokens"]) == (0, 30)
    await effects.raise_limit("tokens", 35, 40)
    await effects.once("a", "model", "think", call, tokens=10)
    assert (call.begun, RunStore(place).get(row.run_id).summary["tokens"]) == (1, 40)


@pytest.mark.parametrize(("sent", "tokens"), [([1, -1], 0), ([1, 1], 20), ([], 0)])
async def test_a_call_that_ends_without_a_result_counts_by_what_is_out(
    place: Workspace, sent: list[int], tokens: int
) -> None:
    """Such as one to a model that can't be reached, for which the run waits."""
    row, _ = RunStore(place).insert("event_loop", {"input": {}})
    effects = Effects(place, row.run_id, Budget(Limits(tokens=40)))

    def fail() -> None:
        assert RunStore(place).get(row.run_id).summary["tokens"] == 10
        for number in sent:
            effects.sending("a")(number)
        raise ConnectionError

    with pytest.raises(ConnectionError):
        await effects.once("a", "model", "think", Calls(fail), tokens=10)
    assert RunStore(place).get(row.run_id).summary["tokens"] == tokens
    await effects.once("b", "model", "think", Calls(), tokens=40 - tokens)


async def test_a_lost_call_counts_by_its_estimate_where_the_one_made_again_costs_nothing(place: Workspace) -> None:
    """It was refused: nothing says better what the first one cost."""
    row, _ = RunStore(place).insert("event_loop", {"input": {}})
    await dies(Effects(place, row.run_id, Budget(Limits())), "a", 50)

    async def refused(_: bool) -> Done:
        return Done("refused")

    await Effects(place, row.run_id, Budget(Limits())).once("a", "model", "think", refused, tokens=50)
    assert RunStore(place).get(row.run_id).summary["tokens"] == 50


async def test_what_sub_agents_have_at_work_is_held_back_in_their_own_budget(place: Workspace) -> None:
    row, _ = RunStore(place).insert("event_loop", {"input": {}})
    effects = Effects(place, row.run_id, Budget(Limits()))
    effects.limit("a#1/1", Limits(tokens=30))

    async def do(_: bool) -> Done:
        await asyncio.sleep(0.001)
        return Done("done", Usage(input_tokens=10))

    calls = (effects.once(f"a#1/1/b#1/{n}", "model", "m", do, tokens=10) for n in range(9))
    found = await asyncio.gather(*calls, return_exceptions=True)
    assert sum(one == "done" for one in found) == 3
    assert {one.scope for one in found if isinstance(one, BudgetExhausted)} == {"a#1/1"}
