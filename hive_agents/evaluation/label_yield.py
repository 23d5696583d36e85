"""How small a gain a golden set can show, and when more labels would change little."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import sqrt
from statistics import NormalDist, stdev

from hive_agents.evaluation.golden import GoldenQuery
from hive_agents.evaluation.labelling import POOL_DEPTH, LabelPool
from hive_agents.evaluation.metrics.measure import nudcg

ALPHA, POWER = 0.05, 0.80
TYPICAL_SPREAD = 0.46
"""The standard deviation of the differences in nUDCG by question, of both lanes on the sample's 137 with an answer."""
STEP, LITTLE = 10, 0.005
"""More labels change little where `STEP` more questions lower the smallest gain that can be shown by less."""


@dataclass
class LabelYield:
    """The smallest gain that the labelled questions of a collection can show.

    The spread between two ways of searching is estimated from the differences in nUDCG by question of the two that are
    pooled; with one lane, from its nUDCG.
    """

    pool: LabelPool
    differences: list[float] = field(default_factory=list)

    def add(self, query: GoldenQuery) -> None:
        """Add a labelled question; one without relevant documents is ignored."""
        if not query.relevant:
            return
        scores = [nudcg(found, query.qrels, POOL_DEPTH) for found in self._found(query.query)]
        self.differences.append(scores[0] - scores[-1] if len(scores) > 1 else scores[0])

    def telling_first(self, questions: Sequence[str]) -> list[str]:
        """Return the questions with those first on which the two rankings agree least: labels tell most there.

        With one lane they stay in order.
        """
        return sorted(questions, key=self._agreement) if len(self.pool.configs) > 1 else list(questions)

    def _agreement(self, question: str) -> float:
        """Return how alike the rankings are: the mean over their depths of the share of documents that both have."""
        one, other = self._found(question)
        depths = range(1, max(len(one), len(other)) + 1)
        shares = [len(set(one[:depth]) & set(other[:depth])) / depth for depth in depths]
        return sum(shares) / len(shares) if shares else 1.0

    def _found(self, question: str) -> list[list[str]]:
        return [found[:POOL_DEPTH] for found in self.pool.doc_ids(question)]

    def smallest_gain(self, questions: int | None = None) -> float | None:
        """Return the gain in nUDCG that this many questions show in four cases of five; None below 5 labels."""
        if len(self.differences) < 5:
            return None
        return _shown(stdev(self.differences), questions or len(self.differences))

    def told(self) -> str:
        """Return a line on the gain that the labels can show, and what more of them could."""
        n, now = len(self.differences), self.smallest_gain()
        if now is None:
            usual = ", ".join(f"{more} of {_shown(TYPICAL_SPREAD, more):.2f}" for more in (50, 100, 200))
            begin = f"as a rule 20 questions can show a gain of {_shown(TYPICAL_SPREAD, 20):.2f} nUDCG, {usual}"
            return f"{n} questions with an answer; {begin}; from 5 on it is known for yours"
        later = [(more, self.smallest_gain(more)) for more in (20, 50, 100, 200) if more > n][:2]
        more = "".join(f", {questions} of {gain:.2f}" for questions, gain in later if gain is not None)
        return f"{n} questions can show a gain of {now:.2f} nUDCG in four cases of five{more}"

    def enough(self) -> str | None:
        """Return why more labels would change little, None where they wouldn't."""
        n, now = len(self.differences), self.smallest_gain()
        later = self.smallest_gain(n + STEP)
        if n < 20 or now is None or later is None or now - later >= LITTLE:
            return None
        return f"{STEP} more questions would show a gain of {later:.3f} instead of {now:.3f}: they would change little"


def _shown(spread: float, questions: int) -> float:
    return (NormalDist().inv_cdf(1 - ALPHA) + NormalDist().inv_cdf(POWER)) * spread / sqrt(questions)


def open_questions(questions: Sequence[str], labelled: Sequence[str]) -> list[str]:
    """Return the questions, each once, that aren't labelled yet."""
    from hive_agents.evaluation.golden import question_key

    seen = {question_key(question) for question in labelled}
    unlabelled = []
    for question in questions:
        text = " ".join(question.split())
        key = question_key(text)
        if key and key not in seen:
            seen.add(key)
            unlabelled.append(text)
    return unlabelled
