"""The tools, prompts and resources that MCP's conformance suite calls by name, behind our own transport."""

from __future__ import annotations

import asyncio
import base64
from typing import Annotated, Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.prompts.base import UserMessage
from mcp.server.mcpserver.resolve import Resolve, Sample
from mcp_types import (
    AudioContent,
    Completion,
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequest,
    ElicitRequestFormParams,
    EmbeddedResource,
    ImageContent,
    InputRequest,
    InputRequiredResult,
    ListRootsRequest,
    SamplingMessage,
    TextContent,
    TextResourceContents,
)
from pydantic import Field

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg=="
)
WAV = base64.b64decode("UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=")
Content = TextContent | ImageContent | AudioContent | EmbeddedResource


def examples(*_: Any) -> MCPServer[Any]:
    made: MCPServer[Any] = MCPServer("examples", version="1", log_level="CRITICAL")
    for tool in (
        test_simple_text, test_image_content, test_audio_content, test_embedded_resource, test_multiple_content_types,
        test_error_handling, test_tool_with_progress, test_header, test_missing_capability, test_streaming_elicitation,
        test_trigger_tool_change, test_trigger_prompt_change, test_input_required_result_elicitation,
        test_input_required_result_sampling, test_input_required_result_list_roots,
        test_input_required_result_request_state, test_input_required_result_tampered_state,
        test_input_required_result_multiple_inputs, test_input_required_result_multi_round,
        test_input_required_result_capabilities,
    ):  # fmt: skip
        made.add_tool(tool, description=f"The suite calls {tool.__name__}.", structured_output=False)
    for prompt in (
        test_simple_prompt, test_prompt_with_arguments, test_prompt_with_embedded_resource, test_prompt_with_image,
        test_input_required_result_prompt,
    ):  # fmt: skip
        made.prompt(description=f"The suite gets {prompt.__name__}.")(prompt)
    made.resource("test://static-text", mime_type="text/plain")(static_text)
    made.resource("test://static-binary", mime_type="image/png")(static_binary)
    made.resource("test://template/{id}/data", mime_type="application/json")(template_data)
    made.completion()(completed)
    return made


def image() -> ImageContent:
    return ImageContent(data=base64.b64encode(PNG).decode(), mime_type="image/png")


def embedded(uri: str, kind: str, text: str) -> EmbeddedResource:
    return EmbeddedResource(resource=TextResourceContents(uri=uri, mime_type=kind, text=text))


async def test_simple_text() -> str:
    return "A plain text."


async def test_image_content() -> list[Content]:
    return [image()]


async def test_audio_content() -> list[Content]:
    return [AudioContent(data=base64.b64encode(WAV).decode(), mime_type="audio/wav")]


async def test_embedded_resource() -> list[Content]:
    return [embedded("test://embedded-resource", "text/plain", "An embedded text.")]


async def test_multiple_content_types() -> list[Content]:
    mixed = embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}')
    return [TextContent(text="Several kinds:"), image(), mixed]


async def test_error_handling() -> str:
    raise ValueError("on purpose")


async def test_tool_with_progress(ctx: Context[Any, Any]) -> str:
    for progress in (0, 50, 100):
        await ctx.report_progress(progress, 100)
        await asyncio.sleep(0.05)
    return "done"


async def test_header(region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})]) -> str:
    return f"region {region}"


def a_sample() -> Sample:
    return Sample([SamplingMessage(role="user", content=TextContent(text="Say something."))], max_tokens=10)


async def test_missing_capability(said: Annotated[CreateMessageResult, Resolve(a_sample)]) -> str:
    return str(said.content)


async def test_trigger_tool_change(ctx: Context[Any, Any]) -> str:
    await ctx.notify_tools_changed()
    return "told"


async def test_trigger_prompt_change(ctx: Context[Any, Any]) -> str:
    await ctx.notify_prompts_changed()
    return "told"


def asked(message: str, name: str, kind: str = "string") -> ElicitRequest:
    schema = {"type": "object", "properties": {name: {"type": kind}}, "required": [name]}
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def sampled(text: str, most: int) -> CreateMessageRequest:
    said = [SamplingMessage(role="user", content=TextContent(text=text))]
    return CreateMessageRequest(params=CreateMessageRequestParams(messages=said, max_tokens=most))


