"""Level 2: does a well-formed config make sense in this workspace? All findings are collected."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hive_agents.access import Principal
from hive_agents.base import Diagnostic, HiveError, NotFound
from hive_agents.documents import collection_names, load_collection, no_such_collection
from hive_agents.index import AnyIndex, SqliteIndex, scope_of
from hive_agents.ranking.config import StoredConfig
from hive_agents.workspace import Workspace


def check_semantics(
    workspace: Workspace,
    stored: StoredConfig,
    *,
    judged: str | None = None,
    reranker: bool = False,
    index: AnyIndex | None = None,
    viewer: Principal | None = None,
) -> list[Diagnostic]:
    """Return every diagnostic of level 2, and of level 1 where the collection is broken. Disabled blocks are skipped.

    Filters and boosts are checked against the index, so it must be up to date; without an open `index` it is opened.
    For a `viewer` they are checked against what they may view.
    """
    names = collection_names(workspace)
    name = stored.config.collection
    findings = [*_retrieval(stored), *_blocks(stored, reranker)]
    try:
        collection = load_collection(workspace, name)
    except NotFound:
        missing = no_such_collection(name, names, stored.file, stored.line_of(["collection"]))
        return findings + missing.diagnostics
    except HiveError as error:
        if error.exit_code != 1:
            raise
        return findings + error.diagnostics
    if stored.config.filters or stored.config.boosts:
        if index is not None:
            findings += [*_filters(index, stored), *_boosts(index, stored)]
        else:
            opened = SqliteIndex(workspace, collection)
            try:
                seen = opened if viewer is None else scope_of(workspace, opened, viewer)
                findings += [*_filters(seen, stored), *_boosts(seen, stored)]
            finally:
                opened.close()
    if judged not in (None, name):
        message = f'the golden set judges "{judged}", the config searches "{name}"'
        findings.append(
            _finding(stored, "HIVE-213", message, "collection", fix="use a golden set of the same collection")
        )
    return findings


def _finding(stored: StoredConfig, code: str, message: str, *path: str, fix: str) -> Diagnostic:
    return Diagnostic(code, message, stored.file, ".".join(path), fix, stored.line_of(path))


def _retrieval(stored: StoredConfig) -> Iterator[Diagnostic]:
    retrieval = stored.config.retrieval
    if retrieval.top_k > retrieval.candidates:
        yield _finding(
            stored,
            "HIVE-205",
            f"top_k {retrieval.top_k} is more than the {retrieval.candidates} candidates of a lane",
            "retrieval",
            "top_k",
            fix=f"set retrieval.candidates to at least {retrieval.top_k}, or lower top_k",
        )
    if retrieval.weights.keyword == 0 and retrieval.weights.vector == 0:
        yield _finding(
            stored,
            "HIVE-212",
            "both lanes weigh 0: every document would score alike",
            "retrieval",
            "weights",
            fix="give at least one lane a weight above 0",
        )


def _blocks(stored: StoredConfig, reranker: bool) -> Iterator[Diagnostic]:
    config = stored.config
    method, top_k = config.retrieval.method, config.retrieval.top_k
    if config.distraction_detection.enabled and method != "hybrid":
        yield _finding(
            stored,
            "HIVE-203",
            f'distraction detection compares two rankings; "{method}" makes one',
            "retrieval",
            "method",
            fix='set retrieval.method to "hybrid", or disable distraction_detection',
        )
    if config.dynamic_k.enabled:
        if method != "hybrid":
            yield _finding(
                stored,
                "HIVE-204",
                f'dynamic_k looks for a cliff in fused scores; those of "{method}" have none',
                "retrieval",
                "method",
                fix='set retrieval.method to "hybrid", or disable dynamic_k',
            )
        if config.dynamic_k.min_results > config.max_results:
            yield _finding(
                stored,
                "HIVE-201",
                f"min_results {config.dynamic_k.min_results} is more than max_results {config.max_results}",
                "dynamic_k",
                "min_results",
                fix=f"set min_results to at most {config.max_results}",
            )
        if config.max_results > top_k:
            yield _finding(
                stored,
                "HIVE-202",
                f"max_results {config.max_results} is more than top_k {top_k}",
                "dynamic_k",
                "max_results",
                fix=f"set max_results to at most {top_k}, or raise retrieval.top_k",
            )
    if config.rerank.enabled:
        if config.rerank.candidates < top_k:
            yield _finding(
                stored,
                "HIVE-210",
                f"rerank.candidates {config.rerank.candidates} is less than top_k {top_k}",
                "rerank",
                "candidates",
                fix=f"set rerank.candidates to at least {top_k}",
            )
        if not reranker:
            yield _finding(
                stored,
                "HIVE-214",
                "the config reranks, and no reranker is configured",
                "rerank",
                "enabled",
                fix="set models.reranker in hive.toml, or disable rerank",
            )


def _filters(index: AnyIndex, stored: StoredConfig) -> Iterator[Diagnostic]:
    sound = True
    for field, condition in stored.config.conditions.items():
        try:
            index.select({field: condition})
        except HiveError as error:
            sound = False
            yield from _located(error, stored, "filters", field)
    mask = index.select(stored.config.conditions) if sound else None
    if mask is not None and not mask.any():
        yield _finding(
            stored,
            "HIVE-209",
            "no document passes all the filters",
            "filters",
            fix="remove one of them; `hive fields` shows the values in use",
        )


def _boosts(index: AnyIndex, stored: StoredConfig) -> Iterator[Diagnostic]:
    for field, boost in stored.config.boosts.items():
        try:
            index.factors({field: boost}, np.empty(0, np.intp))
        except HiveError as error:
            yield from _located(error, stored, "boosts", field)
        else:
            for missing in index.missing(field, boost):
                yield from _located(missing, stored, "boosts", field)


def _located(error: HiveError, stored: StoredConfig, *path: str) -> Iterator[Diagnostic]:
    for diagnostic in error.diagnostics:
        yield Diagnostic(
            diagnostic.code, diagnostic.message, stored.file, diagnostic.path, diagnostic.fix, stored.line_of(path)
        )
