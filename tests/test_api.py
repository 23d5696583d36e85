"""The public names of `hive_agents`: all of them are there, typed, documented by an example, and cheap to import."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import hive_agents

JUDGEMENT = ("CalibrationMetrics", "RuleProposal", "Runtime", "SignalWeights")


@pytest.mark.parametrize("name", hive_agents.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(hive_agents, name).__name__ == name


def test_type_checkers_are_told_of_every_name() -> None:
    tree = ast.parse(Path(hive_agents.__file__).read_text(encoding="utf-8"))
    typed = {alias.asname or alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)
             for alias in node.names if (node.module or "").startswith("hive_agents.")}  # fmt: skip
    assert typed == set(hive_agents.__all__)


@pytest.mark.parametrize("name", JUDGEMENT)
def test_names_of_the_judgement_have_an_example(name: str) -> None:
    assert ">>> " in (getattr(hive_agents, name).__doc__ or "")


def test_naming_the_judgement_imports_nothing_heavy() -> None:
    names = ", ".join(JUDGEMENT)
    heavy = {"langgraph", "langchain_core", "boto3", "onnxruntime"}
    code = f"import sys; from hive_agents import {names}; print({heavy} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"
