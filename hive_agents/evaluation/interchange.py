"""Judgements of other tools, in and out: TREC qrels, Quepid's CSV, JSON of OpenSearch's Search Relevance Workbench."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hive_agents.base import HiveError
from hive_agents.evaluation.golden import GoldenQuery
from hive_agents.evaluation.outside import OutsideQuery, UnaskedQuery, line_fault, load_labels, text_of

QUEPID = ["query", "docid", "rating"]
WORKBENCH = "judgmentRatings"


@dataclass(frozen=True)
class Judgements:
    """The documents of one question by label."""

    query: str
    relevant: list[str]
    distractors: list[str]
    irrelevant: list[str]


def read_judgements(path: Path, asked: Mapping[str, OutsideQuery], relevant_from: float = 1) -> list[Judgements]:
    """Return the judgements of a file: CSV with the columns of `QUEPID`, JSON with `WORKBENCH`, else TREC qrels.

    A rating of at least `relevant_from` is relevant, a negative one marks a distractor. `asked` gives the texts of the
    queries of qrels. Raises: HIVE-104, 105 and 107, with exit code 2, also for a query of qrels without a text.
    """
    text = text_of(path)
    if text.lstrip().startswith("{"):
        return _judged(_of_workbench(path, text), relevant_from)
    head = [name.strip().lower() for name in next(csv.reader(io.StringIO(text)), [])]
    if set(QUEPID) <= set(head):
        return _judged(_of_quepid(path, text), relevant_from)
    labels = load_labels(path, asked=asked, relevant_from=int(relevant_from))
    unasked = [query.id for query in labels if isinstance(query, UnaskedQuery)]
    if unasked:
        message = f"query {unasked[0]} has no text, nor have {len(unasked) - 1} more"
        fix = "name the file of their texts: --queries FILE"
        raise HiveError.of("HIVE-107", message, file=path.name, path="$", fix=fix, exit_code=2)
    return [Judgements(query.query, query.relevant, query.distractors, query.irrelevant or []) for query in labels]


def written_judgements(queries: Iterable[GoldenQuery], name: str) -> dict[str, str]:
    """Return file name → text of these labels: by the ending of `name` for Quepid, the workbench or TREC.

    Relevant is 1, irrelevant 0, a distractor -1; the workbench has no ratings below 0. TREC has the texts of the
    queries beside it.
    """
    golden = list(queries)
    if name.endswith(".json"):
        ratings = [
            {
                "query": query.query,
                "ratings": [{"docId": one, "rating": f"{max(0, grade):.1f}"} for one, grade in query.qrels.items()],
            }
            for query in golden
        ]
        value = {"name": "hive-agents", "description": "labels of a golden set", "type": "IMPORT_JUDGMENT"}
        return {name: json.dumps(value | {WORKBENCH: ratings}, indent=1, ensure_ascii=False) + "\n"}
    if name.endswith(".csv"):
        out = io.StringIO()
        rows = csv.writer(out, lineterminator="\n")
        rows.writerow(QUEPID)
        rows.writerows((query.query, doc_id, grade) for query in golden for doc_id, grade in query.qrels.items())
        return {name: out.getvalue()}
    qrels = "".join(f"{query.id} 0 {doc_id} {grade}\n" for query in golden for doc_id, grade in query.qrels.items())
    texts = "".join(f"{query.id}\t{' '.join(query.query.split())}\n" for query in golden)
    return {name: qrels, f"{name}.queries.tsv": texts}


def _of_workbench(path: Path, text: str) -> Iterable[tuple[str, str, float]]:
    try:
        value: Any = json.loads(text)
        for entry in value[WORKBENCH]:
            for rating in entry["ratings"]:
                yield str(entry["query"]), str(rating["docId"]), float(rating["rating"])
    except (ValueError, KeyError, TypeError, RecursionError):
        message = f'expected: {{"{WORKBENCH}": [{{"query": …, "ratings": [{{"docId": …, "rating": …}}]}}]}}'
        raise line_fault(path, 1, "HIVE-104", message) from None


def _of_quepid(path: Path, text: str) -> Iterable[tuple[str, str, float]]:
    rows = csv.DictReader(io.StringIO(text))
    for number, row in enumerate(rows, start=2):
        said = {str(name).strip().lower(): value for name, value in row.items()}
        if not str(said["rating"] or "").strip():
            continue  # nobody has judged it yet
        try:
            yield str(said["query"]), str(said["docid"]), float(str(said["rating"]))
        except ValueError:
            raise line_fault(path, number, "HIVE-104", "a rating is a number") from None


def _judged(ratings: Iterable[tuple[str, str, float]], relevant_from: float) -> list[Judgements]:
    found: dict[str, dict[str, float]] = {}
    for query, doc_id, rating in ratings:
        found.setdefault(query, {})[doc_id] = rating
    return [
        Judgements(
            query,
            [one for one, grade in grades.items() if grade >= relevant_from],
            [one for one, grade in grades.items() if grade < 0],
            [one for one, grade in grades.items() if 0 <= grade < relevant_from],
        )
        for query, grades in found.items()
    ]
