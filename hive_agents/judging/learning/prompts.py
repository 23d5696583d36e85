"""Prompts of the judge that a model proposes by what people said, and that only what they say afterwards certifies."""

from __future__ import annotations

import json
import re
import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hive_agents.base import HiveError, NotFound
from hive_agents.base.files import Format, atomic_write_text, load, read_bytes
from hive_agents.goals import Goal, load_goal
from hive_agents.judging.certify import Certificate, Stratum, certify, differing
from hive_agents.judging.decision_log import DecisionLog
from hive_agents.judging.decisions import THRESHOLD_REASONS, JudgedCase, by_stage
from hive_agents.judging.evaluators import EvaluatorFault, ModelEvaluator
from hive_agents.judging.thresholds import GLOBAL, threshold_for
from hive_agents.models import Message, Usage, open_chain, prompts
from hive_agents.store import audit

if TYPE_CHECKING:
    from hive_agents.workspace import Workspace

CASES = 40
"""The most cases that a model is shown."""
LONGEST = 2_000
"""The most characters of a result that are shown."""
QUOTED = 8
"""A prompt that has so many words of a case in a row quotes it."""
_UNPARTED = r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u30ff\u3400-\u9fff\uf900-\ufaff]"
_WORD = re.compile(rf"{_UNPARTED}|(?:(?!{_UNPARTED})\w)+")
"""A word, or a sign of Thai, Chinese, Japanese and others, which write no space between words."""
_SCHEMA = {
    "title": "instructions",
    "type": "object",
    "properties": {"prompt": {"type": "string"}},
    "required": ["prompt"],
}


class VerdictUnder(Format):
    """What a judge says of a decision; what it leaves to a person decides nothing, at 0."""

    action: str
    confidence: float


class ProposedPrompt(Format):
    """A prompt that no judge uses yet. `until` is the newest decision at the time: only later ones certify it.

    `verdicts` are what the judge says under it of later decisions, by number. Each of the
    `looks` at them takes a smaller part of delta, so that looking often certifies nothing.
    """

    at: str
    until: int
    prompt: str
    verdicts: dict[str, VerdictUnder] = {}
    looks: int = 0


