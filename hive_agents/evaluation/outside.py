"""Labels and texts of queries from files that belong to no workspace: TREC qrels, golden sets, lists of queries."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from hive_agents.base import HiveError
from hive_agents.base.files import formats, jsontext, read_bytes
from hive_agents.evaluation.golden import GoldenFile, GoldenQuery, GoldenSet, label_faults
from hive_agents.evaluation.results import Evaluation, judged
from hive_agents.evaluation.splits import held_out
from hive_agents.workspace import Workspace

DEPTH = 10
BEIR_HEADER = ["query-id", "corpus-id", "score"]


class PooledQuery(GoldenQuery):
    """A query of a qrels file, of which only the pooled documents were judged."""

    @property
    def fully_judged(self) -> bool:
        return False


class UnaskedQuery(PooledQuery):
    """A query without a text; its id stands in for it."""


@dataclass(frozen=True)
class OutsideQuery:
    """A query in a file of queries."""

    text: str
    tags: tuple[str, ...] = ()


@dataclass(frozen=True)
class FoundList:
    """The result list of one query: doc_ids, best first; `seconds` is None where it wasn't measured."""

    documents: tuple[str, ...]
    seconds: float | None = None


def load_labels(
    path: Path, *, k: int | None = None, asked: Mapping[str, OutsideQuery] | None = None, relevant_from: int = 1
) -> GoldenSet:
    """Return the labels of a TREC qrels file or of a golden set, without looking up the documents.

    Qrels have four columns, or BEIR's three. A grade of at least `relevant_from` is relevant, a negative one marks a
    distractor. `asked` gives texts and tags to the queries of qrels; a query without a text has its id. `k`
    overrides the depth of the file.
    Raises: HIVE-107 where there is no such file, level 1 for its faults, HIVE-105 without queries, all with
    exit code 2.
    """
    text = text_of(path)
    try:
        golden = (
            _golden(path, text) if text.lstrip().startswith("{") else _qrels(path, text, asked or {}, relevant_from)
        )
    except HiveError as error:
        raise HiveError(error.diagnostics, exit_code=2) from None
    if not len(golden):
        fix = "write lines of: query-id 0 doc-id grade"
        raise HiveError.of("HIVE-105", "there are no queries in it", file=path.name, path="$", fix=fix, exit_code=2)
    return golden if k is None else GoldenSet(golden.collection, k, golden.queries, golden.file, golden.hash)


def load_holdout(path: Path, golden: GoldenSet, asked: Mapping[str, OutsideQuery], relevant_from: int) -> GoldenSet:
    """Return the queries held out: a file of ids, one a line, chooses from `golden`; a file of labels has its own.

    Raises: HIVE-107 for an id that `golden` doesn't have, and as `load_labels`.
    """
    lines = [line.strip() for line in text_of(path).splitlines() if line.strip()]
    if not lines or lines[0].startswith("{") or any(len(line.split()) > 1 for line in lines):
        return load_labels(path, k=golden.k, asked=asked, relevant_from=relevant_from)
    unknown = sorted(set(lines) - {query.id for query in golden})
    if unknown:
        message = f'"{unknown[0]}" is no query of {golden.file}' + (
            f", nor are {len(unknown) - 1} more" * bool(unknown[1:])
        )
        raise HiveError.of("HIVE-107", message, file=path.name, path="$", fix="name judged queries", exit_code=2)
    return golden.only(lines)


def home_of(path: Path, labels: GoldenSet) -> Workspace | None:
    """Return the workspace whose golden set is in the file `path`; None for qrels, and for a file by itself."""
    folders = path.resolve().parents if labels.collection else ()
    for folder in folders:
        if (folder / "collections" / f"{labels.collection}.json").is_file():
            return Workspace(folder)
    return None


@dataclass(frozen=True)
class LabelFiles:
    """The label files of a comparison; `cheap` are labels by a model or by clicks."""

    qrels: Path
    queries: Path | None = None
    holdout: Path | None = None
    cheap: Path | None = None
    k: int | None = None
    relevant_from: int = 1

    @property
    def given(self) -> dict[str, Path]:
        """The files by purpose."""
        files = {"qrels": self.qrels, "queries": self.queries, "holdout": self.holdout, "cheap": self.cheap}
        return {name: path for name, path in files.items() if path is not None}

    def measured(self) -> tuple[GoldenSet, GoldenSet]:
        """Return all labels, and those to measure by, which count as held out. Raises: as `load_labels`.

        Those are the queries of `holdout`, else the golden set's own holdout, for a workspace's golden set also the one
        that its optimizer holds out; without any they are all.
        """
        labels = load_labels(self.qrels, k=self.k, asked=self._asked, relevant_from=self.relevant_from)
        if self.holdout is not None:
            return labels, load_holdout(self.holdout, labels, self._asked, self.relevant_from)
        own = labels.has_holdout or home_of(self.qrels, labels) is not None
        return labels, (held_out(labels) if own else None) or labels

    def cheap_labels(self, k: int) -> GoldenSet | None:
        """Return the cheap labels to the depth `k`; None without any. Raises: as `load_labels`."""
        if self.cheap is None:
            return None
        return load_labels(self.cheap, k=k, asked=self._asked, relevant_from=self.relevant_from)

    @cached_property
    def _asked(self) -> dict[str, OutsideQuery]:
        return load_asked(self.queries) if self.queries else {}


