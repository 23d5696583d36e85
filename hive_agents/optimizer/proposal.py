"""Proposals of edits to try next: the interface of proposers, and the one that needs no model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np

from hive_agents.base import NoModel
from hive_agents.index import AnyIndex
from hive_agents.optimizer.diagnosis import Diagnosis
from hive_agents.optimizer.lane_cache import LaneCache
from hive_agents.optimizer.space import Edit, apply, boost_words, identity, parsed, sweep
from hive_agents.ranking import RetrievalConfig

TARGETED = 8


@dataclass(frozen=True)
class Sweep:
    """The gain of every single step from one config, in the order of `space.sweep`; reused while the config stays.

    `of` is the config's identity. The gain is None for a step that no reranker could score or that the budget left out.
    """

    of: str
    wide: bool
    gains: tuple[float | None, ...]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def read(cls, value: Mapping[str, Any] | None) -> Sweep | None:
        """Return the sweep in a run's state, as `to_json` wrote it; None without one."""
        return None if value is None else cls(value["of"], value["wide"], tuple(value["gains"]))


@dataclass(frozen=True)
class Situation:
    """All that a proposer may know, which includes nothing of the holdout.

    `tried` has the identities of configs measured before, `history` the rows of all trials, oldest first; `wide` asks
    for values off the usual grid; `reranker` tells whether one is configured; `swept` is the last sweep.
    """

    config: RetrievalConfig
    diagnosis: Diagnosis
    cache: LaneCache
    index: AnyIndex
    tried: frozenset[str]
    iteration: int
    seed: int
    wide: bool
    history: tuple[Mapping[str, Any], ...] = ()
    reranker: bool = False
    swept: Sweep | None = None


@dataclass(frozen=True)
class Proposed:
    """At most `TARGETED` edits to measure, the most promising first, and the edits with faults.

    `fallback` is the reason why another than the configured proposer was used; `swept` is the sweep of the edits.
    """

    edits: tuple[Edit, ...]
    fallback: str | None = None
    swept: Sweep | None = None


class Proposer(Protocol):
    def propose(self, situation: Situation) -> Proposed:
        """Return edits of `situation.config`. Raises: `SearchBudgetExhausted`."""


class HeuristicProposer:
    """One operator per cause of loss, then the best single steps of a coordinate sweep."""

    def propose(self, situation: Situation) -> Proposed:
        edits: list[Edit] = []
        seen = set(situation.tried)
        for edit in _targeted(situation):
            if len(edits) >= TARGETED // 2:
                break
            _add(edit, situation.config, edits, seen)
        steps = list(sweep(situation.config, situation.index, wide=situation.wide, reranker=situation.reranker))
        order = np.random.default_rng([situation.seed, situation.iteration]).permutation(len(steps)).tolist()
        swept = _swept(situation, steps, order)
        gains = {place: gain for place in order if (gain := swept.gains[place]) is not None}
        unmeasured = [place for place in order if place not in gains]
        for place in unmeasured[:1]:  # its trial reports why it couldn't be measured, or succeeds now
            _add(steps[place], situation.config, edits, seen)
        for place in sorted(gains, key=lambda place: -gains[place]):  # ties in the order of the seed
            if len(edits) >= TARGETED:
                break
            step, gain = steps[place], gains[place]
            _add(Edit(step.values, "sweep", f"{step.reason}: {gain:+.3f} nUDCG"), situation.config, edits, seen)
        return Proposed(tuple(edits), swept=swept)


def _swept(situation: Situation, steps: Sequence[Edit], order: Sequence[int]) -> Sweep:
    """Return the gain of each step alone on the queries that ideas come from, None where it wasn't measured.

    At most half of the remaining evaluations are spent, on the first steps in `order`: the others are for trials.

    Raises: `SearchBudgetExhausted`.
    """
    of, last = identity(situation.config.model_dump(exclude_unset=True)), situation.swept
    if last is not None and (last.of, last.wide, len(last.gains)) == (of, situation.wide, len(steps)):
        return last
    before = float(situation.cache.evaluate(situation.config).nudcg.mean())
    budget = situation.cache.budget
    limit = len(steps) if budget is None else budget.remaining // 2
    gains: list[float | None] = [None] * len(steps)
    for place in sorted(order[:limit]):
        with suppress(NoModel):
            scores = situation.cache.evaluate(parsed(apply(situation.config, steps[place].values)))
            gains[place] = float(scores.nudcg.mean()) - before
    return Sweep(of, situation.wide, tuple(gains))


def _add(edit: Edit, config: RetrievalConfig, edits: list[Edit], seen: set[str]) -> None:
    edited = identity(apply(config, edit.values))
    if edited not in seen:
        seen.add(edited)
        edits.append(edit)


def _targeted(situation: Situation) -> Iterator[Edit]:
    """Yield the operators' edits in turn, beginning with the cause that costs most."""
    operators = {
        "category_distractor": _exclude,
        "keyword_trap": lambda s: _weights(s, "vector", "keyword search alone is fooled"),
        "vector_trap": lambda s: _weights(s, "keyword", "vector search alone is fooled"),
        "tail_junk": _shorten,
        "ranked_low": _sharpen,
        "unreachable": _deepen,
        "filtered_away": _unfilter,
        "should_abstain": _abstain,
        "repeats": _thin,
        "other_version": _prefer,
    }
    queues = [operators[loss.cause](situation) for loss in situation.diagnosis.losses if loss.cause in operators]
    # One edit of each cause in turn: the largest loss isn't always one that an edit can recover.
    while queues:
        for queue in list(queues):
            edit = next(queue, None)
            if edit is None:
                queues.remove(queue)
            else:
                yield edit