def propose(workspace: Workspace) -> ProposedPrompt:
    """Ask the optimizer's model for a better prompt by what people said so far; keep it in place of an earlier one.

    Raises: HIVE-401 without a model, HIVE-409 without labels, or for a prompt that lacks a variable or quotes a case.
    """
    from hive_agents.models import waited

    rows = DecisionLog(workspace).rows()
    cases = [row for row in by_stage(rows)[0] if _said(row) is not None]
    if not cases:
        raise HiveError.of("HIVE-409", "no decision has been audited", fix="`hive judge audit` lists what waits")
    # Where people differed from the judge is what there is to learn; the newest of both kinds are shown.
    apart = [row for row in cases if row.proposal is None or row.proposal[0] != _said(row)][-CASES // 2 :]
    same = [row for row in cases if row not in apart][-(CASES - len(apart)) :]
    now = prompts.template("judge", workspace)
    fence = f"=====  {secrets.token_hex(8)}  ====="
    shown = "\n".join(_shown(row, workspace) for row in sorted([*apart, *same], key=lambda row: row.id))
    text = prompts.load("judge_prompt", workspace, prompt=now, cases=shown, fence=fence)
    settings = workspace.settings
    chain = open_chain(settings.models.of("optimizer"), settings, workspace=workspace)
    answer = waited(chain.complete([Message(role="user", content=text)], schema=_SCHEMA))
    prompt = str((answer.structured or {}).get("prompt", "")).strip() + "\n"
    _require_sound(prompt, now, [*apart, *same])
    found = ProposedPrompt(at=audit.now(), until=rows[-1].id, prompt=prompt)
    _keep(workspace, found)
    return found


def proposed(workspace: Workspace) -> ProposedPrompt:
    """Return the proposal that is kept. Raises: HIVE-409 where there is none."""
    path = workspace.state / "judge-prompt.json"
    if not path.is_file():
        raise NotFound.of("HIVE-409", "no prompt is proposed", fix="ask for one: hive judge propose")
    return load(ProposedPrompt, read_bytes(path), path.name)


def certified(workspace: Workspace) -> tuple[ProposedPrompt, Certificate, Usage]:
    """Judge, under the proposed prompt, what people labelled of the decisions after it; return its certificate.

    Verdicts of an earlier look are kept. Decisions without their goal's file are left out. The unlabelled decisions of
    each kind, automatic and escalated, are taken to have the confidences of the labelled ones.
    """
    from hive_agents.models import waited

    kept, settings = proposed(workspace), workspace.settings
    rows = [row for row in by_stage(DecisionLog(workspace).rows())[0] if row.id > kept.until]
    rows = [row for row in rows if row.automatic or row.escalation_reason in THRESHOLD_REASONS]
    goals = {name: goal for name in {row.goal_id for row in rows} if (goal := _goal(workspace, name)) is not None}
    rows = [row for row in rows if row.goal_id in goals]
    labelled = [row for row in rows if _said(row) is not None]
    verdicts, usage = dict(kept.verdicts), Usage()
    new = [row for row in labelled if str(row.id) not in verdicts]
    if new:
        chain = open_chain(settings.models.of("judge"), settings, workspace=workspace)
        deadline = settings.models.deadline_seconds
        judge = ModelEvaluator(chain, workspace=workspace, text=kept.prompt, deadline=deadline)
        for row in new:
            verdicts[str(row.id)] = waited(_verdict(judge, goals[row.goal_id], row.result))
        usage = chain.meter.usage
        kept = kept.model_copy(update={"verdicts": verdicts, "looks": kept.looks + 1})
        _keep(workspace, kept)
    strata = []
    for automatic in (True, False):
        of_kind = [row for row in labelled if row.automatic is automatic]
        confidence = np.array([verdicts[str(row.id)].confidence for row in of_kind], dtype=np.float64)
        agrees = np.array([verdicts[str(row.id)].action == _said(row) for row in of_kind], dtype=bool)
        n = sum(row.automatic is automatic for row in rows)
        strata.append(Stratum(np.resize(confidence, n if of_kind else 0), confidence, agrees))
    looks, judging = max(kept.looks, 1), settings.judge
    found = certify(strata, judging.alpha, judging.delta / (looks * (looks + 1)))
    errors: dict[str, Counter[bool]] = {}
    for row in labelled:
        said = verdicts[str(row.id)]
        if found.decides(said.confidence):
            errors.setdefault(row.goal_type, Counter())[said.action != _said(row)] += 1
    if len(errors) > 1 and differing({name: (one[True], one.total()) for name, one in errors.items()}):
        raise HiveError.of(
            "HIVE-409",
            "under this prompt people disagree with some goal types significantly more often than with the others",
            fix="propose another one: hive judge propose",
        )
    return kept, found, usage


def use(workspace: Workspace, by: str) -> ProposedPrompt:
    """Make the proposed prompt the workspace's, where all is certified that its judge said from the threshold on that
    then holds.

    The judge is another one from then on, to be audited and calibrated anew. Raises: HIVE-409 before that.
    """
    kept, found, _ = certified(workspace)
    settings = workspace.settings
    chain = open_chain(settings.models.of("judge"), settings, workspace=workspace)
    fingerprint = ModelEvaluator(chain, workspace=workspace, text=kept.prompt).fingerprint
    holds = threshold_for(workspace, GLOBAL, fingerprint).value
    decided = [each.confidence for each in kept.verdicts.values() if each.confidence >= holds]
    if found.status != "certified" or not all(map(found.decides, decided)):
        why = f"the proposed prompt isn't certified from {holds:.2f} on, where its judge would decide"
        raise HiveError.of("HIVE-409", why, fix="audit more decisions", exit_code=1)
    atomic_write_text(workspace.root / "prompts" / "judge.md", kept.prompt)
    audit.append(workspace, "judge.prompt", by=by, proposed_at=kept.at, n=found.n, threshold=found.threshold)
    (workspace.state / "judge-prompt.json").unlink()
    return kept


def _keep(workspace: Workspace, proposal: ProposedPrompt) -> None:
    atomic_write_text(workspace.state / "judge-prompt.json", proposal.model_dump_json(indent=1))


def _said(row: JudgedCase) -> str | None:
    """Return what people said of a decision that says how often the judge is right."""
    drawn = row.audit == 1 if row.automatic else row.escalation_reason in THRESHOLD_REASONS
    return row.human_action(blind=row.automatic) if drawn else None


async def _verdict(judge: ModelEvaluator, goal: Goal, result: Any) -> VerdictUnder:
    try:
        found = await judge(goal, result, None)
    except EvaluatorFault:
        return VerdictUnder(action="escalate", confidence=0.0)
    return VerdictUnder(action=str(found.action), confidence=0.0 if found.escalated else found.confidence)


def _goal(workspace: Workspace, id: str | None) -> Goal | None:
    try:
        return load_goal(workspace, id) if id is not None else None
    except HiveError:
        return None


def _shown(row: JudgedCase, workspace: Workspace) -> str:
    goal, decided = _goal(workspace, row.goal_id), row.proposal
    case: Mapping[str, Any] = {
        "goal": goal.description if goal is not None else row.goal_type,
        "result": _text(row)[:LONGEST],
        "judge": None if decided is None else decided[0],
        "person": _said(row),
    }
    return json.dumps(case, ensure_ascii=False)


def _text(row: JudgedCase) -> str:
    return row.result if isinstance(row.result, str) else json.dumps(row.result, ensure_ascii=False, default=str)


def _require_sound(prompt: str, now: str, cases: Sequence[JudgedCase]) -> None:
    """Raise HIVE-409 for a prompt without a variable, and for one that repeats a case: all runs are judged by it."""
    why, shown = None, ""
    goal, result, fence = (secrets.token_hex(8) for _ in range(3))
    try:
        shown = prompts.filled(prompt, "the proposed prompt", goal=goal, context="", result=result, fence=fence)
    except HiveError as error:
        why = error.diagnostics[0].message
    parts = shown.split(fence)
    is_fenced = len(parts) % 2 == 1 and result in "".join(parts[1::2]) and result not in "".join(parts[::2])
    if why is None and not (is_fenced and goal in shown):
        why = "it lacks $goal, or has $result elsewhere than between two of $fence"
    elif any((_windows(prompt) - _windows(now)) & _windows(_words_of(row.result)) for row in cases):
        why = "it quotes what somebody's work says"
    if why is not None:
        raise HiveError.of("HIVE-409", f"the model's prompt can't be used: {why}", fix="ask again: hive judge propose")


def _words_of(result: Any) -> str:
    """Return all texts of a result, without what JSON makes of their line ends."""
    if isinstance(result, dict):
        result = [part for pair in result.items() for part in pair]
    return " ".join(map(_words_of, result)) if isinstance(result, list) else str(result)


def _windows(text: str) -> set[tuple[str, ...]]:
    words = _WORD.findall(text.casefold())
    return {tuple(words[at : at + QUOTED]) for at in range(len(words) - QUOTED + 1)}
