"""The receipt of a comparison by `hive gate`: derived again from the files alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.runs_of import ten_queries
from tests.sample import hive

LOOK = {"look at the holdout": "unknown"}
"""Which one it was is in the ledger alone."""


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
    assert "latency_ms" not in first.decode(), "no time that was measured"


def test_files_that_are_as_they_were_give_the_figures_again(made: Path) -> None:
    assert unlike() == LOOK


def test_a_figure_that_was_altered_differs(made: Path) -> None:
    text = (made / "gate.json").read_text()
    value = json.loads(text)
    value["predicate"]["evaluation"]["candidate"]["nudcg"] += 0.01
    (made / "gate.json").write_text(json.dumps(value))
    assert unlike() == {"measurement": "differs"} | LOOK
    value = json.loads(text)
    value["predicate"]["evaluation"]["difference"]["p_value"] = 0.001
    (made / "gate.json").write_text(json.dumps(value))
    assert unlike() == {"measurement": "differs"} | LOOK


def altered(made: Path, change: Callable[[dict[str, Any]], object]) -> None:
    value = json.loads((made / "gate.json").read_text())
    change(value)
    (made / "gate.json").write_text(json.dumps(value))


FORGED: dict[str, Callable[[dict[str, Any]], object]] = {
    "the decision": lambda facts: facts.update(decision="passed"),
    "decision and reasons": lambda facts: facts.update(decision="passed", reasons=[]),
    "the reasons": lambda facts: facts.update(reasons=["HIVE-301"]),
    "thresholds alone": lambda facts: facts["gate"].update(alpha=0.3),
    "a look": lambda facts: facts["evaluation"].update(j=1),
    "whether it could be measured": lambda facts: facts["evaluation"].update(measurable=True),
    "no figures": lambda facts: facts.update(evaluation={}),
    "the depth": lambda facts: facts.update(k=1),
    "the grade": lambda facts: facts.update(relevant_from=2),
}


@pytest.mark.parametrize("forged", FORGED)
def test_a_decision_that_was_forged_differs(made: Path, forged: str) -> None:
    """Of a comparison that proved nothing."""
    assert hive("gate", *ten_queries(made, won=2), "--receipt", "gate.json", "--k", 5).code == 1
    assert unlike() == LOOK
    altered(made, lambda value: FORGED[forged](value["predicate"]))
    assert "differs" in unlike().values()


def test_what_rests_on_the_ledger_alone_is_unknown(made: Path) -> None:
    (made / "held.txt").write_text("\n".join(f"t{number}" for number in range(8)))
    asked = (*ten_queries(Path(".")), "--holdout", "held.txt", "--budget", "mrr=5")
    assert hive("gate", *asked, "--receipt", "gate.json").code == 0
    assert unlike() == LOOK
    altered(made, lambda value: value["predicate"]["evaluation"].update(j=11))
    assert "differs" in unlike().values()


def test_that_queries_were_held_out_is_known_of_the_files_or_unknown(made: Path) -> None:
    altered(made, lambda value: value["predicate"]["evaluation"].update(split="holdout", evidence="holdout"))
    assert unlike() == LOOK
    (made / "held.txt").write_text("t0\nt1\n")
    hive("gate", *ten_queries(Path(".")), "--holdout", "held.txt", "--receipt", "gate.json")
    altered(made, lambda value: value["predicate"]["evaluation"].update(split=None, evidence="tuning_set"))
    assert unlike()["measurement"] == "differs"


@pytest.mark.parametrize("option", ["qrels", "before"])
def test_labels_that_the_receipt_has_no_hash_of_prove_nothing(made: Path, option: str) -> None:
    """Else it would be measured by whichever labels somebody puts there."""
    name = json.loads((made / "gate.json").read_text())["predicate"]["given"][option]
    altered(made, lambda value: value.update(subject=[one for one in value["subject"] if one["name"] != name]))
    assert set(unlike()) == {"measurement"}


WRONG: list[dict[str, Any]] = [
    {"k": "ten"},
    {"k": 10**9},
    {"k": True},
    {"relevant_from": None},
    {"gate": {"alpha": "low"}},
    {"budgets": {"mrr": -1}},
    {"budgets": {"time": 0.1}},
    {"given": {"before": 7}},
    {"given": {"tools": "x"}},
    {"given": []},
    {"evaluation": None},
    {"evaluation": {"j": "one", "accepted_tags": 3}},
    {"decision": None},
    {"reasons": "HIVE-306"},
]


@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_a_receipt_of_another_form_is_told_without_a_traceback(made: Path, wrong: dict[str, Any]) -> None:
    altered(made, lambda value: value["predicate"].update(wrong))
    assert "Traceback" not in hive("verify", "gate.json").err
    assert "measurement" in unlike()


def test_files_that_never_end_are_not_read(made: Path) -> None:
    altered(made, lambda value: value["predicate"]["given"].update(qrels="/dev/zero"))
    assert unlike() == {"measurement": "differs"}
    digest = {"sha256": "0" * 64}
    altered(made, lambda value: value["subject"].append({"name": "/dev/zero", "digest": digest}))
    assert unlike() == {"file /dev/zero": "unknown", "measurement": "unknown"}


def test_nothing_that_a_receipt_names_is_imported_or_asked(made: Path) -> None:
    (made / "search.py").write_text("open('owned', 'w')")
    altered(made, lambda value: value["predicate"]["given"].update(before="search:find"))
    assert unlike() == {"measurement": "unknown"}
    altered(made, lambda value: value["subject"].append({"name": "search:find", "digest": {"sha256": "0" * 64}}))
    assert unlike() == {"file search:find": "unknown", "measurement": "unknown"}
    assert not (made / "owned").exists()


def test_a_run_that_was_edited_differs_and_nothing_is_measured_on_it(made: Path) -> None:
    with (made / "b.run").open("a") as file:
        file.write("t9 Q0 t9-other 9 1.0 b\n")
    assert unlike() == {"file ./b.run": "differs", "measurement": "unknown"}


def test_a_file_that_is_gone_can_no_longer_be_derived(made: Path) -> None:
    (made / "qrels.txt").unlink()
    assert unlike() == {"file qrels.txt": "unknown", "measurement": "unknown"}
