"""The engine-independent plan of a config's export, and what no engine can do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from hive_agents.base import HiveError
from hive_agents.index import HALF_LIFE, Scalar, SqliteIndex, boost_text, filter_text
from hive_agents.ranking.config import RetrievalConfig
from hive_agents.ranking.exports.contents import Content
from hive_agents.ranking.factors import FACTORS
from hive_agents.ranking.pipeline import needs_vectors
from hive_agents.workspace import Workspace

Words = Literal["query", "terms", "none"]


@dataclass(frozen=True)
class Difference:
    """A difference of the other engine; `path` is the place in the config, or `access` for permissions."""

    path: str
    message: str


@dataclass(frozen=True)
class Parameter:
    """A named value of each query."""

    name: str
    meaning: str


@dataclass(frozen=True)
class Parts:
    """The result of one engine's compiler; `words` is the form of the question for the engine.

    `factors` are those of `FACTORS` that the engine multiplies by, by name, or tells of in its `differences`.
    """

    texts: Mapping[str, str]
    data: Mapping[str, Callable[[Iterator[Content]], Iterator[str]]]
    request: Any
    differences: tuple[Difference, ...] = ()
    factors: tuple[str, ...] = ()
    words: Words = "query"


@dataclass(frozen=True)
class Age:
    """A date field's boost: the factor halves every `half_life` days before `reference` (days since 1970)."""

    half_life: float
    reference: float


@dataclass(frozen=True)
class ExportPlan:
    """A config with the data of its index that an export needs."""

    config: RetrievalConfig
    index: SqliteIndex
    mean_length: float
    factors: Mapping[str, Mapping[str, float]]
    ages: Mapping[str, Age]

    @classmethod
    def of(cls, index: SqliteIndex, config: RetrievalConfig) -> ExportPlan:
        index.select(config.conditions, checked=True)
        index.factors(config.boosts, index.chunks_of(""))
        if config.retrieval.vector and index.embedding_model is None:
            fix = "run `hive index` with an embedding model, or export a config of method keyword"
            raise HiveError.of("HIVE-401", "the config needs vectors, and the index has none", fix=fix)
        fields = index.collection.fields
        factors = {
            name: {boost_text(value, fields[name].type): factor for value, factor in boost.items()}
            for name, boost in config.boosts.items()
            if HALF_LIFE not in boost
        }
        ages = {}
        for name, boost in config.boosts.items():
            reference = index.newest_day(name, boost[HALF_LIFE]) if HALF_LIFE in boost else None
            if reference is not None:
                ages[name] = Age(boost[HALF_LIFE], reference)
        lengths = index.postings.lengths
        mean = float(lengths.sum(dtype="int64")) / len(lengths) if len(lengths) else 0.0
        return cls(config, index, mean, factors, ages)

    @property
    def keyword(self) -> bool:
        return self.config.retrieval.keyword

    @property
    def vector(self) -> bool:
        """Whether a query needs a vector: for a lane, or to abstain by."""
        return needs_vectors(self.config)

    @property
    def weights(self) -> list[float]:
        return self.config.retrieval.lane_weights

    @property
    def limit(self) -> int:
        """The most results of a list."""
        dynamic = self.config.dynamic_k.enabled
        return min(self.config.retrieval.top_k, self.config.max_results) if dynamic else self.config.retrieval.top_k

    def filter_texts(self, field: str, values: Iterable[Scalar]) -> list[str]:
        """Return a filter's values in the text form of documents' values."""
        return [filter_text(value, self.index.collection.fields[field].type) for value in values]

    def is_date(self, field: str) -> bool:
        return self.index.collection.fields[field].type == "date"


def parameters(plan: ExportPlan, words: Words) -> tuple[Parameter, ...]:
    """Return every query's parameters, the reader first."""
    given = [
        Parameter("reader", 'who asks, as a list of "tenant,subject": "acme,user:dana", "acme,group:qa", "acme,tenant"')
    ]
    if words == "query":
        given.append(Parameter("query", "the question as text"))
    elif words == "terms":
        given.append(
            Parameter(
                "terms", "the stems of the question as a sparse vector: CRC-32 of each, how often it stands there"
            )
        )
    if plan.vector:
        given.append(Parameter("embedding", f"the question's vector of unit length, by {plan.index.embedding_model}"))
    return tuple(given)


def common(workspace: Workspace, plan: ExportPlan, done: Sequence[str]) -> Iterator[Difference]:
    """Yield the differences of every engine, and those of factors that aren't done."""
    config = plan.config
    yield Difference("access", "readers are those of the export: export the data again when permissions change")
    if workspace.settings.access.service_url:
        yield Difference(
            "access", "the permission service of access.service_url isn't asked: labels and grants alone count"
        )
    if config.rerank.enabled:
        floor = "" if config.rerank.floor is None else f", and the floor of {config.rerank.floor:g} cuts nothing"
        yield Difference("rerank", f"there is no reranker: the list stays in fused order{floor}")
    for factor in FACTORS:
        if factor.block not in done and factor.setting(config, plan.index.language) is not None:
            yield Difference(factor.block, factor.lost)
    if config.abstain.min_cosine is not None and config.abstain.unless_all_words:
        yield Difference("abstain.unless_all_words", "no chunk is looked for that has every word of the query")
    if config.abstain.enabled:
        yield Difference("abstain.enabled", "nothing is held back where nothing is near by meaning or by words")
    for name, age in plan.ages.items():
        yield Difference(
            f"boosts.{name}",
            f"ages count from day {age.reference:g} since 1970, the newest at the export, for every reader",
        )


def not_after_fusion(plan: ExportPlan) -> Iterator[Difference]:
    """Yield the differences of an engine that fuses two lanes itself: every step on a fused list's scores."""
    config = plan.config
    if config.abstain.min_cosine is not None:
        yield Difference("abstain.min_cosine", "nothing is held back: a list is returned however far the nearest is")
    if config.dynamic_k.enabled:
        yield Difference("dynamic_k", f"the list isn't cut at a gap: it has up to {plan.limit} hits")
    if config.distraction_detection.enabled:
        yield Difference("distraction_detection", "nothing is flagged: the lanes' ranks aren't returned")
