"""Scores of a reranker that are paid for once, also over processes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from hive_agents import Workspace
from hive_agents.models.embedding import CachedReranker


class Lengths:
    """Scores a text by its length, and remembers what it was asked for."""

    def __init__(self, model_id: str = "lab:lengths", seconds: float = 0.0) -> None:
        self.model_id, self.seconds = model_id, seconds
        self.asked: list[tuple[str, list[str]]] = []

    def relevance(self, query: str, texts: Sequence[str]) -> list[float]:
        self.asked.append((query, list(texts)))
        time.sleep(self.seconds)
        return [float(len(text)) for text in texts]


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    (tmp_path / "collections").mkdir()
    return Workspace(tmp_path)


def test_only_what_is_not_known_of_a_question_is_asked_for(place: Workspace) -> None:
    model = Lengths()
    cached = CachedReranker(place, model)
    assert cached.relevance("q", ["a", "bbb"]) == [1.0, 3.0]
    assert cached.relevance("q", ["bbb", "cc", "a", "cc"]) == [3.0, 2.0, 1.0, 2.0]
    assert cached.relevance("other", ["a"]) == [1.0]
    assert model.asked == [("q", ["a", "bbb"]), ("q", ["cc"]), ("other", ["a"])]


def test_another_process_pays_nothing_twice(place: Workspace) -> None:
    CachedReranker(place, Lengths()).relevance("q", ["a", "bbb"])
    model = Lengths()
    assert CachedReranker(place, model).relevance("q", ["bbb", "a"]) == [3.0, 1.0]
    assert model.asked == []


def test_another_model_is_asked_itself(place: Workspace) -> None:
    CachedReranker(place, Lengths("lab:a/b")).relevance("q", ["a"])
    model = Lengths("lab:a-b")
    CachedReranker(place, model).relevance("q", ["a"])
    assert model.asked == [("q", ["a"])]


def test_a_damaged_file_costs_the_scores_again_and_nothing_else(place: Workspace) -> None:
    CachedReranker(place, Lengths()).relevance("q", ["a"])
    (file,) = (place.state / "rerank").glob("*/*.npz")
    for damage in (b"", b"no archive", file.read_bytes()[:-40]):
        file.write_bytes(damage)
        model = Lengths()
        assert CachedReranker(place, model).relevance("q", ["a"]) == [1.0]
        assert model.asked == [("q", ["a"])]


def test_no_question_and_no_text_is_written_down(place: Workspace) -> None:
    CachedReranker(place, Lengths()).relevance("a secret question", ["a secret text"])
    assert all(b"secret" not in path.read_bytes() for path in place.state.rglob("*") if path.is_file())


def test_the_time_that_an_answer_took_is_kept_with_it(place: Workspace) -> None:
    CachedReranker(place, Lengths(seconds=0.02)).relevance("q", ["a", "bb"])
    cached = CachedReranker(place, Lengths())
    assert sum(one.seconds for one in cached.known_relevance("q", ["a", "bb"])) >= 0.02
    before = cached.saved_seconds
    cached.relevance("q", ["a", "bb"])
    assert cached.saved_seconds > before


def test_each_call_that_was_paid_is_told(place: Workspace) -> None:
    paid: list[tuple[str, int]] = []
    cached = CachedReranker(place, Lengths(), lambda query, texts: paid.append((query, len(texts))))
    cached.relevance("q", ["a", "bb"])
    cached.relevance("q", ["a", "ccc"])
    assert paid == [("q", 2), ("q", 1)]
    assert cached.characters_sent(["q", "never asked"]) == 2 * 1 + 4
