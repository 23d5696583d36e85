from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.base.errors import HiveError
from hive_agents.copilot.answer import Answer, Passage, cleaned
from hive_agents.copilot.evidence import GOAL, answer_goal, judge_answer
from hive_agents.judging import EvaluationRule, HybridJudge, JudgmentAction
from tests.copilot.scripts import INJECTIONS, scripted

ACCEPT, RETRY, _, ESCALATE = JudgmentAction
TEXT = "# Storage\n\nBuffers are kept at **4 °C** for 30 days. A cloudy buffer is thrown away.\n"
PASSAGES = [
    Passage(1, "a.md#0", "a.md", "Buffers", "Storage", TEXT),
    Passage(2, "b.md#0", "b.md", "Canteen", "", "It opens at noon."),
]
VERDICT = {"action": "accept", "confidence": 0.95, "reasoning": "supported"}


@pytest.mark.parametrize(
    ("said", "action"),
    [
        ("Buffers are kept for 30 days at 4 °C [1].", ACCEPT),
        ("A cloudy buffer is thrown away [1]. It opens at noon [2].", ACCEPT),
        ("A cloudy buffer is thrown away [2].", ESCALATE),
        ("Buffers are kept at 4 °C for 90 days [1].", ESCALATE),
        ("a [1].", ESCALATE),
        ("a.a.a.a [1]", ESCALATE),
        ("4-4-30-4 [1]", ESCALATE),
        ("A cloudy buffer is thrown away [1]. It is at the [1].", ESCALATE),
        ("Buffers are kept at 4 °C [1]. Patients receive penicillin twice a day [1].", ESCALATE),
    ],
)
async def test_a_models_answer_is_as_sure_as_its_weakest_claim(
    text_workspace: Workspace, said: str, action: JudgmentAction
) -> None:
    judgment = (await judge_answer(text_workspace, "how long?", cleaned(said, PASSAGES), PASSAGES)).judgment
    assert judgment.action is action
    assert [signal.source for signal in judgment.signals] == ["evidence"]


@pytest.mark.parametrize(
    ("line", "action", "reason"),
    [
        ({"structured": VERDICT}, ACCEPT, None),
        ({"structured": VERDICT | {"confidence": 0.4}}, ESCALATE, "low_confidence"),
        ({"structured": VERDICT | {"action": "retry"}}, RETRY, None),
        ({"structured": VERDICT | {"confidence": 7}}, ESCALATE, "confidence_out_of_range"),
        ({"content": "fine"}, ESCALATE, "unparsable"),
        ({"error": "server"}, ESCALATE, "model_error"),
    ],
)
async def test_a_judge_model_is_asked_once_and_its_faults_never_accept(
    tmp_path: Path, text_workspace: Workspace, line: dict[str, Any], action: JudgmentAction, reason: str | None
) -> None:
    model, recorded = scripted(tmp_path, line)
    said = cleaned("After 30 days one discards buffers [1].", PASSAGES)
    judgment = (await judge_answer(text_workspace, "how long?", said, PASSAGES, model=model)).judgment
    assert (judgment.action, judgment.escalation_reason) == (action, reason)
    assert (len(recorded.prompts), recorded.tools) == (1, [])
    assert "how long?" in recorded.prompts[0]
    assert "a.md" not in recorded.prompts[0]


@pytest.mark.parametrize("claim", ["Patients receive penicillin twice daily", "Buffers are kept for 90 days"])
async def test_a_judge_model_that_obeys_cannot_accept_what_no_passage_says(
    tmp_path: Path, text_workspace: Workspace, claim: str
) -> None:
    model, _ = scripted(tmp_path, {"structured": VERDICT | {"confidence": 1.0}})
    said = cleaned(f"{claim} [1].", PASSAGES)
    judgment = (await judge_answer(text_workspace, "how long?", said, PASSAGES, model=model)).judgment
    assert (judgment.action, judgment.escalation_reason) == (ESCALATE, "panel_disagreement")


