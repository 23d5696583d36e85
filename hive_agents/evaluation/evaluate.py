"""Measurement of configs against the golden set."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from hive_agents.access import Principal, known_principal
from hive_agents.evaluation.golden import GoldenQuery, GoldenSet, load_golden
from hive_agents.evaluation.results import Evaluation, judged, percentile
from hive_agents.index import AnyIndex, ScopedIndex, SqliteIndex, scope_of
from hive_agents.ranking import ConfigLike, RetrievalConfig, Search, SearchEngine, needs_vectors
from hive_agents.workspace import Workspace


class Scopes:
    """The scopes of one measurement, each computed when first used.

    With a `reader` each is narrowed to what the reader may view.
    """

    def __init__(self, workspace: Workspace, reader: Principal | None = None) -> None:
        self._workspace, self._reader = workspace, reader
        self._scopes: dict[tuple[int, str | None], tuple[SqliteIndex, ScopedIndex]] = {}

    def of(self, index: SqliteIndex, user: str | None) -> AnyIndex:
        """Return the part of the index that `user` may view; None means all of it, or all that the reader may view.

        Raises: HIVE-409 for a user that `access/*.json` doesn't name, and the faults of these files.
        """
        if user is None and self._reader is None:
            return index
        cached = self._scopes.get((id(index), user))
        if cached is None:
            named = None if user is None else known_principal(self._workspace, user)
            principals = [principal for principal in (named, self._reader) if principal is not None]
            cached = self._scopes[id(index), user] = (index, scope_of(self._workspace, index, *principals))
        return cached[1]


SLOW_MS = 20.0
STALLS = 3


def evaluate(
    workspace: Workspace,
    config: ConfigLike = None,
    *,
    golden: GoldenSet | Path | None = None,
    engine: SearchEngine | None = None,
    reader: Principal | None = None,
) -> Evaluation:
    r"""Run every golden query through `config` (None means the active one) and measure the results.

    With a `reader` only what they may view is searched. Raises: as `load_golden` and `SearchEngine.search`.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from hive_agents import Workspace
    >>> from hive_agents.cli.sample import init_workspace
    >>> folder = TemporaryDirectory()
    >>> place = Workspace(init_workspace(Path(folder.name), empty=True))
    >>> _ = Path(folder.name, "hive.toml").write_text('[models]\nembedding = "none"')
    >>> _ = Path(folder.name, "documents", "bees.md").write_text("# Bees\nThey dance.")
    >>> words = {"name": "words", "collection": "knowledge-base", "retrieval": {"method": "keyword", "top_k": 5}}
    >>> _ = place.index()
    >>> (place.root / "evals").mkdir()
    >>> labelled = '{"id": "q1", "query": "who dances?", "relevant": ["bees.md"], "distractors": []}'
    >>> golden = f'{{"collection": "knowledge-base", "queries": [{labelled}]}}'
    >>> _ = Path(place.root, "evals", "golden.json").write_text(golden)
    >>> evaluation = evaluate(place, config=words)
    >>> evaluation.metrics["nudcg"], evaluation.queries[0].hits[0].label
    (1.0, 'relevant')
    >>> folder.cleanup()
    """
    engine = engine or SearchEngine(workspace)
    resolved = engine.resolve(config)
    if not isinstance(golden, GoldenSet):
        golden = load_golden(workspace, golden)
    golden.require_queries()
    scopes = Scopes(engine.workspace, reader)
    _warm(engine, scopes, resolved, golden)
    return _evaluation(engine, scopes, resolved, golden, [_timed(engine, scopes, query, resolved) for query in golden])


def _warm(engine: SearchEngine, scopes: Scopes, config: RetrievalConfig, golden: GoldenSet) -> None:
    """Run every query once, so that loading and the computation of scopes aren't measured."""
    if needs_vectors(config):
        engine.with_index(config.collection, lambda index: index.learn(golden.texts))
    by_principal: dict[str | None, list[GoldenQuery]] = {}
    for query in golden:
        by_principal.setdefault(query.principal, []).append(query)
    for queries in by_principal.values():
        _run(engine, scopes, queries, config)


def _run(engine: SearchEngine, scopes: Scopes, queries: Sequence[GoldenQuery], config: RetrievalConfig) -> list[Search]:
    """Return the searches of queries that share a principal, in that principal's scope."""
    texts, principal = [query.query for query in queries], queries[0].principal
    return engine.with_index(config.collection, lambda index: engine.run_on(scopes.of(index, principal), texts, config))


def _timed(engine: SearchEngine, scopes: Scopes, query: GoldenQuery, config: RetrievalConfig) -> tuple[Search, float]:
    started, saved = time.perf_counter(), engine.saved_seconds
    search = _run(engine, scopes, [query], config)[0]
    return search, time.perf_counter() - started + engine.saved_seconds - saved


def evaluate_interleaved(
    engine: SearchEngine, configs: Sequence[RetrievalConfig], golden: GoldenSet, *, reader: Principal | None = None
) -> list[Evaluation]:
    """Measure several configs on one index, alternating at each query, so that latencies are comparable under any load.

    With a `reader` only what they may view is searched. Raises: HIVE-105 when there are no queries to measure with.
    """
    golden.require_queries()
    scopes = Scopes(engine.workspace, reader)
    for config in configs:
        _warm(engine, scopes, config, golden)
    searches = _turns(engine, scopes, configs, golden)
    for _ in range(STALLS):
        if all(_p95_ms(timed) <= SLOW_MS for timed in searches):
            break
        # The machine may have stalled: the fastest of several measurements is the config's.
        again = _turns(engine, scopes, configs, golden)
        searches = [
            [(search, min(seconds, other)) for (search, seconds), (_, other) in zip(first, second, strict=True)]
            for first, second in zip(searches, again, strict=True)
        ]
    return [_evaluation(engine, scopes, config, golden, timed) for config, timed in zip(configs, searches, strict=True)]


def _turns(
    engine: SearchEngine, scopes: Scopes, configs: Sequence[RetrievalConfig], golden: GoldenSet
) -> list[list[tuple[Search, float]]]:
    searches: list[list[tuple[Search, float]]] = [[] for _ in configs]
    for number, query in enumerate(golden):
        turn = list(range(len(configs)))
        for position in turn if number % 2 == 0 else reversed(turn):
            searches[position].append(_timed(engine, scopes, query, configs[position]))
    return searches


def _p95_ms(searches: Sequence[tuple[Search, float]]) -> float:
    return percentile(sorted(seconds * 1000 for _, seconds in searches), 0.95) or 0.0


def _evaluation(
    engine: SearchEngine,
    scopes: Scopes,
    config: RetrievalConfig,
    golden: GoldenSet,
    searches: Sequence[tuple[Search, float]],
) -> Evaluation:
    index = engine.index(config.collection)
    queries = []
    for query, (search, seconds) in zip(golden, searches, strict=True):
        chunks = search.returned[: golden.k]
        scope = scopes.of(index, query.principal)
        documents, chunk_ids = scope.documents_of(chunks), scope.chunk_ids(chunks)
        queries.append(judged(query, documents, chunk_ids, golden.k, seconds))
    return Evaluation(config.name, golden.k, tuple(queries), golden.hash, scopes.of(index, None).index_hash)
