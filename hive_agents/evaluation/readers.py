"""What a change costs readers, which nUDCG doesn't tell: it gives 0 for an empty list and less for a misleading one.

A config that answers nothing would be better than one with a distractor. These five figures stand beside the nUDCG.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hive_agents.evaluation.results import Evaluation, QueryEvaluation, mean
from hive_agents.workspace.settings import Gate

READERS = ("answered", "recall", "first", "reach", "hidden")
"""The names of the figures, by which a person may accept a loss."""

WITHIN = 10
"""How many places of a list a reader looks at."""

EPSILON = 1e-9
Pair = tuple[float, float]


@dataclass(frozen=True)
class Reach:
    """Before and after: the share of known documents that their own title finds. `hidden` is the number of documents
    that were found and that no question finds any more, without those that may be hidden."""

    reach: Pair | None
    hidden: int


@dataclass(frozen=True)
class Readers:
    """Each figure before and after; None where there is nothing to measure it by.

    `answered`, `recall` and `first` are over the questions that have an answer: the share with one in the list, the
    share of relevant documents among the first ten, and the share whose list begins with one.
    """

    answered: Pair | None
    recall: Pair | None
    first: Pair | None
    reach: Pair | None = None
    hidden: int | None = None

    @classmethod
    def of(cls, old: Evaluation, new: Evaluation, reached: Reach | None = None) -> Readers:
        def both(figure: Any) -> Pair | None:
            pair = [mean(figure(query) for query in side.queries if query.query.relevant) for side in (old, new)]
            return None if None in pair else (pair[0], pair[1])  # type: ignore[return-value]

        return cls(
            both(answered),
            both(recall_of),
            both(first),
            reached.reach if reached else None,
            reached.hidden if reached else None,
        )

    def falls(self, gate: Gate) -> Iterator[tuple[str, str]]:
        """Yield (name, words) of each figure that falls by more than its budget."""
        for name in READERS[:4]:
            pair, budget = getattr(self, name), getattr(gate, f"{name}_drop")
            if pair is not None and pair[0] - pair[1] > budget + EPSILON:
                words_of = f"{_WORDS[name]} falls from {pair[0]:.3f} to {pair[1]:.3f}"
                yield name, f"{words_of}, by more than the {budget:g} of {name}_drop"
        if self.hidden is not None and self.hidden > gate.hidden:
            yield "hidden", f"{self.hidden} documents can't be found by any question any more, and may not be hidden"

    def to_json(self) -> dict[str, Any]:
        pairs = {name: list(pair) if (pair := getattr(self, name)) else None for name in READERS[:4]}
        return {**pairs, "hidden": self.hidden}


_WORDS = {
    "answered": "the share of answered questions",
    "recall": "recall over the answerable questions",
    "first": "the share of lists that begin with an answer",
    "reach": "the share of documents that their title finds",
}


def readers_lines(figures: Mapping[str, Any] | None) -> list[str]:
    """Return the figures of `Readers.to_json` as sentences; none for a result of an earlier release.

    >>> readers_lines({"answered": [1.0, 0.5], "recall": None, "first": [0.5, 0.5], "reach": None, "hidden": 2})
    ['readers: answered 1.000 -> 0.500, first 0.500 -> 0.500, 2 documents hidden']
    """
    if not figures:
        return []
    pairs = [(name, figures.get(name)) for name in READERS[:4]]
    parts = [f"{name} {pair[0]:.3f} -> {pair[1]:.3f}" for name, pair in pairs if pair]
    hidden = figures.get("hidden")
    parts += [] if hidden is None else [f"{hidden} document{'s' * (hidden != 1)} hidden"]
    return [f"readers: {', '.join(parts)}"] if parts else []


def step_line(step: Mapping[str, Any]) -> str:
    """Return what a deployed step brought and what it costs readers, from {n, difference, p_value, alpha, readers}.

    >>> figures = {"answered": [1.0, 0.98], "recall": [0.9, 0.9], "first": [0.5, 0.6], "reach": None, "hidden": 0}
    >>> step_line({"n": 200, "difference": 0.041, "p_value": 0.0021, "alpha": 0.0304, "readers": figures})
    'nUDCG +0.041 on 200 held-out questions (p = 0.0021 against 0.0304); costs: answered 1.000 -> 0.980'
    >>> step_line({"n": 0, "difference": None, "p_value": None, "alpha": None, "readers": None})
    'not measured on held-out questions'
    """
    if step["difference"] is None or step["p_value"] is None:
        return "not measured on held-out questions"
    proof = f"(p = {step['p_value']:.4f} against {step['alpha']:.4f})"
    brought = f"nUDCG {step['difference']:+.3f} on {step['n']} held-out questions {proof}"
    figures = step["readers"]
    if not figures:
        return brought
    pairs = [(name, figures.get(name)) for name in READERS[:4]]
    costs = [f"{name} {pair[0]:.3f} -> {pair[1]:.3f}" for name, pair in pairs if pair and pair[1] < pair[0] - EPSILON]
    costs += [f"{figures['hidden']} documents hidden"] if figures.get("hidden") else []
    return f"{brought}; costs: {', '.join(costs) or 'readers nothing'}"


def answered(query: QueryEvaluation) -> float:
    return float(any(hit.label == "relevant" for hit in query.hits))


def recall_of(query: QueryEvaluation) -> float:
    found = sum(hit.label == "relevant" for hit in query.hits if hit.rank <= WITHIN)
    return found / len(query.query.relevant)


def first(query: QueryEvaluation) -> float:
    return float(bool(query.hits) and query.hits[0].label == "relevant")
