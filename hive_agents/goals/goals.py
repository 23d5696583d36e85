"""Goals: their success criteria, constraints and eval cases."""

from __future__ import annotations

import unicodedata
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_serializer, model_validator

from hive_agents.base import Diagnostic, HiveError, NotFound, did_you_mean
from hive_agents.base.files import AnyCase, FileFormat, Format, Name, jsontext, load_value
from hive_agents.goals.expressions import parse, parsing
from hive_agents.goals.patterns import compiled

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hive_agents.workspace import Workspace

Metric = Literal[
    "llm_judge",
    "output_contains",
    "output_equals",
    "output_matches",
    "numeric_at_least",
    "numeric_at_most",
    "call_succeeded",
    "custom",
]
MAX_PATTERN = 1_000
CHECK_NAMES = ("result", "goal", "attempt", "tool", "args")
CALL_NAMES = ("args",)


def goal_type_of(name: str) -> str:
    """Return the normal form of a goal type, for comparison and storage: case-folded, in NFKC, with single spaces.

    >>> goal_type_of(" Code  Review"), goal_type_of(" ")
    ('code review', '')
    """
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


def _named(goal_type: str) -> str:
    if not goal_type:
        raise ValueError("a goal type needs a name")
    return goal_type


GoalType = Annotated[str, AfterValidator(goal_type_of)]
NamedGoalType = Annotated[GoalType, AfterValidator(_named)]


class CapabilityLevel(StrEnum):
    """How well an agent can serve a goal.

    >>> CapabilityLevel("uncertain") is CapabilityLevel.UNCERTAIN
    True
    """

    CANNOT_HANDLE = "cannot_handle"
    UNCERTAIN = "uncertain"
    CAN_HANDLE = "can_handle"
    BEST_FIT = "best_fit"

    @property
    def rank(self) -> int:
        """From 0, cannot handle, to 3, best fit; strings would compare by the alphabet.

        >>> max(CapabilityLevel, key=lambda level: level.rank)
        <CapabilityLevel.BEST_FIT: 'best_fit'>
        """
        return list(CapabilityLevel).index(self)


class SuccessCriterion(Format):
    """One measure of success.

    `target` is the text or value to find, the pattern, or the number to reach; for a number it may be
    `{"field": "accuracy", "value": 0.9}`. For `call_succeeded` it names the tool to be called with success, for
    `custom` the registered callable; where it names none, the id does, and the callable finds its target in the goal.

    >>> SuccessCriterion(id="secure", metric="output_contains", target="bcrypt", weight=0.3).metric
    'output_contains'
    """

    id: Name
    description: str = ""
    metric: Annotated[Metric, AnyCase] = "llm_judge"
    target: Any = None
    weight: Annotated[float, Field(gt=0)] = 1.0

    @model_validator(mode="after")
    def _target_fits(self) -> Self:
        if self.metric.startswith(("output", "numeric")) and "target" not in self.model_fields_set:
            raise ValueError(f'metric "{self.metric}" needs a "target"')
        if self.metric == "output_matches":
            _check_pattern(self.target)
        if self.metric.startswith("numeric"):
            target = self.target
            if isinstance(target, dict) and set(target) == {"field", "value"} and isinstance(target["field"], str):
                target = target["value"]
            if isinstance(target, bool) or not isinstance(target, int | float):
                raise ValueError('"target" has to be a number, or {"field": …, "value": number}')
        if self.metric == "call_succeeded" and (not isinstance(self.target, str) or not self.target):
            raise ValueError('"target" has to name the tool')
        return self


class Constraint(Format):
    """A requirement: a violated hard one escalates, a soft one lowers the satisfaction by `penalty`.

    `check` is a condition that is true unless it is violated; without one the model judges the description. One that
    reads `tool` or `args` is about tool calls: a hard constraint, checked before each call and not on results.

    >>> Constraint(id="small", check="tool != 'issue_refund' or args['amount'] <= 100").of_calls
    True
    """

    id: Name
    description: str = ""
    constraint_type: Annotated[Literal["hard", "soft"], AnyCase] = "hard"
    check: str | None = None
    penalty: Annotated[float, Field(ge=0, le=1)] = 0.1

    @field_validator("check")
    @classmethod
    def _check_is_a_condition(cls, check: str | None) -> str | None:
        if check is not None:
            parse(check, CHECK_NAMES)
        return check

    @model_validator(mode="after")
    def _stops_calls(self) -> Self:
        if self.of_calls and self.constraint_type != "hard":
            raise ValueError('a "check" that reads "tool" or "args" needs constraint_type "hard"')
        return self

    @property
    def condition(self) -> parsing.Expression | None:
        return None if self.check is None else parse(self.check, CHECK_NAMES)

    @property
    def of_calls(self) -> bool:
        condition = self.condition
        return condition is not None and (condition.uses("tool") or condition.uses("args"))


def _is_condition(when: str | None) -> str | None:
    if when is not None:
        parse(when, CALL_NAMES)
    return when


CallCondition = Annotated[str | None, AfterValidator(_is_condition)]
"""A condition over a call's `args`."""


