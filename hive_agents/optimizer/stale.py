"""Stale documents: pairs with the same statements and different figures, how often they are returned, and advice.

Two documents disagree where a statement has the same words in both and different numbers, dates or versions. Nothing
else is inferred: a person decides which is right, unless a date or a version tells which is newer.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from hive_agents.access import Principal
from hive_agents.documents import terms
from hive_agents.evaluation import GoldenSet
from hive_agents.index import HALF_LIFE, AnyIndex, scope_of
from hive_agents.optimizer.space import apply, changes_from, in_words, parsed
from hive_agents.optimizer.why import Cost, Costs
from hive_agents.ranking import RetrievalConfig, SearchEngine

FEWEST_WORDS = 4
"""The fewest different words, without stop words, of a statement: shorter ones are alike by chance."""

COMMON = 0.02
"""The share of documents above which a statement is boilerplate, not a claim; at least 6 documents."""

ALIKE = 0.5
"""Documents that share this part of the smaller one's statements are versions of one page."""

_NUMBER = re.compile(r"(?<![\w-])v?\d+(?:[.,:/-]\d+)*")
"""Figures, dates and versions, but not the number in a name such as SOP-110."""
_NUMBERING = re.compile(r"^\W*(?:(?:step\s+)?\d+(?:\.\d+)*[.):]?\s+)?", re.I)
_LINK = re.compile(r"\]\([^)]*\)|https?://\S+")
_CODE = re.compile(r"^(```+|~~~+).*?(?:^\1|\Z)", re.M | re.S)
_ENDS = re.compile(r"(?<=[.!?;])\s+")
_VERSION = re.compile(r"v?(?<!\d)\d+(?:\.\d+)+")


@dataclass(frozen=True)
class Disagreement:
    """One statement in two documents, with the figures and the text of each."""

    figures: tuple[tuple[str, ...], tuple[str, ...]]
    texts: tuple[str, str]


