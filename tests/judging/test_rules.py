from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.base.errors import HiveError
from hive_agents.goals.expressions import ExpressionError
from hive_agents.goals.goals import Goal, goal_ids, load_goal
from hive_agents.judging.rules import EvaluationRule, in_order, load_rules
from tests.sample import hive


def rule(id: str = "r", condition: str = "True", **fields: Any) -> EvaluationRule:
    return EvaluationRule(id=id, condition=condition, **({"action": "accept"} | fields))


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    (tmp_path / "collections").mkdir()
    (tmp_path / "rules").mkdir()
    return Workspace(tmp_path)


def write(workspace: Workspace, name: str, **fields: Any) -> None:
    (workspace.root / "rules" / f"{name}.json").write_text(
        json.dumps({"id": name, "action": "retry"} | fields, indent=1)
    )


def test_security_rules_of_people_come_first_then_priority_then_id() -> None:
    rules = [
        rule("b", priority=1),
        rule("a", priority=1),
        rule("high", priority=999),
        rule("learned_x", priority=150, goal_types=["security"]),
        rule("guard", priority=-5, goal_types=["security"]),
    ]
    assert [found.id for found in in_order(rules)] == ["guard", "high", "learned_x", "a", "b"]


@pytest.mark.parametrize(
    ("condition", "fix"),
    [
        ("10**9", "make it smaller: a power may reach 1000000, a sequence 10000 items"),
        ("resutl['a'] == 1", 'write "result"'),
        ("xyz == 1", "use result, goal or attempt"),
        ("[x for x in result]", "write it with comparisons, in, and, or, not, arithmetic, if-else, subscripts,"),
    ],
)
def test_a_bad_condition_is_told_with_what_can_be_written(condition: str, fix: str) -> None:
    with pytest.raises(HiveError) as failure:
        rule(condition=condition)
    assert str(failure.value.diagnostics[0].fix).startswith(fix)


def test_a_learned_rule_stays_below_200() -> None:
    assert rule("learned_x", priority=199).learned
    for fields in ({"id": "learned_x"}, {"id": "x", "metadata": {"source": "learned"}}):
        with pytest.raises(HiveError, match="below 200"):
            rule(priority=200, **fields)


@pytest.mark.parametrize("condition", ["", "result.__class__", "lambda: 1", "9**9**9", "unknown == 1", "'a' * 10**9"])
def test_a_bad_rule_fails_when_it_is_made_with_a_diagnostic(condition: str) -> None:
    with pytest.raises(HiveError) as failure:
        rule(condition=condition)
    (found,) = failure.value.diagnostics
    assert (found.code, found.path) == ("HIVE-105", "condition")
    assert found.fix
    assert found.fix not in found.message, "it says what to do, and not again what is wrong"
    assert isinstance(failure.value, ValueError)


def test_a_condition_sees_result_goal_and_attempt() -> None:
    found = rule(condition="goal['goal_type'] == 'security' and attempt > 1 and 'eval(' in result['code']")
    goal = Goal(id="g", name="G", goal_type="security")
    assert found.matches({"code": "eval(x)"}, goal, attempt=2)
    assert not found.matches({"code": "eval(x)"}, goal)
    assert found.matches({"code": "eval(x)"}, {"goal_type": "security"}, attempt=2)
    with pytest.raises(ExpressionError):
        found.matches({"code": "eval(x)"})


def test_goal_types_limit_a_rule() -> None:
    found = rule(goal_types=["security"])
    assert found.matches({})
    assert not found.matches({}, Goal(id="g", name="G"))
    assert found.matches({}, Goal(id="g", name="G", goal_type="security"))


def test_rules_come_from_files_in_their_order(workspace: Workspace) -> None:
    write(workspace, "low", condition="False")
    write(workspace, "high", condition="result['x'] == 1", priority=9, **{"$schema": "x"})
    low_last = load_rules(workspace)
    assert [found.id for found in low_last] == ["high", "low"]
    assert low_last[0].matches({"x": 1})


def test_a_copy_is_a_rule_of_its_own() -> None:
    found = rule(condition="result['x'] == 1", metadata={"source": "people"})
    copied = found.model_copy(update={"condition": "result['x'] == 2"})
    assert (found.matches({"x": 2}), copied.matches({"x": 2})) == (False, True)
    assert found.model_copy() == found
    with pytest.raises(HiveError, match="HIVE-105"):
        found.model_copy(update={"condition": "result.__class__"})


