from __future__ import annotations

import json
import random
import re
from typing import Any

from hive_agents import RuleProposal, Workspace
from hive_agents.goals.expressions import parse
from hive_agents.judging.decision_log import DecisionLog
from hive_agents.judging.learning.mining import mine, nothing_because
from hive_agents.judging.learning.predicates import candidates
from tests.judging.recorded import load_recorded


def line(number: int, result: Any, human: str, *, by: str | None = None, escalated: bool = True, **more: Any) -> str:
    judgment = {"action": "escalate" if escalated else "accept", "confidence": 0.5 if escalated else 0.9}
    label = {"action": human, "by": by or f"user:{number % 3}", "at": "2026-01-01", "blind": not escalated}
    value = {"at": "2026-01-01", "goal_type": "code", "judge_hash": "a", "run_id": f"r{number}", "result": result}
    return json.dumps({**value, "judgment": judgment, "labels": [label], "audit": int(not escalated), **more})


def mined(workspace: Workspace, lines: list[str]) -> list[RuleProposal]:
    DecisionLog(workspace).load(lines)
    return mine(DecisionLog(workspace).rows())


def evals(n: int, human: str = "retry", start: int = 0, **more: Any) -> list[str]:
    lines = []
    for i in range(start, start + n):
        lines.append(line(2 * i, {"code": f"x = eval(t{i})"}, human, **more))
        lines.append(line(2 * i + 1, {"code": f"x = parse(t{i})"}, ("accept", "replan")[i % 2]))
    return lines


def test_a_planted_pattern_is_found_with_an_honest_bound(text_workspace: Workspace) -> None:
    (found,) = mined(text_workspace, evals(10))
    assert found.trigger_pattern == "code contains 'eval('"
    assert (found.human_action, found.support, round(found.confidence, 3)) == ("retry", 10, 0.741)
    assert found.coverage == 0.5
    rule = found.proposed_rule
    assert rule["condition"] == "'eval(' in str(result.get('code', ''))"
    assert rule["id"].startswith("learned_")
    assert (rule["priority"], rule["mode"], rule["goal_types"]) == (150, "shadow", ["code"])
    assert rule["metadata"]["source"] == "learned"


def test_nine_runs_are_too_few(text_workspace: Workspace) -> None:
    assert mined(text_workspace, evals(9)) == []


def test_the_same_run_ten_times_is_one_run(text_workspace: Workspace) -> None:
    assert mined(text_workspace, evals(12, run_id="r1")) == []


def test_one_reviewer_is_too_few(text_workspace: Workspace) -> None:
    assert mined(text_workspace, [*evals(6, by="user:amira"), *evals(6, by="user:Amira", start=6)]) == []


def test_a_contradiction_among_the_newest_ends_it(text_workspace: Workspace) -> None:
    assert mined(text_workspace, evals(20) + evals(1, human="accept", start=20)) == []


def test_an_audit_that_contradicts_ends_it(text_workspace: Workspace) -> None:
    against = line(999, {"code": "y = eval(z)"}, "accept", escalated=False)
    assert mined(text_workspace, [against, *evals(20)]) == []


def test_a_pattern_of_all_traffic_is_no_reason_to_escalate(text_workspace: Workspace) -> None:
    rest = [line(1000 + i, {"code": "y = eval(z)"}, "retry", escalated=False, labels=[]) for i in range(60)]
    assert mined(text_workspace, [*rest, *evals(20)]) == []


def test_two_predicates_together_can_hold_where_neither_does_alone(text_workspace: Workspace) -> None:
    rng = random.Random(4)
    lines = []
    for i in range(120):
        result = {"lang": rng.choice(("py", "js")), "risk": round(rng.random(), 3)}
        human = "retry" if result["lang"] == "py" and result["risk"] >= 0.5 else ("accept", "replan")[i % 2]
        lines.append(line(i, result, human))
    found = mined(text_workspace, lines)
    best = next(proposal for proposal in found if proposal.human_action == "retry")
    assert "lang is 'py'" in best.trigger_pattern
    assert "risk >= " in best.trigger_pattern
    assert any("one condition short" in case for case in best.edge_cases)


