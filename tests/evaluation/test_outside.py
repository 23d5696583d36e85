from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import pytrec_eval

from hive_agents.base.errors import HiveError
from hive_agents.evaluation.outside import (
    FoundList,
    OutsideQuery,
    evaluate_found,
    load_asked,
    load_holdout,
    load_labels,
)


def written(folder: Path, text: str, name: str = "qrels.txt") -> Path:
    (folder / name).write_text(text)
    return folder / name


def refused(path: Path, **options: Any) -> tuple[str, int | None, int]:
    with pytest.raises(HiveError) as caught:
        load_labels(path, **options)
    return caught.value.diagnostics[0].code, caught.value.diagnostics[0].line, caught.value.exit_code


def test_grades_of_qrels_are_relevant_irrelevant_and_distractor(tmp_path: Path) -> None:
    golden = load_labels(written(tmp_path, "1 0 a 2\n1\t0\tb\t0\r\n1 Q0 c -1\n\n2 0 d 1\n"))
    (first, second) = golden.queries
    assert (first.qrels, second.qrels) == ({"a": 1, "b": 0, "c": -1}, {"d": 1})
    assert (first.query, golden.k, first.fully_judged) == ("1", 10, False)


def test_qrels_of_beir_have_three_columns_and_a_header(tmp_path: Path) -> None:
    golden = load_labels(written(tmp_path, "query-id\tcorpus-id\tscore\n1\ta\t1\n1\tb\t-1\n"))
    assert golden.queries[0].qrels == {"a": 1, "b": -1}


def test_the_lowest_relevant_grade_can_be_chosen(tmp_path: Path) -> None:
    path = written(tmp_path, "1 0 a 2\n1 0 b 1\n1 0 c 0\n")
    assert load_labels(path, relevant_from=2).queries[0].qrels == {"a": 1, "b": 0, "c": 0}


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        ("1 0 a 1\n1 0 b\n", "HIVE-104", 2),
        ("1 0 a 1 x\n", "HIVE-104", 1),
        ("1 1\n", "HIVE-104", 1),
        ("1 0 a high\n", "HIVE-104", 1),
        ("1 0 a 1\n1 0 a 0\n", "HIVE-110", 2),
        ("\n\n", "HIVE-105", None),
        ("{", "HIVE-101", 1),
    ],
)
def test_faults_of_labels_name_their_line_and_end_with_2(tmp_path: Path, text: str, code: str, line: int) -> None:
    assert refused(written(tmp_path, text)) == (code, line, 2)


def test_labels_that_are_not_there_or_not_text_end_with_2(tmp_path: Path) -> None:
    assert refused(tmp_path / "no.txt") == ("HIVE-107", None, 2)
    assert refused(tmp_path) == ("HIVE-107", None, 2)
    (tmp_path / "latin").write_bytes(b"1 0 caf\xe9 1\n")
    assert refused(tmp_path / "latin") == ("HIVE-112", 1, 2)


def test_golden_set_stands_by_itself_and_no_document_is_looked_up(tmp_path: Path) -> None:
    value = {"collection": "kb", "k": 5, "queries": [{"id": "q", "query": "keys", "relevant": ["x.md"]}]}
    path = written(tmp_path, json.dumps(value), "golden.json")
    assert (load_labels(path).k, load_labels(path, k=3).k) == (5, 3)
    value["queries"][0]["distractors"] = ["x.md"]  # type: ignore[index]
    assert refused(written(tmp_path, json.dumps(value), "twice.json"))[0] == "HIVE-110"


def test_texts_and_tags_come_from_tsv_or_json_lines(tmp_path: Path) -> None:
    lines = '1\tHow do I?\n{"_id": 2, "text": "Why?", "tags": ["old"]}\n'
    assert load_asked(written(tmp_path, lines)) == {"1": OutsideQuery("How do I?"), "2": OutsideQuery("Why?", ("old",))}
    with pytest.raises(HiveError, match="a tab"):
        load_asked(written(tmp_path, "1 How do I?\n"))
    golden = load_labels(written(tmp_path, "2 0 a 1\n"), asked={"2": OutsideQuery("Why?", ("old",))})
    assert (golden.queries[0].query, golden.queries[0].tags) == ("Why?", ["old"])


def test_holdout_is_a_list_of_ids_or_labels_of_its_own(tmp_path: Path) -> None:
    golden = load_labels(written(tmp_path, "1 0 a 1\n2 0 b 1\n"))
    assert load_holdout(written(tmp_path, "2\n", "ids"), golden, {}, 1).texts == ["2"]
    assert load_holdout(written(tmp_path, "7 0 b 1\n", "own"), golden, {}, 1).texts == ["7"]
    with pytest.raises(HiveError, match=r'"9" is no query of qrels\.txt'):
        load_holdout(written(tmp_path, "2\n9\n", "ids"), golden, {}, 1)


def test_what_was_found_is_measured_as_trec_eval_does(tmp_path: Path) -> None:
    golden = load_labels(written(tmp_path, "1 0 a 1\n1 0 b 1\n1 0 c 0\n2 0 d 1\n2 0 e 0\n"))
    found = [FoundList(("c", "a", "x", "b")), FoundList(("e", "x"), seconds=0.25)]
    measured = evaluate_found("run", golden, found)
    run = {q.id: {d: 1.0 / rank for rank, d in enumerate(f.documents, 1)} for q, f in zip(golden, found, strict=True)}
    qrels = {query.id: query.qrels for query in golden}
    peer = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut.10", "recall.10", "recip_rank"}).evaluate(run)
    for query in measured.queries:
        theirs = peer[query.query.id]
        ours = [query.metrics[name] for name in ("ndcg", "recall", "mrr")]
        assert ours == pytest.approx([theirs["ndcg_cut_10"], theirs["recall_10"], theirs["recip_rank"]])
    assert measured.metrics["latency_ms_p95"] == 250.0
    assert evaluate_found("run", golden, found[:1] * 2).metrics["latency_ms_p95"] is None