@dataclass(frozen=True)
class Advice:
    """A remedy against the older document: an edit of the config with its cost, or a label."""

    kind: Literal["filter", "boost", "label"]
    told: str
    changes: list[dict[str, Any]]
    cost: Cost | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class StalePair:
    """Two documents that disagree. `newer` is one of them or None if unknown; `by` is the field that tells.

    `returned` counts the queries that return the older one, or either one if unknown.
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
        """The documents that should not be returned: the older one, or both if unknown."""
        return tuple(doc_id for doc_id in self.documents if doc_id != self.newer)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "advice": [one.to_json() for one in self.advice]}


def stale_pairs(
    engine: SearchEngine,
    config: RetrievalConfig,
    queries: Sequence[str],
    golden: GoldenSet | None = None,
    *,
    reader: Principal | None = None,
) -> list[StalePair]:
    """Return the pairs of documents that disagree, those first that `queries` return most often with `config`.

    With `golden`, each edit of the config is measured on its open queries; with a `reader` only
    what they may view is looked at. Raises: as a search with `config` does.
    """
    whole = engine.index(config.collection)
    index = whole if reader is None else scope_of(engine.workspace, whole, reader)
    statements = {doc_id: _statements(index, doc_id) for doc_id in index.doc_ids()}
    disagreements = _disagreements(statements)
    returned: defaultdict[str, list[str]] = defaultdict(list)
    for query, search in zip(queries, engine.run_on(index, list(queries), config), strict=True):
        for doc_id in dict.fromkeys(index.documents_of(search.returned)):
            returned[doc_id].append(query)
    metadata = {doc_id: values for doc_id, _, values in index.documents()}
    orders = {pair: _order(index, pair, metadata) for pair in disagreements}
    adviser = _Adviser(engine, config, golden, metadata, orders, reader)
    pairs = []
    for pair, statement_pairs in disagreements.items():
        newer, by = orders[pair]
        suspects = [doc_id for doc_id in pair if doc_id != newer]
        returning = list(dict.fromkeys(query for doc_id in suspects for query in returned[doc_id]))
        shared = len(statements[pair[0]].keys() & statements[pair[1]].keys())
        alike = shared >= ALIKE * min(len(statements[doc_id]) for doc_id in pair)
        kind: Literal["version", "contradiction"] = "version" if alike else "contradiction"
        advice = tuple(adviser.advice(pair, newer, returning))
        pairs.append(StalePair(kind, pair, newer, by, tuple(statement_pairs), len(returning), advice))
    return sorted(pairs, key=lambda one: (-one.returned, -len(one.disagreements), one.documents))


StatementKey = tuple[str, ...]
"""The words of a statement without its figures, sorted."""
Statements = Mapping[StatementKey, tuple[tuple[str, ...], str]]
"""(figures, text) of each statement of a document."""


def _statements(index: AnyIndex, doc_id: str) -> Statements:
    """Return the statements of a document; of a repeated one, the first."""
    statements: dict[StatementKey, tuple[tuple[str, ...], str]] = {}
    for row in index.rows(index.chunks_of(doc_id).tolist()):
        for text in _split(row.text):
            bare = _NUMBERING.sub("", _LINK.sub("]", text), count=1)
            key = tuple(sorted(set(terms(_NUMBER.sub(" ", bare), index.language))))
            if len(key) >= FEWEST_WORDS:
                statements.setdefault(key, (tuple(_NUMBER.findall(bare)), text))
    return statements


def _split(text: str) -> Iterator[str]:
    """Yield the sentences, list items and rows of a text, without its code, whose figures are examples.

    >>> list(_split("A key lasts 90 days. Then it ends.\\n```\\nttl = 5\\n```\\n| token | 7 days |"))
    ['A key lasts 90 days.', 'Then it ends.', '| token | 7 days |']
    """
    for line in _CODE.sub("\n", text).splitlines():
        yield from (part.strip() for part in _ENDS.split(line) if part.strip())


def _disagreements(statements: Mapping[str, Statements]) -> dict[tuple[str, str], list[Disagreement]]:
    documents_with: defaultdict[StatementKey, list[str]] = defaultdict(list)
    for doc_id, keys in statements.items():
        for key in keys:
            documents_with[key].append(doc_id)
    most = max(6, round(COMMON * len(statements)))
    disagreements: defaultdict[tuple[str, str], list[Disagreement]] = defaultdict(list)
    for key, documents in documents_with.items():
        if not 1 < len(documents) <= most:
            continue
        for number, a in enumerate(documents):
            for b in documents[number + 1 :]:
                (figures_a, text_a), (figures_b, text_b) = statements[a][key], statements[b][key]
                if figures_a != figures_b and figures_a and figures_b:
                    disagreements[a, b].append(Disagreement((figures_a, figures_b), (text_a, text_b)))
    return disagreements


def _order(
    index: AnyIndex, pair: tuple[str, str], metadata: Mapping[str, Mapping[str, Any]]
) -> tuple[str | None, str | None]:
    """Return the newer of two documents, and the field or path whose version tells, else the date field; else Nones."""
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
    """Return the numbers of the first version in a text; empty without one.

    >>> _version("v3.10/op/a.md") > _version("v3.9/op/a.md"), _version("guides/a.md")
    (True, ())
    """
    match = _VERSION.search(text)
    return tuple(map(int, re.findall(r"\d+", match.group()))) if match else ()


class _Adviser:
    """Advice supported by all pairs together: filters on values that only older documents have, date boosts, labels."""

    def __init__(
        self,
        engine: SearchEngine,
        config: RetrievalConfig,
        golden: GoldenSet | None,
        metadata: Mapping[str, Mapping[str, Any]],
        orders: Mapping[tuple[str, str], tuple[str | None, str | None]],
        reader: Principal | None,
    ) -> None:
        self.engine, self.config, self.metadata = engine, config, metadata
        self.fields = engine.index(config.collection).collection.fields
        self._costs = Costs(golden, engine, config, reader=reader) if golden is not None else None
        self._measured: dict[str, Advice] = {}
        self._newer = Counter(value for newer, _ in orders.values() if newer for value in self._values(newer))

    def advice(self, pair: tuple[str, str], newer: str | None, queries: Iterable[str]) -> Iterator[Advice]:
        """Yield edits that don't lower the golden set's mean, and a label for the first query."""
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
            condition = current.get(field)
            excluded = condition.get("not", []) if isinstance(condition, dict) else []
            if not self._newer[field, value] and (condition is None or excluded):
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
        key = repr(values)
        if key not in self._measured:
            edited = parsed(apply(self.config, values))
            changes = changes_from(self.config, edited)
            cost = self._costs.of(self.engine, edited) if self._costs else None
            self._measured[key] = Advice(kind, in_words(changes), changes, cost)
        return self._measured[key]
