"""Is a node done? What is implied by its outputs, then its own judge, then its success criteria."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from hive_agents.agents.effects import Done
from hive_agents.agents.judges import NodeAction, NodeContext, NodeVerdict, node_verdict
from hive_agents.agents.models import complete, need
from hive_agents.agents.node_work import NodeWork
from hive_agents.agents.spec import NodeSpec
from hive_agents.judging import EscalationReason, Judgment, JudgmentAction, Signal
from hive_agents.memory import Entry
from hive_agents.models import Message, ModelError, Usage, prompts


class SubagentJudge:
    """Accepts a sub-agent's work when every output key is set; its feedback becomes urgent as iterations run out.

    >>> judge = SubagentJudge(["verdict"], max_iterations=3)
    >>> [judge.evaluate(NodeContext(iteration=n)).feedback for n in (1, 2)]  # doctest: +NORMALIZE_WHITESPACE
    ['Missing outputs: verdict. Only 2 iterations are left: set them now with set_output.',
     'Missing outputs: verdict. Only 1 iteration is left: set them now with set_output.']
    >>> judge.evaluate(NodeContext(accumulator={"verdict": "holds"})).action
    'accept'
    """

    def __init__(self, output_keys: Sequence[str], max_iterations: int = 50, nullable: Sequence[str] = ()) -> None:
        self.output_keys = tuple(output_keys)
        self.max_iterations = max_iterations
        self.nullable = frozenset(nullable)

    def evaluate(self, context: NodeContext) -> NodeVerdict:
        values = context.accumulator
        missing = [key for key in self.output_keys if values.get(key) is None and key not in self.nullable]
        if not missing:
            return NodeVerdict(action="accept")
        left = self.max_iterations - context.iteration
        feedback = f"Missing outputs: {', '.join(missing)}."
        if left <= 0:
            return NodeVerdict(action="retry", feedback=f"{feedback} This was the last iteration.")
        if left <= max(2, self.max_iterations // 5):
            remaining = "1 iteration is" if left == 1 else f"{left} iterations are"
            feedback += f" Only {remaining} left: set them now with set_output."
            return NodeVerdict(action="retry", feedback=feedback)
        return NodeVerdict(action="retry", feedback=f"{feedback} Set each with set_output.")


_RECENT = 12
_CHARS = 2_000
_OUTPUTS = 30_000
_SCHEMA = {
    "title": "node_verdict",
    "description": "Whether the phase is done.",
    "type": "object",
    "properties": {"action": {"type": "string"}, "feedback": {"type": "string"}},
    "required": ["action"],
}


class LevelVerdict(NamedTuple):
    """A verdict, the level that gave it, and the reason of an escalation."""

    action: NodeAction
    level: int
    feedback: str | None = None
    reason: EscalationReason | None = None
    usage: Usage = Usage()
    outage: bool = False


async def verdict(work: NodeWork, turn: Message, iteration: int) -> LevelVerdict:
    """Return the verdict of the first level that has one."""
    implied = at_level_0(work, turn, iteration)
    if implied is not None:
        return implied
    judge = work.node.judge
    if judge is not None:
        context = NodeContext(
            assistant_text=turn.content,
            tool_calls=turn.tool_calls,
            accumulator=work.outputs.values,
            iteration=iteration,
        )
        node_decision = await node_verdict(judge, context)
        failed = node_decision.action == "escalate" and (node_decision.feedback or "").startswith(
            "the node's judge failed"
        )
        reason: EscalationReason | None = (
            None if node_decision.action != "escalate" else "model_error" if failed else "rule_escalate"
        )
        return LevelVerdict(node_decision.action, 1, node_decision.feedback, reason)
    assert work.node.success_criteria, "else level 0 decides"
    return await _by_criteria(work, work.node.success_criteria, f"{work.key}/{iteration}/verdict")


def is_judged(node: NodeSpec) -> bool:
    """Return whether a level above 0 judges the node's work."""
    return node.judge is not None or bool(node.success_criteria)


