"""The labels of documents in the JSON of a golden set."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

MOVED_DOCUMENTS = "documents_moved"
"""Entries of the audit log: documents, and the labels of golden sets with them, moved by `moves`."""
_LISTS = ("relevant", "distractors", "irrelevant")


def golden_text(value: Mapping[str, Any]) -> str:
    """Return a golden set with one query a line, so that diffs are short."""
    head = {key: inner for key, inner in value.items() if key != "queries"}
    lines = [f" {json.dumps(key)}: {json.dumps(inner, ensure_ascii=False)}," for key, inner in head.items()]
    queries = ",\n".join("  " + json.dumps(query, ensure_ascii=False) for query in value["queries"])
    return "\n".join(["{", *lines, ' "queries": [', queries, " ]", "}"]) + "\n"


def move_labels(value: Any, moves: Mapping[str, str]) -> int:
    """Change the labels of moved documents to their new doc_ids, in place; return how many changed.

    A moved document's label replaces one that its new doc_id had without having been a document.

    >>> golden = {"queries": [{"id": "q1", "relevant": ["a.md"], "distractors": ["b.md"], "seen": {"a.md": "1f"}}]}
    >>> move_labels(golden, {"a.md": "c.md"}), golden["queries"][0]
    (1, {'id': 'q1', 'relevant': ['c.md'], 'distractors': ['b.md'], 'seen': {'c.md': '1f'}})
    """
    queries = value.get("queries") if isinstance(value, dict) else None
    changed = 0
    for query in queries if isinstance(queries, list) else ():
        lists = {name: query[name] for name in _LISTS if isinstance(query, dict) and isinstance(query.get(name), list)}
        labelled = {doc_id for labels in lists.values() for doc_id in labels if isinstance(doc_id, str)}
        moved = {doc_id: moves[doc_id] for doc_id in labelled & moves.keys()}
        if not moved:
            continue
        stale = set(moved.values()) - moved.keys()
        for name, labels in lists.items():
            query[name] = [moved.get(doc_id, doc_id) for doc_id in labels if doc_id not in stale]
        if isinstance(query.get("seen"), dict):
            query["seen"] = {moved.get(doc_id, doc_id): said for doc_id, said in query["seen"].items()}
        changed += len(moved)
    return changed
