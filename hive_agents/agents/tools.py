"""The tool registry: what an agent may use, and the one way in which a tool is called."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from hive_agents import models
from hive_agents.agents.guards.retries import RetryPolicy, retried
from hive_agents.agents.recorded_code import recorded_code
from hive_agents.agents.tool import Call, Tool, ToolContext, as_result, make_tool
from hive_agents.approvals import STRICTER, ToolDecision, ToolPolicy, ToolRule
from hive_agents.base import Diagnostic, HiveError, NotFound, closest, did_you_mean, schemas
from hive_agents.memory import ToolResult
from hive_agents.models import span
from hive_agents.workspace import credentials
from hive_agents.workspace.credentials import Secret, redacted

_log = logging.getLogger(__name__)


class Tools:
    """A set of tools under policies; views of it have fewer tools or stricter policies, never more.

    Made by `ToolRegistry.view`.
    """

    def __init__(
        self,
        tools: Mapping[str, Tool],
        policies: Sequence[Sequence[ToolRule]] = (),
        *,
        sub_agent: bool = False,
        never: Sequence[Callable[[Call], bool]] = (),
    ) -> None:
        self._tools = dict(tools)
        self._never = tuple(never)
        """Functions that say which calls are denied, whoever approves."""
        self._policies = tuple(tuple(policy) for policy in policies)
        self._sub_agent = sub_agent

    @property
    def names(self) -> list[str]:
        """The tools that can be called here, by name."""
        return sorted(name for name, tool in self._tools.items() if self._sub_agent or not tool.sub_agents_only)

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __getitem__(self, name: str) -> Tool:
        """Raises: HIVE-107 for a tool that isn't here."""
        if name not in self:
            raise _unknown(name, self.names)
        return self._tools[name]

    def view(
        self,
        names: Iterable[str] | None = None,
        *,
        policy: Iterable[ToolRule] | None = None,
        sub_agent: bool = False,
    ) -> Tools:
        """Return the tools of `names` (None: all), under one policy more; the strictest of all policies decides.

        With `sub_agent` those come in that only sub-agents may use, where this view has them.
        Raises: HIVE-107 for a name that isn't here.
        """
        reach = Tools(self._tools, sub_agent=self._sub_agent or sub_agent)
        chosen = self._tools if names is None else {name: reach[name] for name in names}
        policies = self._policies if policy is None else (*self._policies, tuple(policy))
        return Tools(chosen, policies, sub_agent=self._sub_agent or sub_agent, never=self._never)

    def decide(self, name: str, arguments: Mapping[str, Any] | None = None) -> ToolDecision:
        """Return whether a call is allowed, needs a person, or is denied; one that isn't here, or is inert, is denied.

        Where a policy has no rule for it the tool's own decides. Without arguments it is the mildest that any call of
        the tool may get.
        """
        if name not in self or self._tools[name].inert:
            return "deny"
        if arguments is not None and any(is_barred(bar, Call(name, dict(arguments))) for bar in self._never):
            return "deny"
        return decided(self._policies, self._tools[name], arguments)

    def for_model(self) -> list[models.Tool]:
        """Return what a model is offered: every tool here that isn't denied."""
        return [self._tools[name].for_model() for name in self.names if self.decide(name) != "deny"]

    def check(self, name: str, arguments: Mapping[str, Any]) -> list[str]:
        """Return what is wrong with a call, each with its path in the arguments; nothing for a good one."""
        if name not in self:
            return [_unknown(name, self.names).diagnostics[0].message]
        return schemas.faults(dict(arguments), self._tools[name].parameters, closed=True)

    def completed(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a call with the defaults of those that are left out, so that policies and people
        decide about what runs."""
        known = self._tools[name].parameters.get("properties") or {} if name in self else {}
        defaults = {key: held["default"] for key, held in known.items() if isinstance(held, dict) and "default" in held}
        full = {**defaults, **arguments}
        return full if len(full) > len(arguments) and not self.check(name, full) else dict(arguments)

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        context: ToolContext,
        *,
        approved: bool = False,
        retry: RetryPolicy = RetryPolicy(),
        text: Callable[[Any], ToolResult] = as_result,
    ) -> ToolResult:
        """Return what the tool returns, as `text` writes it; whatever goes wrong is a result with `is_error`.

        A tool that `decide` asks about runs only when it is `approved`; a denied one never. Tools that only read are
        tried again after transient errors. Values of credentials are taken out of what comes back.
        """
        known = name if name in self else "unknown"  # a model may call by any name, and put anything into it
        with span(f"execute_tool {known}", gen_ai__operation__name="execute_tool", gen_ai__tool__name=known) as told:
            result = await self._called(name, arguments, context, approved, retry, text)
            told.note(hive__is_error=result.is_error)
            return result

    async def _called(
        self,
        name: str,
        arguments: Mapping[str, Any],
        context: ToolContext,
        approved: bool,
        retry: RetryPolicy,
        text: Callable[[Any], ToolResult],
    ) -> ToolResult:
        wrong = self.check(name, arguments)
        if wrong:
            return _error(name, "; ".join(wrong[:5]) + _hint(name, self.names))
        arguments = self.completed(name, arguments)
        if why := self._tools[name].inert:
            return _error(name, why)
        decision = self.decide(name, arguments)
        if decision == "deny" or (decision == "ask" and not approved):
            return _error(name, "the policy denies it" if decision == "deny" else "a person has to approve it first")
        tool = self._tools[name]
        secrets: dict[str, Secret] = {}
        try:
            for parameter, reference in tool.credentials.items():
                secrets[parameter] = credentials.resolve(context.workspace, reference)

            async def once() -> Any:
                with recorded_code(context.workspace):  # a tool may import when it is called
                    return await tool.action(arguments, context, secrets)

            found = text(await (retried(once, retry) if tool.side_effect == "read" else once()))
        except HiveError as error:
            told = [f"{one.code}: {one.message}" + (f" ({one.fix})" if one.fix else "") for one in error.diagnostics]
            found = _error(name, "; ".join(told[:5]))
        except (Exception, SystemExit, asyncio.CancelledError) as error:  # a tool's own fault must not end the run
            if isinstance(error, asyncio.CancelledError) and _cancelling():
                raise
            _log.warning("the tool %s failed: %s", name, type(error).__name__)
            # Redacted before it is cut: half a credential would not be found.
            found = _error(name, redacted(f"{type(error).__name__}: {error}", secrets.values())[:2_000])
        return ToolResult(redacted(found.content, secrets.values()), found.is_error) if secrets else found


class ToolRegistry(Tools):
    """All the tools there are.

    >>> registry = ToolRegistry()
    >>> def add(a: int, b: int = 1) -> int:
    ...     '''The sum of two numbers.'''
    ...     return a + b
    >>> tool = registry.register(add, policy="allow")
    >>> registry.names, registry.check("add", {"a": "2"}), registry.decide("add")
    (['add'], ["a is '2', not integer"], 'allow')
    """

    def __init__(self) -> None:
        super().__init__({})
        self.missing: list[Diagnostic] = []
        """Why tools that the settings name aren't here."""
        self._left_out: dict[str, Diagnostic] = {}
        self.code: dict[str, Any] = {}
        """The flows, agents, functions and graphs that nodes may be, by name."""

    def over(self, base: ToolRegistry) -> ToolRegistry:
        """Return a registry with these tools, and those of `base` whose names aren't among them."""
        both = ToolRegistry()
        both._tools = base._tools | self._tools
        both.code = base.code | self.code
        both.missing = [*base.missing, *self.missing]
        both._left_out = base._left_out | self._left_out
        return both

    def __getitem__(self, name: str) -> Tool:
        """Raises: HIVE-107 for a tool that isn't here, HIVE-431 where it isn't trusted."""
        if name not in self and (left_out := self.why_left_out(name)) is not None:
            raise HiveError([left_out])
        return super().__getitem__(name)

    def leave_out(self, untrusted: str, names: Sequence[str]) -> None:
        """Note that these tools aren't here for a part that isn't trusted; `NAME__*` are those of a server."""
        come = f"; with it are missing {', '.join(names)}" if names else ""
        fix = "look with `hive trust --diff`, then allow it with `hive trust`"
        why = f"not trusted on this machine, and inert: {untrusted}{come}"
        self.missing.append(Diagnostic("HIVE-431", why, file=untrusted.partition(":")[0], fix=fix))
        self._left_out |= dict.fromkeys(names, self.missing[-1])

    def why_left_out(self, name: str) -> Diagnostic | None:
        """Return why a tool of that name isn't here, None where there is no such reason."""
        return self._left_out.get(name) or self._left_out.get(f"{name.partition('__')[0]}__*")

    def register(self, source: Any, **options: Any) -> Tool:
        """Add a tool; `source` and `options` as for `make_tool`. Views made before don't get it.

        Raises: HIVE-111 for a name that is there, and as `make_tool`.
        """
        tool = source if isinstance(source, Tool) else make_tool(source, **options)
        if tool.name in self._tools:
            raise HiveError.of("HIVE-111", f'there are two tools "{tool.name}"', fix='give one another "name"')
        self._tools[tool.name] = tool
        return tool

    @property
    def all_names(self) -> list[str]:
        """Every tool, those for sub-agents too; what `verify.check_agent` takes for `tools`."""
        return sorted(self._tools)

    @property
    def sub_agents_only(self) -> frozenset[str]:
        return frozenset(name for name, tool in self._tools.items() if tool.sub_agents_only)


def strictest(
    policies: Iterable[Sequence[ToolRule]], name: str, own: ToolDecision, arguments: Mapping[str, Any] | None = None
) -> ToolDecision:
    """In each policy the first rule that matches decides, without one `own`; the strictest of them all holds."""
    said = (ToolPolicy(policy, otherwise=own).decide(name, arguments) for policy in policies)
    return max(said, key=STRICTER.index, default=own)


def decided(
    policies: Iterable[Sequence[ToolRule]], tool: Tool, arguments: Mapping[str, Any] | None = None
) -> ToolDecision:
    """Return the strictest decision on a call; the tool's own counts beside the policies where it `binds`."""
    own = tool.decide(arguments)
    said = strictest(policies, tool.name, own, arguments)
    return max(said, own, key=STRICTER.index) if tool.binds else said


def is_barred(bar: Callable[[Call], bool], call: Call) -> bool:
    """Return whether a function forbids a call; one that raises does."""
    try:
        return bool(bar(call))
    except Exception:
        return True


def _error(name: str, why: str) -> ToolResult:
    return ToolResult(f"{name} did not run or failed: {why}", is_error=True)


def _cancelling() -> bool:
    """Return whether somebody wants this very call to end, not only the tool what it waited for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _hint(name: str, known: Sequence[str]) -> str:
    guess = closest(name, known) if name not in known else None
    return f'; did you mean "{guess}"?' if guess else ""


def _unknown(name: str, known: Sequence[str]) -> HiveError:
    fix = did_you_mean(name, known, f"use one of: {', '.join(known) or 'none'}")
    return NotFound.of("HIVE-107", f'there is no tool "{name}" here', fix=fix, exit_code=2)
