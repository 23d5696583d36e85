"""`hive label`: pooling and labelling of documents for a golden set."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeVar

from hive_agents.access import Principal, ViewGate
from hive_agents.base import Diagnostic, HiveError, sha256
from hive_agents.base.files import atomic_write_text, frontmatter, jsontext, load_value, read_bytes
from hive_agents.documents import golden_text, words
from hive_agents.evaluation.golden import FILE, GoldenFile, GoldenSet, parse_golden, question_key, viewable_golden
from hive_agents.index import LaneIndex, ScopedIndex
from hive_agents.ranking import Hit, RetrievalConfig, Search, SearchEngine, present
from hive_agents.workspace import Workspace

POOL_DEPTH = 10
T = TypeVar("T")


@dataclass(frozen=True)
class LabelPool:
    """The documents that are shown for labelling: those of both lanes, or of the configs `between` which labels decide.

    The lanes are keywords, and vectors where there is an embedding model. `within` is a scope of the collection's
    index, for somebody who may not view all of it.
    """

    engine: SearchEngine
    collection: str
    within: ScopedIndex | None = None
    between: Sequence[RetrievalConfig] = ()

    @cached_property
    def configs(self) -> Sequence[RetrievalConfig]:
        """The ways of searching that are compared: one where there are no vectors, else two."""
        methods = ["keyword", "vector"] if self.engine.index(self.collection).embedding_model else ["keyword"]
        return self.between or [_single_lane(method, self.collection) for method in methods]

    def documents(self, query: str) -> list[Hit]:
        """Return the documents of the rankings alternately, each once with its best passage."""
        rankings = self._of_each(query, lambda index, search, config: present(index, search, config).hits)
        pooled: dict[str, Hit] = {}
        for rank in range(max(map(len, rankings))):
            for hits in rankings:
                if rank < len(hits):
                    pooled.setdefault(hits[rank].doc_id, hits[rank])
        return list(pooled.values())

    def doc_ids(self, query: str) -> list[list[str]]:
        """Return the documents of each config's hits, without their passages, which cost twenty times as much."""
        return self._of_each(query, lambda index, search, _: list(dict.fromkeys(index.documents_of(search.returned))))

    def _of_each(self, query: str, shown: Callable[[LaneIndex, Search, RetrievalConfig], T]) -> list[T]:
        def on(index: LaneIndex, config: RetrievalConfig) -> T:
            return shown(index, self.engine.run_on(index, [query], config)[0], config)

        if self.within is not None:
            return [on(self.within, config) for config in self.configs]
        return [self.engine.with_index(config.collection, partial(on, config=config)) for config in self.configs]


def _single_lane(method: str, collection: str) -> RetrievalConfig:
    # Several chunks of one document fill a list: look deeper to pool `POOL_DEPTH` documents.
    retrieval = {"method": method, "top_k": POOL_DEPTH * 3}
    return load_value(RetrievalConfig, {"name": "pool", "collection": collection, "retrieval": retrieval}, "pool")


