"""Answers in pieces: scripted models, chains, LangChain's models, and ConverseStream over HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk

from hive_agents.models import (
    Chain,
    ChatDelta,
    ChatResult,
    Message,
    Meter,
    ModelError,
    Tool,
    ToolCall,
    Usage,
    open_chain,
)
from hive_agents.models.langchain import LangChainModel
from hive_agents.models.model import arriving
from hive_agents.workspace.settings import Settings
from hive_agents.workspace.settings.keys import Models
from tests.models.bedrock_server import DENIED, THROTTLED, UNAVAILABLE, BedrockServer, Broken, Slow
from tests.models.event_stream import event, exception
from tests.models.trusting import workspace_at

HAIKU = "bedrock:anthropic.claude-3-haiku-20240307-v1:0"
NOVA = "bedrock:amazon.nova-lite-v1:0"
ASK = [Message(role="user", content="Is it good?")]
LOOK_UP = Tool(name="look_up", description="Looks up.", parameters={"type": "object", "properties": {}})


def chain(*names: str, root: Path | None = None, meter: Meter | None = None, deadline: float = 8.0) -> Chain:
    place = workspace_at(root) if root else None
    return open_chain(names, Settings(models=Models(deadline_seconds=deadline)), meter=meter, workspace=place)


def scripts(folder: Path, *models: list[dict[str, Any]], deadline: float = 8.0) -> Chain:
    for number, lines in enumerate(models):
        (folder / f"{number}.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    return chain(*(f"scripted:{number}.jsonl" for number in range(len(models))), root=folder, deadline=deadline)


async def heard(deltas: AsyncGenerator[ChatDelta, None]) -> tuple[list[str], ChatResult]:
    """The pieces, and the result that came with the last delta and no other."""
    *pieces, last = [delta async for delta in deltas]
    assert all(piece.text and piece.result is None for piece in pieces)
    assert last.result is not None
    assert (last.text, "".join(piece.text for piece in pieces)) == ("", last.result.text)
    return [piece.text for piece in pieces], last.result


async def broken_off(deltas: AsyncGenerator[ChatDelta, None]) -> tuple[list[str], ModelError]:
    pieces: list[str] = []

    async def listen() -> None:
        async for delta in deltas:
            assert delta.result is None
            pieces.append(delta.text)

    with pytest.raises(ModelError) as caught:
        await listen()
    return pieces, caught.value


async def test_a_scripted_answer_comes_word_by_word(tmp_path: Path) -> None:
    calls = [{"name": "look_up", "args": {"q": "key"}}]
    line = {"content": " two  words\n", "tool_calls": calls, "usage": {"input_tokens": 3}}
    models = scripts(tmp_path, [line])
    pieces, result = await heard(models.stream(ASK))
    assert pieces == [" two", "  words", "\n"]
    assert result.tool_calls == [ToolCall(name="look_up", args={"q": "key"})]
    assert result.usage == models.meter.usage == Usage(input_tokens=3)


async def test_a_chain_moves_on_while_nothing_was_said(tmp_path: Path) -> None:
    usage = {"usage": {"input_tokens": 10}}
    late = {"content": "late", "delay_seconds": 30}
    models = scripts(tmp_path, [{"error": "throttling", **usage}], [late], [{"content": "yes", **usage}], deadline=0.1)
    pieces, result = await heard(models.stream(ASK))
    assert (pieces, result.model, result.usage.input_tokens) == (["yes"], "scripted:2.jsonl", 20)
    assert (models.meter.calls, models.meter.attempts) == (1, 3)
    assert models.meter.failures == {"throttling": 1, "timeout": 1}


@pytest.mark.parametrize(("kinds", "kind"), [(["authentication", "server"], "authentication"), (["server"], "server")])
async def test_a_chain_fails_as_it_does_without_streaming(tmp_path: Path, kinds: list[str], kind: str) -> None:
    pieces, error = await broken_off(scripts(tmp_path, *[[{"error": one}] for one in kinds]).stream(ASK))
    assert (pieces, error.kind) == ([], kind)


async def test_a_listener_who_leaves_is_counted_without_a_price(tmp_path: Path) -> None:
    models = scripts(tmp_path, [{"content": "one two three"}])
    async with aclosing(models.stream(ASK)) as deltas:
        assert (await anext(deltas)).text == "one"
    assert (models.meter.attempts, models.meter.unpriced) == (1, ["scripted:0.jsonl"])


async def test_the_deadline_is_for_the_models_silence_and_not_for_a_slow_listener(tmp_path: Path) -> None:
    deltas = scripts(tmp_path, [{"content": "one two three"}], deadline=0.05).stream(ASK)
    assert (await anext(deltas)).text == "one"
    await asyncio.sleep(0.1)
    assert [delta.text async for delta in deltas] == [" two", " three", ""]


async def test_a_stream_that_never_ends_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hive_agents.models.model.LONGEST_STREAM", 0.1)

    async def endless() -> AsyncGenerator[str, None]:
        while True:
            await asyncio.sleep(0.01)
            yield "on and "

    with pytest.raises(ModelError, match="gave no answer"):
        async for _ in arriving(endless(), 0.05, "m"):
            pass


class Pieces(GenericFakeChatModel):
    """Streams `chunks`; an exception among them is raised."""

    chunks: list[Any]

    def _stream(self, *arguments: object, **options: object) -> Any:
        for chunk in self.chunks:
            if isinstance(chunk, Exception):
                raise chunk
            yield ChatGenerationChunk(message=chunk)


def saying(*chunks: Any) -> LangChainModel:
    return LangChainModel("fake:x", Pieces(messages=iter([]), chunks=list(chunks)))


def called(args: str, name: str | None = None) -> AIMessageChunk:
    part: Any = {"name": name, "args": args, "id": "c1" if name else None, "index": 0}
    return AIMessageChunk(content="", tool_call_chunks=[part])


async def test_a_model_of_langchain_streams() -> None:
    counted: Any = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
    model = saying(
        AIMessageChunk(content="yes "),
        AIMessageChunk(content="it is"),
        AIMessageChunk(content="", usage_metadata=counted),
    )
    pieces, result = await heard(model.stream(ASK, deadline=5))
    assert pieces == ["yes ", "it is"]
    assert (result.usage.input_tokens, result.usage.output_tokens, result.usage.priced) == (3, 2, False)


async def test_a_model_that_cannot_stream_answers_in_one_piece() -> None:
    chat = GenericFakeChatModel(messages=iter([AIMessage("all at once")]), disable_streaming=True)
    pieces, result = await heard(LangChainModel("fake:x", chat).stream(ASK, deadline=5))
    assert (pieces, result.text) == (["all at once"], "all at once")


async def test_a_call_whose_arguments_break_off_is_truncated() -> None:
    """LangChain would mend the JSON and delete what begins with the half of a name."""
    whole = saying(called("", "delete"), called('{"path": "/a'), called('/b"}'))
    _, result = await heard(whole.stream(ASK, tools=[], deadline=5))
    assert result.tool_calls == [ToolCall(name="delete", args={"path": "/a/b"}, id="c1")]
    _, error = await broken_off(saying(called("", "delete"), called('{"path": "/a')).stream(ASK, deadline=5))
    assert error.kind == "truncated"


async def test_a_stream_that_breaks_counts_what_is_known() -> None:
    counted: Any = {"input_tokens": 40, "output_tokens": 0, "total_tokens": 40}
    begun = AIMessageChunk(content="half", usage_metadata=counted)
    pieces, error = await broken_off(Chain([saying(begun, ConnectionResetError("gone"))]).stream(ASK))
    assert (pieces, error.kind, error.usage.input_tokens) == (["half"], "server", 40)


async def test_an_empty_stream_goes_to_the_next_model() -> None:
    _, result = await heard(Chain([saying(), saying(AIMessageChunk(content="yes"))]).stream(ASK))
    assert result.text == "yes"


async def test_bedrock_streams_words_and_usage(bedrock: BedrockServer) -> None:
    meter = Meter()
    pieces, result = await heard(chain(HAIKU, meter=meter).stream(ASK))
    assert pieces == ["echo: ", "Is ", "it ", "good?"]
    assert (result.usage.input_tokens, result.usage.output_tokens, meter.usage) == (1000, 100, result.usage)
    assert result.usage.usd == pytest.approx(1000 * 0.25e-6 + 100 * 1.25e-6)
    (request,) = bedrock.requests
    assert request.path.endswith("/converse-stream")
    assert request.authorization.startswith("AWS4-HMAC-SHA256 Credential=loopback/")


async def test_bedrock_streams_a_tool_call(bedrock: BedrockServer) -> None:
    bedrock.answer = {"q": "a key that is longer than a piece", "n": [1, 2]}
    pieces, result = await heard(chain(HAIKU).stream(ASK, tools=[LOOK_UP]))
    assert pieces == []
    assert result.tool_calls == [ToolCall(name="look_up", args=bedrock.answer, id="call_1")]


async def test_a_bedrock_model_not_known_to_stream_answers_whole(bedrock: BedrockServer) -> None:
    pieces, _ = await heard(chain("bedrock:somebody.new-v1:0").stream(ASK))
    assert pieces == ["echo: Is it good?"]
    assert bedrock.requests[0].path.endswith("/converse")


@pytest.mark.parametrize(
    ("failures", "kind"),
    [
        ([THROTTLED] * 3, "throttling"),
        ([UNAVAILABLE] * 3, "server"),
        ([Broken(1, exception("throttlingException", "slow down"))], "throttling"),
        ([Broken(1, exception("serviceUnavailableException", "later"))], "server"),
        ([Broken(0, closed=False)], "server"),
        ([Broken(1, event("messageStart", {})[:-1] + b"\0")], "garbage"),
    ],
    ids=["throttled", "unavailable", "throttled inside", "unavailable inside", "cut", "wrong checksum"],
)
async def test_before_the_first_word_the_next_model_serves(
    bedrock: BedrockServer, failures: list[object], kind: str
) -> None:
    bedrock.fail(*failures)
    meter = Meter()
    pieces, result = await heard(chain(HAIKU, NOVA, meter=meter).stream(ASK))
    assert (len(pieces), result.model, meter.attempts, meter.failures) == (4, NOVA, 2, {kind: 1})


@pytest.mark.parametrize(
    ("broken", "kind"),
    [
        (Broken(3, closed=False), "server"),
        (Broken(3, event("contentBlockStop", {"contentBlockIndex": 0})), "server"),
        (Broken(3, exception("modelStreamErrorException", "lost it")), "server"),
        (Broken(3, exception("throttlingException", "enough")), "throttling"),
    ],
    ids=["connection cut", "no end", "model error", "throttled"],
)
async def test_after_a_word_the_failure_is_the_calls(bedrock: BedrockServer, broken: Broken, kind: str) -> None:
    bedrock.fail(broken)
    meter = Meter()
    pieces, error = await broken_off(chain(HAIKU, NOVA, meter=meter).stream(ASK))
    assert (pieces, error.kind) == (["echo: ", "Is "], kind)
    assert (meter.attempts, meter.failures, meter.unpriced) == (1, {kind: 1}, [HAIKU])


async def test_a_stream_cut_before_its_price_but_after_its_end_is_an_answer(bedrock: BedrockServer) -> None:
    """Usage comes last: without it the answer stands, and its price isn't known."""
    bedrock.fail(Broken(7, b"\0"))
    _, result = await heard(chain(HAIKU).stream(ASK))
    assert (result.text, result.usage) == ("echo: Is it good?", Usage(priced=False))


async def test_a_refused_login_ends_the_stream(bedrock: BedrockServer) -> None:
    bedrock.fail(DENIED)
    _, error = await broken_off(chain(HAIKU, NOVA).stream(ASK))
    assert (error.kind, len(bedrock.requests)) == ("authentication", 1)


@pytest.mark.parametrize(("slow", "heard_before"), [(Slow(0.5), 0), (Broken(3, pause=0.5), 2)], ids=["open", "middle"])
async def test_the_deadline_holds_for_the_whole_stream(bedrock: BedrockServer, slow: object, heard_before: int) -> None:
    bedrock.fail(slow)
    pieces, error = await broken_off(chain(HAIKU, deadline=0.2).stream(ASK))
    assert (len(pieces), error.kind) == (heard_before, "timeout")
