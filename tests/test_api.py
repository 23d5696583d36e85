"""The public names of `hive_agents`: all of them are there, documented by an example, and cheap to import."""

from __future__ import annotations

import subprocess
import sys

import pytest

import hive_agents

JUDGEMENT = ("CalibrationMetrics", "RuleProposal", "Runtime", "SignalWeights")


@pytest.mark.parametrize("name", hive_agents.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(hive_agents, name).__name__ == name


@pytest.mark.parametrize("name", hive_agents.__all__)
def test_every_public_name_has_an_example(name: str) -> None:
    assert ">>> " in (getattr(hive_agents, name).__doc__ or "")


def test_naming_the_judgement_imports_nothing_heavy() -> None:
    names = ", ".join(JUDGEMENT)
    heavy = {"langgraph", "langchain_core", "boto3", "onnxruntime"}
    code = f"import sys; from hive_agents import {names}; print({heavy} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"
