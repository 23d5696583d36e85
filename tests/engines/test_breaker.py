"""When an engine that was away is asked again: by one request, whose outcome decides for all."""

from __future__ import annotations

import threading

import pytest

from hive_agents.base.errors import EngineFault
from hive_agents.engines.breaker import REFUSALS, EngineBreaker, TimedOut, Unreachable


def fault(why: str) -> EngineFault:
    return EngineFault.of("HIVE-434", why)


def ask(breaker: EngineBreaker, error: BaseException | None = None, *, heavy: bool = False) -> str:
    """What becomes of a request."""
    try:
        with breaker.attempt(fault, heavy=heavy):
            if error is not None:
                raise error
    except (EngineFault, KeyboardInterrupt) as raised:
        return "sent" if raised is error else "spared"
    return "sent"


@pytest.fixture
def now() -> list[float]:
    return [0.0]


@pytest.fixture
def breaker(now: list[float]) -> EngineBreaker:
    return EngineBreaker(15.0, lambda: now[0])


def silence() -> TimedOut:
    return TimedOut.of("HIVE-434", "silent")


def refusal() -> Unreachable:
    return Unreachable.of("HIVE-434", "refused")


def test_a_silence_opens_it_and_some_refusals_in_a_row(breaker: EngineBreaker) -> None:
    for _ in range(REFUSALS - 1):
        assert ask(breaker, refusal()) == "sent"
    assert ask(breaker) == "sent"
    for _ in range(REFUSALS):
        assert ask(breaker, refusal()) == "sent"
    assert (ask(breaker), breaker.state) == ("spared", "open")
    other = EngineBreaker(15.0)
    ask(other, silence())
    assert (ask(other), other.state) == ("spared", "open")
    assert other.since is not None


def test_what_the_engine_refuses_or_takes_long_for_by_itself_opens_nothing(breaker: EngineBreaker) -> None:
    ask(breaker, silence(), heavy=True)
    for _ in range(REFUSALS + 1):
        ask(breaker, fault("no such index"))
    ask(breaker, KeyboardInterrupt())
    assert (breaker.state, breaker.since) == ("closed", None)
    assert (breaker.outcomes["silent"], breaker.outcomes["failed"], breaker.outcomes["cut"]) == (1, REFUSALS + 1, 1)


def test_one_of_all_that_ask_decides(breaker: EngineBreaker, now: list[float]) -> None:
    ask(breaker, silence())
    now[0] = 15.0
    asks, answers = threading.Event(), threading.Event()

    def probe() -> None:
        with breaker.attempt(fault):
            asks.set()
            answers.wait()

    thread = threading.Thread(target=probe)
    thread.start()
    asks.wait()
    assert {ask(breaker) for _ in range(20)} == {"spared"}
    answers.set()
    thread.join()
    assert (ask(breaker), breaker.state) == ("sent", "closed")


def test_a_probe_that_fails_opens_it_again_and_one_that_is_cut_off_lets_the_next_decide(
    breaker: EngineBreaker, now: list[float]
) -> None:
    ask(breaker, silence())
    since = breaker.since
    now[0] = 15.0
    assert ask(breaker, KeyboardInterrupt()) == "sent"
    assert ask(breaker, refusal()) == "sent"
    assert (ask(breaker), breaker.state, breaker.since) == ("spared", "open", since)
    now[0] = 30.0
    assert (ask(breaker), breaker.state, breaker.since) == ("sent", "closed", None)


def test_whoever_is_spared_is_told_when_to_ask_again(breaker: EngineBreaker, now: list[float]) -> None:
    ask(breaker, silence())
    now[0] = 3.5
    with pytest.raises(EngineFault, match="isn't asked for 12 s") as raised, breaker.attempt(fault):
        pass
    assert raised.value.retry_after == 12
