from __future__ import annotations

from pathlib import Path

import pytest

from hive_agents import Workspace
from hive_agents.base.errors import HiveError
from hive_agents.models import prompts


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    (tmp_path / "collections").mkdir()
    (tmp_path / "prompts").mkdir()
    return Workspace(tmp_path)


def test_the_bundled_prompt_takes_its_variables_once() -> None:
    text = prompts.load("judge", goal="$result", context="none", result="costs $5 ${goal}", fence="--")
    assert "$result\n" in text
    assert "costs $5 ${goal}" in text


def test_a_workspace_overrides_a_prompt(workspace: Workspace) -> None:
    (workspace.root / "prompts" / "judge.md").write_text("Judge $goal for $$5.")
    assert prompts.load("judge", workspace, goal="this", result="unused") == "Judge this for $5."


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        ("one\n$goal and ${missing}", "HIVE-106", 2),
        ("one\ntwo\n5 $ a month", "HIVE-105", 3),
        ("\nx\n${un", "HIVE-105", 3),
    ],
)
def test_a_variable_that_is_not_given_is_an_error(workspace: Workspace, text: str, code: str, line: int) -> None:
    (workspace.root / "prompts" / "judge.md").write_text(text)
    with pytest.raises(HiveError) as failure:
        prompts.load("judge", workspace, goal="x")
    assert [(found.code, found.file, found.line) for found in failure.value.diagnostics] == [
        (code, "prompts/judge.md", line)
    ]


@pytest.mark.parametrize("name", ["nothing", "../judge", "/etc/passwd", ""])
def test_a_prompt_that_is_not_there_is_an_error(workspace: Workspace, name: str) -> None:
    with pytest.raises(HiveError, match="HIVE-107"):
        prompts.load(name, workspace)


@pytest.mark.parametrize("link", ["prompts/x.md", "prompts"])
def test_a_prompt_does_not_lead_out_of_its_folder(workspace: Workspace, tmp_path: Path, link: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "x.md").write_text("Secret.")
    if link == "prompts":
        (workspace.root / link).rmdir()
    (workspace.root / link).symlink_to(elsewhere if link == "prompts" else elsewhere / "x.md")
    with pytest.raises(HiveError, match="HIVE-114"):
        prompts.load("x", workspace)


def test_a_prompt_is_no_link_to_another_one_either(workspace: Workspace) -> None:
    (workspace.root / "prompts" / "y.md").write_text("Judge.")
    (workspace.root / "prompts" / "x.md").symlink_to("y.md")
    with pytest.raises(HiveError, match="HIVE-114"):
        prompts.load("x", workspace)
