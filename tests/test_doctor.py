from __future__ import annotations

import json
from pathlib import Path

import pytest

from hive_agents.workspace.trusted import trust
from tests.agents.conftest import write_json
from tests.sample import copied_sample, hive


def statuses(folder: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for check in hive("doctor", "-w", folder, "--json").json["checks"]:
        worst = max(found.get(check["name"], "ok"), check["status"], key=["ok", "warn", "fail"].index)
        found[check["name"]] = worst
    return found


def test_a_healthy_workspace_passes_every_check(tmp_path: Path) -> None:
    copied_sample(tmp_path / "w")
    ran = hive("doctor", "-w", tmp_path / "w", "--json")
    assert (ran.code, ran.json["ok"]) == (0, True)
    assert set(ran.json) == {"ok", "checks", "settings"}
    assert {check["status"] for check in ran.json["checks"]} == {"ok"}
    assert all(set(check) == {"name", "status", "message", "fix"} for check in ran.json["checks"])


def test_every_setting_is_listed_with_its_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = copied_sample(tmp_path / "w")
    (workspace.root / "hive.toml").write_text(
        "[gate]\nalpha = 0.01\n[[access.keys]]\nkid='a'\nalg='HS256'\nsecret_ref='env:X'\n"
    )
    monkeypatch.setenv("HIVE_OPTIMIZER__SEED", "7")
    settings = {one["key"]: one for one in hive("doctor", "-w", workspace.root, "--json").json["settings"]}
    assert settings["gate.alpha"] == {"key": "gate.alpha", "value": 0.01, "source": "file"}
    assert settings["optimizer.seed"] == {"key": "optimizer.seed", "value": 7, "source": "env"}
    assert settings["gate.tag_drop"]["source"] == "default"
    assert settings["access.keys"]["value"] == "***"


def test_an_edit_after_deployment_fails_the_check(tmp_path: Path) -> None:
    workspace = copied_sample(tmp_path / "w")
    value = json.loads((workspace.configs / "v1.json").read_text()) | {"name": "v2"}
    (workspace.configs / "v2.json").write_text(json.dumps(value))
    assert hive("deploy", "v2", "--allow-inconclusive", "-w", workspace.root).code == 0
    (workspace.configs / "v2.json").write_text(json.dumps(value | {"description": "edited"}))
    ran = hive("doctor", "-w", workspace.root, "--json")
    assert ran.code == 1
    assert any("HIVE-404" in check["message"] for check in ran.json["checks"])


def test_one_secret_behind_the_references_of_two_webhooks_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is signed for one of them counts at the other; the secret itself is not told."""
    workspace = copied_sample(tmp_path / "w")
    hook = {"type": "webhook", "agent": "curator"}
    for name, secret in (("one", "HIVE_A"), ("two", "HIVE_B"), ("three", "HIVE_C"), ("four", "HIVE_D")):
        write_json(workspace, f"triggers/{name}.json", hook | {"id": name, "secret_ref": f"env:{secret}"})
    trust(workspace)
    for name, value in (("HIVE_A", "s3cret"), ("HIVE_B", "s3cret"), ("HIVE_C", "another")):
        monkeypatch.setenv(name, value)
    ran = hive("doctor", "-w", workspace.root, "--json")
    told = [check["message"] for check in ran.json["checks"] if check["name"] == "triggers" and check["status"] != "ok"]
    assert told == ['HIVE-111: the webhooks "one" and "two" have one secret by two references']
    assert "s3cret" not in ran.out
    monkeypatch.setenv("HIVE_B", "other")
    assert statuses(workspace.root)["triggers"] == "ok"


def test_a_fault_of_an_agent_names_its_place(tmp_path: Path) -> None:
    workspace = copied_sample(tmp_path / "w")
    path = workspace.root / "agents" / "curator.json"
    value = json.loads(path.read_text())
    value["nodes"][0]["tools"] = ["no_such_tool"]
    path.write_text(json.dumps(value))
    checks = hive("doctor", "-w", workspace.root, "--json").json["checks"]
    assert any("(agents/curator.json: nodes[0].tools[0])" in check["message"] for check in checks)


def test_each_fault_has_its_check(tmp_path: Path) -> None:
    workspace = copied_sample(tmp_path / "w")
    (workspace.documents / "new.md").write_text("# New\n")
    workspace.state.chmod(0o755)
    (workspace.root / "audit").mkdir()
    (workspace.root / "audit" / "log.jsonl").write_text('{"seq": 1, "kind": "x", "digest": "wrong"}\n')
    (workspace.root / "evals" / "golden.json").write_text("{")
    found = statuses(workspace.root)
    assert found["index"] == "warn"
    assert found["permissions"] == "warn"
    assert found["audit log"] == "fail"
    assert found["golden set"] == "fail"
    (workspace.root / "hive.toml").write_text("[gate]\nalhpa = 1\n")
    ran = hive("doctor", "-w", workspace.root, "--json")
    assert ran.code == 1
    assert any("HIVE-103" in check["message"] for check in ran.json["checks"])


def test_open_mode_is_a_risk_only_where_a_server_has_keys_for_others(tmp_path: Path) -> None:
    workspace = copied_sample(tmp_path / "w")
    keys = "[[access.keys]]\nkid='a'\nalg='HS256'\nsecret_ref='env:X'\n"
    for settings, status, told in (("", "ok", "A risk only where"), (keys, "warn", "A risk, as access.keys")):
        (workspace.root / "hive.toml").write_text(f'[access]\nmode = "open"\n{settings}')
        checks = hive("doctor", "-w", workspace.root, "--json").json["checks"]
        (open_mode,) = [one for one in checks if "access.mode is open" in one["message"]]
        assert open_mode["status"] == status
        assert told in open_mode["message"]
        assert "the people whom access/ names read what is theirs alone" in open_mode["message"]


def test_a_fault_that_several_parts_meet_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = copied_sample(tmp_path / "w")
    hive("index", "-w", workspace.root)
    monkeypatch.setenv("HIVE_HOME", str(tmp_path / "another machine"))
    ran = hive("doctor", "-w", workspace.root)
    [fault] = [line for line in ran.out.splitlines() if "HIVE-430" in line]
    for part in ("database", "index", "active config", "permissions", "audit log"):
        assert part in fault
    assert ran.code == 1


def test_a_fault_of_the_settings_is_told_once_and_as_theirs_however_many_parts_meet_it(tmp_path: Path) -> None:
    workspace = copied_sample(tmp_path / "w")
    (workspace.root / "hive.toml").write_text("[copilot]\ntopk = 3\n")
    ran = hive("doctor", "-w", workspace.root, "--json")
    [fault] = [check for check in ran.json["checks"] if check["status"] == "fail"]
    assert (ran.code, fault["fix"], fault["name"]) == (1, 'did you mean "top_k"?', "settings")
