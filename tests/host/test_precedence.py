"""What only has to be taken in goes before new work, and never holds it up for ever."""

from __future__ import annotations

from hive_agents.host.dispatcher import PATIENCE, Precedence


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_new_work_waits_while_something_is_in_hand_and_hears_of_its_end() -> None:
    heard: list[str] = []
    precedence = Precedence(lambda: heard.append("over"), Clock())
    assert precedence.wait() == 0
    with precedence.first():
        with precedence.first():
            assert precedence.wait() == PATIENCE
        assert heard == []
        assert precedence.wait() > 0
    assert (heard, precedence.wait()) == (["over"], 0)
    with precedence.first():
        pass  # nothing was held back
    assert heard == ["over"]


def test_new_work_begins_now_and_then_whatever_is_in_hand() -> None:
    clock = Clock()
    precedence = Precedence(lambda: None, clock)
    with precedence.first():
        clock.now += PATIENCE
        assert precedence.wait() == 0
        precedence.begun()
        assert precedence.wait() == PATIENCE


def test_a_failure_is_in_hand_no_more() -> None:
    precedence = Precedence(lambda: None, Clock())
    try:
        with precedence.first():
            raise ValueError
    except ValueError:
        pass
    assert precedence.wait() == 0
