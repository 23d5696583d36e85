"""Probes of chat models: what they support, by two requests."""

from __future__ import annotations

import time
from contextlib import aclosing
from typing import Any

from hive_agents.base.files import Format
from hive_agents.models.chain import Chain
from hive_agents.models.endpoint_chat import EndpointModel
from hive_agents.models.model import ChatResult, Message, ModelError, Tool, Usage
from hive_agents.models.scripted import ScriptedModel

_COLOUR: dict[str, Any] = {
    "title": "colour",
    "description": "The colour of the sky.",
    "type": "object",
    # An enumeration, so that a model that writes too much text doesn't fail the probe.
    "properties": {"colour": {"type": "string", "enum": ["blue", "green", "grey", "red"]}},
    "required": ["colour"],
}
_LOOK = Tool(
    name="look_at_sky",
    description="Tells the colour of the sky now.",
    parameters={"type": "object", "properties": {"place": {"type": "string"}}},
)
_ASK = [Message(role="user", content="What colour is a clear sky at noon? Answer with the colour.")]
_ASK_TOOL = [Message(role="user", content="Call the tool look_at_sky to learn the colour of the sky in Lima.")]


class Probe(Format):
    """The result of a probe. `structured` is the way of structured answers ("tool", "schema", "prompt"), "" without.

    `error` is the kind and message of the failure if the model can't be used, `fix` a known remedy, `priced` whether
    the model's price is known.
    """

    name: str
    ok: bool
    seconds: float = 0.0
    structured: str = ""
    tools: bool = False
    streams: bool = False
    priced: bool = False
    error: str = ""
    fix: str = ""
    usage: Usage = Usage()


async def probe(chain: Chain) -> Probe:
    """Request a structured answer from the first model of a chain, then a tool call by a stream.

    The stored abilities of an endpoint's model are probed again. A script isn't called: its lines would be used up.
    """
    model = chain.models[0]
    if isinstance(model, ScriptedModel):
        return Probe(name=model.name, ok=True, structured="tool", tools=True, streams=True, priced=True)
    if isinstance(model, EndpointModel):
        model.abilities.learn(lambda old: old.model_copy(update={"structured": None, "without": []}))
    started, usage, structured = time.perf_counter(), Usage(), "tool"
    try:
        usage += (await model.complete(_ASK, schema=_COLOUR, deadline=chain.deadline)).usage
        if isinstance(model, EndpointModel):
            structured = model.abilities.known.structured or ""
    except ModelError as error:
        usage, structured = usage + error.usage, ""
        if error.outage or error.kind == "refusal":
            return Probe(name=model.name, ok=False, error=f"{error.kind}: {error.message}", usage=usage)
    seconds = round(time.perf_counter() - started, 3)
    streams = tools = False
    failure = ""
    try:
        result = await _streamed(chain)
        usage, streams = usage + result.usage, True
        tools = any(call.name == _LOOK.name for call in result.tool_calls)
    except ModelError as error:
        usage += error.usage
        streams = error.kind == "unsupported"  # it refuses tools, not streams
        failure = "" if structured or streams else f"{error.kind}: {error.message}"
    return Probe(
        name=model.name,
        ok=not failure,
        seconds=seconds,
        structured=structured,
        tools=tools,
        streams=streams,
        priced=usage.priced,
        error=failure,
        usage=usage,
    )


async def _streamed(chain: Chain) -> ChatResult:
    async with aclosing(chain.models[0].stream(_ASK_TOOL, tools=[_LOOK], deadline=chain.deadline)) as deltas:
        async for delta in deltas:
            if delta.result is not None:
                return delta.result
    raise ModelError("garbage", f"{chain.name} ended without an answer")
