"""Stale radar: documents that say the same with other figures, how often they are returned, and what would help.

Two documents disagree where a statement has the same words in both and other numbers, dates or versions. Nothing is
guessed beyond that: which of them is right is a person's to say, unless a date or a version tells which is newer.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from hive_agents.evaluation import GoldenSet
from hive_agents.optimizer.space import apply, changes_from, in_words, parsed
from hive_agents.optimizer.why import Cost, Costs
from hive_agents.retrieval import HALF_LIFE, RetrievalConfig, SearchEngine, SqliteIndex, terms

FEWEST_WORDS = 4
"""Different words, without stop words, that a statement has at least: shorter ones are alike by chance."""

COMMON = 0.02
"""The share of documents beyond which a statement is a form that is filled in, not a claim; at least 6 documents."""

ALIKE = 0.5
"""Documents that share this much of the smaller one's statements are versions of one page."""

_NUMBER = re.compile(r"(?<![\w-])v?\d+(?:[.,:/-]\d+)*")
"""A figure, a date or a version; not the number in a name such as SOP-110."""
_NUMBERING = re.compile(r"^\W*(?:(?:step\s+)?\d+(?:\.\d+)*[.):]?\s+)?", re.I)
_LINK = re.compile(r"\]\([^)]*\)|https?://\S+")
_CODE = re.compile(r"^(```+|~~~+).*?(?:^\1|\Z)", re.M | re.S)
_ENDS = re.compile(r"(?<=[.!?;])\s+")
_VERSION = re.compile(r"v?\d+(?:\.\d+)+")


@dataclass(frozen=True)
class Disagreement:
    """One statement in two documents: its figures in either, and its words as they stand there."""

    figures: tuple[tuple[str, ...], tuple[str, ...]]
    texts: tuple[str, str]


@dataclass(frozen=True)
class Advice:
    """What would keep the older document out of the way: an edit of the config with what it costs, or a label."""

    kind: Literal["filter", "boost", "label"]
    told: str
    changes: list[dict[str, Any]]
    cost: Cost | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class StalePair:
    """Two documents that disagree. `newer` says which is, None where nothing tells; `by` is the field that does.

    `returned` counts the queries that return the older one, or either where nobody knows which it is.
    """

    kind: Literal["version", "contradiction"]
    documents: tuple[str, str]
    newer: str | None
    by: str | None
    disagreements: tuple[Disagreement, ...]
    returned: int
    advice: tuple[Advice, ...]

    @property
    def suspects(self) -> tuple[str, ...]:
        """The documents that should not be returned: the older one, or both where nothing tells."""
        return tuple(doc_id for doc_id in self.documents if doc_id != self.newer)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "advice": [one.to_json() for one in self.advice]}


def stale_pairs(
    engine: SearchEngine, config: RetrievalConfig, queries: Sequence[str], golden: GoldenSet | None = None
) -> list[StalePair]:
    """Return the pairs of documents that disagree, those first that `queries` return most often with `config`.

    With `golden` each edit of the config is measured on its open queries. Raises: as a search with `config` does.
    """
    index = engine.index(config.collection)
    statements = {doc_id: _statements(index, doc_id) for doc_id in index.doc_ids()}
    found = _disagreements(statements)
    returned: defaultdict[str, list[str]] = defaultdict(list)
    for query, search in zip(queries, engine.run_on(index, list(queries), config), strict=True):
        for doc_id in dict.fromkeys(index.documents_of(search.returned)):
            returned[doc_id].append(query)
    metadata = {doc_id: values for doc_id, _, values in index.documents()}
    orders = {pair: _order(index, pair, metadata) for pair in found}
    adviser = _Adviser(engine, config, golden, metadata, orders)
    pairs = []
    for pair, disagreements in found.items():
        newer, by = orders[pair]
        suspects = [doc_id for doc_id in pair if doc_id != newer]
        asked = list(dict.fromkeys(query for doc_id in suspects for query in returned[doc_id]))
        shared = len(statements[pair[0]].keys() & statements[pair[1]].keys())
        alike = shared >= ALIKE * min(len(statements[doc_id]) for doc_id in pair)
        kind: Literal["version", "contradiction"] = "version" if alike else "contradiction"
        advice = tuple(adviser.advice(pair, newer, asked))
        pairs.append(StalePair(kind, pair, newer, by, tuple(disagreements), len(asked), advice))
    return sorted(pairs, key=lambda one: (-one.returned, -len(one.disagreements), one.documents))


PairKey = tuple[str, ...]
Statements = Mapping[PairKey, tuple[tuple[str, ...], str]]
"""(figures, text) of each statement of a document by its words."""


def _statements(index: SqliteIndex, doc_id: str) -> Statements:
    """Return the statements of a document by their words; one that stands there twice counts as it stands first."""
    found: dict[PairKey, tuple[tuple[str, ...], str]] = {}
    for row in index.rows(index.chunks_of(doc_id).tolist()):
        for text in _split(row.text):
            bare = _NUMBERING.sub("", _LINK.sub("]", text), count=1)
            key = tuple(sorted(set(terms(_NUMBER.sub(" ", bare), index.language))))
            if len(key) >= FEWEST_WORDS:
                found.setdefault(key, (tuple(_NUMBER.findall(bare)), text))
    return found