def _exclude(situation: Situation) -> Iterator[Edit]:
    for exclusion in situation.diagnosis.exclusions[:3]:
        field, value, lost_relevant = exclusion.field, exclusion.value, exclusion.lost_relevant
        current = situation.config.filters.get(field)
        excluded = list(current["not"]) if isinstance(current, dict) and "not" in current else []
        lost = "no relevant document is lost" if not lost_relevant else f"{lost_relevant} relevant are lost"
        reason = f"{field} {value} brings more distractors than answers; {lost}"
        yield Edit(((f"filters.{field}", {"not": sorted([*excluded, value])}),), "category_distractor", reason)


def _weights(situation: Situation, lane: str, why: str) -> Iterator[Edit]:
    weights = situation.config.retrieval.weights.model_dump()
    cause = "keyword_trap" if lane == "vector" else "vector_trap"
    if situation.config.retrieval.method == "hybrid":
        for factor in (2.0, 4.0):
            value = min(weights[lane] * factor, 8.0)
            yield Edit(((f"retrieval.weights.{lane}", value),), cause, f"{why}: trust the {lane} lane more")
        yield Edit((("retrieval.method", lane),), cause, f"{why}: use the {lane} lane only")


def _shorten(situation: Situation) -> Iterator[Edit]:
    retrieval = situation.config.retrieval
    why = "the list goes on after the answer"
    if retrieval.method == "hybrid":
        for factor in (1.5, 2.0, 3.0):
            values = (("dynamic_k.enabled", True), ("dynamic_k.gap_threshold_factor", factor))
            yield Edit(values, "tail_junk", f"{why}: end it at the first cliff in the scores")
    for top_k in (max(1, retrieval.top_k // 2), 3, 1):
        yield Edit((("retrieval.top_k", top_k),), "tail_junk", f"{why}: return {top_k}")


def _sharpen(situation: Situation) -> Iterator[Edit]:
    why = "the answer is found and ranked too low"
    retrieval = situation.config.retrieval
    for value in (value for value in (10, 5) if retrieval.method == "hybrid" and value < retrieval.rrf_k):
        yield Edit((("retrieval.rrf_k", value),), "ranked_low", f"{why}: let the first ranks count more")
    yield Edit((("bm25.title_boost", 2.0),), "ranked_low", f"{why}: titles say what a document is about")
    yield Edit((("bm25.b", 0.4),), "ranked_low", f"{why}: long sections lose too much")


def _deepen(situation: Situation) -> Iterator[Edit]:
    if situation.config.retrieval.candidates < 200:
        yield Edit((("retrieval.candidates", 200),), "unreachable", "the answer lies deeper than the lanes look")


def _unfilter(situation: Situation) -> Iterator[Edit]:
    for field in situation.config.filters:
        yield Edit(((f"filters.{field}", None),), "filtered_away", f"the filter on {field} hides answers")


def _thin(situation: Situation) -> Iterator[Edit]:
    current = situation.config.retrieval.per_document or 100
    for most in (most for most in (1, 2) if most < current):
        why = "the same document holds several places"
        yield Edit((("retrieval.per_document", most),), "repeats", f"{why}: at most {most} of each")


def _prefer(situation: Situation) -> Iterator[Edit]:
    """Yield the preferred boosts and, for a single value, a filter for it and a stronger boost."""
    why = "other pages of the same name win"
    for preference in situation.diagnosis.preferences[:3]:
        field, boost, path = preference.field, preference.boost, f"boosts.{preference.field}"
        yield Edit(((path, boost),), "other_version", f"{why}: {boost_words(field, boost)}")
        value = next((value for value, factor in boost.items() if factor == 2.0), None)
        if value is not None and field not in situation.config.filters:
            yield Edit(((f"filters.{field}", [value]),), "other_version", f"{why}: only {field} {value}")
            stronger = boost | {value: 4.0}
            yield Edit(((path, stronger),), "other_version", f"{why}: {boost_words(field, stronger)}")


def _abstain(situation: Situation) -> Iterator[Edit]:
    """Yield a floor between the best cosines of queries without an answer and of those with one."""
    cosines = situation.cache.best_cosines
    answerable = np.array([bool(query.relevant) for query in situation.cache.golden])
    finite = np.isfinite(cosines)
    if not (finite & answerable).any() or not (finite & ~answerable).any():
        return
    for share in (0.02, 0.05, 0.10):
        floor = round(float(np.quantile(cosines[finite & answerable], share)), 3)
        if -1.0 <= floor <= 1.0:
            why = f"{int((cosines[~answerable] < floor).sum())} queries without an answer lie below it"
            yield Edit(
                (("abstain.min_cosine", floor),), "should_abstain", f"return nothing under cosine {floor}: {why}"
            )


def merged(a: Sequence[tuple[str, object]], b: Sequence[tuple[str, object]]) -> Edit:
    """Return the changes of two configs together; where both change the same value, that of `a` wins."""
    values = dict(b) | dict(a)
    return Edit(tuple(sorted(values.items())), "merge", "what two configs did well on different queries, together")
