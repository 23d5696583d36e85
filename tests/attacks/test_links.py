"""A stranger's workspace with a link in any place: nothing outside is read, shown, changed or removed."""

from __future__ import annotations

import json
import os
import shutil
from functools import cache
from pathlib import Path

import pytest

from hive_agents import Workspace
from hive_agents.access import AccessRules
from tests.folders import kept_folder
from tests.sample import copied_sample, hive

CANARY = "canary-7f3e91"
RULE = {
    "id": "r",
    "description": "d",
    "condition": "'eval(' in result.get('code', '')",
    "action": "escalate",
    "priority": 1,
}
COMMANDS = (
    ("index",),
    ("validate", "v1"),
    ("query", "rotate an API key"),
    ("evaluate",),
    ("history",),
    ("doctor",),
    ("fields",),
    ("label", "a new question", "--relevant", "tutorials/rotate-api-tokens.md"),
    ("deploy", "v1"),
    ("agents", "list"),
    ("trigger", "list"),
    ("trigger", "remove", "nightly"),
    ("judge", "rules", "list"),
    ("runs", "list"),
    ("approvals", "list"),
    ("chat", "rotate a key", "--as", "dana"),
    ("token", "--user", "dana", "--tenant", "acme"),
)


@cache
def _whole() -> Path:
    """A workspace in which everything was used once."""
    place = copied_sample(kept_folder("hive-links-") / "ws", every=8)
    (place.root / "rules").mkdir(exist_ok=True)
    (place.root / "rules" / "r.json").write_text(json.dumps(RULE))
    (place.root / "triggers").mkdir(exist_ok=True)
    for arguments in COMMANDS[2:]:
        hive(*arguments, "-w", place.root)
    return place.root


def _places(root: Path) -> list[str]:
    files = [path for path in sorted(root.rglob("*")) if not path.is_symlink() and ".hive" not in path.parts]
    kept: dict[str, str] = {}
    for path in files:
        name = path.relative_to(root).as_posix()
        kept.setdefault(f"{path.parent}{path.suffix}" if path.is_file() else name, name)  # one file of a kind a folder
    return list(kept.values())


STATE = (
    *(".hive", ".hive/hive.db", ".hive/vectors", ".hive/embeddings", ".hive/local.key", ".hive/checkpoints.db"),
    *(".hive/audit.head", ".hive/write.lock", ".hive/audit.lock", ".hive/runs", ".hive/judge-audit.salt"),
)


def _snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.slow
@pytest.mark.parametrize(
    "place", [*_places(Path(__file__).parents[2] / "workspace"), "audit/log.jsonl", "audit", *STATE]
)
def test_no_command_follows_a_link(place: str, tmp_path: Path) -> None:
    root = Path(shutil.copytree(_whole(), tmp_path / "ws", symlinks=True))
    outside = tmp_path / "outside"
    target = root / place
    if target.is_dir():
        shutil.move(target, outside)
        (outside / f"{CANARY}.md").write_text(
            f"---\ntitle: {CANARY}\ntenant: acme\nview: [tenant]\n---\nrotate key {CANARY}\n"
        )
    else:
        outside.mkdir()
        if target.exists():
            shutil.move(target, outside / target.name)
        else:
            (outside / target.name).write_text(CANARY)
    target.parent.mkdir(exist_ok=True, parents=True)
    target.symlink_to(outside if outside.joinpath(f"{CANARY}.md").exists() else outside / target.name)
    before = _snapshot(outside)
    for arguments in COMMANDS:
        told = hive(*arguments, "-w", root)
        assert "Traceback" not in told.err
        if arguments[0] == "query":
            assert CANARY not in told.out
    assert _snapshot(outside) == before


WRITTEN = {
    "audit/log.jsonl": ("deploy", "v1"),
    "audit": ("deploy", "v1"),
    "evals/golden.json": ("label", "a new question", "--relevant", "faqs/rotate-api-key.md"),
    ".hive/hive.db": ("index",),
    ".hive/vectors": ("index",),
    ".hive": ("index",),
}


@pytest.mark.parametrize(
    "place",
    [pytest.param(one, marks=pytest.mark.sqlite_file) if one.startswith("audit") else one for one in WRITTEN],
)
def test_what_would_be_written_through_a_link_is_refused(place: str, tmp_path: Path) -> None:
    root = copied_sample(tmp_path / "ws").root
    target, outside = root / place, tmp_path / "outside"
    if target.exists():
        shutil.move(target, outside)
    else:
        outside.mkdir() if not place.endswith(".jsonl") else outside.write_text("")
    target.parent.mkdir(exist_ok=True)
    target.symlink_to(outside)
    before = _snapshot(outside) if outside.is_dir() else outside.read_bytes()
    told = hive(*WRITTEN[place], "-w", root, "--json")
    assert told.code != 0
    assert told.codes == {"HIVE-114"}
    assert (_snapshot(outside) if outside.is_dir() else outside.read_bytes()) == before


def test_a_document_that_is_a_link_is_told_and_not_indexed(tmp_path: Path) -> None:
    place = copied_sample(tmp_path / "ws")
    (tmp_path / "secret.md").write_text(f"# Secret\n\n{CANARY}\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "x.md").write_text(f"# Secret\n\n{CANARY}\n")
    (place.documents / "leak.md").symlink_to(tmp_path / "secret.md")
    (place.documents / "more").symlink_to(tmp_path / "folder")
    (place.documents / "alias.md").symlink_to("faqs/rotate-api-key.md")
    told = hive("index", "-w", place.root, "--json")
    assert [one["file"] for one in told.json["skipped"]] == [
        "documents/alias.md",
        "documents/leak.md",
        "documents/more",
    ]
    assert CANARY not in hive("query", CANARY, "-w", place.root, "--json").out.replace(f'"{CANARY}"', "")


def test_the_workspace_itself_may_be_reached_by_a_link(tmp_path: Path) -> None:
    place = copied_sample(tmp_path / "ws")
    (tmp_path / "alias").symlink_to(place.root)
    assert hive("evaluate", "-w", tmp_path / "alias", "--quiet").code == 0
    assert Workspace(tmp_path / "alias").root == place.root
    assert os.path.realpath(tmp_path / "alias") == str(place.root)


def test_the_active_config_may_be_named_by_its_path(tmp_path: Path) -> None:
    place = copied_sample(tmp_path / "ws")
    for command in (("query", "rotate an API key", "--config"), ("validate",)):
        assert hive(*command, "configs/active.json", "-w", place.root).code == 0


@pytest.mark.parametrize("linked", ["access", "access/grants.json"])
def test_rules_of_access_behind_a_link_deny_everything(linked: str, tmp_path: Path) -> None:
    place = copied_sample(tmp_path / "ws")
    (place.root / linked).rename(tmp_path / "moved")
    (place.root / linked).symlink_to(tmp_path / "moved")
    rules = AccessRules.load(place)
    assert rules.faults
    assert rules.principal("dana") is None
