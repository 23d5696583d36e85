"""`hive deploy` killed with SIGKILL at any moment: the old config serves or the new one, and all records agree."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import hive_agents
from hive_agents import Workspace
from hive_agents.evaluation import load_golden
from hive_agents.gate.ledger import uses
from hive_agents.ranking import build_index
from hive_agents.ranking.deployed import versions
from hive_agents.store import audit, connected
from tests.conftest import write_config
from tests.records import lose_log, lose_records
from tests.sample import Ran, hive
from tests.topics import TOPICS, activate, holdout_queries, write_golden

REPOSITORY = Path(hive_agents.__file__).parents[1]

# Each moment is a function to wrap: killed before it, after it, or half way through it.
DEPLOY = """
import os, signal, sys
from importlib import import_module
from hive_agents.base.files import atomic
from hive_agents.store import audit
from hive_agents.cli.main import main
from hive_agents.ranking import deployed
from hive_agents.gate import gate

deploy = import_module("hive_agents.gate.deploy")  # the package's attribute is the function

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def after(module, name, when=lambda *given: True):
    whole = getattr(module, name)
    setattr(module, name, lambda *given, **more: die(whole(*given, **more)) if when(*given) else whole(*given, **more))

def before(module, name, when=lambda *given: True):
    whole = getattr(module, name)
    setattr(module, name, lambda *given, **more: die() if when(*given) else whole(*given, **more))

