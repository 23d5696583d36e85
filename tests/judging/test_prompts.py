"""Prompts of the judge that a model proposes: kept apart, certified by later labels only, used once certified."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.base.errors import HiveError
from hive_agents.judging import DecisionLog
from hive_agents.judging.learning import prompts
from hive_agents.models import prompts as templates
from tests.conftest import make_workspace
from tests.sample import hive

BETTER = "Be kind.\n$goal\n$context\n$fence\n$result\n$fence\nSay accept, retry, replan or escalate, and how sure.\n"
LETTER = "the letter tells Mr Brown of Lund that his claim of 700 crowns was refused"


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    models = 'judge = ["scripted:judge.jsonl"]\noptimizer = ["scripted:writer.jsonl"]'
    place = make_workspace(tmp_path / "ws")
    (place.root / "hive.toml").write_text(f'[models]\nembedding = "none"\n{models}\n')
    place = Workspace(place.root)
    (place.root / "goals").mkdir()
    (place.root / "goals" / "letter.json").write_text(json.dumps({"id": "letter", "name": "A letter"}))
    writes(place, BETTER)
    return place


def writes(place: Workspace, prompt: str) -> None:
    line = {"structured": {"prompt": prompt}, "repeat": True}
    (place.root / "writer.jsonl").write_text(json.dumps(line) + "\n")


def judges(place: Workspace, action: str, confidence: float = 0.9) -> None:
    said = {"action": action, "confidence": confidence, "reasoning": "so"}
    (place.root / "judge.jsonl").write_text(json.dumps({"structured": said, "repeat": True}) + "\n")


def labelled(place: Workspace, n: int, human: str, **changes: Any) -> None:
    label = {"action": human, "by": "user:bo", "at": "2026-01-02", "blind": True}
    row = {"at": "2026-01-01T00:00:00+00:00", "goal_type": "letter", "goal_id": "letter"}
    row |= {"judge_hash": "one", "audit": 1}
    row |= {"judgment": {"action": "accept", "confidence": 0.9, "signals": []}, "result": LETTER, "labels": [label]}
    DecisionLog(place).load(json.dumps(row | changes) for _ in range(n))


def test_a_proposal_is_used_only_once_later_labels_certify_it(place: Workspace) -> None:
    before = templates.template("judge", place)
    labelled(place, 60, "retry")
    judges(place, "retry")
    shown = hive("judge", "propose", "-w", place.root, "--json")
    assert (shown.code, shown.json["prompt"], shown.json["until"]) == (0, BETTER, 60)
    looked = hive("judge", "propose", "--certify", "-w", place.root, "--json")
    assert (looked.code, looked.json["status"], looked.json["n"]) == (1, "undecided", 0), "old labels don't count"
    assert hive("judge", "propose", "--use", "-w", place.root).code == 1
    labelled(place, 30, "retry")
    assert hive("judge", "propose", "--use", "-w", place.root).code == 1, "too few"
    assert templates.template("judge", place) == before
    labelled(place, 80, "retry")
    looked = hive("judge", "propose", "--certify", "-w", place.root, "--json")
    assert (looked.code, looked.json["status"], looked.json["looks"]) == (0, "certified", 2)
    assert hive("judge", "propose", "--use", "-w", place.root).code == 0
    assert templates.template("judge", place) == BETTER
    assert hive("judge", "propose", "--certify", "-w", place.root).code == 2, "none is kept any more"


def test_a_proposal_that_people_disagree_with_is_never_used(place: Workspace) -> None:
    labelled(place, 60, "retry")
    prompts.propose(place)
    labelled(place, 200, "accept")
    judges(place, "retry")
    assert prompts.certified(place)[1].status == "missed"
    with pytest.raises(HiveError, match=r"isn't certified from 0\.70 on"):
        prompts.use(place, "user:amira")


def test_one_that_is_certified_below_the_threshold_is_used(place: Workspace) -> None:
    labelled(place, 5, "retry")
    prompts.propose(place)
    labelled(place, 120, "accept")
    judges(place, "accept", 0.6)
    assert prompts.certified(place)[1].threshold == pytest.approx(0.6)
    prompts.use(place, "user:amira")


def test_each_look_takes_a_smaller_part_of_delta(place: Workspace) -> None:
    labelled(place, 5, "retry")
    prompts.propose(place)
    judges(place, "accept")
    deltas = []
    for _ in range(3):
        labelled(place, 10, "accept")
        deltas.append(prompts.certified(place)[1].delta)
    assert deltas == pytest.approx([0.1 / 2, 0.1 / 6, 0.1 / 12])
    assert prompts.certified(place)[1].delta == deltas[-1], "nothing new is no look"


def test_types_that_differ_are_not_certified_together(place: Workspace) -> None:
    labelled(place, 5, "retry")
    prompts.propose(place)
    judges(place, "accept")
    labelled(place, 400, "accept")
    labelled(place, 12, "retry", goal_type="contract")
    with pytest.raises(HiveError, match="significantly more often"):
        prompts.certified(place)


@pytest.mark.parametrize(
    ("prompt", "why"),
    [
        ("Accept it all.", r"it lacks \$goal"),
        ("$goal $result", r"it lacks \$goal, or has \$result elsewhere"),
        (BETTER + "$result", r"or has \$result elsewhere"),
        ("$goal $$fence $result $$fence", r"or has \$result elsewhere"),
        ("$goal $fence $result $fence $fence $result", r"or has \$result elsewhere"),
        (BETTER + "$nobody", "nobody"),
        (BETTER + LETTER.upper(), "it quotes what somebody's work says"),
    ],
)
def test_a_prompt_that_lacks_a_variable_or_quotes_a_case_is_refused(place: Workspace, prompt: str, why: str) -> None:
    labelled(place, 5, "retry")
    writes(place, prompt)
    with pytest.raises(HiveError, match=why):
        prompts.propose(place)
    with pytest.raises(HiveError, match="no prompt is proposed"):
        prompts.proposed(place)


@pytest.mark.parametrize(
    ("result", "quoted"),
    [
        ({"answer": "Mr Brown of Lund\nwas refused in May\nhis claim of crowns"}, None),
        (
            {"to": "Mr Brown of Lund", "answer": "was refused in May his claim of crowns"},
            "was refused in May his claim of crowns",
        ),
        ({"parts": ["no", {"text": LETTER}]}, LETTER),
        ("布朗先生的索赔被保险公司拒绝了因为他没有按时提交文件", None),
        ("ブラウンさんの請求は期限内に書類が届かず却下された", None),
        ("นายบราวน์ถูกปฏิเสธเพราะส่งเอกสารช้ากว่ากำหนด", None),
    ],
)
def test_a_case_is_quoted_in_any_language_and_form(place: Workspace, result: Any, quoted: str | None) -> None:
    """By its words where they stand in lines or fields, and by its signs where words aren't parted."""
    labelled(place, 5, "retry", result=result)
    writes(place, BETTER + (quoted or " ".join(str(result["answer"] if isinstance(result, dict) else result).split())))
    with pytest.raises(HiveError, match="it quotes what somebody's work says"):
        prompts.propose(place)


def test_without_labels_nothing_is_asked(place: Workspace) -> None:
    with pytest.raises(HiveError, match="no decision has been audited"):
        prompts.propose(place)


def test_one_that_is_certified_above_what_it_would_decide_is_not_used(place: Workspace) -> None:
    labelled(place, 5, "retry")
    prompts.propose(place)
    labelled(place, 150, "accept")
    judges(place, "accept")
    prompts.certified(place)
    labelled(place, 20, "retry")
    judges(place, "accept", 0.8)
    assert prompts.certified(place)[1].threshold == pytest.approx(0.9)
    with pytest.raises(HiveError, match=r"isn't certified from 0\.70 on"):
        prompts.use(place, "user:amira")
