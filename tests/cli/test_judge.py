"""`hive judge`: fields and exit codes, on the recorded log."""

from __future__ import annotations

import json

import pytest

from hive_agents import Workspace
from hive_agents.access import Principal, mint
from tests.judging.recorded import load_recorded
from tests.sample import hive


@pytest.fixture
def recorded(text_workspace: Workspace) -> Workspace:
    load_recorded(text_workspace)
    return text_workspace


def test_stats_has_every_field(recorded: Workspace) -> None:
    ran = hive("judge", "stats", "-w", recorded.root, "--json")
    assert ran.code == 0
    assert set(ran.json) == {"window", "overall", "by_goal_type", "over_time", "thresholds", "warnings", "weights"}
    assert {
        "n", "escalation_rate", "rule_match_rate", "llm_calls", "agreement", "confidence_histogram", "cost_usd",
    } <= set(ran.json["overall"])  # fmt: skip
    assert {"value", "status", "expires_at"} <= set(ran.json["thresholds"]["security"])


def test_stats_draws_plots_for_people(recorded: Workspace) -> None:
    ran = hive("judge", "stats", "-w", recorded.root)
    assert "900 decisions" in ran.out
    assert "█" in ran.out


def test_stats_show_people_the_weights_of_the_signals(recorded: Workspace) -> None:
    weights = hive("judge", "stats", "-w", recorded.root, "--json").json["weights"]
    shown = hive("judge", "stats", "-w", recorded.root).out
    lines = [line for line in shown.splitlines() if line.startswith("weights ")]
    assert len(lines) == len(weights)
    assert f"rule {weights['*']['rule']:.2f}" in next(line for line in lines if "all types" in line)


def test_stats_of_nothing_succeeds(text_workspace: Workspace) -> None:
    assert hive("judge", "stats", "-w", text_workspace.root).out == "no decision has been logged\n"
    assert hive("judge", "stats", "-w", text_workspace.root, "--json").json["overall"]["n"] == 0


def test_calibrate_without_data_is_undecided(text_workspace: Workspace) -> None:
    ran = hive("judge", "calibrate", "-w", text_workspace.root, "--json")
    assert (ran.code, ran.json["status"], ran.json["needed_audits"]) == (1, "undecided", 45)
    assert "UNDECIDED" in hive("judge", "calibrate", "-w", text_workspace.root).out


def test_a_missed_target_opens_a_ticket_that_names_the_bins(text_workspace: Workspace) -> None:
    from hive_agents.approvals import ApprovalStore
    from tests.judging.test_calibration import put

    put(text_workspace, 200, errors=40)
    ran = hive("judge", "calibrate", "-w", text_workspace.root, "--json")
    assert (ran.code, ran.json["status"], ran.json["missed"]) == (1, "missed", {"*": [0.9], "summary": [0.9]})
    titles = sorted(ApprovalStore(text_workspace).get(one).title for one in ran.json["ticket_ids"])
    everything = "everything of this type is escalated"
    assert titles == [f"the judge misses its target on {name} at 0.90: {everything}"
                      for name in ("all types together", "summary")]  # fmt: skip
    stats = hive("judge", "stats", "-w", text_workspace.root, "--json").json
    assert stats["thresholds"]["summary"]["status"] == "missed"


def test_calibrate_certifies_and_asks_for_a_second_person_to_go_lower(recorded: Workspace) -> None:
    (recorded.root / "hive.toml").write_text("[judge]\nllm_confidence_threshold = 0.8\n")
    place = ("-w", recorded.root, "--json")
    ran = hive("judge", "calibrate", "--as", "amira", *place)
    assert (ran.code, ran.json["status"], ran.json["recommended_threshold"]) == (0, "certified", 0.75)
    assert set(ran.json["guarantee"]) == {"alpha", "delta", "n", "coverage"}
    same = hive("approvals", "approve", ran.json["approval_id"], "--as", "user:amira", *place)
    assert (same.code, same.codes) == (1, {"HIVE-415"})
    assert hive("judge", "stats", *place).json["thresholds"]["*"]["value"] == 0.8
    assert hive("approvals", "approve", ran.json["approval_id"], "--as", "bo", *place).code == 0
    assert hive("judge", "stats", *place).json["thresholds"]["*"]["value"] == 0.75
    assert "CERTIFIED" in hive("judge", "calibrate", "-w", recorded.root).out