def test_random_decisions_yield_next_to_nothing(text_workspace: Workspace) -> None:
    rng = random.Random(9)
    lines = [
        line(i, {"code": f"x = f{rng.randrange(20)}(t)", "n": rng.random()}, rng.choice(("accept", "retry")))
        for i in range(300)
    ]
    assert mined(text_workspace, lines) == []


def test_plain_text_and_odd_results_are_no_obstacle(text_workspace: Workspace) -> None:
    odd: list[Any] = ["text", None, 3, [1], {"a": None}, {"a": {"b": 1}}, {"a": "é" * 50}, {"a": True}]
    lines = [line(i, odd[i % len(odd)], "accept") for i in range(80)]
    assert mined(text_workspace, lines)
    assert all(predicate.condition for predicate in candidates(odd, 1))


def test_the_recorded_log_gives_its_planted_rules(text_workspace: Workspace) -> None:
    load_recorded(text_workspace)
    found = mine(DecisionLog(text_workspace).rows())
    actions = {(proposal.proposed_rule["goal_types"][0], proposal.human_action) for proposal in found}
    assert {("code_review", "retry"), ("security", "retry"), ("summary", "replan")} <= actions
    assert all(proposal.support >= 10 and len(proposal.reviewers) >= 2 for proposal in found)


def reasons(workspace: Workspace, lines: list[str]) -> list[str]:
    assert mined(workspace, lines) == []
    return nothing_because(DecisionLog(workspace).rows())


def test_too_few_labelled_escalations_are_a_reason(text_workspace: Workspace) -> None:
    assert reasons(text_workspace, evals(4)) == ["code: 8 labelled escalations; 10 are the least"]


def test_a_pattern_without_enough_runs_or_reviewers_is_named(text_workspace: Workspace) -> None:
    (why,) = reasons(text_workspace, evals(9))
    assert why == "code: nearest is \"code contains 'eval('\" -> retry: 9 runs; 10 are the least"
    (why,) = reasons(Workspace(text_workspace.root), evals(12, by="user:amira", goal_type="other"))[1:]
    assert why == "other: nearest is \"code contains 'eval('\" -> retry: 1 reviewer; 2 are the least"


def test_a_pattern_of_all_traffic_says_how_often_it_is_in_the_rest(text_workspace: Workspace) -> None:
    rest = [line(1000 + i, {"code": "y = eval(z)"}, "retry", escalated=False, labels=[]) for i in range(60)]
    (why,) = reasons(text_workspace, [*rest, *evals(20)])
    assert why == (
        "code: nearest is \"code contains 'eval('\" -> retry: it holds for 50% of the labelled escalations and 100% of"
        " what no person decided, 0.5 times as often; 1.5 times is the least"
    )


def test_a_contradiction_says_where_it_stands(text_workspace: Workspace) -> None:
    (why,) = reasons(text_workspace, evals(20) + evals(1, human="accept", start=20))
    assert why.startswith("code: nearest is \"code contains 'eval('\" -> retry: people decided otherwise on 41")


def test_where_people_never_agreed_there_is_no_pattern(text_workspace: Workspace) -> None:
    lines = [line(i, {"code": "x"}, ("accept", "replan")[i % 2]) for i in range(40)]
    (why,) = reasons(text_workspace, lines)
    assert why == "code: no condition holds for 10 of the 40 labelled escalations that people decided alike"


def test_a_goal_type_with_a_proposal_needs_no_reason(text_workspace: Workspace) -> None:
    assert mined(text_workspace, evals(10))
    assert nothing_because(DecisionLog(text_workspace).rows()) == []


def test_numbers_in_conditions_are_rounded_and_a_missing_field_never_matches() -> None:
    for value in (0.95, 0.1 + 0.2, -3.3, 0.0, 7, 1e17, -1e300):
        for predicate in candidates([{"c": value}] * 10, 10):
            expression = parse(predicate.condition)
            assert not expression.evaluate({"result": {}}), predicate.condition
            assert bool(expression.evaluate({"result": {"c": value}})) is predicate.test({"c": value})
            numbers = re.findall(r"-?[0-9.]+(?:e[+-]?[0-9]+)?", predicate.condition)
            assert all(len(one) <= 10 or "e" in one for one in numbers), predicate.condition
    assert "result.get('c', -0.05) >= 0.95" in [one.condition for one in candidates([{"c": 0.95}] * 10, 10)]
