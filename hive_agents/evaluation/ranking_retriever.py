"""Retrievers in Python: LangChain's, LlamaIndex's, or functions from a query to doc_ids."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from functools import reduce
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from hive_agents.evaluation.golden import GoldenQuery
from hive_agents.evaluation.outside import FoundList
from hive_agents.evaluation.ranking_asking import source_failed
from hive_agents.evaluation.recorded_rankings import DOCUMENT_KEYS, doc_id_of

METADATA_KEYS = ("doc_id", "source", "id")


class Retriever:
    """A live source; `key` is the metadata key of the doc_id, None for METADATA_KEYS."""

    live = True

    def __init__(self, name: str, retrieve: Callable[[str], Iterable[Any]], key: str | None = None) -> None:
        self.name = name
        self._retrieve = retrieve
        self._key = key

    def rank(self, query: GoldenQuery, k: int) -> FoundList:
        started = time.perf_counter()
        try:
            hits = list(self._retrieve(query.query))
        except Exception as error:
            why = f'{type(error).__name__} for query "{query.id}": {error}'
            raise source_failed(self.name, why, "look at the retriever") from error
        seconds = time.perf_counter() - started
        documents = [document_of(hit, self._key) for hit in hits]
        if None in documents:
            why = f'a document for query "{query.id}" has no doc_id in its metadata ({", ".join(METADATA_KEYS)})'
            raise source_failed(self.name, why, "name the key: module:attribute#key")
        return FoundList(tuple(doc_id for doc_id in documents if doc_id is not None), seconds)


def load_retriever(reference: str) -> Retriever:
    """Return the retriever of `module:attribute`, or `module:attribute#key`; the module may be in the current folder.

    Raises: HIVE-428 where it can't be loaded, or isn't a retriever.
    """
    target, _, key = reference.partition("#")
    module, _, attribute = target.partition(":")
    try:
        retriever: Any = reduce(getattr, attribute.split("."), _imported(module))
    except Exception as error:
        why = f"it can't be loaded: {type(error).__name__}: {error}"
        raise source_failed(target, why, "check the module's name, and where hive runs") from error
    for method in ("invoke", "retrieve"):
        if callable(getattr(retriever, method, None)) and not isinstance(retriever, type):
            return Retriever(target, getattr(retriever, method), key or None)
    if callable(retriever):
        return Retriever(target, retriever, key or None)
    why = "it has neither invoke() nor retrieve(), and can't be called"
    raise source_failed(target, why, "name a retriever, or a function from a query to doc_ids")


def _imported(name: str) -> ModuleType:
    """Return a module, preferably from the current folder.

    Its other modules don't shadow installed ones: the folder may be untrusted, so it goes to the end of `sys.path`.
    """
    folder, first = str(Path.cwd()), name.partition(".")[0]
    if folder not in sys.path:
        sys.path.append(folder)
    spec = None if first in sys.modules else PathFinder.find_spec(first, [folder])
    # A namespace package is left to `import_module`, which prefers a regular package of that name.
    if spec is not None and spec.loader is not None and spec.origin is not None:
        sys.modules[first] = module = module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[first]
            raise
    return import_module(name)


def document_of(hit: Any, key: str | None) -> str | None:
    """Return the doc_id of a hit: a LangChain document, a LlamaIndex node, a doc_id or an object; None without one."""
    node = getattr(hit, "node", hit)
    metadata = getattr(node, "metadata", None)
    if metadata is None:
        return doc_id_of(
            {name: node[name] for name in (key,) if name in node} if key and isinstance(node, dict) else node
        )
    for name in (key,) if key else METADATA_KEYS:
        if name in metadata:
            return doc_id_of(metadata[name])
    if key:
        return None
    candidates = (getattr(node, name, None) for name in ("ref_doc_id", "id", "node_id", *DOCUMENT_KEYS))
    return next((candidate for candidate in candidates if isinstance(candidate, str) and candidate), None)