def test_calibrate_takes_its_target_from_the_settings(recorded: Workspace) -> None:
    (recorded.root / "hive.toml").write_text("[judge]\nalpha = 0.2\ndelta = 0.05\n")
    guarantee = hive("judge", "calibrate", "-w", recorded.root, "--json").json["guarantee"]
    assert (guarantee["alpha"], guarantee["delta"]) == (0.2, 0.05)


def test_audit_shows_the_queue_blind_and_takes_an_answer(recorded: Workspace) -> None:
    ran = hive("judge", "audit", "-w", recorded.root, "--json", "--as", "user:dee")
    assert (ran.code, len(ran.json["items"])) == (0, 20)
    assert not {"action", "confidence", "judgment"} & set(ran.json["items"][0])
    number = ran.json["items"][0]["id"]
    done = hive("judge", "audit", number, "--action", "accept", "--as", "user:dee", "-w", recorded.root, "--json")
    assert (done.code, done.json["id"], done.json["ticket_id"]) == (0, number, None)
    for wrong in (
        (number, "--action", "accept"),
        (999_999, "--action", "accept"),
        (number,),
        (number, "--action", "x"),
    ):
        ran = hive("judge", "audit", *wrong, "--as", "user:dee", "-w", recorded.root, "--json")
        assert (ran.code, ran.json["ok"]) == (2, False)


def test_drift_opens_a_ticket(recorded: Workspace) -> None:
    from hive_agents.judging.decision_log import DecisionLog

    signal = {"source": "llm", "action": "accept", "confidence": 0.9}
    entry = {"at": "2026-02-01", "goal_type": "fresh", "judge_hash": "a", "audit": 1}
    judgment = {"action": "accept", "confidence": 0.9, "signals": [signal]}
    DecisionLog(recorded).load([json.dumps({**entry, "judgment": judgment})] * 4)
    numbers = [item["id"] for item in hive("judge", "audit", "-w", recorded.root, "--json").json["items"]]
    for number, ticket in zip(numbers, (False, False, False, True), strict=True):
        ran = hive("judge", "audit", number, "--action", "retry", "-w", recorded.root, "--json")
        assert (ran.json["agrees"], bool(ran.json["ticket_id"])) == (False, ticket)
    stats = hive("judge", "stats", "-w", recorded.root, "--json").json
    assert stats["thresholds"]["fresh"]["status"] == "drift"


def test_rules_are_mined_listed_shown_approved_and_retired(recorded: Workspace) -> None:
    folder = recorded.root / "rules"
    folder.mkdir()
    manual = {"id": "tests_pass", "condition": "result['tests'] == 'failed'", "action": "retry", "priority": 200}
    (folder / "tests_pass.json").write_text(json.dumps(manual))
    place = ("-w", recorded.root, "--json")
    mined = hive("judge", "rules", "mine", *place)
    assert mined.code == 0
    assert len(mined.json["proposals"]) >= 3
    rule = next(p["id"] for p in mined.json["proposals"] if p["proposed_rule"]["goal_types"] == ["summary"])
    listed = hive("judge", "rules", "list", *place).json["rules"]
    assert {
        "id",
        "source",
        "mode",
        "stage",
        "priority",
        "action",
        "condition",
        "matches",
        "agreements",
        "lower95",
    } <= set(listed[0])
    assert [row["source"] for row in listed][:2] == ["manual", "learned"]
    assert hive("judge", "rules", "approve", rule, "--as", "user:bo", *place).json["stage"] == "shadow"
    assert hive("judge", "rules", "approve", rule, "--as", "user:bo", *place).code == 0
    late = hive("judge", "rules", "approve", rule, "--as", "user:chen", *place)
    assert (late.code, late.codes) == (1, {"HIVE-414"})
    asked = {item["kind"] for item in hive("approvals", "list", *place).json["items"]}
    assert asked == {"rule"}
    shown = hive("judge", "rules", "show", rule, *place).json
    assert [step["stage"] for step in shown["history"]] == ["proposed", "approved", "shadow"]
    assert shown["rule"]["metadata"]["approved_by"] == ["user:bo"]
    assert hive("judge", "rules", "retire", rule, "--reason", "obsolete", *place).json["stage"] == "retired"
    assert hive("judge", "rules", "show", "learned_none", *place).code == 2
    by_hand = hive("judge", "rules", "show", "tests_pass", *place)
    assert (by_hand.code, by_hand.json) == (0, listed[0] | {"rule": by_hand.json["rule"]})
    assert by_hand.json["rule"]["condition"] == manual["condition"]
    assert "result['tests']" in hive("judge", "rules", "show", "tests_pass", "-w", recorded.root).out


