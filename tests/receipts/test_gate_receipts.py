"""The receipt of a comparison by `hive gate`: derived again from the files alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.runs_of import ten_queries
from tests.sample import hive


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    ran = hive("gate", *ten_queries(Path(".")), "--receipt", "gate.json", "--k", 5)
    assert ran.code == 0, ran.err
    return tmp_path


def unlike() -> dict[str, str]:
    ran = hive("verify", "gate.json", "--json")
    found = {one["name"]: one["outcome"] for one in ran.json["checks"] if one["outcome"] != "same"}
    assert ran.code == int("differs" in found.values())
    return found


def test_the_same_comparison_has_the_same_bytes_and_no_text(made: Path) -> None:
    first = (made / "gate.json").read_bytes()
    hive("gate", *ten_queries(Path(".")), "--receipt", "gate.json", "--k", 5)
    assert (made / "gate.json").read_bytes() == first
    value = json.loads(first)
    assert value["predicateType"] == "urn:hive-agents:receipt:gate:1"
    assert [one["name"] for one in value["subject"]] == ["./a.run", "./b.run", "qrels.txt"]
    assert value["predicate"]["decision"] == "passed"
    assert "latency" not in first.decode()


def test_files_that_are_as_they_were_give_the_figures_again(made: Path) -> None:
    assert unlike() == {}


def test_a_figure_that_was_altered_differs(made: Path) -> None:
    text = (made / "gate.json").read_text()
    value = json.loads(text)
    value["predicate"]["evaluation"]["candidate"]["nudcg"] += 0.01
    (made / "gate.json").write_text(json.dumps(value))
    assert unlike() == {"measurement": "differs"}
    value = json.loads(text)
    value["predicate"]["evaluation"]["difference"]["p_value"] = 0.001
    (made / "gate.json").write_text(json.dumps(value))
    assert unlike() == {"measurement": "differs"}


def test_a_run_that_was_edited_differs_and_nothing_is_measured_on_it(made: Path) -> None:
    with (made / "b.run").open("a") as file:
        file.write("t9 Q0 t9-other 9 1.0 b\n")
    assert unlike() == {"file ./b.run": "differs", "measurement": "unknown"}


def test_a_file_that_is_gone_can_no_longer_be_derived(made: Path) -> None:
    (made / "qrels.txt").unlink()
    assert unlike() == {"file qrels.txt": "unknown", "measurement": "unknown"}
