"""What a user gets from the wheel, in an environment of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from tests.runs_of import ten_queries

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, ROOT], check=True)
    return next(folder.glob("*.whl"))


@pytest.mark.slow
def test_the_wheel_holds_the_sample_and_nothing_derived(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert sum(name.startswith("hive_agents/_bundled/workspace/documents/") for name in names) >= 80
    for wanted in (
        "graphs/optimizer.py",
        "hive_agents/py.typed",
        "hive_agents/models/embedding/_minilm/tokenizer.json",
        "hive_agents/copilot/languages/en.toml",
        "hive_agents/copilot/languages/de.toml",
        "hive_agents/copilot/languages/es.toml",
        "hive_agents/copilot/languages/fr.toml",
        "hive_agents/_bundled/docs/diagnostics.md",
        "hive_agents/_bundled/docs/access.md",
        "hive_agents/_bundled/SECURITY.md",
        "hive_agents/_bundled/workspace/evals/golden.json",
    ):
        assert wanted in names
    # What lies beside packages would lie in everybody's site-packages.
    (info,) = {name.split("/")[0] for name in names if ".dist-info/" in name}
    assert {name.split("/")[0] for name in names} == {"graphs", "hive_agents", info}
    assert {f"{info}/licenses/LICENSE", f"{info}/licenses/NOTICE"} <= set(names)
    for folder in ("workspace", "docs"):
        assert any(name.startswith(f"hive_agents/_bundled/{folder}/embeddings/") for name in names)
    assert not any(name.endswith(".png") for name in names if "/_bundled/" in name)
    assert not [
        name for name in names if "/.hive/" in name or name.endswith(("active.json", ".pyc")) or "/audit/" in name
    ]


@pytest.mark.slow
def test_strangers_runs_are_gated_by_the_wheel_alone(wheel: Path, tmp_path: Path) -> None:
    """Unpacked beside the dependencies that are installed here, far from the checkout."""
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    command = [sys.executable, "-m", "hive_agents", "gate", *ten_queries(tmp_path), "--json"]
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (ran.returncode, json.loads(ran.stdout)["decision"]) == (0, "passed"), ran.stderr


@pytest.mark.slow
def test_the_wheel_answers_from_all_of_its_documentation(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site"), "HIVE_HOME": "/dev/null/none"}
    for question, page in (("how do I report a vulnerability", "SECURITY.md"), ("sign a webhook", "docs/triggers.md")):
        command = [sys.executable, "-m", "hive_agents", "help", "ask", question, "--json"]
        ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert page in [result["doc_id"] for result in json.loads(ran.stdout)["results"]], ran.stderr


@pytest.mark.slow
def test_a_fresh_install_runs_the_main_job_from_any_folder(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "env", with_pip=True)
    bin_folder = tmp_path / "env" / "bin"
    constraints = ROOT / "constraints.txt"
    subprocess.run([bin_folder / "pip", "install", "-q", "-c", constraints, wheel], check=True)
    hive = str(bin_folder / "hive")
    subprocess.run([hive, "init", "x"], cwd=tmp_path, check=True)
    place = tmp_path / "x"
    indexed = subprocess.run([hive, "index", "--json"], cwd=place, check=True, capture_output=True)
    assert json.loads(indexed.stdout)["embedded"] == 0
    subprocess.run([hive, "evaluate", "v1-naive"], cwd=place, check=True)
    subprocess.run([hive, "explain", "HIVE-203"], cwd=place, check=True)
    optimized = subprocess.run([hive, "optimize", "--json"], cwd=place, capture_output=True)
    assert optimized.returncode in (0, 1), optimized.stderr
    assert json.loads(optimized.stdout)["status"] in ("deployed", "escalated")
