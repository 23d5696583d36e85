import json
import os
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.base.errors import HiveError
from hive_agents.ranking.config import active_target, config_hash, find_config, point_active
from hive_agents.ranking.deployed import DEPLOYMENTS, Version, active_config, find_active, versions
from tests.conftest import write_config


def link(workspace: Workspace, target: str) -> None:
    path = workspace.configs / "active.json"
    path.unlink(missing_ok=True)
    path.symlink_to(target)


def point(workspace: Workspace, value: Any) -> None:
    text = value if isinstance(value, str) else json.dumps(value)
    (workspace.configs / "active.json").write_text(text, encoding="utf-8")


def deploy(workspace: Workspace, name: str, previous: int | None = None) -> None:
    """An entry of the history, as a deployment leaves it."""
    text = (workspace.configs / f"{name}.json").read_text(encoding="utf-8")
    row = (name, f"configs/{name}.json", text, config_hash(text), "2025-03-01T00:00:00Z", "dana", "local", "passed")
    DEPLOYMENTS.append(workspace, lambda number: Version(number, *row, "deploy", None, {"n": 40}, previous))


def test_a_link_to_a_config_that_is_gone_is_named(text_workspace: Workspace) -> None:
    link(text_workspace, "gone.json")
    with pytest.raises(HiveError, match=r"no active config: active\.json names gone\.json, which isn't there"):
        active_config(text_workspace)


def refused(workspace: Workspace) -> tuple[str, str | None, int]:
    with pytest.raises(HiveError) as caught:
        active_config(workspace)
    found = caught.value.diagnostics[0]
    assert found.path
    return found.code, found.file, caught.value.exit_code


def test_without_active_json_there_is_no_active_config(text_workspace: Workspace) -> None:
    assert active_target(text_workspace) is None
    assert find_active(text_workspace) is None
    assert refused(text_workspace) == ("HIVE-408", "configs/active.json", 2)


def test_without_history_the_link_is_honoured(text_workspace: Workspace) -> None:
    link(text_workspace, "words.json")
    active = active_config(text_workspace)
    assert (active.stored.name, active.version, active.warnings) == ("words", None, ())


def test_without_history_the_pointer_file_is_honoured(text_workspace: Workspace) -> None:
    point(text_workspace, {"$schema": "x", "active": "words.json"})
    assert active_config(text_workspace).stored.name == "words"


@pytest.mark.parametrize("left", ["the text", "the name"])
def test_what_a_copy_left_of_the_link_means_the_link(text_workspace: Workspace, left: str) -> None:
    config = text_workspace.configs / "words.json"
    copied = config.read_bytes() if left == "the text" else b"words.json\n"  # archives; checkouts without links
    (text_workspace.configs / "active.json").write_bytes(copied)
    assert active_target(text_workspace) == config
    assert active_config(text_workspace).stored.name == "words"
    assert find_config(text_workspace, "configs/active.json").name == "words"
    point_active(text_workspace, text_workspace.configs / "v1.json")
    assert active_config(text_workspace).stored.name == "v1"
    assert find_config(text_workspace, "configs/active.json").name == "v1"


def test_a_text_that_no_config_has_is_no_copy_of_the_link(text_workspace: Workspace) -> None:
    text = (text_workspace.configs / "words.json").read_bytes() + b"\n"
    (text_workspace.configs / "active.json").write_bytes(text)
    assert refused(text_workspace)[0] == "HIVE-107"


def test_a_link_to_a_missing_config_is_no_active_config(text_workspace: Workspace) -> None:
    link(text_workspace, "gone.json")
    assert find_active(text_workspace) is None
    assert active_target(text_workspace) == text_workspace.configs / "gone.json"


@pytest.mark.parametrize(
    "target", ["../hive.toml", "/etc/hostname", "../configs/v1.json", "sub/v1.json", "../gone.json"]
)
def test_a_link_that_leaves_configs_is_refused(text_workspace: Workspace, target: str) -> None:
    link(text_workspace, target)
    assert refused(text_workspace) == ("HIVE-114", "configs/active.json", 1)


def test_a_pointer_that_leaves_configs_is_refused(text_workspace: Workspace) -> None:
    point(text_workspace, {"active": "../hive.toml"})
    assert refused(text_workspace)[0] == "HIVE-114"


