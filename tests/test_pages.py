"""The pages of docs/ whose commands are run: each block of `sh` must print the block of `text` behind it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hive_agents.files import load_value
from hive_agents.rankings.endpoint import EndpointFile

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.S | re.M)
HIVE = f'hive() {{ "{sys.executable}" -m hive_agents "$@"; }}\npython() {{ "{sys.executable}" "$@"; }}\n'


def blocks(page: str) -> list[tuple[str, str]]:
    return BLOCK.findall((ROOT / "docs" / page).read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", ["gate-anywhere.md", "receipts.md", "stale.md", "why.md"])
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


def test_endpoint_file_of_the_page_is_one() -> None:
    (text,) = [text for kind, text in blocks("gate-anywhere.md") if kind == "json"]
    assert load_value(EndpointFile, json.loads(text), "e.json").method == "POST"
