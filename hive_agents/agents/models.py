"""A run's models, and calls of them: retried after transient errors, and counted also where they fail."""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, TypedDict

from hive_agents.agents.guards.retries import RetryPolicy, retried
from hive_agents.agents.spec import AgentSpec
from hive_agents.memory import estimate_tokens, message_tokens
from hive_agents.models import (
    Chain,
    ChatResult,
    Line,
    Message,
    ModelError,
    Script,
    Tell,
    Tool,
    Usage,
    open_chain,
    require_prices,
    sending,
)
from hive_agents.workspace import Workspace, trusted
from hive_agents.workspace.settings import Role

PATIENCE = RetryPolicy(attempts=4, base=0.2, cap=5.0)


class Need(TypedDict):
    tokens: int
    rate: float


def need(chain: Chain, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> Need:
    """Return the tokens that a call needs, estimated from what it sends, for `Effects.once`; none for a script."""
    if chain.name.startswith("scripted:"):
        return {"tokens": 0, "rate": 0.0}
    return {"tokens": estimated(messages, tools), "rate": chain.rate}


def estimated(messages: Sequence[Message], tools: Sequence[Tool] = ()) -> int:
    """Return the estimated tokens of what is sent."""
    return sum(map(message_tokens, messages)) + sum(estimate_tokens(tool.model_dump_json()) for tool in tools)


async def complete(chain: Chain, messages: Sequence[Message], *, schema: Mapping[str, Any], tell: Tell) -> ChatResult:
    """Return the structured answer; `usage` is that of all attempts. Raises: ModelError."""

    async def once() -> ChatResult:
        return _counted_at_least(messages, await chain.complete(messages, schema=schema))

    return await _counted(once, tell)


async def streamed(
    chain: Chain,
    messages: Sequence[Message],
    tools: Sequence[Tool],
    on_text: Callable[[str], object],
    *,
    tell: Tell,
) -> ChatResult:
    """Return the answer, whose text `on_text` gets in pieces; `usage` is that of all attempts. Raises: ModelError."""

    async def once() -> ChatResult:
        async with aclosing(chain.stream(messages, tools=tools)) as deltas:
            async for delta in deltas:
                if delta.result is not None:
                    return _counted_at_least(messages, delta.result)
                on_text(delta.text)
        raise ModelError("garbage", f"{chain.name} ended without an answer", usage=Usage(priced=False))

    return await _counted(once, tell)


def _counted_at_least(messages: Sequence[Message], result: ChatResult) -> ChatResult:
    """Return the result with an estimate of its tokens where the server counted none."""
    usage = result.usage
    if usage.priced or usage.input_tokens or usage.output_tokens:
        return result
    answer = Message(role="assistant", content=result.text, tool_calls=result.tool_calls)
    tokens = {"input_tokens": sum(map(message_tokens, messages)), "output_tokens": message_tokens(answer)}
    return result.model_copy(update={"usage": Usage(**tokens, priced=False, estimated=True)})


async def _counted(once: Callable[[], Awaitable[ChatResult]], tell: Tell) -> ChatResult:
    wasted = Usage()

    async def attempt() -> ChatResult:
        with sending(tell) as take_back:
            try:
                return await once()
            except ModelError as error:
                if not (error.usage.input_tokens or error.usage.output_tokens):
                    take_back()
                raise

    def failed(_: int, error: BaseException, __: float) -> None:
        nonlocal wasted
        wasted += error.usage if isinstance(error, ModelError) else Usage()

    try:
        result = await retried(attempt, PATIENCE, on_retry=failed)
    except ModelError as error:
        spent = wasted + error.usage
        again = error.retry_after
        raise ModelError(error.kind, error.message, usage=spent, retry_after=again, outage=error.outage) from error
    return result.model_copy(update={"usage": wasted + result.usage})


class RunModels:
    """Opens the chain of a role, once: for `chat` the agent's own model, else those that the settings name.

    A call raises HIVE-401 where no model of the role can be opened.
    """

    def __init__(self, workspace: Workspace, agent: AgentSpec) -> None:
        self._workspace, self._agent = workspace, agent
        self._chains: dict[str, Chain] = {}
        self._scripts: dict[Path, Script] = {}
        self._used: dict[str, list[int]] = {}

    def __call__(self, role: Role) -> Chain:
        return self._opened(role, self._names(role))

    def of(self, agent: AgentSpec, *, in_code: bool) -> Chain:
        """Return the chain of a sub-agent: its own model, which needs no trust where code names it, or the run's."""
        if agent.model is None or agent.model == self._agent.model:
            return self("chat")
        return self._opened(agent.model, [agent.model], by_user=in_code)

    def _opened(self, key: str, names: list[str], *, by_user: bool = False) -> Chain:
        if key not in self._chains:
            for name in names:
                self._open_script(name)
            self._chains[key] = open_chain(
                names, self._workspace.settings, workspace=self._workspace, scripts=self._scripts, by_user=by_user
            )
        return self._chains[key]

    def require_prices(self, max_usd: float) -> None:
        """Raises: HIVE-409 where a limit in dollars can't be kept, because a model's price isn't known."""
        settings = self._workspace.settings
        names = [*self._names("chat"), *self._names("judge"), *settings.models.stronger_judge]
        require_prices(settings, names, max_usd)

    def _names(self, role: Role) -> list[str]:
        agent_model = [self._agent.model] if self._agent.model else []
        settings = self._workspace.settings
        return (
            (agent_model or settings.models.of(role)) if role == "chat" else (settings.models.of(role) or agent_model)
        )

    @property
    def mark(self) -> str | None:
        """The lines of scripts that are used up, as JSON; None without scripts."""
        return json.dumps(self._used) if self._scripts else None

    def restore(self, mark: str | None) -> None:
        """Continue from a mark; chains that were opened before are opened again."""
        # Below the workspace, which is another folder on another host; an earlier release wrote whole paths.
        used = {
            self._workspace.relative(Path(name)) if os.path.isabs(name) else name: lines
            for name, lines in json.loads(mark or "{}").items()
        }
        if used != self._used:
            self._used = used
            self._chains.clear()
            self._scripts.clear()

    def _open_script(self, name: str) -> None:
        provider, _, file = name.partition(":")
        path = Path(os.path.abspath(self._workspace.root / file))
        known = path in self._scripts or not trusted.is_trusted_model(self._workspace, name)  # open_chain refuses it
        if provider == "scripted" and file.strip() and not known:
            self._scripts[path] = _RunScript(path, file, self._used.setdefault(self._workspace.relative(path), []))


class _RunScript(Script):
    """A script without the lines numbered in `used`, to which it adds each line that it takes."""

    def __init__(self, path: Path, shown: str, used: list[int]) -> None:
        super().__init__(path, shown)
        self._numbers = {id(line): number for number, line in enumerate(self._remaining)}
        self._counted = used
        self._remaining = [line for line in self._remaining if line.repeat or self._numbers[id(line)] not in used]
        self._taken = len(used)

    def take(self, prompt: str) -> Line:
        line = super().take(prompt)
        self._counted.append(self._numbers[id(line)])
        return line