def test_a_link_by_way_of_another_link_that_leaves_is_refused(text_workspace: Workspace) -> None:
    outside = text_workspace.root.parent / "evil.json"
    outside.write_text((text_workspace.configs / "v1.json").read_text(encoding="utf-8"), encoding="utf-8")
    (text_workspace.configs / "v9.json").symlink_to(outside)
    link(text_workspace, "v9.json")
    assert refused(text_workspace)[0] == "HIVE-114"


def test_a_link_to_itself_is_an_error(text_workspace: Workspace) -> None:
    link(text_workspace, "active.json")
    assert refused(text_workspace) == ("HIVE-107", "configs/active.json", 1)


def test_a_link_into_a_circle_is_no_active_config(text_workspace: Workspace) -> None:
    (text_workspace.configs / "a.json").symlink_to("b.json")
    (text_workspace.configs / "b.json").symlink_to("a.json")
    link(text_workspace, "a.json")
    assert refused(text_workspace)[0] == "HIVE-408"


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ({}, "HIVE-107"),
        ({"active": 3}, "HIVE-107"),
        ({"active": "v1.json", "more": 1}, "HIVE-107"),
        ([], "HIVE-107"),
        ("not json", "HIVE-101"),
    ],
)
def test_a_pointer_file_of_another_form_is_an_error(text_workspace: Workspace, value: Any, code: str) -> None:
    point(text_workspace, value)
    assert refused(text_workspace)[0] == code


def test_the_deployed_text_serves_though_the_file_was_edited(text_workspace: Workspace) -> None:
    deploy(text_workspace, "v1")
    link(text_workspace, "v1.json")
    assert active_config(text_workspace).warnings == ()
    write_config(text_workspace, "v1", retrieval={"top_k": 3})
    active = active_config(text_workspace)
    assert active.stored.config.retrieval.top_k == 10
    assert [(w.code, w.severity, w.file) for w in active.warnings] == [("HIVE-404", "warning", "configs/v1.json")]


@pytest.mark.parametrize("content", ["not json", "[" * 100_000])
def test_a_file_that_was_broken_since_counts_as_edited(text_workspace: Workspace, content: str) -> None:
    deploy(text_workspace, "v1")
    (text_workspace.configs / "v1.json").write_text(content, encoding="utf-8")
    assert [warning.code for warning in active_config(text_workspace).warnings] == ["HIVE-404"]


def test_an_edit_of_white_space_is_no_edit(text_workspace: Workspace) -> None:
    deploy(text_workspace, "v1")
    path = text_workspace.configs / "v1.json"
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8"))), encoding="utf-8")
    assert active_config(text_workspace).warnings == ()


def test_the_deployed_text_serves_though_the_file_is_gone(text_workspace: Workspace) -> None:
    deploy(text_workspace, "v1")
    (text_workspace.configs / "v1.json").unlink()
    active = active_config(text_workspace)
    assert (active.stored.name, active.warnings) == ("v1", ())


def test_a_link_moved_by_hand_changes_nothing_where_there_is_history(text_workspace: Workspace) -> None:
    deploy(text_workspace, "v1")
    link(text_workspace, "words.json")
    active = active_config(text_workspace)
    assert active.stored.name == "v1"
    assert [warning.code for warning in active.warnings] == ["HIVE-405"]


def test_versions_are_the_deployments_newest_first(text_workspace: Workspace) -> None:
    assert versions(text_workspace) == []
    deploy(text_workspace, "v1")
    deploy(text_workspace, "words", previous=1)
    newest, oldest = versions(text_workspace)
    assert (newest.name, newest.previous, newest.evaluation) == ("words", 1, {"n": 40})
    assert (oldest.id, oldest.previous, oldest.stored.config.retrieval.method) == (1, None, "hybrid")
    assert active_config(text_workspace).version == newest


def test_the_link_is_relative_to_configs_wherever_the_workspace_moves(text_workspace: Workspace) -> None:
    link(text_workspace, "words.json")
    moved = text_workspace.root.with_name("moved")
    os.rename(text_workspace.root, moved)
    assert active_config(Workspace(moved)).stored.name == "words"


def test_the_engine_searches_with_the_active_config(text_workspace: Workspace) -> None:
    text_workspace.index()
    link(text_workspace, "words.json")
    engine = text_workspace.engine()
    assert engine.search("revoke a key").config == engine.search("revoke a key", "active").config == "words"
