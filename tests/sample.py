"""The sample workspace as tests use it: made and indexed once, copied for whoever changes something."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from hive_agents import Workspace
from hive_agents.cli.main import main
from hive_agents.cli.sample import init_workspace
from tests.folders import kept_folder


@cache
def indexed_sample() -> Path:
    """Read-only: an indexed sample workspace for tests that only search."""
    folder = kept_folder("hive-sample-") / "workspace"
    init_workspace(folder)
    Workspace(folder).index()
    return folder


def copied_sample(folder: Path, *, every: int = 1) -> Workspace:
    """A copy with each `every`-th golden question: few are enough where figures aren't what is tested."""
    shutil.copytree(indexed_sample(), folder, symlinks=True)
    if every > 1:
        (folder / "evals" / "golden.json").write_text(_golden(every), encoding="utf-8")
    return Workspace(folder)


@cache
def _golden(every: int) -> str:
    value = json.loads((indexed_sample() / "evals" / "golden.json").read_text(encoding="utf-8"))
    return json.dumps(value | {"queries": value["queries"][::every]}, indent=2)


def words_sample(folder: Path, *, every: int = 3) -> Workspace:
    """A copy whose `v1-naive` looks for words alone: no question is embedded."""
    workspace = copied_sample(folder, every=every)
    path = workspace.configs / "v1.json"
    path.write_text(path.read_text(encoding="utf-8").replace('"method": "hybrid"', '"method": "keyword"'), "utf-8")
    return workspace


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def codes(self) -> set[str]:
        return {diagnostic["code"] for diagnostic in self.json["diagnostics"]}


def hive(*arguments: object) -> Ran:
    """Run one command in this process, as a shell would."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([str(argument) for argument in arguments])
    return Ran(code, out.getvalue(), err.getvalue())


def write_config(workspace: Workspace, name: str, **parts: Any) -> None:
    retrieval = {"method": "hybrid", "top_k": 10} | parts.pop("retrieval", {})
    value = {"name": name, "collection": "knowledge-base", "retrieval": retrieval} | parts
    (workspace.configs / f"{name}.json").write_text(json.dumps(value), encoding="utf-8")
