"""`hive validate --behavioral` says all that the gate says."""

from __future__ import annotations

import json
from pathlib import Path

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


def test_a_warning_about_the_active_config_is_shown_as_deploy_shows_it(tmp_path: Path) -> None:
    place = copied_sample(tmp_path / "w")
    write_config(place, "same")
    hive("deploy", "same", "--allow-inconclusive", "-w", place.root)
    write_config(place, "same", retrieval={"top_k": 3})
    ran = hive("validate", "v1-naive", "--behavioral", "-w", place.root, "--json")
    assert "HIVE-404" in {found["code"] for found in ran.json["diagnostics"] if found["severity"] == "warning"}
    assert "HIVE-404" in hive("deploy", "v1-naive", "-w", place.root).err