def token(place: Workspace, user: str, *roles: str) -> str:
    return mint(place, Principal("acme", user, roles=frozenset(roles))).token


def test_who_asks_and_who_answers_is_known_by_the_same_token(
    recorded: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise one person asks under another name, and agrees with their own token."""
    settings = "[judge]\nllm_confidence_threshold = 0.8\n[approvals]\nrequire_token = true\n"
    (recorded.root / "hive.toml").write_text(settings)
    place = ("-w", recorded.root, "--json")
    monkeypatch.delenv("HIVE_TOKEN", raising=False)
    assert hive("judge", "calibrate", *place).codes == {"HIVE-415"}
    monkeypatch.setenv("HIVE_TOKEN", token(recorded, "dana", "approver"))
    assert hive("judge", "calibrate", "--as", "bob", *place).codes == {"HIVE-415"}
    ran = hive("judge", "calibrate", "--as", "Dana", *place)
    assert ran.json["status"] == "certified"
    assert hive("approvals", "show", ran.json["approval_id"], *place).json["requester"] == "user:dana"
    assert hive("approvals", "approve", ran.json["approval_id"], *place).codes == {"HIVE-415"}


def test_a_word_that_counts_at_once_needs_the_proof_of_an_approver(
    recorded: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    (recorded.root / "hive.toml").write_text("[approvals]\nrequire_token = true\n")
    place = ("-w", recorded.root, "--json")
    number = hive("judge", "audit", "--as", "dana", *place).json["items"][0]["id"]
    rule = hive("judge", "rules", "mine", *place).json["proposals"][0]["id"]
    answer = ("judge", "audit", number, "--action", "accept")
    for given, code in (
        ("", "HIVE-417"),
        ("bogus", "HIVE-417"),
        (token(recorded, "dana", "reader"), "HIVE-415"),
        (token(recorded, "dana", "approver"), "HIVE-415"),
    ):
        monkeypatch.setenv("HIVE_TOKEN", given)
        for command in (answer, ("judge", "rules", "retire", rule)):
            assert hive(*command, "--as", "user:bob", *place).codes == {code}, given
    assert hive("judge", "rules", "mine", "--as", "bob", *place).codes == {"HIVE-415"}
    assert hive(*answer, *place).json["by"] == "user:dana"
    assert hive("judge", "rules", "retire", rule, *place).json["history"][-1]["by"] == "user:dana"


def test_what_was_judged_does_not_speak_to_the_terminal(text_workspace: Workspace) -> None:
    from hive_agents.judging.decision_log import DecisionLog

    evil = "a\x1b[2J\nb\x9b1m\u202e"
    signal = {"source": "llm", "action": "accept", "confidence": 0.9}
    judgment = {"action": "accept", "confidence": 0.9, "signals": [signal]}
    entry = {"at": "2026-02-01", "goal_type": evil, "judge_hash": "a", "audit": 1, "result": evil}
    DecisionLog(text_workspace).load([json.dumps({**entry, "judgment": judgment})] * 2)
    (text_workspace.root / "rules").mkdir()
    rule = {"id": evil, "condition": f"result == {evil!r}{evil}", "action": evil}
    (text_workspace.root / "rules" / "a.json").write_text(json.dumps(rule))
    (text_workspace.root / "rules" / "b.json").write_text("{}")
    (text_workspace.root / "rules" / "c.json").write_text('{"id": ["a"], "mode": 3, "action": []}')
    for command in (
        ("audit",),
        ("stats",),
        ("calibrate",),
        ("rules", "list"),
        ("audit", 1, "--action", "retry"),
        ("audit", 2, "--action", "retry"),
        ("audit", 1, "--action", evil),
    ):
        ran = hive("judge", *command, "-w", text_workspace.root)
        assert (ran.out + ran.err).replace("\n", "").isprintable(), command
        assert ran.code in (0, 1, 2)


@pytest.mark.parametrize("command", [("stats",), ("audit",), ("rules", "list"), ("rules", "mine")])
def test_text_and_quiet_say_the_same_with_the_same_code(recorded: Workspace, command: tuple[str, ...]) -> None:
    assert hive("judge", *command, "-w", recorded.root).code == 0
    assert hive("judge", *command, "-w", recorded.root, "--quiet").out == ""
