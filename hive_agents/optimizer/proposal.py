"""What to try next: one interface for proposers, and the one that needs no model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np

from hive_agents.errors import NoModel
from hive_agents.optimizer.diagnosis import Diagnosis
from hive_agents.optimizer.lane_cache import LaneCache
from hive_agents.optimizer.space import Edit, apply, boost_words, identity, parsed, sweep
from hive_agents.retrieval import RetrievalConfig, SqliteIndex

TARGETED = 8


@dataclass(frozen=True)
class Sweep:
    """What every single step from one config gains, in the order of `space.sweep`: measured once, as long as it stays.

    `of` is the config's identity; a step that no reranker could score, or for which too few evaluations were left, has
    no gain.
    """

    of: str
    wide: bool
    gains: tuple[float | None, ...]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def read(cls, value: Mapping[str, Any] | None) -> Sweep | None:
        """Return what `to_json` gave, as it comes back from a run's state."""
        return None if value is None else cls(value["of"], value["wide"], tuple(value["gains"]))


@dataclass(frozen=True)
class Situation:
    """All that a proposer may know: nothing of the holdout is in it.

    `tried` holds the identities of configs measured before, `history` the rows of all trials, oldest first;
    `wide` asks for values off the usual grid; `reranker` says whether one is configured; `swept` is what the last sweep
    found.
    """

    config: RetrievalConfig
    diagnosis: Diagnosis
    cache: LaneCache
    index: SqliteIndex
    tried: frozenset[str]
    iteration: int
    seed: int
    wide: bool
    history: tuple[Mapping[str, Any], ...] = ()
    reranker: bool = False
    swept: Sweep | None = None


@dataclass(frozen=True)
class Proposed:
    """At most `TARGETED` edits to measure, the most promising first; edits with faults come on top of them.

    `fallback` says why another proposer than the one asked had to stand in; `swept` is the sweep they come from.
    """

    edits: tuple[Edit, ...]
    fallback: str | None = None
    swept: Sweep | None = None


class Proposer(Protocol):
    def propose(self, situation: Situation) -> Proposed:
        """Edits of `situation.config`. Raises: `SearchBudgetExhausted`."""


class HeuristicProposer:
    """One operator a cause of loss, filled up with the best single steps of a coordinate sweep."""

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
        unknown = [place for place in order if place not in gains]
        for place in unknown[:1]:  # a trial says what is in the way, and may be luckier
            _add(steps[place], situation.config, edits, seen)
        for place in sorted(gains, key=lambda place: -gains[place]):  # ties in an order the seed decides
            if len(edits) >= TARGETED:
                break
            step, gain = steps[place], gains[place]
            _add(Edit(step.values, "sweep", f"{step.reason}: {gain:+.3f} nUDCG"), situation.config, edits, seen)
        return Proposed(tuple(edits), swept=swept)


def _swept(situation: Situation, steps: Sequence[Edit], order: Sequence[int]) -> Sweep:
    """Return what each step alone gains on the queries that ideas come from, None where it wasn't measured.

    It takes at most half of the evaluations that are left, for the first steps in `order`: the others are for trials.

    Raises: `SearchBudgetExhausted`.
    """
    of, known = identity(situation.config.model_dump(exclude_unset=True)), situation.swept
    if known is not None and (known.of, known.wide, len(known.gains)) == (of, situation.wide, len(steps)):
        return known
    before = float(situation.cache.evaluate(situation.config).nudcg.mean())
    budget = situation.cache.budget
    room = len(steps) if budget is None else budget.left // 2
    gains: list[float | None] = [None] * len(steps)
    for place in sorted(order[:room]):
        with suppress(NoModel):
            found = situation.cache.evaluate(parsed(apply(situation.config, steps[place].values)))
            gains[place] = float(found.nudcg.mean()) - before
    return Sweep(of, situation.wide, tuple(gains))


def _add(edit: Edit, config: RetrievalConfig, edits: list[Edit], seen: set[str]) -> None:
    mark = identity(apply(config, edit.values))
    if mark not in seen:
        seen.add(mark)
        edits.append(edit)


def _targeted(situation: Situation) -> Iterator[Edit]:
    """Operators in order of what their cause costs."""
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
    # One edit of each cause in turn: the largest loss isn't always the one that can be mended.
    while queues:
        for queue in list(queues):
            edit = next(queue, None)
            if edit is None:
                queues.remove(queue)
            else:
                yield edit


def _exclude(situation: Situation) -> Iterator[Edit]:
    for found in situation.diagnosis.exclusions[:3]:
        current = situation.config.filters.get(found.field)
        excluded = list(current["not"]) if isinstance(current, dict) and "not" in current else []
        lost = "no relevant document is lost" if not found.lost_relevant else f"{found.lost_relevant} relevant are lost"
        reason = f"{found.field} {found.value} brings more distractors than answers; {lost}"
        yield Edit(
            ((f"filters.{found.field}", {"not": sorted([*excluded, found.value])}),), "category_distractor", reason
        )


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
    """Weigh what wins against other versions more; where it is one value, show nothing else."""
    why = "other pages of the same name win"
    for found in situation.diagnosis.preferences[:3]:
        path, words = f"boosts.{found.field}", boost_words(found.field, found.boost)
        yield Edit(((path, found.boost),), "other_version", f"{why}: {words}")
        value = next((value for value, factor in found.boost.items() if factor == 2.0), None)
        if value is not None and found.field not in situation.config.filters:
            yield Edit(((f"filters.{found.field}", [value]),), "other_version", f"{why}: only {found.field} {value}")
            stronger = found.boost | {value: 4.0}
            yield Edit(((path, stronger),), "other_version", f"{why}: {boost_words(found.field, stronger)}")


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
    """Return two parents' changes together; where both change the same thing, the first one's stays."""
    values = dict(b) | dict(a)
    return Edit(tuple(sorted(values.items())), "merge", "what two configs did well on different queries, together")