class ToolStub(Format):
    """A tool's result in an eval case, without running it: `returns`, or an `error`; only where `when` holds.

    With `times` it is used at most so often, then the next stub that fits.
    """

    when: CallCondition = None
    times: Annotated[int, Field(ge=1)] | None = None
    returns: Any = None
    error: str | None = None

    @model_serializer(mode="wrap")
    def _without_unset(self, dump: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        """Omit an unset `times`, so that goals deployed before it existed have the same hash."""
        return {name: value for name, value in dump(self).items() if name != "times" or value is not None}


class ExpectedCall(Format):
    """A call of `tool`, with arguments for which `when` holds."""

    tool: str
    when: CallCondition = None


def _call(value: Any) -> Any:
    return {"tool": value} if isinstance(value, str) else value


AnyCall = Annotated[ExpectedCall, BeforeValidator(_call)]


class ExpectedCalls(Format):
    """The calls that an eval case expects: `order` in this order, others between them allowed; `never` none of these;
    `asks` those that need a person's approval."""

    order: list[AnyCall] = []
    never: list[AnyCall] = []
    asks: list[AnyCall] = []


class EvalCase(Format):
    """An input with an expected result: `expect` has values by key, or success criteria.

    `tools` are stubs by the name of the tool. `person` answers each call that needs approval; without it such a call
    fails the case. `at_most` limits the costs.
    """

    id: Name
    input: Any = None
    expect: dict[str, Any] | list[SuccessCriterion]
    tools: dict[str, ToolStub | list[ToolStub]] | None = None
    calls: ExpectedCalls | None = None
    person: Annotated[Literal["approve", "reject"], AnyCase] | None = None
    at_most: dict[Literal["steps", "tokens", "usd"], Annotated[float, Field(ge=0)]] | None = None

    @model_serializer(mode="wrap")
    def _without_unset(self, dump: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        """Omit unset fields, so that goals deployed before these existed have the same hash."""
        return {name: value for name, value in dump(self).items() if value is not None or name == "input"}


class Goal(FileFormat):
    """A goal; `context` holds domain knowledge and preferences.

    `goal_type` is normalized to lower case: conditions compare it as `goal['goal_type'] == 'security'`.

    >>> goal = Goal(id="greet", name="Greet", description="Say hello",
    ...             success_criteria=[SuccessCriterion(id="hello", metric="output_contains", target="hello")])
    >>> goal.success_criteria[0].weight
    1.0
    """

    id: Name
    name: str
    description: str = ""
    goal_type: GoalType | None = None
    success_criteria: list[SuccessCriterion] = []
    constraints: list[Constraint] = []
    context: dict[str, Any] = {}
    eval_cases: list[EvalCase] = []

    @model_validator(mode="after")
    def _ids_are_unique(self) -> Self:
        for key in _LISTS:
            ids = [entry.id for entry in getattr(self, key)]
            twice = next((name for name in ids if ids.count(name) > 1), None)
            if twice is not None:
                raise ValueError(f'"{twice}" stands twice in {key}')
        return self


_LISTS = ("success_criteria", "constraints", "eval_cases")


def load_goal(workspace: Workspace, id: str) -> Goal:
    """Return the goal in `goals/<id>.json`.

    Raises: HIVE-107 without such a file, HIVE-101 to HIVE-113 for all faults in it.
    """
    path = _path(workspace, id)
    file = workspace.relative(path)
    text = jsontext.load_text(path, file)
    value = jsontext.parse(text, file)
    twice = [_twice(key, number, name, file, text) for key, number, name in _repeated(value)]
    if twice:
        raise HiveError(twice)
    goal = load_value(Goal, value, file, text)
    jsontext.require_own_name("goal", goal.id, id, file, text)
    return goal


def goal_ids(workspace: Workspace) -> list[str]:
    return sorted(path.stem for path in _files(workspace))


def _files(workspace: Workspace) -> list[Path]:
    """Return the files of `goals/`. Raises: HIVE-104 for other entries, HIVE-111 for two of one name."""
    files, faults = workspace.json_files("goals")
    stems = [path.stem for path in files]
    for name in sorted({stem for stem in stems if stems.count(stem) > 1}):
        faults.append(Diagnostic("HIVE-111", f'two files hold the goal "{name}"', "goals", name, "remove one"))
    if faults:
        raise HiveError(faults)
    return files


def _path(workspace: Workspace, id: str) -> Path:
    paths = {path.stem: path for path in _files(workspace)}
    if id not in paths:
        fix = did_you_mean(id, paths, f"write goals/{id}.json")
        raise NotFound.of("HIVE-107", f'there is no goal "{id}"', file=f"goals/{id}.json", path="$", fix=fix)
    return paths[id]


def _repeated(value: Any) -> list[tuple[str, int, str]]:
    """Return (list, index, id) of every id that occurs earlier in its list."""
    repeated = []
    for key in _LISTS:
        entries = value.get(key) if isinstance(value, dict) else None
        seen: set[str] = set()
        for number, entry in enumerate(entries if isinstance(entries, list) else []):
            name = entry.get("id") if isinstance(entry, dict) else None
            if isinstance(name, str):
                if name in seen:
                    repeated.append((key, number, name))
                seen.add(name)
    return repeated


def _twice(key: str, number: int, name: str, file: str, text: str) -> Diagnostic:
    line = jsontext.line_of(text, [key, number, "id"])
    return Diagnostic("HIVE-111", f'"{name}" stands twice', file, f"{key}[{number}].id", "give it another id", line)


def _check_pattern(pattern: Any) -> None:
    if not isinstance(pattern, str) or len(pattern) > MAX_PATTERN:
        raise ValueError(f'"target" has to be a regular expression of at most {MAX_PATTERN} characters')
    try:
        compiled(pattern)
    except ValueError as error:
        raise ValueError(f"not a regular expression that linear time suffices for: {error}") from None
