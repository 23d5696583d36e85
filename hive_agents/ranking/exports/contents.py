"""The exported data of each chunk: text, values of fields, readers and the vector."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hive_agents.access import LOCAL_TENANT, AccessLabels, AccessRules, Principal, is_open
from hive_agents.index import SqliteIndex, StoredChunk, days_of, generation
from hive_agents.workspace import Workspace


@dataclass(frozen=True)
class Content:
    """One chunk with its document's metadata.

    `readers` are "tenant,subject", of which a reader needs one. `values` are the filterable fields' values as text,
    `numbers` those of numbers and dates (days since 1970), `newest` the newest date of each date field.
    """

    chunk: StoredChunk
    readers: tuple[str, ...]
    values: Mapping[str, tuple[str, ...]]
    numbers: Mapping[str, tuple[float, ...]]
    newest: Mapping[str, float]

    @property
    def length(self) -> int:
        """The length in words for BM25, counting the title once."""
        return len(self.chunk.words) + len(self.chunk.title_words)


def contents(workspace: Workspace, index: SqliteIndex) -> Iterator[Content]:
    """Yield every chunk of the index, in order of chunk_id."""
    rules, everyone = AccessRules.load(workspace), is_open(workspace)
    fields = index.collection.fields
    known: dict[str, tuple[str, ...]] = {}
    for chunk in index.stored():
        if chunk.doc_id not in known:
            labels = AccessLabels.of(chunk.front_matter)
            found = {_reader(*one) for one in rules.readers(chunk.doc_id, labels)}
            known[chunk.doc_id] = tuple(sorted(found | ({_reader(LOCAL_TENANT, "tenant")} if everyone else set())))
        values, numbers, newest = {}, {}, {}
        for name in index.collection.filterable:
            stored = [generation.stored_value(one) for one in _listed(chunk.metadata.get(name))]
            values[name] = tuple(dict.fromkeys(text for text, _ in stored))
            if fields[name].type == "date":
                numbers[name] = tuple(days_of(text) for text in values[name])
                if numbers[name]:
                    newest[name] = max(numbers[name])
            elif fields[name].type == "number":
                numbers[name] = tuple(dict.fromkeys(number for _, number in stored if number is not None))
        yield Content(chunk, known[chunk.doc_id], values, numbers, newest)


def readers_of(principal: Principal) -> list[str]:
    """Return the value of the parameter `reader` for a principal: their subjects in documents' labels.

    >>> readers_of(Principal("acme", "dana", frozenset({"qa"})))
    ['acme,group:qa', 'acme,tenant', 'acme,user:dana']
    """
    return sorted(_reader(principal.tenant, subject) for subject in principal.subjects)


def _reader(tenant: str, subject: str) -> str:
    # Names have no commas, so distinct pairs have distinct texts.
    return f"{tenant},{subject}"


def _listed(value: object) -> list[object]:
    return [] if value is None else list(value) if isinstance(value, list) else [value]


def json_line(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n"


def json_page(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"
