"""Evaluators: one interface to our chat models, LangChain's and async functions."""

from __future__ import annotations

import hashlib
import inspect
import json
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, Protocol

from hive_agents.base import fenced
from hive_agents.goals import Goal
from hive_agents.judging.deadline import within
from hive_agents.judging.verdict import EscalationReason, FeedbackContext, Judgment, JudgmentAction, Signal
from hive_agents.models import prompts

if TYPE_CHECKING:
    from hive_agents.models import Usage
    from hive_agents.workspace import Workspace

DEADLINE = 8.0
SCHEMA: dict[str, Any] = {
    "title": "judgment",
    "description": "The verdict on a result.",
    "type": "object",
    "properties": {
        "action": {"type": "string", "enum": [action.value for action in JudgmentAction]},
        "confidence": {"type": "number", "description": "from 0 to 1"},
        "reasoning": {"type": "string"},
        "feedback": {"type": "string", "description": "what to mend; for retry and replan"},
        "violations": {"type": "array", "items": {"type": "string"}, "description": "ids of broken constraints"},
    },
    "required": ["action", "confidence", "reasoning"],
}

AsyncEvaluator = Callable[[Goal, Any, FeedbackContext | None], Awaitable[Judgment]]


class Abstention(Exception):
    """Raised by an evaluator that has nothing to say of a result, and leaves the verdict to the others."""


class EvaluatorFault(Exception):
    """No usable verdict; `reason` says why a person decides instead.

    With `outage` the evaluator couldn't be reached.
    """

    def __init__(self, reason: EscalationReason, detail: str, *, outage: bool = False) -> None:
        super().__init__(detail)
        self.reason: EscalationReason = reason
        self.detail = detail
        self.outage = outage


class Evaluator(Protocol):
    @property
    def fingerprint(self) -> str: ...

    async def __call__(self, goal: Goal, result: Any, context: FeedbackContext | None) -> Judgment: ...


def evaluator(source: Any, workspace: Workspace | None = None) -> Evaluator:
    """Return an evaluator of a chat model (`complete`), a LangChain model (`with_structured_output`) or an async
    function."""
    deadline = workspace.settings.models.deadline_seconds if workspace is not None else DEADLINE
    if isinstance(source, ModelEvaluator | FunctionEvaluator | Unavailable):
        return source
    if hasattr(source, "complete") or hasattr(source, "with_structured_output"):
        return ModelEvaluator(source, workspace=workspace, deadline=deadline)
    if callable(source):
        return FunctionEvaluator(source, deadline=deadline)
    raise TypeError(f"{type(source).__name__} is neither a chat model nor an async function")


def fingerprint_of(evaluators: Sequence[Evaluator]) -> str:
    """Return the only evaluator's fingerprint, a panel's joint one, or "none"."""
    fingerprints = sorted(each.fingerprint for each in evaluators)
    return hashed(*fingerprints) if len(fingerprints) > 1 else "".join(fingerprints) or "none"


class FunctionEvaluator:
    """An async function (goal, result, context) -> Judgment; its errors are faults, and so is a timeout; by raising
    `Abstention` it has no opinion.

    The deadline, in seconds, takes effect where the function awaits something.
    """

    def __init__(self, function: AsyncEvaluator, *, deadline: float = DEADLINE) -> None:
        self._function, self._deadline = function, deadline

    @property
    def fingerprint(self) -> str:
        """The function's own attribute `fingerprint`, which should change with what it measures; else its name's."""
        declared = getattr(self._function, "fingerprint", None)
        named = self._function if hasattr(self._function, "__qualname__") else type(self._function)
        return str(declared) if declared is not None else hashed(named.__module__, named.__qualname__)

    async def __call__(self, goal: Goal, result: Any, context: FeedbackContext | None) -> Judgment:
        async def call() -> Any:
            answer: Any = self._function(goal, result, context)
            return await answer if inspect.isawaitable(answer) else answer

        answer = await _within(self._deadline, call())
        if isinstance(answer, Judgment):
            answer = answer.model_dump()  # to be validated: model_construct checks nothing
        return read_verdict(answer)