def content_of(ctx: Context[Any, Any], name: str) -> dict[str, Any] | None:
    """What the client answered; None where it didn't, or where that is no accepted form."""
    found = (ctx.input_responses or {}).get(name)
    return getattr(found, "content", None) if getattr(found, "action", "") == "accept" else None


def required(state: str | None = None, **requests: InputRequest) -> InputRequiredResult:
    return InputRequiredResult(input_requests=requests, request_state=state)


async def test_input_required_result_elicitation(ctx: Context[Any, Any]) -> str | InputRequiredResult:
    given = content_of(ctx, "user_name")
    if not given or not isinstance(given.get("name"), str):
        return required(user_name=asked("What is your name?", "name"))
    return f"Hello, {given['name']}!"


async def test_streaming_elicitation(ctx: Context[Any, Any]) -> str | InputRequiredResult:
    await ctx.report_progress(1, 2)
    return required(user_name=asked("Are you there?", "name"))


async def test_input_required_result_sampling(ctx: Context[Any, Any]) -> str | InputRequiredResult:
    found = (ctx.input_responses or {}).get("capital_question")
    if not isinstance(found, CreateMessageResult):
        return required(capital_question=sampled("What is the capital of France?", 100))
    return found.content.text if isinstance(found.content, TextContent) else str(found.content)


async def test_input_required_result_list_roots(ctx: Context[Any, Any]) -> str | InputRequiredResult:
    found: Any = (ctx.input_responses or {}).get("client_roots")
    if not hasattr(found, "roots"):
        return required(client_roots=ListRootsRequest())
    return ", ".join(str(root.uri) for root in found.roots)


async def test_input_required_result_request_state(ctx: Context[Any, Any]) -> str | InputRequiredResult:
    if content_of(ctx, "confirm") is None or ctx.request_state != "asked":
        return required("asked", confirm=asked("Please confirm", "ok", "boolean"))
    return "state-ok"


async def test_input_required_result_tampered_state(ctx: Context[Any, Any]) -> str | InputRequiredResult:
    return await test_input_required_result_request_state(ctx)


async def test_input_required_result_multiple_inputs(ctx: Context[Any, Any]) -> str | InputRequiredResult:
    name, greeting = asked("What is your name?", "name"), sampled("Generate a greeting", 50)
    if {"user_name", "greeting", "client_roots"} - set(ctx.input_responses or {}):
        return required("asked", user_name=name, greeting=greeting, client_roots=ListRootsRequest())
    return "done"


async def test_input_required_result_multi_round(ctx: Context[Any, Any]) -> str | InputRequiredResult:
    if ctx.request_state == "named" and content_of(ctx, "step2") is not None:
        return "done"
    if content_of(ctx, "step1") is not None:
        return required("named", step2=asked("Step 2: What is your favorite color?", "color"))
    return required("begun", step1=asked("Step 1: What is your name?", "name"))


async def test_input_required_result_capabilities(ctx: Context[Any, Any]) -> str | InputRequiredResult:
    told, requests = ctx.client_capabilities, {}
    if told is not None and told.sampling is not None:
        requests["said"] = sampled("Say something", 10)
    if told is not None and told.elicitation is not None:
        requests["named"] = asked("What is your name?", "name")
    return InputRequiredResult(input_requests=requests) if requests else "nothing can be asked"


def test_simple_prompt() -> str:
    return "A plain prompt."


def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
    return f"arg1={arg1} arg2={arg2}"


def test_prompt_with_embedded_resource(resourceUri: str) -> list[UserMessage]:
    shown = embedded(resourceUri, "text/plain", "An embedded text.")
    return [UserMessage(content=shown), UserMessage(content=TextContent(text="What does it say?"))]


def test_prompt_with_image() -> list[UserMessage]:
    return [UserMessage(content=image()), UserMessage(content=TextContent(text="What does it show?"))]


async def test_input_required_result_prompt(ctx: Context[Any, Any]) -> str | InputRequiredResult:
    given = content_of(ctx, "user_context")
    if given is None:
        return required(user_context=asked("What context should the prompt use?", "context"))
    return f"In {given.get('context')}"


def static_text() -> str:
    return "A text that never changes."


def static_binary() -> bytes:
    return PNG


def template_data(id: str) -> str:
    return f'{{"id":"{id}","templateTest":true,"data":"Data for ID: {id}"}}'


async def completed(ref: Any, argument: Any, context: Any) -> Completion:
    return Completion(values=[one for one in ("paris", "park", "party") if one.startswith(argument.value)])
