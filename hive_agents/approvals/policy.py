"""The tools that an agent may call: ordered globs; a person is asked about all others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal

from pydantic import field_validator, model_serializer

from hive_agents.base.files import AnyCase, Format
from hive_agents.goals.expressions import ExpressionError, parse

ToolDecision = Literal["allow", "ask", "deny"]
STRICTER: Sequence[ToolDecision] = ("allow", "ask", "deny")
NAMES = ("args", "tool")
"""The names in a rule's condition."""


class ToolRule(Format):
    """`match` is a glob over a tool's name: `*`, `?`, `[…]`.

    With `when`, a condition over `args` and `tool`, the rule matches only calls for which it is true; a call for which
    it can't be evaluated is asked about, or denied if the rule denies.

    >>> rule = ToolRule(match="issue_refund", when="args['amount'] > 50", decision="ask")
    >>> [rule.of("issue_refund", {"amount": amount}) for amount in (51, 50, "a lot")]
    ['ask', None, 'ask']
    """

    match: str
    when: str | None = None
    decision: Annotated[ToolDecision, AnyCase]

    @field_validator("when")
    @classmethod
    def _parses(cls, when: str | None) -> str | None:
        if when is not None:
            parse(when, NAMES)
        return when

    @model_serializer(mode="wrap")
    def _without_unset(self, dump: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        """A rule without a condition is written as before there were any: hashes of agents and requests stay."""
        return {name: value for name, value in dump(self).items() if value is not None}

    def of(self, tool: str, arguments: Mapping[str, Any]) -> ToolDecision | None:
        """Return the rule's decision on a call; None where it doesn't match."""
        if not fnmatchcase(tool, self.match):
            return None
        if self.when is None:
            return self.decision
        try:
            holds = bool(parse(self.when, NAMES).evaluate({"args": dict(arguments), "tool": tool}))
        except ExpressionError:
            return max(self.decision, "ask", key=STRICTER.index)
        return self.decision if holds else None


class ToolPolicy:
    """The first rule that matches decides; a tool that none matches is asked about.

    >>> policy = ToolPolicy([ToolRule(match="search_*", decision="allow"), ToolRule(match="*_secret", decision="deny")])
    >>> [policy.decide(tool) for tool in ("search_documents", "read_secret", "send_mail")]
    ['allow', 'deny', 'ask']
    """

    def __init__(self, rules: Iterable[ToolRule] = (), *, otherwise: ToolDecision = "ask") -> None:
        self.rules = tuple(rules)
        self.otherwise: ToolDecision = otherwise

    def decide(self, tool: str, arguments: Mapping[str, Any] | None = None) -> ToolDecision:
        """Return the decision on a call; without `arguments` the most permissive one of the tool's calls."""
        if arguments is None:
            return min(self._possible(tool), key=STRICTER.index)
        said = (rule.of(tool, arguments) for rule in self.rules)
        return next((decision for decision in said if decision is not None), self.otherwise)

    def _possible(self, tool: str) -> Iterator[ToolDecision]:
        for rule in self.rules:
            if fnmatchcase(tool, rule.match):
                yield rule.decision
                if rule.when is None:
                    return
        yield self.otherwise
