from __future__ import annotations

import json
from pathlib import Path

import pytest
import pytrec_eval
from hypothesis import given, strategies as st

from hive_agents.base.errors import HiveError
from hive_agents.evaluation import GoldenQuery, Source, open_source
from hive_agents.evaluation.outside import FoundList
from hive_agents.workspace.workspace import Workspace


def nowhere() -> Workspace:
    raise HiveError.of("HIVE-410", "no workspace here")


def opened(folder: Path, text: str, name: str = "a.run") -> Source:
    (folder / name).write_text(text)
    return open_source(str(folder / name), nowhere)


def ranked(source: Source, query: str = "1") -> tuple[str, ...]:
    return source.rank(GoldenQuery(id=query, query=query), 10).documents


def test_trec_run_is_ordered_by_score_and_not_by_its_rank_column(tmp_path: Path) -> None:
    source = opened(tmp_path, "1 Q0 a 1 0.5 x\n1 Q0 b 2 0.9 x\n1 Q0 c 3 -1e-3 x\n2 Q0 d 1 7 x\n")
    assert (ranked(source), ranked(source, "2"), ranked(source, "3")) == (("b", "a", "c"), ("d",), ())
    assert (source.name, source.live) == ("a.run", False)


@given(
    st.lists(
        st.tuples(st.sampled_from("abcdef"), st.sampled_from([0.1, 0.5, 0.9])), min_size=1, unique_by=lambda h: h[0]
    )
)
def test_equal_scores_are_ordered_as_trec_eval_orders_them(
    tmp_path_factory: pytest.TempPathFactory, hits: list[tuple[str, float]]
) -> None:
    source = opened(tmp_path_factory.mktemp("run"), "".join(f"1 Q0 {d} 1 {score} x\n" for d, score in hits))
    for relevant, _ in hits:
        ours = 1 / (ranked(source).index(relevant) + 1)
        judge = pytrec_eval.RelevanceEvaluator({"1": {relevant: 1}}, {"recip_rank"})
        assert judge.evaluate({"1": dict(hits)})["1"]["recip_rank"] == pytest.approx(ours)


@pytest.mark.parametrize(
    "text",
    [
        '{"id": "1", "documents": ["b", "a"]}',
        '{"query_id": 1, "results": [{"doc_id": "b", "score": 2}, {"id": "a"}]}\n\n{"qid": "2", "ranking": []}',
        '{"id": "1", "doc_id": "a", "score": 0.5}\n{"id": "1", "doc_id": "b", "score": 3}',
        '{"1": ["b", "a"], "2": []}',
        '{\n "1": {"a": 0.5, "b": 1.5}\n}',
    ],
)
def test_json_forms_say_the_same(tmp_path: Path, text: str) -> None:
    assert ranked(opened(tmp_path, text)) == ("b", "a")


def test_a_line_may_say_how_long_the_search_took(tmp_path: Path) -> None:
    source = opened(tmp_path, json.dumps({"id": "1", "documents": ["a"], "milliseconds": 12.5}))
    assert source.rank(GoldenQuery(id="1", query="1"), 10) == FoundList(("a",), 0.0125)


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        ("1 Q0 a 1 0.5 x\n1 Q0 a\n", "HIVE-104", 2),
        ("1 Q0 a 1 nan x\n", "HIVE-104", 1),
        ("1 Q0 a 1 0.5 x\n2 Q0 a 1 0.5 x\n1 Q0 a 2 0.4 x\n", "HIVE-111", 3),
        ('{"id": "1", "doc_id": "a", "score": 2}\n{"id": "1", "doc_id": "a", "score": 1}', "HIVE-111", 2),
        ('{"id": "1", "documents": ["a"]}\n{"id": "1"', "HIVE-101", 2),
        ('{"id": "1", "documents": ["a"]}\n{"id": "1", "documents": ["b"]}', "HIVE-111", 2),
        ('{"id": "1", "documents": [{"score": 1}]}', "HIVE-104", 1),
        ('{"id": "1", "score": 1}\n', "HIVE-104", 1),
        ('{"1": "a"}', "HIVE-104", 1),
    ],
)
def test_faults_of_a_run_name_their_line_and_end_with_2(tmp_path: Path, text: str, code: str, line: int) -> None:
    with pytest.raises(HiveError) as caught:
        opened(tmp_path, text)
    found = caught.value.diagnostics[0]
    assert (found.code, found.line, found.file, caught.value.exit_code) == (code, line, "a.run", 2)


def test_what_is_no_source_at_all_is_told(tmp_path: Path) -> None:
    with pytest.raises(HiveError, match="no file, no URL") as caught:
        open_source("nothing.run", nowhere)
    assert (caught.value.diagnostics[0].code, caught.value.exit_code) == ("HIVE-107", 2)
