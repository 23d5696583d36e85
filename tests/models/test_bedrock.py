"""Real boto3 and langchain-aws against a server on loopback."""

from __future__ import annotations

import time

import pytest

from hive_agents.base.errors import HiveError
from hive_agents.models import Chain, ChatResult, Message, Meter, ModelError, Tool, ToolCall, open_chain
from hive_agents.workspace.settings import Settings
from hive_agents.workspace.settings.keys import Models
from tests.models.bedrock_server import DENIED, GARBAGE, THROTTLED, UNAVAILABLE, BedrockServer, Slow

HAIKU = "bedrock:anthropic.claude-3-haiku-20240307-v1:0"
NOVA = "bedrock:amazon.nova-lite-v1:0"
VERDICT = {
    "title": "Verdict",
    "type": "object",
    "properties": {"action": {"enum": ["accept", "retry"]}, "confidence": {"type": "number"}},
    "required": ["action", "confidence"],
}
ASK = [Message(role="system", content="You judge."), Message(role="user", content="Is it good?")]


def chain(*names: str, deadline: float = 8.0, meter: Meter | None = None) -> Chain:
    return open_chain(names or [HAIKU], Settings(models=Models(deadline_seconds=deadline)), meter=meter)


async def ask(*names: str, deadline: float = 8.0) -> ChatResult:
    return await chain(*names, deadline=deadline).complete(ASK)


async def test_text_usage_and_price_come_back_from_a_signed_request(bedrock: BedrockServer) -> None:
    result = await ask()
    assert (result.text, result.model) == ("echo: Is it good?", HAIKU)
    assert (result.usage.input_tokens, result.usage.output_tokens) == (1000, 100)
    assert result.usage.usd == pytest.approx(1000 * 0.25e-6 + 100 * 1.25e-6)
    (request,) = bedrock.requests
    assert request.path == "/model/anthropic.claude-3-haiku-20240307-v1:0/converse"
    assert request.authorization.startswith("AWS4-HMAC-SHA256 Credential=loopback/")
    assert request.body["system"] == [{"text": "You judge."}]


async def test_structured_output_forces_one_tool(bedrock: BedrockServer) -> None:
    bedrock.answer = {"action": "accept", "confidence": 0.9}
    result = await chain().complete(ASK, schema=VERDICT)
    assert result.structured == bedrock.answer
    assert result.tool_calls == []
    assert bedrock.requests[0].body["toolConfig"]["toolChoice"] == {"tool": {"name": "Verdict"}}


async def test_temperature_and_length_reach_the_model(bedrock: BedrockServer) -> None:
    bedrock.answer = {"action": "accept", "confidence": 0.9}
    await chain().complete(ASK, schema=VERDICT, temperature=0, max_tokens=1024)
    await chain().complete(ASK)
    configured, plain = (request.body.get("inferenceConfig") for request in bedrock.requests)
    assert configured == {"temperature": 0, "maxTokens": 1024}
    assert not plain


async def test_an_answer_that_does_not_fit_goes_to_the_next_model_and_is_paid_for(bedrock: BedrockServer) -> None:
    bedrock.answer = {"action": "perhaps"}
    with pytest.raises(ModelError) as caught:
        await chain(HAIKU, NOVA).complete(ASK, schema=VERDICT)
    assert caught.value.kind == "garbage"
    assert "confidence is missing" in caught.value.message
    assert caught.value.usage.input_tokens == 2000
    assert len(bedrock.requests) == 2


async def test_a_model_that_cannot_be_forced_is_asked_in_words(bedrock: BedrockServer) -> None:
    with pytest.raises(ModelError) as caught:
        await chain("bedrock:meta.llama3-8b-instruct-v1:0").complete(ASK, schema=VERDICT)
    assert caught.value.kind == "garbage"
    assert '"confidence"' in bedrock.requests[0].body["system"][0]["text"]


async def test_tools_and_their_answers_travel(bedrock: BedrockServer) -> None:
    tool = Tool(name="look_up", description="Looks up.", parameters={"type": "object", "properties": {}})
    call = ToolCall(name="look_up", args={"q": "key"}, id="call_9")
    turns = [
        *ASK,
        Message(role="assistant", content="", tool_calls=[call]),
        Message(role="tool", content="found", tool_call_id="call_9"),
        Message(role="user", content="and?"),
    ]
    bedrock.answer = {"q": "more"}
    result = await chain().complete(turns, tools=[tool], schema=VERDICT)
    assert result.tool_calls == [ToolCall(name="look_up", args={"q": "more"}, id="call_1")]
    assert result.structured is None
    sent = bedrock.requests[0].body["messages"]
    assert sent[1]["content"][0]["toolUse"]["input"] == {"q": "key"}
    assert sent[2]["content"][0]["toolResult"]["toolUseId"] == "call_9"


