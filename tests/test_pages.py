"""The pages of docs/ whose commands are run: each block of `sh` must print the block of `text` behind it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hive_agents.base.files import load_value
from hive_agents.evaluation.ranking_endpoint import EndpointFile

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.S | re.M)
HIVE = f'hive() {{ "{sys.executable}" -m hive_agents "$@"; }}\npython() {{ "{sys.executable}" "$@"; }}\n'


def blocks(page: str) -> list[tuple[str, str]]:
    return BLOCK.findall((ROOT / "docs" / page).read_text(encoding="utf-8"))


@pytest.mark.slow
@pytest.mark.parametrize("page", ["canary.md", "export.md", "gate-anywhere.md", "receipts.md", "stale.md", "why.md"])
def test_commands_print_what_the_page_says(page: str, tmp_path: Path) -> None:
    found = blocks(page)
    environment = os.environ | {"PYTHONPATH": f"{ROOT}", "COLUMNS": "200"}
    for (kind, script), (following, expected) in zip(found, [*found[1:], ("", "")], strict=True):
        if kind != "sh":
            continue
        ran = subprocess.run(
            ["bash", "-c", HIVE + script], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
        )
        assert following == "text", script
        assert ran.stdout == expected, ran.stderr


IDS = re.compile(r"\b[ra][0-9a-f]{10}\b")


@pytest.mark.slow
def test_the_refund_desk_does_what_its_page_says(tmp_path: Path) -> None:
    """Ids differ from run to run: the page's are those that were printed at the same places, here and in commands."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    environment = os.environ | {"PYTHONPATH": f"{ROOT}", "COLUMNS": "200", "HIVE_HOME": str(tmp_path / "home")}
    found, known, ran = blocks("agents.md"), dict[str, str](), 0

    def told(text: str) -> str:
        return IDS.sub(lambda id: known.get(id[0], id[0]), text)

    for (kind, script), (following, expected) in zip(found, [*found[1:], ("", "")], strict=True):
        if kind != "sh" or following != "text":
            continue
        folder = tmp_path / "desk" if (tmp_path / "desk").exists() else tmp_path
        done = subprocess.run(
            ["bash", "-c", HIVE + told(script)],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
        )
        known.update(zip(IDS.findall(expected), IDS.findall(done.stdout), strict=False))
        assert done.stdout == told(expected), done.stderr
        ran += 1
    assert ran == 5


def test_endpoint_file_of_the_page_is_one() -> None:
    (text,) = [text for kind, text in blocks("gate-anywhere.md") if kind == "json"]
    assert load_value(EndpointFile, json.loads(text), "e.json").method == "POST"