def at_level_0(work: NodeWork, turn: Message, iteration: int) -> LevelVerdict | None:
    """Return the verdict of level 0; None where another level decides.

    A turn that called tools continues, unless all outputs are set.
    """
    node, values = work.node, work.outputs.values
    missing = [key for key in node.output_keys if key not in node.nullable_output_keys and values.get(key) is None]
    working = any(call.name != "set_output" for call in turn.tool_calls)
    if working and (missing or not values):
        return LevelVerdict("continue", 0)
    if missing and work.delegated:
        strict = SubagentJudge(node.output_keys, node.max_iterations, node.nullable_output_keys)
        return LevelVerdict("retry", 0, strict.evaluate(NodeContext(accumulator=values, iteration=iteration)).feedback)
    if missing:
        return LevelVerdict("retry", 0, f"These outputs are not set: {', '.join(missing)}. Set each with set_output.")
    if node.output_keys and not values:
        keys = ", ".join(node.output_keys)
        return LevelVerdict(
            "retry", 0, f"None of the outputs is set: {keys}. Set one, or say that there is none with null."
        )
    return None if is_judged(node) else LevelVerdict("accept", 0)


async def _by_criteria(work: NodeWork, criteria: str, key: str) -> LevelVerdict:
    text = prompts.load(
        "node_judge",
        work.session.workspace,
        criteria=criteria,
        outputs=_outputs_json(work.outputs.values),
        conversation=recent(work.session.store.messages(work.conversation)),
        fence=f"-----{secrets.token_hex(8)}-----",
    )
    messages, tell = [Message(role="user", content=text)], work.session.effects.sending(key)
    chain = work.session.models("judge")
    await work.session.effects.require(key, **need(chain, messages))
    try:
        result = await complete(chain, messages, schema=_SCHEMA, tell=tell)
    except ModelError as error:
        reason: EscalationReason = "unparsable" if error.kind in ("garbage", "truncated") else "model_error"
        why = f"the criteria could not be judged: {error}"[:500]
        return LevelVerdict("escalate", 2, why, reason, error.usage, error.outage)
    answer = result.structured or {}
    action = str(answer.get("action", "")).strip().lower()
    feedback = answer.get("feedback")
    if action == "accept":
        return LevelVerdict("accept", 2, feedback, None, result.usage)
    if action == "retry":
        return LevelVerdict("retry", 2, feedback or f"The criteria are not met: {criteria}", None, result.usage)
    return LevelVerdict("escalate", 2, f'the judge said "{action[:40]}"', "unparsable", result.usage)


def _outputs_json(outputs: Mapping[str, Any]) -> str:
    """Return the outputs as JSON; where they are too long each is cut to an equal share, and marked as cut."""
    full_text = json.dumps(outputs, ensure_ascii=False)
    if len(full_text) <= _OUTPUTS:
        return full_text
    share, lines = _OUTPUTS // len(outputs), []
    for key, value in outputs.items():
        text = json.dumps(value, ensure_ascii=False)
        note = f" (the first {share:,} of {len(text):,} characters)" if len(text) > share else ""
        lines.append(f"{key}{note}: {text[:share]}")
    return "\n".join(lines)


def recent(entries: Sequence[Entry]) -> str:
    """Return the end of a conversation, one line of JSON for each message."""
    lines = []
    for entry in entries[-_RECENT:]:
        line: dict[str, Any] = {"role": entry.message.role, "text": entry.message.content[-_CHARS:]}
        if entry.message.tool_calls:
            line["calls"] = [
                {"name": call.name, "args": json.dumps(call.args, ensure_ascii=False)[:_CHARS]}
                for call in entry.message.tool_calls
            ]
        lines.append(json.dumps(line, ensure_ascii=False))
    return "\n".join(lines)


def judgment_of(verdict: LevelVerdict) -> Judgment:
    """Return an escalation as the decision log stores it."""
    action = JudgmentAction.ESCALATE
    reasoning = verdict.feedback or "the node's judge escalated"
    signal = Signal(source="rule" if verdict.level == 1 else "llm", action=action, confidence=1.0, detail=reasoning)
    reason = verdict.reason or "rule_escalate"
    return Judgment(action=action, confidence=1.0, reasoning=reasoning, escalation_reason=reason, signals=[signal])


def recorded(verdict: LevelVerdict) -> Done:
    result = {"action": verdict.action, "level": verdict.level, "feedback": verdict.feedback, "reason": verdict.reason}
    return Done(result | {"outage": verdict.outage}, verdict.usage)