async def test_boto3_gets_over_two_failures_by_itself(bedrock: BedrockServer) -> None:
    bedrock.fail(THROTTLED, UNAVAILABLE)
    meter = Meter()
    await chain(meter=meter).complete(ASK)
    assert (meter.calls, meter.attempts, len(bedrock.requests)) == (1, 1, 3)


@pytest.mark.parametrize(
    ("failures", "kind"),
    [
        ([THROTTLED] * 3, "throttling"),
        ([(*THROTTLED, "Too many requests for model ID x")] * 3, "throttling"),
        ([UNAVAILABLE] * 3, "server"),
        ([(408, "ModelTimeoutException")], "timeout"),
    ],
)
async def test_the_next_model_serves_when_boto3_gives_up(
    bedrock: BedrockServer, failures: list[object], kind: str
) -> None:
    bedrock.fail(*failures)
    meter = Meter()
    result = await chain(HAIKU, NOVA, meter=meter).complete(ASK)
    assert result.model == NOVA
    assert (meter.calls, meter.attempts, meter.failures) == (1, 2, {kind: 1})


async def test_a_body_that_is_not_json_is_garbage(bedrock: BedrockServer) -> None:
    bedrock.fail(GARBAGE, GARBAGE, GARBAGE)
    with pytest.raises(ModelError) as caught:
        await ask()
    assert caught.value.kind == "garbage"


async def test_a_refused_login_does_not_move_on(bedrock: BedrockServer) -> None:
    bedrock.fail(DENIED)
    with pytest.raises(ModelError) as caught:
        await ask(HAIKU, NOVA)
    assert caught.value.kind == "authentication"
    assert len(bedrock.requests) == 1


async def test_missing_credentials_are_an_authentication_error(
    bedrock: BedrockServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(ModelError) as caught:
        await ask()
    assert caught.value.kind == "authentication"
    assert bedrock.requests == []


async def test_a_slow_model_is_left_at_the_deadline_and_not_asked_again(bedrock: BedrockServer) -> None:
    bedrock.fail(Slow(0.6))
    with pytest.raises(ModelError) as caught:
        await ask(deadline=0.2)
    assert caught.value.kind == "timeout"
    time.sleep(0.6)  # long enough for a retry that nobody waits for
    assert len(bedrock.requests) == 1


@pytest.mark.parametrize(
    "failure",
    [(404, "ResourceNotFoundException"), (400, "ValidationException", "The provided model identifier is invalid.")],
)
async def test_a_model_that_is_not_there_is_a_diagnostic(bedrock: BedrockServer, failure: object) -> None:
    bedrock.fail(failure)
    with pytest.raises(HiveError) as caught:
        await ask(HAIKU, NOVA)
    assert caught.value.diagnostics[0].code == "HIVE-401"
    assert caught.value.exit_code == 3


async def test_a_prompt_that_is_too_long_goes_to_the_next_model(bedrock: BedrockServer) -> None:
    bedrock.fail((400, "ValidationException", "Input is too long for requested model."))
    meter = Meter()
    assert (await chain(HAIKU, NOVA, meter=meter).complete(ASK)).model == NOVA
    assert meter.failures == {"overflow": 1}


async def test_a_request_that_a_model_does_not_take_is_no_outage(bedrock: BedrockServer) -> None:
    bedrock.fail((400, "ValidationException", "This model doesn't support tool use."))
    with pytest.raises(ModelError) as caught:
        await ask()
    assert (caught.value.kind, caught.value.outage, len(bedrock.requests)) == ("unsupported", False, 1)


def test_without_a_region_there_is_a_diagnostic(bedrock: BedrockServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    with pytest.raises(HiveError, match="AWS_REGION"):
        chain()
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    chain()


async def test_nobody_listening_is_a_server_error(bedrock: BedrockServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    with pytest.raises(ModelError) as caught:
        await ask()
    assert caught.value.kind == "server"
