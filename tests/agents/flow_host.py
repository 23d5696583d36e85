"""A host that is killed: it takes runs of a flow and of a JSON agent, whose effects are lines of files."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from hive_agents import Agent, EventBus, Workspace, effect, flow, idempotency_key
from hive_agents.agents import ToolRegistry
from hive_agents.events import EventLog
from hive_agents.host.dispatcher import Dispatcher
from hive_agents.models import Chain, ChatResult, Message, Tool, Usage
from tests.agents import killed
from tests.agents.loops import Told, say

STEPS = ("pay", "left", "right", "send")
root = Path()


async def _once(what: str, key: str) -> str:
    """An effect outside, once for each key, as at a payment provider; it takes a while."""
    line = f"{what} {key}"
    await asyncio.sleep(0.05)
    done = root / "flows"
    if line not in (done.read_text().split("\n") if done.exists() else []):
        killed._count(done, line)
    return f"did {what}"


@effect(ask=False)
async def act(order: str, step: str) -> str:
    """Do a step of an order."""
    return await _once(f"{order}:{step}", idempotency_key())


look = Agent(str, str, prompt="Do parcel.", name="look")


@flow
async def parcel(order: str) -> str:
    await act(order, "pay")
    seen = await look(order)
    await asyncio.gather(act(order, "left"), act(order, "right"))
    return f"{seen}, {await act(order, 'send')}"


def answering(messages: Sequence[Message], offered: Sequence[Tool]) -> ChatResult:
    if "Do parcel." in messages[0].content:
        return say([("set_output", {"output": "seen"})]).model_copy(update={"usage": Usage(input_tokens=5)})
    return killed.answering(messages, offered)


def tools(place: Workspace) -> ToolRegistry:
    registry = killed.tools(place.root)
    registry.code[parcel.name] = parcel
    return registry


def models(_: object) -> Chain:
    return Chain([Told(answering)])


async def main(place: Workspace) -> None:
    async with EventBus(EventLog(place)) as bus:
        await Dispatcher(place, bus, parallel=6, tools=tools(place), models=models, pause=0.1).run()


if __name__ == "__main__":
    root = Path(sys.argv[1])
    sys.modules["tests.agents.flow_host"] = sys.modules["__main__"]
    asyncio.run(main(Workspace(root)))
