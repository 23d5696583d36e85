"""`make report`: figures are shown as they were measured, and what wasn't measured has none."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.report import Measure, Promise, figure_at, markdown, measured, rows, table

GATE = Measure("gate", "python gate.py --json {file}")


def promise(reach: str = "<= 10", **more: tuple[str, ...]) -> Promise:
    return Promise("fast", "README", "gate", more.pop("field", ("seconds",)), reach, **more)


def test_each_promise_has_a_figure_of_a_benchmark_that_is_there_and_a_bound_that_can_be_read() -> None:
    measures, promises = table()
    assert len(promises) > 30
    for one in promises:
        assert one.measure in measures
        assert not one.reach or one.kept(1.0) in (True, False)
    for one in measures.values():
        words = one.command.split()
        if words[1].endswith(".py"):
            assert (Path(__file__).parents[1] / words[1]).is_file()


def test_a_promise_without_a_figure_is_not_measured_and_never_kept(tmp_path: Path) -> None:
    (tmp_path / "gate.json").write_text('{"other": 1}')
    ((_, _, _, shown, state, _, day),) = rows([promise()], {"gate": GATE}, tmp_path)
    assert (shown, state, day) == ("not measured", "", "")


def test_a_figure_that_misses_its_bound_falls_short(tmp_path: Path) -> None:
    (tmp_path / "gate.json").write_text('{"seconds": 10.01}')
    found = list(rows([promise(), promise("<= 10.5"), promise("")], {"gate": GATE}, tmp_path))
    assert [row[3] for row in found] == ["10.01"] * 3
    assert [row[4] for row in found] == ["FALLS SHORT", "kept", ""]
    assert "1 kept, 1 fall short, 0 not measured" in markdown(found)


def test_what_falls_short_says_why_where_that_is_known_and_what_is_kept_does_not(tmp_path: Path) -> None:
    (tmp_path / "gate.json").write_text('{"seconds": 12}')
    short, kept = (
        Promise("fast", "README", "gate", ("seconds",), reach, why="a slow peer") for reach in ("<= 9", "<= 12")
    )
    found = list(rows([short, kept], {"gate": GATE}, tmp_path))
    assert [row[4] for row in found] == ["FALLS SHORT: a slow peer", "kept"]
    assert "1 kept, 1 fall short" in markdown(found)


def test_a_figure_can_be_the_median_of_a_list_and_the_ratio_of_two(tmp_path: Path) -> None:
    (tmp_path / "gate.json").write_text(json.dumps({"peer": 2, "times": {"ours": [0.1, 0.5, 0.2]}}))
    figure, day = measured(promise(field=("peer",), over=("times", "ours")), tmp_path)
    assert figure == 10.0
    assert day
    assert figure_at({"rows": [{"n": "a", "failed": 0}, {"n": "b", "failed": 3}]}, ["rows", "n=b", "failed"]) == 3


def test_the_optimizers_figures_are_those_of_the_optimizer_and_of_no_method_beside_it() -> None:
    for one in table()[1]:
        if one.measure == "optimizer" and one.field[0] == "outcomes":
            assert "method=hive optimize" in str(one.field[1])


def test_what_a_command_prints_last_is_its_figure(tmp_path: Path) -> None:
    Measure("gate", "python -c print('noise');print('{{\"seconds\":4}}')").run(tmp_path)
    assert measured(promise(), tmp_path)[0] == 4.0


def test_a_command_that_fails_leaves_no_figure(tmp_path: Path) -> None:
    Measure("gate", "python -c raise(SystemExit(1))", timed=True).run(tmp_path)
    assert measured(promise(), tmp_path) == (None, "")