class ModelEvaluator:
    """A chat model with the prompt `judge`, or `text` in its place; `on_usage` is called with the cost of
    each call. `examples`, people's verdicts on other work, follow the prompt."""

    def __init__(
        self,
        model: Any,
        *,
        workspace: Workspace | None = None,
        text: str | None = None,
        deadline: float = DEADLINE,
        on_usage: Callable[[Usage], None] | None = None,
        examples: str = "",
    ) -> None:
        self._model, self._workspace, self._text, self._deadline = model, workspace, text, deadline
        self._on_usage, self._examples = on_usage, examples

    def counted(self, on_usage: Callable[[Usage], None]) -> ModelEvaluator:
        """Return the same evaluator with this `on_usage`."""
        same = copy(self)
        same._on_usage = on_usage
        return same

    def with_examples(self, examples: str) -> ModelEvaluator:
        """Return the same evaluator with these examples."""
        same = copy(self)
        same._examples = examples
        return same

    @property
    def _template(self) -> str:
        return self._text if self._text is not None else prompts.template("judge", self._workspace)

    @property
    def fingerprint(self) -> str:
        """Changes with the model's name, the prompt or the rubric: a calibration holds for one of these only."""
        name = next((str(found) for key in ("name", "model_name", "model", "model_id")
                     if (found := getattr(self._model, key, None))), type(self._model).__name__)  # fmt: skip
        return hashed(name, self._template, json.dumps(SCHEMA, sort_keys=True))

    async def __call__(self, goal: Goal, result: Any, context: FeedbackContext | None) -> Judgment:
        text = self._prompt_text(goal, result, context)
        try:
            call = self._complete(text) if hasattr(self._model, "complete") else self._langchain(text)
            answer = await _within(self._deadline, call)
        except EvaluatorFault as fault:
            usage = getattr(fault.__cause__, "usage", None)
            if self._on_usage is not None and usage is not None:
                self._on_usage(usage)
            raise
        answer = answer.model_dump() if hasattr(answer, "model_dump") else answer
        if isinstance(answer, Mapping):
            answer = {key: answer[key] for key in SCHEMA["properties"] if key in answer}
        return read_verdict(answer)

    def _prompt_text(self, goal: Goal, result: Any, context: FeedbackContext | None) -> str:
        described = goal.model_dump(mode="json", exclude={"eval_cases"}, exclude_none=True)
        text = prompts.filled(
            self._template,
            "prompts/judge.md",
            goal=_shown(described),
            context="Nothing." if context is None else fenced(_shown(context.model_dump(mode="json"))),
            result=_shown(result),
            # Random, so that nothing in the result can close the fence.
            fence=f"=====  {secrets.token_hex(8)}  =====",
        )
        examples = f"\n\n# What people said of similar work\n{fenced(self._examples)}" if self._examples else ""
        return text + examples

    async def _complete(self, text: str) -> Any:
        from hive_agents.models import Message

        messages = [Message(role="user", content=text)]
        answer = await self._model.complete(messages, schema=SCHEMA, deadline=self._deadline)
        if self._on_usage is not None:
            self._on_usage(answer.usage)
        return answer.structured

    async def _langchain(self, text: str) -> Any:
        from hive_agents.models import IN_WORDS, untraced, validated

        with untraced():
            try:
                structured = self._model.with_structured_output(SCHEMA, include_raw=True)
            except NotImplementedError:  # the base class's: a model without tools is asked in words
                words = f"{text}\n\n{IN_WORDS}{json.dumps(SCHEMA)}"
                answer = {"raw": await self._model.ainvoke([("user", words)]), "parsed": None}
            else:
                answer = await structured.ainvoke([("user", text)])
        if not isinstance(answer, Mapping) or "parsed" not in answer:
            return answer
        raw: Any = answer.get("raw")
        self._count(raw)
        if answer.get("parsing_error") is not None:
            raise EvaluatorFault("unparsable", str(answer["parsing_error"])[:500])
        if getattr(raw, "content", None) and not getattr(raw, "tool_calls", None):
            # LangChain reads the first of several objects in a text, which may be a quoted one, or none at all.
            from_text = validated(str(raw.text), {"type": "object"})
            return from_text if answer["parsed"] is None else answer["parsed"]
        return answer["parsed"]

    def _count(self, raw: Any) -> None:
        from hive_agents.models import Usage

        usage = getattr(raw, "usage_metadata", None)
        if self._on_usage is not None and usage:
            tokens = {key: usage.get(key, 0) for key in ("input_tokens", "output_tokens")}
            self._on_usage(Usage(**tokens, priced=False))


class Unavailable:
    """An evaluator that couldn't be opened: every verdict is left to a person."""

    fingerprint = "unavailable"

    def __init__(self, why: str) -> None:
        self._why = why

    async def __call__(self, goal: Goal, result: Any, context: FeedbackContext | None) -> Judgment:
        raise EvaluatorFault("model_error", self._why)


def read_verdict(answer: Any) -> Judgment:
    """Return the judgment in an answer. Raises: EvaluatorFault, `unparsable` or `confidence_out_of_range`."""
    if not isinstance(answer, Mapping):
        raise EvaluatorFault("unparsable", f"the answer is a {type(answer).__name__} and no verdict")
    confidence = answer.get("confidence")
    if isinstance(confidence, bool) or not isinstance(confidence, int | float):
        raise EvaluatorFault("unparsable", f"the confidence is {str(confidence)[:40]!r}")
    if not 0 <= confidence <= 1:
        shown = confidence if isinstance(confidence, float) or abs(confidence) < 10**12 else "a huge number"
        raise EvaluatorFault("confidence_out_of_range", f"the confidence is {shown}, not from 0 to 1")
    fields = {key: value for key, value in answer.items() if key in Judgment.model_fields and value is not None}
    try:
        return Judgment.model_validate(fields)
    except ValueError as error:
        raise EvaluatorFault("unparsable", str(error)[:500]) from None


def signals_of(judgment: Judgment) -> list[Signal]:
    """Return the signals of the judgment; without any, its verdict as a model's signal."""
    if judgment.signals:
        return list(judgment.signals)
    detail = judgment.reasoning
    return [Signal(source="llm", action=judgment.action, confidence=judgment.confidence, detail=detail)]


async def _within(seconds: float, call: Awaitable[Any]) -> Any:
    """Return the answer. Raises: EvaluatorFault for every error but those that end the process or the current task."""
    try:
        return await within(seconds, call)
    except (EvaluatorFault, Abstention):
        raise
    except TimeoutError as error:
        raise EvaluatorFault("model_error", f"no answer within {seconds:g} s", outage=True) from error
    except Exception as error:
        from hive_agents.models import is_outage

        unread = getattr(error, "kind", None) in ("garbage", "truncated")
        garbage = unread or type(error).__name__ == "OutputParserException"
        raise EvaluatorFault(
            "unparsable" if garbage else "model_error", error_text(error), outage=is_outage(error)
        ) from error


def error_text(error: BaseException) -> str:
    """Return the type and text of an error; the type alone where its `str` fails."""
    try:
        return f"{type(error).__name__}: {error}"[:500]
    except Exception:
        return type(error).__name__


def hashed(*parts: str) -> str:
    """Return the fingerprint of what these parts describe."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False, default=str)