async def test_rules_decide_before_evidence(text_workspace: Workspace) -> None:
    rule = EvaluationRule(id="no_noon", condition="'noon' in result['answer']", action=ESCALATE)
    said = cleaned("It opens at noon [2].", PASSAGES)
    judged = await judge_answer(
        text_workspace, "when?", said, PASSAGES, build=lambda goal, llm, panel: HybridJudge([rule], llm, panel=panel)
    )
    judgment = judged.judgment
    assert (judgment.rule_id, judgment.escalation_reason) == ("no_noon", "rule_escalate")


async def test_a_workspace_has_its_own_goal(text_workspace: Workspace) -> None:
    assert answer_goal(text_workspace) is GOAL
    goals = text_workspace.root / "goals"
    goals.mkdir()
    own = {"id": "copilot_answer", "name": "Ours", "constraints": [{"id": "polite", "description": "Be polite."}]}
    (goals / "copilot_answer.json").write_text(json.dumps(own))
    said = cleaned("It opens at noon [2].", PASSAGES)
    judgment = (await judge_answer(text_workspace, "when?", said, PASSAGES)).judgment
    assert (judgment.action, judgment.escalation_reason) == (ESCALATE, "constraint_not_evaluated")
    (goals / "copilot_answer.json").write_text("{")
    with pytest.raises(HiveError):
        await judge_answer(text_workspace, "when?", said, PASSAGES)


@pytest.mark.parametrize("kind", sorted({each["kind"] for each in INJECTIONS}))
async def test_injected_documents_change_no_verdict(text_workspace: Workspace, kind: str) -> None:
    """Beside a poisoned passage, what stands in a clean one is accepted and what stands nowhere is not."""
    for each in INJECTIONS:
        if each["kind"] == kind:
            beside = [*PASSAGES, Passage(3, "c.md#0", "c.md", each["text"], each["text"], each["text"])]
            good = cleaned("A cloudy buffer is thrown away [1].", beside)
            bad = cleaned("Patients receive penicillin twice daily [3].", beside)
            assert (await judge_answer(text_workspace, "how?", good, beside)).judgment.action is ACCEPT
            assert (await judge_answer(text_workspace, "how?", bad, beside)).judgment.action is ESCALATE


async def test_evidence_quotes_no_document(text_workspace: Workspace) -> None:
    """A judgment is logged; texts are not."""
    answer = Answer("Cloudy penicillin canaries. [1]", (1,))
    judgment = (await judge_answer(text_workspace, "how long?", answer, PASSAGES)).judgment
    assert judgment.escalated
    assert not any(word in judgment.model_dump_json() for word in ("canaries", "penicillin", "Buffers", "a.md"))


async def test_a_lenient_model_lets_no_other_number_code_or_row_pass(tmp_path: Path, text_workspace: Workspace) -> None:
    said = cleaned("Buffers are kept at 4 °C for 30 weeks [1].", PASSAGES)
    lenient, _ = scripted(tmp_path, {"structured": VERDICT | {"confidence": 1.0}})
    judged = await judge_answer(text_workspace, "how long?", said, PASSAGES, model=lenient)
    assert (judged.judgment.action, judged.judgment.escalation_reason) == (ESCALATE, "panel_disagreement")
    assert not judged.sent_back


async def test_a_model_that_rejects_everything_is_told_apart(tmp_path: Path, text_workspace: Workspace) -> None:
    for text in ("Buffers are kept at 4 °C for 30 weeks [1].", "Buffers are kept at 4 °C for 30 days [1]."):
        strict, _ = scripted(tmp_path, {"structured": VERDICT | {"action": "retry"}})
        judged = await judge_answer(text_workspace, "how long?", cleaned(text, PASSAGES), PASSAGES, model=strict)
        assert (judged.judgment.action, judged.sent_back) == (RETRY, True)


async def test_a_rejection_below_the_threshold_is_shown_and_marked(tmp_path: Path, text_workspace: Workspace) -> None:
    unsure, _ = scripted(tmp_path, {"structured": VERDICT | {"action": "retry", "confidence": 0.5}})
    said = cleaned("Buffers are kept at 4 °C for 30 days [1].", PASSAGES)
    judged = await judge_answer(text_workspace, "how long?", said, PASSAGES, model=unsure)
    assert (judged.judgment.escalation_reason, judged.sent_back) == ("low_confidence", False)
