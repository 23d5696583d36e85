"""Level 2: does a well-formed config make sense in this workspace? All findings are collected."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

from hive_agents.access import Principal
from hive_agents.base import Diagnostic, HiveError, NotFound
from hive_agents.documents import collection_names, load_collection, no_such_collection
from hive_agents.index import AnyIndex, SqliteIndex, scope_of
from hive_agents.ranking.config import RetrievalConfig, StoredConfig
from hive_agents.ranking.factors import FACTORS
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
    if index is not None:
        findings += _indexed(index, stored)
    elif reads_index(stored.config):
        with closing(SqliteIndex(workspace, collection)) as opened:
            findings += _indexed(opened if viewer is None else scope_of(workspace, opened, viewer), stored)
    if judged not in (None, name):
        message = f'the golden set judges "{judged}", the config searches "{name}"'
        findings.append(_finding(stored, "HIVE-213", "collection", message, "use a golden set of the same collection"))
    return findings


def reads_index(config: RetrievalConfig) -> bool:
    """Return whether a check of the config reads the index."""
    return bool(config.filters) or any(factor.check and factor.setting(config, "") is not None for factor in FACTORS)


def _finding(stored: StoredConfig, code: str, path: str, message: str, fix: str) -> Diagnostic:
    return Diagnostic(code, message, stored.file, path, fix, stored.line_of(path.split(".")))


def _retrieval(stored: StoredConfig) -> Iterator[Diagnostic]:
    retrieval = stored.config.retrieval
    if retrieval.top_k > retrieval.candidates:
        message = f"top_k {retrieval.top_k} is more than the {retrieval.candidates} candidates of a lane"
        fix = f"set retrieval.candidates to at least {retrieval.top_k}, or lower top_k"
        yield _finding(stored, "HIVE-205", "retrieval.top_k", message, fix)
    if retrieval.weights.keyword == 0 and retrieval.weights.vector == 0:
        message = "both lanes weigh 0: every document would score alike"
        yield _finding(stored, "HIVE-212", "retrieval.weights", message, "give at least one lane a weight above 0")


def _blocks(stored: StoredConfig, reranker: bool) -> Iterator[Diagnostic]:
    config, dynamic, rerank = stored.config, stored.config.dynamic_k, stored.config.rerank
    method, top_k = config.retrieval.method, config.retrieval.top_k
    if config.distraction_detection.enabled and method != "hybrid":
        message = f'distraction detection compares two rankings; "{method}" makes one'
        fix = 'set retrieval.method to "hybrid", or disable distraction_detection'
        yield _finding(stored, "HIVE-203", "retrieval.method", message, fix)
    if dynamic.enabled:
        if method != "hybrid":
            message = f'dynamic_k looks for a cliff in fused scores; those of "{method}" have none'
            fix = 'set retrieval.method to "hybrid", or disable dynamic_k'
            yield _finding(stored, "HIVE-204", "retrieval.method", message, fix)
        if dynamic.min_results > config.max_results:
            message = f"min_results {dynamic.min_results} is more than max_results {config.max_results}"
            fix = f"set min_results to at most {config.max_results}"
            yield _finding(stored, "HIVE-201", "dynamic_k.min_results", message, fix)
        if config.max_results > top_k:
            message = f"max_results {config.max_results} is more than top_k {top_k}"
            fix = f"set max_results to at most {top_k}, or raise retrieval.top_k"
            yield _finding(stored, "HIVE-202", "dynamic_k.max_results", message, fix)
    if rerank.enabled:
        if rerank.candidates < top_k:
            message = f"rerank.candidates {rerank.candidates} is less than top_k {top_k}"
            fix = f"set rerank.candidates to at least {top_k}"
            yield _finding(stored, "HIVE-210", "rerank.candidates", message, fix)
        if not reranker:
            message = "the config reranks, and no reranker is configured"
            fix = "set models.reranker in hive.toml, or disable rerank"
            yield _finding(stored, "HIVE-214", "rerank.enabled", message, fix)


def _indexed(index: AnyIndex, stored: StoredConfig) -> Iterator[Diagnostic]:
    sound = True
    for field, condition in stored.config.conditions.items():
        try:
            index.select({field: condition})
        except HiveError as error:
            sound = False
            yield from _located(error, stored, "filters", field)
    mask = index.select(stored.config.conditions) if sound else None
    if mask is not None and not mask.any():
        message, fix = "no document passes all the filters", "remove one of them; `hive fields` shows the values in use"
        yield _finding(stored, "HIVE-209", "filters", message, fix)
    for factor in FACTORS:
        for path, fault in factor.check(index, stored.config) if factor.check else ():
            yield from _located(fault, stored, *path)


def _located(error: HiveError, stored: StoredConfig, *path: str) -> Iterator[Diagnostic]:
    for diagnostic in error.diagnostics:
        yield Diagnostic(
            diagnostic.code, diagnostic.message, stored.file, diagnostic.path, diagnostic.fix, stored.line_of(path)
        )
