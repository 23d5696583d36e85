"""Deliberate faults, one at a time, and whether the everyday tests notice them.

    python benchmarks/mutants.py [--group NAME] [--match TEXT] [--every N] [--sure] [--check] [--json FILE]

`mutants.toml` lists the faults: package, a text that stands once in it, what takes its place, the test files that
should notice, and for a fault that changes nothing anybody can see, why. Each is made in a copy of the tree, in a
process of its own that stops at the first test that fails. `--check` only looks whether every text is still there.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import tomllib
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
LISTED = Path(__file__).with_suffix(".toml")
COPIED = ("hive_agents", "graphs", "tests", "benchmarks", "prompts", "workspace", "docs", "examples")
TARGET = 0.95
SECONDS = 600.0
"""After so long a fault counts as noticed: a suite that hangs is seen."""
OURS = ("hive_agents", "graphs", "tests", "benchmarks", "__main__", "conftest")
STATES = {0: "NOT NOTICED", 1: "noticed"}


@dataclass(frozen=True)
class Fault:
    group: str
    package: str
    old: str
    new: str
    tests: tuple[str, ...]
    equivalent: str = ""

    @property
    def title(self) -> str:
        return " ".join(f"{self.old} => {self.new or 'nothing'}".split())


def listed() -> list[Fault]:
    groups = tomllib.loads(LISTED.read_text("utf-8"))
    return [
        Fault(group, package, old, new, tuple(f"tests/{test}" for test in tests.split()), *why)
        for group, rows in groups.items()
        for package, old, new, tests, *why in rows
    ]


def place_of(fault: Fault, tree: Path) -> Path:
    """The one file of the package that has the text. Raises: ValueError."""
    folder = tree / (fault.package if fault.package == "graphs" else f"hive_agents/{fault.package}")
    files = [folder] if folder.is_file() else sorted(folder.rglob("*.py"))
    found = [file for file in files for _ in range(file.read_text("utf-8").count(fault.old))]
    if len(found) != 1:
        raise ValueError(f"{fault.package}: the text stands {len(found)} times: {fault.title}")
    return found[0]


def missing(fault: Fault) -> str:
    """Why the fault can't be made in the tree as it is now, for its code was changed; "" where it can."""
    try:
        place_of(fault, ROOT)
    except ValueError as error:
        return str(error)
    return ""


def copied(target: Path) -> None:
    ignored = shutil.ignore_patterns("__pycache__", ".hive", "*.pyc")
    for name in COPIED:
        shutil.copytree(ROOT / name, target / name, ignore=ignored, symlinks=True)
    for file in ROOT.iterdir():
        if file.is_file() and file.name != ".git":
            shutil.copy2(file, target / file.name)


def tested(tree: Path, tests: Sequence[str], names: Path | None) -> int:
    """The exit code of pytest in a process that begins without any module of ours; `names` gets those of others."""
    pid = os.fork()
    if pid == 0:
        os.setsid()
        with open(tree / "output.txt", "w") as output:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
        code = 3
        try:
            os.chdir(tree)
            os.environ["PYTHONPATH"] = str(tree)
            os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
            sys.dont_write_bytecode = True
            own = {str(ROOT), str(Path(__file__).parent)}
            sys.path[:] = [str(tree), *(entry for entry in sys.path if entry not in own)]
            # Third parties' modules are there already, to save a second for each fault.
            ignored = ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
            code = int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-n", "0", *ignored, *tests]))
            if names is not None:
                names.write_text(json.dumps([name for name in sys.modules if name.partition(".")[0] not in OURS]))
        finally:
            sys.stdout.flush()
            os._exit(code)
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return 1


@contextlib.contextmanager
def made(fault: Fault, tree: Path) -> Iterator[None]:
    file = place_of(fault, tree)
    before = file.read_text("utf-8")
    after = before.replace(fault.old, fault.new)
    compile(after, str(file), "exec")
    file.write_text(after, "utf-8")
    try:
        yield
    finally:
        file.write_text(before, "utf-8")


def prepared(tree: Path, faults: Sequence[Fault], *, sure: bool) -> None:
    """Check that all tests pass without a fault, and import what they need of others; `sure` believes that they pass.

    Raises: SystemExit.
    """
    names = tree / "modules.json"
    tests = sorted({test for fault in faults for test in fault.tests})
    code = tested(tree, [*(["--collect-only"] if sure else []), *tests], names)
    if code != 0:
        print((tree / "output.txt").read_text()[-3_000:])
        raise SystemExit("the tests fail without any fault")
    for name in json.loads(names.read_text()):
        if not name.startswith(("_pytest", "pytest")):
            with contextlib.suppress(BaseException), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                importlib.import_module(name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--group", help="only the faults of this group")
    parser.add_argument("--match", default="", help="only faults that hold this text")
    parser.add_argument("--check", action="store_true", help="only look whether every text is still there, once")
    parser.add_argument("--sure", action="store_true", help="believe that all tests pass without a fault")
    parser.add_argument("--every", type=int, default=1, help="only every so many-th fault of the list")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    faults = [one for one in listed() if options.group in (None, one.group) and options.match in one.title]
    faults = faults[:: options.every]
    gone = [why for fault in faults if (why := missing(fault))]
    print(*gone, f"{len(faults)} faults, the texts of {len(faults) - len(gone)} stand once", sep="\n", flush=True)
    if options.check:
        raise SystemExit(1 if gone else 0)
    faults = [fault for fault in faults if not missing(fault)]
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="mutants") as folder:
        tree = Path(folder)
        copied(tree)
        prepared(tree, faults, sure=options.sure)
        for number, fault in enumerate(faults, start=1):
            began = time.monotonic()
            with made(fault, tree):
                code = tested(tree, fault.tests, None)
            state = STATES.get(code, f"BROKEN (pytest says {code})")
            if "ERROR collecting" in (tree / "output.txt").read_text():
                state = "BROKEN (it can't be imported)"
            seconds = time.monotonic() - began
            why = f" [equivalent: {fault.equivalent}]" if fault.equivalent else ""
            print(f"{number:>4} {seconds:5.1f} s  {fault.group:<12} {state:<12} {fault.title[:150]}{why}", flush=True)
            found.append({"group": fault.group, "fault": fault.title, "state": state, "equivalent": fault.equivalent})
    share = told(found)
    if options.json:
        options.json.write_text(json.dumps({"share": share, "faults": found}, indent=1))
    raise SystemExit(0 if share >= TARGET else 1)


def told(found: Sequence[dict[str, Any]]) -> float:
    """Print a line for each group; returns the share that was noticed of all that change something."""
    print(f"\n{'group':<14} {'faults':>6} {'noticed':>8} {'equivalent':>10} {'not':>4}")
    for group in [*dict.fromkeys(row["group"] for row in found), "all"]:
        rows = [row for row in found if group in (row["group"], "all")]
        noticed = sum(row["state"] == "noticed" for row in rows)
        same = sum(row["state"] != "noticed" and bool(row["equivalent"]) for row in rows)
        print(f"{group:<14} {len(rows):>6} {noticed:>8} {same:>10} {len(rows) - noticed - same:>4}")
    share: float = noticed / max(1, len(rows) - same)
    print(f"noticed: {share:.1%} of those that change something (to reach: {TARGET:.0%})")
    return share


if __name__ == "__main__":
    main()