def _split(text: str) -> Iterator[str]:
    """Yield the sentences, list items and rows of a text, without its code, whose figures are examples.

    >>> list(_split("A key lasts 90 days. Then it ends.\\n```\\nttl = 5\\n```\\n| token | 7 days |"))
    ['A key lasts 90 days.', 'Then it ends.', '| token | 7 days |']
    """
    for line in _CODE.sub("\n", text).splitlines():
        yield from (part.strip() for part in _ENDS.split(line) if part.strip())


def _disagreements(statements: Mapping[str, Statements]) -> dict[tuple[str, str], list[Disagreement]]:
    holders: defaultdict[PairKey, list[str]] = defaultdict(list)
    for doc_id, held in statements.items():
        for key in held:
            holders[key].append(doc_id)
    most = max(6, round(COMMON * len(statements)))
    found: defaultdict[tuple[str, str], list[Disagreement]] = defaultdict(list)
    for key, documents in holders.items():
        if not 1 < len(documents) <= most:
            continue
        for number, a in enumerate(documents):
            for b in documents[number + 1 :]:
                (mine, text), (theirs, other) = statements[a][key], statements[b][key]
                if mine != theirs and mine and theirs:
                    found[a, b].append(Disagreement((mine, theirs), (text, other)))
    return found


def _order(
    index: SqliteIndex, pair: tuple[str, str], metadata: Mapping[str, Mapping[str, Any]]
) -> tuple[str | None, str | None]:
    """Return which of two documents is newer and what tells: a version in a field or a path, else a date."""
    a, b = pair
    for name in ("version", None):
        versions = [_version(doc_id if name is None else str(metadata[doc_id].get(name, ""))) for doc_id in pair]
        if all(versions) and versions[0] != versions[1]:
            return (a if versions[0] > versions[1] else b), name or "path"
    for name, field in index.collection.fields.items():
        dates = [metadata[doc_id].get(name) for doc_id in pair]
        if field.type == "date" and all(isinstance(date, str) for date in dates) and dates[0] != dates[1]:
            return (a if str(dates[0]) > str(dates[1]) else b), name
    return None, None


def _version(text: str) -> tuple[int, ...]:
    """Return the numbers of the first version in a text; nothing where there is none.

    >>> _version("v3.10/op/a.md") > _version("v3.9/op/a.md"), _version("guides/a.md")
    (True, ())
    """
    found = _VERSION.search(text)
    return tuple(map(int, re.findall(r"\d+", found.group()))) if found else ()


class _Adviser:
    """Proposes what the pairs together bear out: values that only older documents have, dates that tell, labels."""

    def __init__(
        self,
        engine: SearchEngine,
        config: RetrievalConfig,
        golden: GoldenSet | None,
        metadata: Mapping[str, Mapping[str, Any]],
        orders: Mapping[tuple[str, str], tuple[str | None, str | None]],
    ) -> None:
        self.engine, self.config, self.metadata = engine, config, metadata
        self.fields = engine.index(config.collection).collection.fields
        self._costs = Costs(golden, engine, config) if golden is not None else None
        self._measured: dict[str, Advice] = {}
        self._newer = Counter(value for newer, _ in orders.values() if newer for value in self._values(newer))

    def advice(self, pair: tuple[str, str], newer: str | None, queries: Iterable[str]) -> Iterator[Advice]:
        """Yield what helps: edits by which the golden set's mean doesn't fall, and a label for the first query."""
        if newer is None:
            return
        (older,) = (doc_id for doc_id in pair if doc_id != newer)
        edits = self._edits(older, newer)
        yield from (edit for edit in edits if edit.cost is None or edit.cost.difference >= 0)
        for query in queries:
            yield Advice("label", f'if it misleads: hive label "{query}" --distractor {older}', [])
            break

    def _edits(self, older: str, newer: str) -> Iterator[Advice]:
        current = self.config.filters
        for field, value in self._values(older):
            standing = current.get(field)
            excluded = standing.get("not", []) if isinstance(standing, dict) else []
            if not self._newer[field, value] and (standing is None or excluded):
                yield self._edit("filter", [(f"filters.{field}", {"not": sorted({*excluded, value})})])
        for field, kind in self.fields.items():
            dates = [self.metadata[doc_id].get(field) for doc_id in (older, newer)]
            if kind.type == "date" and kind.filterable and all(dates) and str(dates[0]) < str(dates[1]):
                yield self._edit("boost", [(f"boosts.{field}", {HALF_LIFE: 365.0})])

    def _values(self, doc_id: str) -> Iterator[tuple[str, str]]:
        for name, field in self.fields.items():
            value = self.metadata[doc_id].get(name)
            if field.type == "keyword" and field.filterable and isinstance(value, str):
                yield name, value

    def _edit(self, kind: Literal["filter", "boost"], values: list[tuple[str, Any]]) -> Advice:
        name = repr(values)
        if name not in self._measured:
            edited = parsed(apply(self.config, values))
            changes = changes_from(self.config, edited)
            cost = self._costs.of(self.engine, edited) if self._costs else None
            self._measured[name] = Advice(kind, in_words(changes), changes, cost)
        return self._measured[name]
