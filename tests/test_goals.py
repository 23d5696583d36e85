from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.base.errors import HiveError
from hive_agents.goals.goals import Constraint, Goal, SuccessCriterion, goal_ids, load_goal


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    (tmp_path / "collections").mkdir()
    (tmp_path / "goals").mkdir()
    return Workspace(tmp_path)


def write(workspace: Workspace, **fields: Any) -> None:
    goal = {"id": "auth", "name": "Auth"} | fields
    (workspace.root / "goals" / "auth.json").write_text(json.dumps(goal, indent=1))


def faults(workspace: Workspace, id: str = "auth") -> list[tuple[str, str | None]]:
    with pytest.raises(HiveError) as failure:
        load_goal(workspace, id)
    return [(found.code, found.path) for found in failure.value.diagnostics]


def test_a_goal_comes_from_its_file(workspace: Workspace) -> None:
    write(
        workspace,
        goal_type="security",
        success_criteria=[{"id": "secure", "metric": "Output_Contains", "target": "bcrypt", "weight": 0.3}],
        constraints=[{"id": "quiet", "constraint_type": "soft", "check": "not result.get('logs')"}],
        context={"style": "short"},
        eval_cases=[
            {"id": "one", "input": {"x": 1}, "expect": {"y": 2}},
            {"id": "two", "expect": [{"id": "ok", "metric": "output_matches", "target": "^ok"}]},
        ],
    )
    goal = load_goal(workspace, "auth")
    assert goal.success_criteria[0].metric == "output_contains"
    assert goal.constraints[0].penalty == 0.1
    assert isinstance(goal.eval_cases[1].expect, list)
    assert Goal.model_validate_json(goal.model_dump_json()) == goal
    assert goal_ids(workspace) == ["auth"]


def test_a_missing_goal_is_guessed_at(workspace: Workspace) -> None:
    write(workspace)
    with pytest.raises(HiveError, match='did you mean "auth"') as failure:
        load_goal(workspace, "aut")
    assert failure.value.diagnostics[0].code == "HIVE-107"
    assert faults(workspace, "../auth") == [("HIVE-107", "$")]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"nam": 1}, [("HIVE-103", "nam")]),
        ({"name": 1}, [("HIVE-104", "name")]),
        ({"id": "other"}, [("HIVE-113", "id")]),
        ({"success_criteria": [{"id": "a", "weight": 0}]}, [("HIVE-105", "success_criteria[0].weight")]),
        ({"success_criteria": [{"id": "a", "metric": "guess"}]}, [("HIVE-105", "success_criteria[0].metric")]),
        ({"success_criteria": [{"id": "a", "metric": "output_equals"}]}, [("HIVE-105", "success_criteria[0]")]),
        ({"success_criteria": [{"id": "a"}, {"id": "a"}]}, [("HIVE-111", "success_criteria[1].id")]),
        ({"constraints": [{"id": "a", "check": "import os"}]}, [("HIVE-105", "constraints[0].check")]),
        ({"constraints": [{"id": "a", "constraint_type": "firm"}]}, [("HIVE-105", "constraints[0].constraint_type")]),
    ],
)
def test_a_fault_in_the_file_is_told_with_its_place(
    workspace: Workspace, fields: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    write(workspace, **fields)
    assert faults(workspace) == expected


@pytest.mark.parametrize(
    "fields",
    [
        {"metric": "output_matches", "target": "("},
        {"metric": "output_matches", "target": 1},
        {"metric": "output_matches", "target": "a" * 1001},
        {"metric": "numeric_at_least", "target": "1"},
        {"metric": "numeric_at_most", "target": True},
        {"metric": "numeric_at_most", "target": {"field": "x"}},
        {"weight": -1},
    ],
)
def test_a_criterion_that_could_never_be_measured_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="SuccessCriterion"):
        SuccessCriterion(id="a", **fields)


def test_ids_stand_once_in_python_too() -> None:
    with pytest.raises(ValueError, match="twice"):
        Goal(id="g", name="G", constraints=[Constraint(id="a"), Constraint(id="a")])