def test_what_stands_in_rules_and_is_no_rule_is_told(workspace: Workspace) -> None:
    folder = workspace.root / "rules"
    write(workspace, "a", condition="True")
    (folder / "README.md").write_text("about these")
    (folder / ".git").mkdir()
    assert [found.id for found in load_rules(workspace)] == ["a"]
    (folder / "UP.JSON").write_text(json.dumps({"id": "up", "action": "retry", "condition": "True"}))
    (folder / "b.Json").write_text(json.dumps({"id": "b", "action": "retry", "condition": "True"}))
    (folder / "a.JSON").write_text((folder / "a.json").read_text())
    (folder / "sub").mkdir()
    (folder / "sub" / "x.json").write_text("{}")
    (folder / "gone.json").symlink_to("nowhere")
    (folder / "folder.json").mkdir()
    with pytest.raises(HiveError) as failure:
        load_rules(workspace)
    assert {(found.code, found.file) for found in failure.value.diagnostics} == {
        ("HIVE-113", "rules/UP.JSON"),
        ("HIVE-111", "rules"),
        ("HIVE-104", "rules/sub"),
        ("HIVE-104", "rules/gone.json"),
        ("HIVE-104", "rules/folder.json"),
    }


def test_rules_in_capitals_are_rules_and_a_file_of_that_name_is_none(workspace: Workspace) -> None:
    folder = workspace.root / "rules"
    (folder / "up.JSON").write_text(json.dumps({"id": "up", "action": "retry", "condition": "True"}))
    assert [found.id for found in load_rules(workspace)] == ["up"]
    (folder / "up.JSON").unlink()
    folder.rmdir()
    assert load_rules(workspace) == []
    for make in (lambda: folder.write_text("{}"), lambda: folder.symlink_to("nowhere")):
        make()
        with pytest.raises(HiveError, match="HIVE-104"):
            load_rules(workspace)
        folder.unlink()


def test_goals_stand_in_files_as_rules_do(workspace: Workspace) -> None:
    folder = workspace.root / "goals"
    folder.mkdir()
    (folder / "g.JSON").write_text(json.dumps({"id": "g", "name": "G"}))
    assert (goal_ids(workspace), load_goal(workspace, "g").name) == (["g"], "G")
    (folder / "g.json").write_text((folder / "g.JSON").read_text())
    (folder / "sub").mkdir()
    with pytest.raises(HiveError) as failure:
        load_goal(workspace, "g")
    assert {found.code for found in failure.value.diagnostics} == {"HIVE-104", "HIVE-111"}


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        '{"id": ["a"], "condition": "True", "action": "retry"}',
        '{"id": "a", "condition": "result.__class__"}',
        "[",
    ],
)
def test_the_list_and_the_doctor_tell_of_a_rule_that_cannot_be_loaded(workspace: Workspace, text: str) -> None:
    (workspace.root / "rules" / "a.json").write_text(text)
    ran = hive("judge", "rules", "list", "-w", workspace.root, "--json")
    assert (ran.code, ran.json["ok"]) == (1, False)
    assert {found["file"] for found in ran.json["diagnostics"]} == {"rules/a.json"}
    (workspace.root / "goals").mkdir()
    (workspace.root / "goals" / "g.json").write_text(text)
    checks = hive("doctor", "-w", workspace.root, "--json").json["checks"]
    assert {check["name"] for check in checks if check["status"] == "fail"} >= {"rules", "goals"}


def test_every_fault_of_every_rule_file_is_told_with_its_line(workspace: Workspace) -> None:
    write(workspace, "a", condition="1 << 2", prio=1)
    write(workspace, "b", condition="True", id="c")
    (workspace.root / "rules" / "c.json").write_text("[]")
    (workspace.root / "rules" / "d.json").write_text("{")
    with pytest.raises(HiveError) as failure:
        load_rules(workspace)
    told = {(found.code, found.file, found.path, found.line) for found in failure.value.diagnostics}
    assert told >= {
        ("HIVE-105", "rules/a.json", "condition", 4),
        ("HIVE-103", "rules/a.json", "prio", 5),
        ("HIVE-113", "rules/b.json", "id", 2),
        ("HIVE-104", "rules/c.json", "$", 1),
    }
    assert {found.file for found in failure.value.diagnostics} == {f"rules/{name}.json" for name in "abcd"}


@pytest.mark.parametrize("action", ["acept", 3, None])
def test_an_action_that_there_is_not_is_told_with_those_that_there_are(action: Any) -> None:
    with pytest.raises(HiveError) as failed:
        rule(action=action)
    [found] = failed.value.diagnostics
    assert (found.code, found.path, found.fix) == ("HIVE-105", "action", "use one of accept, retry, replan, escalate")
