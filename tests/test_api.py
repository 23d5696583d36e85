"""The public names of `hive_agents`: all of them are there, documented by an example, and cheap to import."""

from __future__ import annotations

import subprocess
import sys

import pytest

import hive_agents
from hive_agents.agents.judges import NodeVerdict

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


def test_values_of_an_enum_are_read_in_any_case() -> None:
    ticket = hive_agents.EscalationTicket(
        id="t1",
        run_id="r1",
        severity="High",
        cause="STALL",
        evidence=[],
        first_seen="a",
        last_seen="b",
        suggested_action="",
    )
    signal = hive_agents.Signal(source="LLM", action="Accept", confidence=1.0)
    verdict = NodeVerdict(action="RETRY")
    found = (ticket.severity, ticket.cause, signal.source, signal.action, verdict.action)
    assert found == ("high", "stall", "llm", "accept", "retry")


def test_reports_are_made_of_the_fields_that_every_one_has() -> None:
    report = hive_agents.CalibrationMetrics(
        accept_accuracy_by_confidence=[],
        retry_success_rate=None,
        recommended_threshold=0.82,
        threshold_by_goal_type={"code": 0.9},
        guarantee=None,
    )
    assert (report.status, report.previous, report.needed_audits) == ("undecided", 0.7, 0)
    rule = {"id": "learned_eval", "condition": "'eval(' in result['code']", "action": "escalate"}
    proposal = hive_agents.RuleProposal(
        trigger_pattern="code contains 'eval('",
        human_action="escalate",
        confidence=0.741,
        coverage=0.2,
        examples=[1],
        edge_cases=[],
        proposed_rule=rule,
    )
    assert (proposal.id, proposal.reviewers) == ("learned_eval", [])
