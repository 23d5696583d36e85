"""`hive validate --behavioral` says all that the gate says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hive_agents import Workspace
from tests.sample import copied_sample, hive, write_config


def test_the_gates_warnings_are_shown_as_text_and_as_diagnostics(tmp_path: Path) -> None:
    place = copied_sample(tmp_path / "w")
    write_config(place, "same")
    first = hive("validate", "same", "--behavioral", "-w", place.root, "--json")
    assert {found["code"] for found in first.json["diagnostics"]} == {"HIVE-306"}
    golden = place.root / "evals" / "golden.json"
    value = json.loads(golden.read_text())
    golden.write_text(json.dumps(value | {"queries": value["queries"][1:]}))
    ran = hive("validate", "same", "--behavioral", "-w", place.root, "--json")
    assert (ran.code, ran.json["ok"]) == (first.code, first.json["ok"])
    (told,) = [found for found in ran.json["diagnostics"] if found["file"] == "evals/golden.json"]
    assert (told["code"], told["severity"], bool(told["fix"])) == ("HIVE-306", "warning", True)
    assert "no person has accepted" in hive("validate", "same", "--behavioral", "-w", place.root).err


def test_each_reason_of_the_gate_says_how_to_go_on(tmp_path: Path) -> None:
    place = copied_sample(tmp_path / "w")
    write_config(place, "worse", retrieval={"method": "keyword", "top_k": 1}, filters={"category": "changelogs"})
    ran = hive("validate", "worse", "--behavioral", "-w", place.root, "--json")
    blocks = [found for found in ran.json["diagnostics"] if found["severity"] == "error"]
    assert (ran.code, blocks[0]["code"]) == (1, "HIVE-301")
    assert blocks[0]["fix"] == "`hive compare v1-naive worse` shows the queries"
    assert all(found["fix"] for found in ran.json["diagnostics"])


def test_a_warning_about_the_active_config_is_shown_as_deploy_shows_it(tmp_path: Path) -> None:
    place = copied_sample(tmp_path / "w")
    write_config(place, "same")
    hive("deploy", "same", "--allow-inconclusive", "-w", place.root)
    write_config(place, "same", retrieval={"top_k": 3})
    ran = hive("validate", "v1-naive", "--behavioral", "-w", place.root, "--json")
    assert "HIVE-404" in {found["code"] for found in ran.json["diagnostics"] if found["severity"] == "warning"}
    assert "HIVE-404" in hive("deploy", "v1-naive", "-w", place.root).err


def test_what_is_wrong_at_one_level_hides_nothing_of_the_others(tmp_path: Path) -> None:
    place = copied_sample(tmp_path / "w")
    write_config(
        place,
        "wrong",
        retrieval={"method": "keyword", "top_k": 0, "weights": {"keyword": 0, "vector": 0}},
        dynamic_k={"enabled": True, "min_results": 5, "max_results": 3},
        distraction_detection={"enabled": True, "disagreement_threshold": 2},
        filters={"status": "gone", "statu": "draft", "category": []},
        nope=1,
    )
    golden = tmp_path / "golden.json"
    value = json.loads((place.root / "evals" / "golden.json").read_text())
    value["queries"][0]["relevant"] = ["nowhere.md"]
    golden.write_text(json.dumps(value))
    ran = hive("validate", "wrong", "--golden", golden, "-w", place.root, "--json")
    assert ran.code == 1
    found = [(one["code"], one["path"]) for one in ran.json["diagnostics"]]
    assert sorted(found) == [
        ("HIVE-103", "nope"),
        ("HIVE-105", "distraction_detection.disagreement_threshold"),
        ("HIVE-105", "filters.category"),
        ("HIVE-105", "retrieval.top_k"),
        ("HIVE-109", "queries[0].relevant[0]"),
        ("HIVE-203", "retrieval.method"),
        ("HIVE-204", "retrieval.method"),
        ("HIVE-206", "filters.statu"),
        ("HIVE-208", "filters.status"),
        ("HIVE-212", "retrieval.weights"),
    ]
    assert all(one["line"] for one in ran.json["diagnostics"])


@pytest.mark.parametrize("text", ["[1]", "null", "", "{", '{"retrieval": 5}', '{"retrieval": {"top_k": "x"}}'])
def test_a_config_of_which_little_is_left_has_the_faults_of_level_1_alone(tmp_path: Path, text: str) -> None:
    place = copied_sample(tmp_path / "w")
    (place.configs / "wrong.json").write_text(text)
    ran = hive("validate", "wrong", "-w", place.root, "--json")
    assert ran.code == 1
    assert {one["level"] for one in ran.json["diagnostics"]} == {1}


def test_an_unknown_collection_hides_no_other_fault(tmp_path: Path) -> None:
    place = copied_sample(tmp_path / "w")
    write_config(place, "wrong", collection="nowhere", retrieval={"method": "keyword"}, dynamic_k={"enabled": True})
    ran = hive("validate", "wrong", "-w", place.root, "--json")
    assert ran.codes == {"HIVE-204", "HIVE-211"}


def test_a_rule_that_can_not_be_read_is_found(text_workspace: Workspace) -> None:
    (text_workspace.root / "rules").mkdir()
    rule = {"id": "broken", "condition": "result[", "action": "retry"}
    (text_workspace.root / "rules" / "broken.json").write_text(json.dumps(rule))
    ran = hive("validate", "v1", "-w", text_workspace.root, "--json")
    assert (ran.code, ran.json["ok"]) == (1, False)
    assert any(one["file"] == "rules/broken.json" for one in ran.json["diagnostics"])


def test_two_files_with_one_name_are_one_fault(text_workspace: Workspace) -> None:
    text = (text_workspace.configs / "words.json").read_text()
    for file in ("one", "two"):
        (text_workspace.configs / f"{file}.json").write_text(text.replace('"words"', '"twin"'))
    ran = hive("validate", "twin", "-w", text_workspace.root, "--json")
    assert (ran.code, [found["code"] for found in ran.json["diagnostics"]]) == (1, ["HIVE-111"])


@pytest.mark.parametrize(
    ("text", "code"), [('{"active": "../x.json"}', "HIVE-114"), ("{", "HIVE-101"), ("{}", "HIVE-107")]
)
def test_an_active_config_that_cannot_be_found_is_told_as_by_other_commands(
    text_workspace: Workspace, text: str, code: str
) -> None:
    (text_workspace.configs / "active.json").write_text(text)
    ran = hive("validate", "active", "-w", text_workspace.root, "--json")
    (found,) = ran.json["diagnostics"]
    assert (ran.code, found["code"], found["file"]) == (1, code, "configs/active.json")
    assert hive("query", "words", "-w", text_workspace.root, "--json").json["diagnostics"] == [found]
