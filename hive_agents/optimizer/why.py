"""Why a document isn't first for a query: the smallest edits that put it first, each with its cost on other queries.

Nothing is estimated: every edit is searched with, and its cost is measured on the golden set's open queries.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, Literal

from hive_agents.access import Principal
from hive_agents.base import HiveError, did_you_mean
from hive_agents.evaluation import GoldenSet, evaluate, held_out, question_key
from hive_agents.index import HALF_LIFE, AnyIndex, scope_of
from hive_agents.optimizer.cached_lanes import MAX_DEPTH
from hive_agents.optimizer.lane_cache import LaneCache
from hive_agents.optimizer.space import Edit, apply, changes_from, in_words, parsed, sweep
from hive_agents.ranking import RetrievalConfig, SearchEngine, needs_vectors

MOST = 3
"""The most edits to return of filters, of boosts, and of all other settings."""

_PAIRED = 10
_HALVINGS = 12
_WORST = 5
_SAME = 1e-9


@dataclass(frozen=True)
class Cost:
    """The effect of an edit on `n` other golden queries; `lost` and `gained` are sums of nUDCG over all of them."""

    n: int
    lose: int
    win: int
    lost: float
    gained: float
    difference: float
    distractors: float
    worst: tuple[dict[str, Any], ...]


@dataclass(frozen=True)
class Way:
    """An edit that puts the document first: `changes` by JSON path, or of the document; without labels no `cost`."""

    kind: Literal["config", "metadata", "words"]
    changes: list[dict[str, Any]]
    told: str
    cost: Cost | None

    @property
    def size(self) -> int:
        """The number of edited settings or fields, or of added words."""
        return sum(len(change["words"]) if self.kind == "words" else 1 for change in self.changes)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "size": self.size}


@dataclass(frozen=True)
class DocumentRank:
    """A document's rank for a query among documents, None where it isn't returned, and the document that is first."""

    query: str
    doc_id: str
    config: str
    rank: int | None
    first: str | None


class DocumentQuestion:
    """A query and the document that should be first for it, among those that a `reader` may view; None for all.

    Raises: HIVE-409 for a query without words, or a document that isn't indexed.
    """

    def __init__(
        self,
        engine: SearchEngine,
        query: str,
        doc_id: str,
        config: RetrievalConfig,
        reader: Principal | None = None,
    ) -> None:
        self.engine, self.query, self.config, self.reader = engine, query, config, reader
        self.doc_id = re.sub(r"#\d+$", "", doc_id.removeprefix("documents/"))
        doc_ids = self.index.doc_ids()
        if self.doc_id not in doc_ids:
            fix = did_you_mean(self.doc_id, doc_ids, "DOC is the path below documents/")
            raise HiveError.of("HIVE-409", f'there is no document "{self.doc_id}" in the index', fix=fix)

    @cached_property
    def index(self) -> AnyIndex:
        whole = self.engine.index(self.config.collection)
        return whole if self.reader is None else scope_of(self.engine.workspace, whole, self.reader)

    def standing(self) -> DocumentRank:
        returned, _ = self._ranked(self.config)
        rank = returned.index(self.doc_id) + 1 if self.doc_id in returned else None
        return DocumentRank(self.query, self.doc_id, self.config.name, rank, returned[0] if returned else None)

    def is_first(self, config: RetrievalConfig) -> bool:
        returned, _ = self._ranked(config)
        return bool(returned) and returned[0] == self.doc_id

    def distance(self, config: RetrievalConfig) -> tuple[int, int]:
        """Return how many filters hide the document, and its place among all candidates, last if it is none."""
        index = self.index
        chunks = index.chunks_of(self.doc_id)
        masks = (index.select({field: condition}) for field, condition in config.conditions.items())
        hidden = sum(mask is not None and not mask[chunks].any() for mask in masks)
        _, candidates = self._ranked(config)
        return hidden, candidates.index(self.doc_id) + 1 if self.doc_id in candidates else len(candidates) + 1

    def _ranked(self, config: RetrievalConfig) -> tuple[list[str], list[str]]:
        """Return the returned documents and all candidates, both best first."""
        index = self.index
        (search,) = self.engine.run_on(index, [self.query], config)
        lists = (search.returned, search.fused.chunks[search.order])
        returned, candidates = (list(dict.fromkeys(index.documents_of(chunks))) for chunks in lists)
        return returned, candidates


class Costs:
    """The golden queries' scores before an edit, without the holdout's and those of the query `beside`."""

    def __init__(
        self,
        golden: GoldenSet,
        engine: SearchEngine,
        config: RetrievalConfig,
        *,
        beside: str | None = None,
        reader: Principal | None = None,
    ) -> None:
        key = None if beside is None else question_key(beside)
        held = {one.id for one in held_out(golden) or ()}
        others = (one.id for one in golden if one.id not in held and question_key(one.query) != key)
        self.golden = golden.only(others)
        self._reader = reader
        self._before = _scores(engine, self.golden, config, reader)

    def of(self, engine: SearchEngine, config: RetrievalConfig) -> Cost | None:
        """Return the cost of serving `config` from `engine`; None without golden queries."""
        if not len(self.golden):
            return None
        before, distractors_before = self._before
        after, distractors = _scores(engine, self.golden, config, self._reader)
        deltas = {query.id: b - a for query, a, b in zip(self.golden, before, after, strict=True) if abs(b - a) > _SAME}
        losses = sorted((delta, query_id) for query_id, delta in deltas.items() if delta < 0)
        gains = [delta for delta in deltas.values() if delta > 0]
        n = len(self.golden)
        return Cost(
            n=n,
            lose=len(losses),
            win=len(gains),
            lost=-sum(delta for delta, _ in losses),
            gained=sum(gains),
            difference=sum(deltas.values()) / n,
            distractors=(sum(distractors) - sum(distractors_before)) / n,
            worst=tuple({"id": query_id, "delta": delta} for delta, query_id in losses[:_WORST]),
        )


def config_ways(question: DocumentQuestion, costs: Costs | None) -> list[Way]:
    """Return the edits of the config that put the document first, the smallest for each setting, the cheapest first.

    Where no single setting suffices, pairs of those that bring it nearest are tried.
    """
    config = question.config
    sufficient, near = [], []
    for edits in _by_setting(question):
        smallest = next((edit for edit in edits if question.is_first(_with(config, edit))), None)
        if smallest is not None:
            sufficient.append(_narrowed(question, smallest))
        else:
            near.append(min(edits, key=lambda edit: question.distance(_with(config, edit))))
    if not sufficient:
        near.sort(key=lambda edit: question.distance(_with(config, edit)))
        pairs = (_both(*pair) for pair in combinations(near[:_PAIRED], 2))
        sufficient = [edit for edit in pairs if question.is_first(_with(config, edit))]
    ways = []
    for edit in sufficient:
        edited = _with(config, edit)
        changes = changes_from(config, edited)
        ways.append(Way("config", changes, in_words(changes), costs.of(question.engine, edited) if costs else None))
    families: dict[str, list[Way]] = {}
    for way in cheapest(ways):
        block = way.changes[0]["path"].split(".")[0]
        families.setdefault(block if block in ("filters", "boosts") else "", []).append(way)
    return cheapest([way for family in families.values() for way in family[:MOST]])


def cheapest(ways: Sequence[Way]) -> list[Way]:
    """Return the ways by size, then by cost."""

    def rank(way: Way) -> tuple[int, float, float, str]:
        return way.size, way.cost.lost if way.cost else 0.0, -way.cost.gained if way.cost else 0.0, way.told

    return sorted(ways, key=rank)


def _by_setting(question: DocumentQuestion) -> Iterator[list[Edit]]:
    """Yield the effective edits of each setting, nearest to the present value first."""
    config, index = question.config, question.index
    groups: dict[tuple[str, ...], dict[str, tuple[float, Edit]]] = {}
    for edit in sweep(config, index):
        edited = _with(config, edit)
        changes = changes_from(config, edited)
        if changes and (index.embedding_model or not needs_vectors(edited)):
            setting, distance = _setting(edit, changes)
            groups.setdefault(setting, {}).setdefault(repr(edit.values), (distance, edit))
    for edits in groups.values():
        yield [edit for _, edit in sorted(edits.values(), key=lambda pair: pair[0])]


def _setting(edit: Edit, changes: Sequence[dict[str, Any]]) -> tuple[tuple[str, ...], float]:
    """Return the setting that an edit changes, and by how much; each value of a field is a separate setting."""
    path, value = edit.values[0]
    was = next((change["a"] for change in changes if change["path"] == path), None)
    if path.startswith("boosts.") and isinstance(value, dict):
        before = was or {}
        name, factor = next(((name, one) for name, one in value.items() if before.get(name, 1.0) != one), ("", 1.0))
        return (path, name), abs(factor - before.get(name, 1.0)) + (factor < before.get(name, 1.0)) * 0.01
    if path.startswith("filters."):
        return (path, repr(value)), 0.0
    numeric = isinstance(was, int | float) and isinstance(value, int | float)
    return (path,), abs(value - was) if numeric else 0.0


def _narrowed(question: DocumentQuestion, edit: Edit) -> Edit:
    """Return the edit with its number as near as possible to the present one, by bisection, to two decimals."""
    path, value = edit.values[0]
    key = None
    data: Any = question.config.model_dump()
    for part in path.split("."):
        data = data.get(part) if isinstance(data, dict) else None
    if path.startswith("boosts.") and isinstance(value, dict) and HALF_LIFE not in value:
        before = data or {}
        key = next(name for name, one in value.items() if before.get(name, 1.0) != one)
        start, end = before.get(key, 1.0), value[key]
    else:
        start, end = data, value
    if not all(isinstance(one, int | float) and not isinstance(one, bool) for one in (start, end)):
        return edit

    def at(number: float) -> Edit:
        whole = int(number) if isinstance(end, int) else number
        first = (path, value | {key: whole} if key is not None else whole)
        return Edit((first, *edit.values[1:]), edit.cause, edit.reason)

    step = 1 if isinstance(end, int) else 0.01
    return at(_nearest(lambda number: question.is_first(_with(question.config, at(number))), start, end, step))


def _nearest(holds: Callable[[float], bool], start: float, end: float, step: float) -> float:
    """Return the multiple of `step` nearest to `start` for which `holds`, given that it holds for `end`.

    >>> _nearest(lambda number: number >= 1.374, 1.0, 4.0, 0.01), _nearest(lambda number: number <= 17, 60, 5, 1)
    (1.38, 17)
    """
    near, far = round(start / step), round(end / step)
    for _ in range(_HALVINGS):
        middle = (near + far) // 2
        if abs(far - near) <= 1 or middle in (near, far):
            break
        if holds(round(middle * step, 6)):
            far = middle
        else:
            near = middle
    return round(far * step, 6) if far != round(end / step) else end


def _both(a: Edit, b: Edit) -> Edit:
    return Edit((*a.values, *b.values), "why", "two settings at once")


def _with(config: RetrievalConfig, edit: Edit) -> RetrievalConfig:
    return parsed(apply(config, edit.values))


def _scores(
    engine: SearchEngine, golden: GoldenSet, config: RetrievalConfig, reader: Principal | None
) -> tuple[list[float], list[float]]:
    """Return each query's nUDCG and distractors."""
    if not len(golden):
        return [], []
    if config.rerank.enabled or config.retrieval.candidates > MAX_DEPTH:
        measured = evaluate(engine.workspace, config, golden=golden, engine=engine, reader=reader)
        return measured.scores(), [one.metrics["distractors"] or 0.0 for one in measured.queries]
    scores = LaneCache(engine, golden, reader=reader).evaluate(config)
    return scores.nudcg.tolist(), scores.distractors.tolist()