def load_asked(path: Path) -> dict[str, OutsideQuery]:
    """Return the queries by id: lines of id, tab, text, or JSON lines with id or _id, query or text, and tags.

    Raises: HIVE-107, HIVE-104 and HIVE-106, with exit code 2.
    """
    queries: dict[str, OutsideQuery] = {}
    for number, line in enumerate(text_of(path).splitlines(), start=1):
        if not line.strip():
            continue
        if line.lstrip().startswith("{"):
            value = _json_line(line, path, number)
            query_id, text = value.get("id", value.get("_id")), value.get("query", value.get("text"))
            tags = value.get("tags", [])
            if query_id is None or not isinstance(text, str) or not isinstance(tags, list):
                raise line_fault(path, number, "HIVE-106", 'a query needs "id" and "query", and "tags" is a list')
            queries[str(query_id)] = OutsideQuery(text, tuple(map(str, tags)))
        else:
            query_id, tab, text = line.partition("\t")
            if not tab:
                raise line_fault(path, number, "HIVE-104", "expected: query-id, a tab, the query's text")
            queries[query_id.strip()] = OutsideQuery(text.strip())
    return queries


def evaluate_found(name: str, golden: GoldenSet, found: Sequence[FoundList]) -> Evaluation:
    """Return the measurement of a search's results, one `FoundList` for each query of `golden`.

    >>> from hive_agents.evaluation.golden import GoldenQuery
    >>> golden = GoldenSet("", 10, (GoldenQuery(id="1", query="keys", relevant=["a"]),), "qrels", "")
    >>> evaluate_found("run", golden, [FoundList(("b", "a"))]).scores()
    [0.6309297535714575]
    """
    queries = tuple(
        judged(query, ranking.documents, ranking.documents, golden.k, ranking.seconds)
        for query, ranking in zip(golden, found, strict=True)
    )
    return Evaluation(name, golden.k, queries, golden.hash, "")


def text_of(path: Path) -> str:
    """Return a file's text. Raises: HIVE-107 where there is none, HIVE-112 where it is not UTF-8, exit code 2."""
    try:
        data = read_bytes(path)
    except (FileNotFoundError, IsADirectoryError):
        fix = "name a file that is there"
        raise HiveError.of("HIVE-107", f"there is no file {path}", fix=fix, exit_code=2) from None
    try:
        return jsontext.decode(data.removeprefix(b"\xef\xbb\xbf"), path.name)
    except HiveError as error:
        raise HiveError(error.diagnostics, exit_code=2) from None


def line_fault(path: Path, number: int, code: str, message: str) -> HiveError:
    """Return the diagnostic of one line of a file."""
    return HiveError.of(code, message, file=path.name, path="$", line=number, fix="correct the line", exit_code=2)


def _golden(path: Path, text: str) -> GoldenSet:
    file = formats.load_value(GoldenFile, jsontext.parse(text, path.name), path.name, text)
    if faults := list(label_faults(file, path.name, text, None)):
        raise HiveError(faults)
    unseen = file.model_dump_json(exclude={"queries": {"__all__": {"seen"}}})
    digest = hashlib.sha256(unseen.encode()).hexdigest()
    return GoldenSet(file.collection, file.k, tuple(file.queries), path.name, digest)


def _qrels(path: Path, text: str, asked: Mapping[str, OutsideQuery], relevant_from: int) -> GoldenSet:
    grades: dict[str, dict[str, int]] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        columns = line.split()
        if not columns or (number == 1 and columns == BEIR_HEADER):
            continue
        try:
            if len(columns) == 3:
                columns.insert(1, "0")
            query_id, _, doc_id, grade = columns
            graded = int(grade)
        except ValueError:
            message = "expected: query-id 0 doc-id grade, and a whole number as grade"
            raise line_fault(path, number, "HIVE-104", message) from None
        if grades.setdefault(query_id, {}).setdefault(doc_id, graded) != graded:
            raise line_fault(path, number, "HIVE-110", f'query "{query_id}": "{doc_id}" is graded twice, differently')
    queries = tuple(_query(query_id, asked.get(query_id), of, relevant_from) for query_id, of in grades.items())
    content = json.dumps([relevant_from, [[query.id, query.tags, grades[query.id]] for query in queries]])
    return GoldenSet("", DEPTH, queries, path.name, hashlib.sha256(content.encode()).hexdigest())


def _query(query_id: str, asked: OutsideQuery | None, grades: Mapping[str, int], relevant_from: int) -> PooledQuery:
    kind = PooledQuery if asked else UnaskedQuery
    return kind.model_construct(
        id=query_id,
        query=asked.text if asked else query_id,
        tags=list(asked.tags) if asked else [],
        relevant=[doc_id for doc_id, grade in grades.items() if grade >= relevant_from],
        distractors=[doc_id for doc_id, grade in grades.items() if grade < 0],
        irrelevant=[doc_id for doc_id, grade in grades.items() if 0 <= grade < relevant_from],
    )


def _json_line(line: str, path: Path, number: int) -> dict[str, object]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        raise line_fault(path, number, "HIVE-101", "this line is no JSON object") from None
    if not isinstance(value, dict):
        raise line_fault(path, number, "HIVE-104", "this line is no JSON object")
    return value
