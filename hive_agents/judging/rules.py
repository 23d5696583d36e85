"""Rules: final verdicts from conditions that people wrote or approved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import PrivateAttr, ValidationError, field_validator, model_validator

from hive_agents.base import Diagnostic, HiveError
from hive_agents.base.files import AnyCase, FileFormat, Name, diagnostics_of, formats, jsontext, read_bytes
from hive_agents.goals import goal_type_of, goals
from hive_agents.goals.expressions import ExpressionError, parse, parsing
from hive_agents.judging.decisions import SECURITY
from hive_agents.judging.verdict import Action

if TYPE_CHECKING:
    from hive_agents.goals import Goal
    from hive_agents.workspace import Workspace

LEARNED = "learned_"
LEARNED_BELOW = 200


class InvalidRule(HiveError, ValueError):
    """An invalid rule, with its diagnostics."""


class EvaluationRule(FileFormat):
    """When `condition` holds for a result, `action` is the verdict.

    >>> rule = EvaluationRule(id="security_violation", condition="'eval(' in result.get('code', '')", action="escalate")
    >>> rule.matches({"code": "eval(x)"})
    True
    """

    id: Name
    condition: str
    action: Action
    description: str = ""
    priority: int = 0
    goal_types: list[goals.NamedGoalType] = []
    metadata: dict[str, Any] = {}
    mode: Annotated[Literal["active", "shadow"], AnyCase] = "active"
    _expression: parsing.Expression = PrivateAttr()

    if not TYPE_CHECKING:

        def __init__(self, **values: Any) -> None:
            try:
                super().__init__(**values)
            except ValidationError as error:
                raise InvalidRule(diagnostics_of(error, EvaluationRule, values, f"rule {values.get('id')}")) from None

    @field_validator("condition")
    @classmethod
    def _parses(cls, condition: str) -> str:
        parse(condition)
        return condition

    @model_validator(mode="after")
    def _learned_stay_below(self) -> Self:
        if self.learned and self.priority >= LEARNED_BELOW:
            raise ValueError(f"the priority of a learned rule stays below {LEARNED_BELOW}")
        return self

    def model_post_init(self, context: Any) -> None:
        self._expression = parse(self.condition)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = True) -> Self:
        """Return a validated copy with its condition parsed. Raises: InvalidRule."""
        return type(self)(**(self.model_dump() | dict(update or {})))

    @property
    def learned(self) -> bool:
        return self.id.startswith(LEARNED) or self.metadata.get("source") == "learned"

    @property
    def tier(self) -> int:
        """0 for security rules that a person wrote, which precede all learned ones; else 1."""
        tier = self.metadata.get("tier")
        security = SECURITY in self.goal_types or (isinstance(tier, str) and goal_type_of(tier) == SECURITY)
        return 0 if security and not self.learned else 1

    def applies_to(self, goal_type: str | None) -> bool:
        return not self.goal_types or (isinstance(goal_type, str) and goal_type_of(goal_type) in self.goal_types)

    def matches(self, result: Any, goal: Goal | dict[str, Any] | None = None, attempt: int = 1) -> bool:
        """Return whether the condition holds; without a goal `goal` is an empty dict, and goal types don't matter.

        Raises: ExpressionError when the condition can't be evaluated on this result.
        """
        names = names_of(result, goal, attempt)
        if goal is not None and not self.applies_to(names["goal"].get("goal_type")):
            return False
        return self.holds(names)

    def holds(self, names: dict[str, Any]) -> bool:
        """Return whether the condition holds for names from `names_of`, whatever the goal's type."""
        return bool(self._expression.evaluate_plain(names))


def names_of(result: Any, goal: Goal | dict[str, Any] | None, attempt: int = 1) -> dict[str, Any]:
    """Return the names that conditions use. Raises: ExpressionError for data that is not plain."""
    try:
        described = {} if goal is None else dict(goal) if isinstance(goal, dict) else goal.model_dump(mode="json")
    except ValueError:
        raise ExpressionError("the goal's context holds more than plain data") from None
    if isinstance(described.get("goal_type"), str):
        described["goal_type"] = goal_type_of(described["goal_type"])
    return parsing.plain_names({"result": result, "goal": described}) | {"attempt": attempt}


def in_order(rules: Iterable[EvaluationRule]) -> list[EvaluationRule]:
    """Return the rules in the order of evaluation: people's security rules, then by falling priority, then by id."""
    return sorted(rules, key=lambda rule: (rule.tier, -rule.priority, rule.id))


@dataclass(frozen=True)
class Decided:
    """The rule that decided, and its error where it raised."""

    rule: EvaluationRule
    error: str | None = None


def decide(rules: Iterable[EvaluationRule], names: dict[str, Any]) -> Decided | None:
    """Return the first of `rules`, which are in order, that matches or raises. `names` as from `names_of`."""
    goal_type = names["goal"].get("goal_type")
    for rule in rules:
        if not rule.applies_to(goal_type):
            continue
        try:
            if rule.holds(names):
                return Decided(rule)
        except ExpressionError as error:
            return Decided(rule, str(error))
    return None


def tried(rules: Iterable[EvaluationRule], names: dict[str, Any]) -> dict[str, bool | None]:
    """Return whether each shadow or learned rule of the goal's type matches, by id; None where it raises."""
    matches: dict[str, bool | None] = {}
    for rule in rules:
        if (rule.mode == "shadow" or rule.learned) and rule.applies_to(names["goal"].get("goal_type")):
            try:
                matches[rule.id] = rule.holds(names)
            except ExpressionError:
                matches[rule.id] = None
    return matches


def load_rules(workspace: Workspace) -> list[EvaluationRule]:
    """Return the rules of `rules/*.json` in their order.

    Raises: HiveError with every fault of every file, and every entry of `rules/` that would not be read.
    """
    rules: list[EvaluationRule] = []
    files, faults = workspace.json_files("rules")
    for path in files:
        file = workspace.relative(path)
        try:
            rules.append(_load(read_bytes(path), file, path.stem))
        except OSError as error:
            why = f"{file} cannot be read: {error.strerror}"
            faults.append(Diagnostic("HIVE-403", why, file, "$", "make it readable"))
        except HiveError as error:
            faults += error.diagnostics
    ids = [rule.id for rule in rules]
    for twice in sorted({name for name in ids if ids.count(name) > 1}):
        faults.append(Diagnostic("HIVE-111", f'two files hold the rule "{twice}"', "rules", twice, "remove one"))
    if faults:
        raise HiveError(faults)
    return in_order(rules)


def _load(data: bytes, file: str, name: str) -> EvaluationRule:
    text = jsontext.decode(data, file)
    value = jsontext.parse(text, file)
    if not isinstance(value, dict):
        return formats.load_value(EvaluationRule, value, file, text)
    try:
        rule = EvaluationRule(**value)
    except InvalidRule as error:
        raise HiveError([_placed(each, file, text) for each in error.diagnostics]) from None
    if rule.id != name:
        fix = f'write "id": "{name}", or rename the file'
        mismatch = Diagnostic("HIVE-113", f'the rule in {file} calls itself "{rule.id}"', file, "id", fix)
        raise HiveError([_placed(mismatch, file, text)])
    return rule


def _placed(diagnostic: Diagnostic, file: str, text: str) -> Diagnostic:
    key = (diagnostic.path or "$").split(".")[0].split("[")[0]
    return replace(diagnostic, file=file, line=jsontext.line_of(text, [] if key == "$" else [key]))
