"""Agents that run in tests: models that answer from a list or from what they are told, tools that count."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any

from hive_agents import Workspace
from hive_agents.agents import AgentSpec, ToolRegistry
from hive_agents.agents.recheck import recheck_for
from hive_agents.agents.run import AgentRun
from hive_agents.approvals import ApprovalRequest, ApprovalStore
from hive_agents.events import Event, EventLog
from hive_agents.goals.goals import Goal
from hive_agents.models import Chain, ChatDelta, ChatResult, Message, ModelError, Tool, ToolCall, Usage
from tests.agents.conftest import agent_json

Answer = ChatResult | ModelError
Answering = Callable[[Sequence[Message], Sequence[Tool]], Answer]


class Told:
    """A model that is a function of what it is told; `prompts` holds every conversation that it got."""

    name = "told:model"

    def __init__(self, answering: Answering) -> None:
        self.answering = answering
        self.prompts: list[list[Message]] = []
        self.offered: list[list[str]] = []

    async def complete(self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), **_: Any) -> ChatResult:
        self.prompts.append(list(messages))
        self.offered.append([tool.name for tool in tools])
        await asyncio.sleep(0)
        answer = self.answering(messages, tools)
        if isinstance(answer, ModelError):
            raise answer
        return answer

    async def stream(
        self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), deadline: float
    ) -> AsyncGenerator[ChatDelta, None]:
        result = await self.complete(messages, tools=tools)
        for word in result.text.split(" "):
            yield ChatDelta(text=word)
        yield ChatDelta(text="", result=result)


def said(*answers: Any) -> Told:
    """A model with a list of answers; running out is an error."""
    left = [answer if isinstance(answer, ChatResult | ModelError) else say(answer) for answer in answers]

    def next_one(messages: Sequence[Message], tools: Sequence[Tool]) -> Answer:
        return left.pop(0) if left else ModelError("exhausted", "the answers have run out")

    return Told(next_one)


def say(value: Any, tokens: int = 0) -> ChatResult:
    """A text, an object as a structured answer, or calls as (name, arguments)."""
    usage = Usage(input_tokens=tokens)
    if isinstance(value, str):
        return ChatResult(text=value, usage=usage)
    if isinstance(value, dict):
        return ChatResult(text=json.dumps(value), structured=value, usage=usage)
    return ChatResult(text="", tool_calls=[ToolCall(name=name, args=args) for name, args in value], usage=usage)


def sets(key: str, value: Any) -> tuple[str, dict[str, Any]]:
    return "set_output", {"key": key, "value": value}


def agent(*nodes: dict[str, Any], **changes: Any) -> AgentSpec:
    policy = changes.pop("tool_policy", [{"match": "*", "decision": "allow"}])
    return AgentSpec.model_validate(agent_json(*nodes, tool_policy=policy, **changes))


def start(
    place: Workspace, spec: AgentSpec, model: Told, input: dict[str, Any] | None = None, **seams: Any
) -> AgentRun:
    seams.setdefault("tools", ToolRegistry())
    return AgentRun.start(place, spec, input or {}, models=lambda role: Chain([model]), **seams)


def goal(**fields: Any) -> Goal:
    return Goal.model_validate_json(json.dumps({"id": "digest", "name": "Digest"} | fields))


def events(place: Workspace, run: AgentRun, *types: str) -> list[Event]:
    return [one for one in EventLog(place).replay(run_id=run.run_id) if not types or str(one.type) in types]


def verdicts(place: Workspace, run: AgentRun) -> list[tuple[Any, str]]:
    """(level, action) of every judgement."""
    return [(one.payload["level"], one.payload["action"]) for one in events(place, run, "judgment.made")]


def words(run: AgentRun, conversation: int = 0) -> list[str]:
    """What stands in a conversation of the run, by default the agent's own."""
    from hive_agents.memory import ConversationStore

    store = ConversationStore(run.workspace)
    return [entry.message.content for entry in store.messages(store.of_run(run.run_id)[conversation])]


def given(message: Message) -> str:
    """What a tool or sub-agent gave, of a message that a model was sent: without the lines that mark it as data."""
    return message.content.split("\n", 2)[2].rpartition("\n")[0]


def asked(place: Workspace, result: dict[str, Any]) -> list[ApprovalRequest]:
    assert result["status"] == "waiting"
    return [ApprovalStore(place).get(id) for id in result["approval_ids"]]


def decide(place: Workspace, request: ApprovalRequest, verb: Any, **answer: Any) -> None:
    ApprovalStore(place, recheck=recheck_for(place)).decide(request.id, verb, by="dana", **answer)