def half_a_line(path, line):
    if '"kind": "deployment"' in line:
        with path.open("a") as file:
            file.write(line[: len(line) // 2])
        die()
    append_line(path, line)

def half_a_link(link, target):
    os.symlink(target, link.with_name(f".{link.name}.{os.getpid()}.tmp"))
    die()

deployment = lambda workspace, kind: kind == "deployment"
append_line = atomic.append_line
moment = sys.argv[2]
{
    "none": lambda: None,
    "index refreshed": lambda: after(deploy, "build_index"),
    "use recorded": lambda: after(gate, "spend_of"),
    "measured": lambda: after(deploy, "run_gate"),
    "switch begun": lambda: before(deploy, "_record"),
    "announced": lambda: after(deployed, "announce_switch"),
    "row written": lambda: before(audit, "append", deployment),
    "half a line": lambda: setattr(atomic, "append_line", half_a_line),
    "line written": lambda: after(atomic, "append_line", lambda path, line: '"kind": "deployment"' in line),
    "logged": lambda: after(audit, "append", deployment),
    "committed": lambda: before(deployed, "settle"),
    "half a link": lambda: setattr(atomic, "atomic_symlink", half_a_link),
    "linked": lambda: after(deployed, "point_active"),
    "done": lambda: after(deployed, "settle"),
}[moment]()
print("ready", flush=True)
sys.exit(main(["deploy", "careful", "-w", sys.argv[1], "--quiet"]))
"""
EVERYDAY = ["logged", "committed"]
MOMENTS = [
    "index refreshed",
    "use recorded",
    "measured",
    "switch begun",
    "announced",
    "row written",
    "half a line",
    "line written",
    "half a link",
    "linked",
    "done",
]
WITHOUT_HISTORY = ["row written", "half a line", "logged", "announced", "committed"]
IN_FILES = ("half a line", "line written")
"""A server has a line or hasn't, and one that is written is that of `logged`."""


def started(workspace: Workspace, moment: str = "none") -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", DEPLOY, str(workspace.root), moment],
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    return process


def killed(workspace: Workspace, moment: str) -> None:
    process = started(workspace, moment)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL


def run(workspace: Workspace, *arguments: object) -> Ran:
    return hive(*arguments, "-w", workspace.root, "--json")


@pytest.fixture
def naive(topics: Workspace) -> Workspace:
    """`naive` was deployed; `careful` and `other` are better."""
    write_golden(topics, holdout_queries())
    write_config(topics, "other", "keyword", filters={"category": ["guides", "notes"]})
    run(topics, "deploy", "naive")
    return topics


def settled(workspace: Workspace) -> str:
    """What serves after one more command, when all that says so was found to agree."""
    ran = run(workspace, "query", TOPICS[-1])
    assert (ran.code, [code for code in ("HIVE-404", "HIVE-405", "HIVE-413") if code in ran.err]) == (0, [])
    serving = str(ran.json["config"])
    assert (workspace.configs / "active.json").readlink() == Path(f"{serving}.json")
    assert (f"faqs/{TOPICS[-1]}.md" in [hit["doc_id"] for hit in ran.json["hits"]]) == (serving == "naive")
    assert not (workspace.state / "switching").exists()
    assert audit.verify(workspace).ok
    logged = [(entry["version"], entry["config"], entry["text"]) for entry in audit.entries(workspace, "deployment")]
    assert [(version.id, version.name, version.text) for version in reversed(versions(workspace))] == logged
    with connected(workspace.records) as connection:
        assert connection.execute("SELECT id, name, text FROM config_versions ORDER BY id").fetchall() == logged
    assert not logged or logged[-1][1] == serving
    return serving


def goes_on(workspace: Workspace) -> str:
    """As `settled`; then the next deployment and its rollback work, and nothing counted was forgotten."""
    serving = settled(workspace)
    before = len(uses(workspace, load_golden(workspace).split("holdout")))
    ran = run(workspace, "deploy", "other", "--allow-inconclusive")
    assert (ran.code, ran.json["previous"], ran.json["evaluation"]["j"]) == (0, serving, before + 1)
    assert settled(workspace) == "other"
    assert run(workspace, "rollback").json["deployed"] == serving
    assert settled(workspace) == serving
    return serving


NEW = ("line written", "logged", "committed", "half a link", "linked", "done")


def moments(names: list[str], *marks: pytest.MarkDecorator) -> list[Any]:
    """As parameters with these marks, and one more where there is such a moment in files alone."""
    files = pytest.mark.sqlite_file
    return [pytest.param(name, marks=[*marks, files] if name in IN_FILES else marks) for name in names]


@pytest.mark.parametrize("moment", [*EVERYDAY, *moments(MOMENTS, pytest.mark.slow)])
def test_a_killed_deployment_is_undone_or_done(naive: Workspace, moment: str) -> None:
    killed(naive, moment)
    assert goes_on(naive) == ("careful" if moment in NEW else "naive")


@pytest.mark.slow
@pytest.mark.parametrize("moment", moments(WITHOUT_HISTORY))
def test_a_killed_first_deployment_over_an_active_file_loses_nothing(naive: Workspace, moment: str) -> None:
    lose_log(naive)
    (naive.root / audit.HEAD).unlink()
    lose_records(naive)
    activate(naive, "naive")
    killed(naive, moment)
    assert goes_on(naive) == ("careful" if moment == "committed" else "naive")
    assert versions(naive)[-1].reason == "was active before the first deployment"


@pytest.mark.slow
@pytest.mark.sqlite_file
def test_a_deployment_killed_again_and_again_loses_nothing(naive: Workspace) -> None:
    for moment in ("measured", "half a line", "half a link"):  # the last one while it finishes what the one before left
        killed(naive, moment)
    assert goes_on(naive) == "naive"


@pytest.mark.slow
def test_a_deployment_killed_at_ten_times_never_loses_anything(naive: Workspace) -> None:
    build_index(naive)
    begun = time.perf_counter()
    started(naive).communicate(timeout=60)
    duration = time.perf_counter() - begun
    outcomes = []
    for number in range(10):
        if settled(naive) != "naive":
            run(naive, "rollback")
        process = started(naive)
        time.sleep(duration * number / 10)
        process.kill()
        process.communicate(timeout=60)
        outcomes.append(process.returncode)
        assert settled(naive) in ("naive", "careful")
    assert -signal.SIGKILL in outcomes
    assert goes_on(naive) in ("naive", "careful")