def save_label(
    workspace: Workspace,
    query: str,
    collection: str,
    *,
    relevant: Sequence[str],
    distractors: Sequence[str],
    irrelevant: Sequence[str] | None,
    tags: Sequence[str] = (),
    split: str | None = None,
    path: Path | None = None,
    viewer: Principal | None = None,
) -> dict[str, Any]:
    """Write a query's labels into the golden set; a labelled query keeps its labels of other documents.

    `irrelevant` is None where not all pooled documents were judged: the query isn't fully judged then. A `viewer`
    labels documents that they may view, for a new query where they may not know the labelled one (`viewable_golden`).
    Returns the labels that they may know.

    Raises: level 1 for labels that are not documents, HIVE-213 for a golden set of another collection.
    """
    target = path or workspace.root / FILE
    file = workspace.relative(target)
    named = {"relevant": relevant, "distractors": distractors, "irrelevant": irrelevant or ()}
    with workspace.exclusive("writing the golden set"):
        if viewer is not None:
            _require_viewable(workspace, viewer, named, file)
        old = jsontext.decode(read_bytes(target), file) if target.exists() else None
        known = None if viewer is None or old is None else {one.id for one in viewable_golden(workspace, viewer, path)}
        empty = {"collection": collection, "k": 10, "queries": []}
        value: dict[str, Any] = empty if old is None else jsontext.parse(old, file)
        load_value(GoldenFile, value, file, old)
        if value["collection"] != collection:
            raise HiveError.of(
                "HIVE-213",
                f'{file} judges "{value["collection"]}", not "{collection}"',
                file=file,
                path="collection",
                fix="name another file with --golden FILE",
            )
        alike = (entry for entry in value["queries"] if question_key(entry["query"]) == question_key(query))
        same = next((entry for entry in alike if known is None or entry["id"] in known), None)
        entry = same or {"id": _new_id([one["id"] for one in value["queries"]], viewer), "query": query}
        moved = {doc_id for labels in named.values() for doc_id in labels}
        for name, labels in named.items():
            if name == "irrelevant" and irrelevant is None and name not in entry:
                continue
            entry[name] = [*(doc_id for doc_id in entry.get(name, []) if doc_id not in moved), *labels]
        seen = entry.get("seen", {}) | {doc_id: words_now(workspace, doc_id) for doc_id in [*relevant, *distractors]}
        if seen:
            entry["seen"] = seen
        if tags:
            entry["tags"] = list(tags)
        if split:
            entry["split"] = split
        if same is None:
            value["queries"].append(entry)
        text = golden_text(value)
        parse_golden(workspace, text, file)
        atomic_write_text(target, text)
        if viewer is None:
            return dict(entry)
        seen = next(one for one in viewable_golden(workspace, viewer, path) if one.id == entry["id"])
        return seen.model_dump(mode="json", exclude_none=True)


def words_now(workspace: Workspace, doc_id: str) -> str:
    """Return a hash of the words below a document's front matter; "" without any, or without the document."""
    try:
        text = read_bytes(workspace.documents / doc_id).decode("utf-8", "replace")
        said = words(frontmatter.split(text, doc_id)[1])
    except (HiveError, OSError):
        return ""
    return sha256(" ".join(said))[:16] if said else ""


def changed_since_labelled(workspace: Workspace, golden: GoldenSet) -> dict[str, str]:
    """Return id → document of the queries of which a relevant or misleading document has other words, or none left."""
    now: dict[str, str] = {}
    changed: dict[str, str] = {}
    for query in golden:
        for doc_id in [*query.relevant, *query.distractors]:
            if doc_id not in now:
                now[doc_id] = words_now(workspace, doc_id)
            if not now[doc_id] or query.seen.get(doc_id, now[doc_id]) != now[doc_id]:
                changed.setdefault(query.id, doc_id)
    return changed


def _require_viewable(workspace: Workspace, viewer: Principal, named: Mapping[str, Sequence[str]], file: str) -> None:
    """Raise HIVE-109 for labels of documents that the viewer may not view, as for missing ones."""
    gate = ViewGate.of(workspace, viewer)
    may = gate.allowed([doc_id for labels in named.values() for doc_id in labels])
    fix = "label a document that you can open"
    faults = [
        Diagnostic("HIVE-109", f'there is no document "{doc_id}"', file, name, fix)
        for name, labels in named.items()
        for doc_id in labels
        if doc_id not in may
    ]
    if faults:
        raise HiveError(faults)


def _new_id(taken: Collection[str], viewer: Principal | None) -> str:
    used = set(taken)
    if viewer is not None:  # the next number would tell how many queries there are
        return f"q{secrets.token_hex(5)}"
    return next(name for number in range(1, len(used) + 2) if (name := f"q{number}") not in used)
