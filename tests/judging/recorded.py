"""A recorded decision log for tests: `python -m tests.judging.recorded` writes it again, always the same.

900 decisions of one judge over three goal types. Its confidence is honest from 0.75 on; results with
`eval(` were always sent back by the reviewers, and drafts without sources always planned anew.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from hive_agents import Workspace
from hive_agents.judging.decision_log import DecisionLog

FILE = Path(__file__).with_name("recorded_log.jsonl")
N = 900
THRESHOLD = 0.7
AUDITED = 0.25
"""More than the usual 5 %: an audit campaign, as one would run before a first calibration."""

_TYPES = ("code_review", "security", "summary")
_PEOPLE = ("user:amira", "user:bo", "user:chen")
_START = datetime(2026, 1, 5, 8, tzinfo=UTC)


def load_recorded(workspace: Workspace) -> int:
    """Put the recorded log into a workspace; returns how many decisions it has."""
    return DecisionLog(workspace).load(FILE.read_text(encoding="utf-8").splitlines())


def entries(n: int = N, seed: int = 20260105) -> Iterator[dict[str, Any]]:
    rng = random.Random(seed)
    for number in range(n):
        yield _entry(rng, number)


def _entry(rng: random.Random, number: int) -> dict[str, Any]:
    goal_type = rng.choices(_TYPES, (5, 2, 3))[0]
    kind = rng.random()
    result: dict[str, Any] = {"score": round(rng.random(), 3), "category": rng.choice(("api", "docs", "ui"))}
    evaluates = goal_type != "summary" and kind < 0.14
    unsourced = goal_type == "summary" and kind < 0.2
    if goal_type == "summary":
        result |= {"text": "A summary " + ("without references" if unsourced else "with [1] and [2]"), "sources": 2}
        if unsourced:
            result["sources"] = 0
    else:
        result["code"] = (
            f"value = eval(text{rng.randrange(40)})" if evaluates else f"value = parse{rng.randrange(40)}(text)"
        )
    at = _START + timedelta(minutes=22 * number)
    entry: dict[str, Any] = {
        "at": at.isoformat(timespec="seconds"),
        "goal_type": goal_type,
        "run_id": f"r{number}",
        "judge_hash": "judge-a1",
        "result": result,
    }
    if kind > 0.94:
        entry["judgment"] = {"action": "retry", "confidence": 1.0, "reasoning": "tests failed", "rule_id": "tests_pass"}
        return entry
    unsure = evaluates or unsourced
    confidence = round(rng.uniform(0.4, 0.69) if unsure or rng.random() < 0.12 else rng.uniform(0.7, 0.99), 2)
    proposal = rng.choices(("accept", "retry"), (9, 1))[0]
    right = rng.random() < (0.998 if confidence >= 0.75 else 0.6)
    human = "retry" if evaluates else "replan" if unsourced else proposal if right else "replan"
    entry |= _judged(proposal, confidence)
    escalated = confidence < THRESHOLD
    entry["audit"] = int(not escalated and rng.random() < AUDITED)
    if escalated or entry["audit"]:
        first, *others = rng.sample(_PEOPLE, 2 if rng.random() < 0.1 else 1)
        label = {"action": human, "at": entry["at"], "blind": bool(entry["audit"])}
        entry["labels"] = [{**label, "by": person} for person in (first, *others)]
    if entry["judgment"]["action"] == "retry":
        entry["outcome"] = "succeeded" if rng.random() < 0.7 else "failed"
    return entry


def _judged(action: str, confidence: float) -> dict[str, Any]:
    signal = {"source": "llm", "action": action, "confidence": confidence}
    judgment: dict[str, Any] = {"action": action, "confidence": confidence, "reasoning": "", "signals": [signal]}
    if confidence < THRESHOLD:
        judgment |= {"action": "escalate", "escalation_reason": "low_confidence"}
    return {"judgment": judgment, "llm_calls": 1, "input_tokens": 800, "output_tokens": 60, "usd": 0.0011}


if __name__ == "__main__":
    lines = [json.dumps(entry, ensure_ascii=False, separators=(",", ":")) for entry in entries()]
    FILE.write_text("\n".join(lines) + "\n", encoding="utf-8")
