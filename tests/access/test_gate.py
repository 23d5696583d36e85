"""The gate by itself: whatever goes wrong with a service of anybody's making shows nothing, and is waited for once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from hive_agents.access import PermissionFault, Principal, ViewGate
from hive_agents.access.service import TurnGate

READER = Principal("acme", "dana")


class Elsewhere:
    """A permission service that somebody else wrote; `answer` is raised where it is an exception."""

    lists = False

    def __init__(self, answer: Any) -> None:
        self.answer, self.asked = answer, 0

    def ask(self, principal: Principal, doc_ids: Sequence[str]) -> Any:
        self.asked += 1
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer

    view = ask

    def scope(self, principal: Principal, documents: Any) -> Any:
        raise AssertionError


FAULTS: list[Any] = [
    PermissionFault("it hung up"), TimeoutError(), ConnectionError(), OSError(), ValueError(), KeyError("a"),
    TypeError(), RuntimeError(), MemoryError(), RecursionError(), AttributeError(), AssertionError(),
    ZeroDivisionError(), StopIteration(), None, 7, [["a.md"]],
]  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS, ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("kind", [ViewGate, TurnGate])
def test_every_fault_of_any_class_shows_nothing(kind: type[ViewGate], fault: Any) -> None:
    assert kind(Elsewhere(fault), READER).allowed(["a.md", "b.md"]) == frozenset()


@pytest.mark.parametrize("fault", FAULTS[:4], ids=lambda one: type(one).__name__)
def test_a_turn_asks_once_after_a_fault_and_stays_closed(fault: Any) -> None:
    service = Elsewhere(fault)
    gate = TurnGate(service, READER)
    assert gate.fault is None
    assert [gate.allowed([doc_id]) for doc_id in ("a.md", "b.md")] == [frozenset()] * 2
    service.answer = {"a.md", "b.md"}
    assert gate.allowed(["a.md"]) == frozenset()
    assert (service.asked, gate.fault is None) == (1, False)


def test_nothing_is_shown_that_was_not_asked_about() -> None:
    assert ViewGate(Elsewhere({"a.md", "secret.md"}), READER).allowed(["a.md", "b.md"]) == {"a.md"}


def test_each_question_is_asked_again_and_nothing_that_was_answered_counts() -> None:
    service = Elsewhere({"a.md"})
    gate = TurnGate(service, READER)
    assert gate.allowed(["a.md"]) == {"a.md"}
    service.answer = set()
    assert gate.allowed(["a.md"]) == frozenset()
    assert service.asked == 2
