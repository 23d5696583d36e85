"""Which tools an agent may call: ordered globs, and a person for everything that nobody thought of."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Annotated, Literal

from hive_agents.files import AnyCase, Format

ToolDecision = Annotated[Literal["allow", "ask", "deny"], AnyCase]


class ToolRule(Format):
    """`match` is a glob over a tool's name: `*`, `?`, `[…]`."""

    match: str
    decision: ToolDecision


class ToolPolicy:
    """The first rule that matches decides; a tool that none matches is asked about.

    >>> policy = ToolPolicy([ToolRule(match="search_*", decision="allow"), ToolRule(match="*_secret", decision="deny")])
    >>> [policy.decide(tool) for tool in ("search_documents", "read_secret", "send_mail")]
    ['allow', 'deny', 'ask']
    """

    def __init__(self, rules: Iterable[ToolRule] = ()) -> None:
        self.rules = tuple(rules)

    def decide(self, tool: str) -> Literal["allow", "ask", "deny"]:
        return next((rule.decision for rule in self.rules if fnmatchcase(tool, rule.match)), "ask")
