"""Chat models of endpoints, over HTTP with servers that behave like the providers, and lie like them."""

from __future__ import annotations

import asyncio
import gzip
import json
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from hive_agents.base.errors import HiveError
from hive_agents.models import Chain, ChatResult, Message, Meter, ModelError, Tool, open_chain, sending
from hive_agents.models.breaker import forget_breakers
from tests.models.openai_server import KEY, Body, Dripping, ModelServer, Slow, Status, model_server
from tests.models.trusting import endpoint_settings, workspace_with
from tests.ports import lasting_port

ASK = [Message(role="system", content="You judge."), Message(role="user", content="Is it good?")]
VERDICT = {
    "title": "Verdict",
    "type": "object",
    "properties": {"action": {"enum": ["accept", "retry"]}, "confidence": {"type": "number"}},
    "required": ["action", "confidence"],
}
GOOD = {"action": "accept", "confidence": 0.9}
LOOK_UP = Tool(
    name="look_up", description="Looks up.", parameters={"type": "object", "properties": {"q": {"type": "string"}}}
)
FLAVOURS = pytest.mark.parametrize("flavour", ["openai", "ollama", "bare"])
Opening = Callable[..., Chain]


@pytest.fixture
def serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    with ExitStack() as stack:

        def start(flavour: str = "openai") -> ModelServer:
            return stack.enter_context(model_server(flavour))

        yield start


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Opening:
    forget_breakers()

    def opened(
        server: ModelServer, *, models: int = 1, deadline: float = 8.0, meter: Meter | None = None, **more: str
    ) -> Chain:
        settings = endpoint_settings(server.url, models=f"deadline_seconds = {deadline}", **more)
        place = workspace_with(tmp_path / "ws", settings, monkeypatch)
        names = ["lab:small", "lab:large"][:models]
        return open_chain(names, place.settings, workspace=place, meter=meter, by_user=True)

    return opened


async def streamed(chain: Chain, tools: list[Tool] | None = None) -> tuple[str, ChatResult]:
    text, result = "", None
    async for delta in chain.stream(ASK, tools=tools or []):
        text, result = text + delta.text, delta.result
    assert result is not None
    return text, result


@FLAVOURS
async def test_text_and_usage_come_back(serve: Any, opened: Opening, flavour: str) -> None:
    server = serve(flavour)
    result = await opened(server).complete(ASK)
    assert (result.text, result.model) == ("echo: Is it good?", "lab:small")
    assert (result.usage.input_tokens, result.usage.output_tokens, result.usage.priced) == (1000, 100, False)
    assert server.bodies()[0]["messages"][0] == {"role": "system", "content": "You judge."}


async def test_a_price_of_the_endpoint_is_what_a_call_costs(serve: Any, opened: Opening) -> None:
    chain = opened(serve(), endpoint="price = {input = 2.0, output = 10.0}")
    usage = (await chain.complete(ASK)).usage
    assert (usage.usd, usage.priced) == (pytest.approx(1000 * 2e-6 + 100 * 10e-6), True)


async def test_the_key_is_sent_and_never_shown(serve: Any, opened: Opening, monkeypatch: pytest.MonkeyPatch) -> None:
    server, reference = serve(), 'api_key_ref = "env:LAB_KEY"'
    server.key = KEY
    monkeypatch.setenv("LAB_KEY", KEY)
    chain = opened(server, endpoint=reference)
    assert (await chain.complete(ASK)).text
    server.key = "another"
    with pytest.raises(ModelError) as caught:
        await chain.complete(ASK)
    assert caught.value.kind == "authentication"
    assert KEY not in str(caught.value)
    monkeypatch.delenv("LAB_KEY")
    with pytest.raises(HiveError, match="HIVE-421"):
        opened(server, endpoint=reference)


@pytest.mark.parametrize(
    ("flavour", "way", "requests"), [("openai", "tool", 1), ("ollama", "schema", 2), ("bare", "prompt", 3)]
)
async def test_how_an_answer_can_be_had_is_found_out_once_and_remembered(
    serve: Any, opened: Opening, flavour: str, way: str, requests: int
) -> None:
    server = serve(flavour)
    server.structured = GOOD
    first = await opened(server).complete(ASK, schema=VERDICT)
    assert (first.structured, len(server.requests)) == (GOOD, requests)
    again = await opened(server).complete(ASK, schema=VERDICT)
    assert (again.structured, len(server.requests)) == (GOOD, requests + 1)
    last = server.bodies()[-1]
    assert ("tool_choice" in last, "response_format" in last) == (way == "tool", way == "schema")
    assert (VERDICT["title"] in json.dumps(last["messages"])) == (way == "prompt")


async def test_ways_that_failed_are_paid_for(serve: Any, opened: Opening) -> None:
    server = serve("ollama")
    server.structured = GOOD
    result = await opened(server).complete(ASK, schema=VERDICT)
    assert result.usage.input_tokens == 2000


async def test_an_answer_in_words_is_repaired_once(serve: Any, opened: Opening) -> None:
    server, answers = serve("bare"), ['{"action": "perhaps"}', f"```json\n{json.dumps(GOOD)}\n```", "no"]
    server.says = lambda body: answers.pop(0)
    result = await opened(server).complete(ASK, schema=VERDICT)
    assert (result.structured, result.usage.input_tokens) == (GOOD, 2000)
    assert "confidence is missing" in server.bodies()[-1]["messages"][-1]["content"]


async def test_thoughts_before_an_answer_are_no_part_of_it(serve: Any, opened: Opening) -> None:
    server = serve("bare")
    server.says = lambda body: "<think>{perhaps}</think>" + json.dumps(GOOD)
    assert (await opened(server).complete(ASK, schema=VERDICT)).structured == GOOD


async def test_a_way_that_is_known_is_kept_when_the_model_answers_badly(serve: Any, opened: Opening) -> None:
    server = serve()
    server.structured = GOOD
    chain = opened(server)
    await chain.complete(ASK, schema=VERDICT)
    server.structured = {"action": "perhaps"}
    with pytest.raises(ModelError) as caught:
        await chain.complete(ASK, schema=VERDICT)
    assert (caught.value.kind, len(server.requests)) == ("garbage", 2)


@pytest.mark.parametrize("flavour", ["openai", "ollama"])
async def test_tools_and_their_answers_travel(serve: Any, opened: Opening, flavour: str) -> None:
    server = serve(flavour)
    server.says = lambda body: {"name": "look_up", "arguments": {"q": "key"}}
    chain = opened(server)
    result = await chain.complete(ASK, tools=[LOOK_UP])
    (call,) = result.tool_calls
    assert (call.name, call.args, bool(call.id)) == ("look_up", {"q": "key"}, True)
    turns = [*ASK, Message(role="assistant", content="", tool_calls=[call])]
    await chain.complete([*turns, Message(role="tool", content="found", tool_call_id=call.id)], tools=[LOOK_UP])
    sent = server.bodies()[-1]["messages"]
    assert json.loads(sent[2]["tool_calls"][0]["function"]["arguments"]) == {"q": "key"}
    assert sent[3] == {"role": "tool", "content": "found", "tool_call_id": call.id}


async def test_a_tool_may_be_called_instead_of_an_answer(serve: Any, opened: Opening) -> None:
    server = serve()
    server.says = lambda body: {"name": "look_up", "arguments": {"q": "key"}}
    result = await opened(server).complete(ASK, tools=[LOOK_UP], schema=VERDICT)
    assert (result.structured, [call.name for call in result.tool_calls]) == (None, ["look_up"])
    assert server.bodies()[0]["tool_choice"] == "required"


async def test_a_model_without_tools_says_so(serve: Any, opened: Opening) -> None:
    with pytest.raises(ModelError) as caught:
        await opened(serve("bare")).complete(ASK, tools=[LOOK_UP])
    assert (caught.value.kind, caught.value.outage) == ("unsupported", False)


@pytest.mark.parametrize("flavour", ["openai", "ollama"])
async def test_a_stream_brings_text_tools_and_usage(serve: Any, opened: Opening, flavour: str) -> None:
    server = serve(flavour)
    chain = opened(server)
    text, result = await streamed(chain)
    assert text == result.text == "echo: Is it good?"
    server.says = lambda body: {"name": "look_up", "arguments": {"q": "two words"}}
    _, result = await streamed(chain, [LOOK_UP])
    assert [(call.name, call.args) for call in result.tool_calls] == [("look_up", {"q": "two words"})]
    assert result.usage.input_tokens > 0
    assert result.usage.output_tokens > 0
    if flavour == "openai":
        assert (result.usage.input_tokens, result.usage.output_tokens) == (1000, 100)


async def test_parameters_that_a_server_refuses_are_left_out_from_then_on(serve: Any, opened: Opening) -> None:
    server = serve()
    server.fail(Status(400, "Unsupported parameter: 'max_tokens', use 'max_completion_tokens'"))
    chain = opened(server)
    await chain.complete(ASK, max_tokens=99, temperature=0)
    await opened(server).complete(ASK, max_tokens=99, temperature=0)
    assert [("max_tokens" in one, one.get("max_completion_tokens")) for one in server.bodies()] == [
        (True, None),
        (False, 99),
        (False, 99),
    ]
    server.fail(Status(400, "stream_options is not permitted"))
    assert (await streamed(chain))[0] == "echo: Is it good?"


PACKED = gzip.compress(gzip.compress(b" " * 5_000_000)), "application/json", {"Content-Encoding": "gzip, gzip"}
FAULTS: list[tuple[str, list[Any], str, bool]] = [
    ("deadline", [Slow(3)], "timeout", True),
    ("throttled", [Status(429)] * 3, "throttling", True),
    ("throttled for long", [Status(429, headers={"Retry-After": "60"})], "throttling", True),
    ("server", [Status(503)] * 3, "server", True),
    ("gateway timeout", [Status(504)], "timeout", True),
    ("login", [Status(401)], "authentication", True),
    ("no credit", [Status(429, "You exceeded your quota", "insufficient_quota")], "authentication", True),
    ("a page of HTML", [Body(b"<html>welcome</html>", "text/html")], "garbage", False),
    ("half an answer", [Body(b'{"choices": [{"message": {"cont')], "garbage", False),
    ("no choices", [Body(b'{"choices": []}')], "garbage", False),
    ("a list", [Body(b"[1, 2]")], "garbage", False),
    ("layers of zip", [Body(*PACKED)], "garbage", False),
    ("layers of zip as a stream", [Body(PACKED[0], "text/event-stream", PACKED[2])], "garbage", False),
    ("context", [Status(400, "maximum 8192 tokens", "context_length_exceeded")], "overflow", False),
    ("context of llama.cpp", [Status(500, "the request exceeds the available context size")], "overflow", False),
    ("refused by a filter", [Status(400, "flagged", "content_filter")], "refusal", False),
    ("request", [Status(422, "messages: field required")], "unsupported", False),
    ("an error with status 200", [Body(b'{"error": {"message": "upstream died", "code": 502}}')] * 3, "server", True),
    ("redirected", [Status(307, "elsewhere")], "unsupported", False),
]


@pytest.mark.parametrize(("failures", "kind", "outage"), [one[1:] for one in FAULTS], ids=[one[0] for one in FAULTS])
@pytest.mark.parametrize("streams", [False, True], ids=["whole", "stream"])
async def test_each_fault_has_a_name(
    serve: Any, opened: Opening, failures: list[Any], kind: str, outage: bool, streams: bool
) -> None:
    server = serve()
    server.fail(*failures)
    slow = any(isinstance(one, Slow) for one in failures)
    chain = opened(server, deadline=1.0 if slow else 30.0)
    with pytest.raises(ModelError) as caught:
        await (streamed(chain) if streams else chain.complete(ASK))
    assert (caught.value.kind, caught.value.outage) == (kind, outage)


async def test_a_line_without_an_end_ends_a_stream(
    serve: Any, opened: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hive_agents.models.endpoint.MOST_BYTES", 1 << 20)
    server = serve()
    for kind in ("text/event-stream", "application/json"):
        server.fail(Body(b"data: " + b"x" * (2 << 20), kind))
        with pytest.raises(ModelError, match="more than 1 MB"):
            await streamed(opened(server))


async def test_what_passes_is_tried_again(serve: Any, opened: Opening) -> None:
    server, meter = serve(), Meter()
    server.fail(Status(429, headers={"Retry-After": "0.01"}), Status(500))
    assert (await opened(server, meter=meter).complete(ASK)).text == "echo: Is it good?"
    assert (len(server.requests), meter.attempts) == (3, 1)


@pytest.mark.parametrize("headers", [{"Retry-After": "60"}, {"retry-after-ms": "60000", "Retry-After": "61"}])
async def test_how_long_a_server_wants_to_be_left_alone_is_told(
    serve: Any, opened: Opening, headers: dict[str, str]
) -> None:
    server = serve()
    server.fail(Status(429, headers=headers))
    with pytest.raises(ModelError) as caught:
        await opened(server).complete(ASK)
    assert (caught.value.retry_after, len(server.requests)) == (60.0, 1)


async def test_the_next_model_serves_when_one_fails(serve: Any, opened: Opening) -> None:
    server = serve()
    server.fail(*[Status(503)] * 3)
    assert (await opened(server, models=2).complete(ASK)).model == "lab:large"


async def test_a_refusal_does_not_move_on(serve: Any, opened: Opening) -> None:
    server = serve()
    server.finish = "content_filter"
    with pytest.raises(ModelError) as caught:
        await opened(server, models=2).complete(ASK)
    assert (caught.value.kind, len(server.requests)) == ("refusal", 1)
    with pytest.raises(ModelError) as caught:
        await streamed(opened(server))
    assert caught.value.kind == "refusal"


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "stream"])
async def test_a_call_that_breaks_off_is_not_made(serve: Any, opened: Opening, streams: bool) -> None:
    server = serve()
    server.says = lambda body: {"name": "look_up", "arguments": '{"q": "half of'}
    chain = opened(server)
    with pytest.raises(ModelError) as caught:
        await (streamed(chain, [LOOK_UP]) if streams else chain.complete(ASK, tools=[LOOK_UP]))
    assert caught.value.kind == "truncated"
    assert caught.value.usage.input_tokens == 1000


async def test_json_that_breaks_off_is_told_from_garbage(serve: Any, opened: Opening) -> None:
    server = serve("ollama")
    server.structured = '{"action": "accept", "conf'
    with pytest.raises(ModelError) as caught:
        await opened(server).complete(ASK, schema=VERDICT)
    assert caught.value.kind == "truncated"


async def test_a_stream_that_breaks_off_is_no_answer(serve: Any, opened: Opening) -> None:
    server = serve()
    server.fail(Dripping(events=2))
    with pytest.raises(ModelError) as caught:
        await streamed(opened(server))
    assert (caught.value.kind, caught.value.usage.output_tokens > 0) == ("server", True)


@pytest.mark.parametrize("index", [{"index": 0}, {}], ids=["one index", "no index"])
@pytest.mark.parametrize("together", [True, False], ids=["one event", "two events"])
async def test_calls_with_ids_of_their_own_are_calls_of_their_own(
    serve: Any, opened: Opening, index: dict[str, int], together: bool
) -> None:
    calls = [
        index | {"id": f"c{n}", "function": {"name": "look_up", "arguments": json.dumps({"q": word})}}
        for n, word in enumerate(("one", "two"))
    ]
    events = [{"tool_calls": calls}] if together else [{"tool_calls": [call]} for call in calls]
    lines = [json.dumps({"choices": [{"delta": delta}]}) for delta in events]
    lines += [json.dumps({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}), "[DONE]"]
    server = serve()
    server.fail(Body("".join(f"data: {line}\n\n" for line in lines).encode(), "text/event-stream"))
    _, result = await streamed(opened(server), [LOOK_UP])
    assert [(call.id, call.args) for call in result.tool_calls] == [("c0", {"q": "one"}), ("c1", {"q": "two"})]


def streamed_body(*deltas: dict[str, Any], finish: str) -> Body:
    lines = [json.dumps({"choices": [{"delta": delta}]}) for delta in deltas]
    lines += [json.dumps({"choices": [{"delta": {}, "finish_reason": finish}]}), "[DONE]"]
    return Body("".join(f"data: {line}\n\n" for line in lines).encode(), "text/event-stream")


@pytest.mark.parametrize("together", [True, False], ids=["one event", "two events"])
async def test_calls_without_ids_are_calls_of_their_own_under_one_index(
    serve: Any, opened: Opening, together: bool
) -> None:
    calls = [
        {"index": 0, "function": {"name": "look_up", "arguments": json.dumps({"q": word})}} for word in ("one", "two")
    ]
    server = serve()
    events = [{"tool_calls": calls}] if together else [{"tool_calls": [call]} for call in calls]
    server.fail(streamed_body(*events, finish="tool_calls"))
    _, result = await streamed(opened(server), [LOOK_UP])
    assert [(call.name, call.args) for call in result.tool_calls] == [("look_up", {"q": w}) for w in ("one", "two")]


@pytest.mark.parametrize("id", [{"id": "c1"}, {}], ids=["with ids", "without"])
async def test_a_name_that_comes_with_each_piece_is_one_name(serve: Any, opened: Opening, id: dict[str, str]) -> None:
    server = serve()
    pieces = [
        {"tool_calls": [id | {"index": 0, "function": {"name": "look_up", "arguments": piece}}]}
        for piece in ('{"q": ', '"one"}')
    ]
    server.fail(streamed_body(*pieces, finish="tool_calls"))
    _, result = await streamed(opened(server), [LOOK_UP])
    assert [(call.name, call.args) for call in result.tool_calls] == [("look_up", {"q": "one"})]


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
@pytest.mark.parametrize("streams", [False, True], ids=["whole", "stream"])
async def test_thoughts_beside_an_answer_are_no_part_of_it(
    serve: Any, opened: Opening, name: str, streams: bool
) -> None:
    server = serve()
    whole = {"choices": [{"message": {"content": "yes", name: "hm"}, "finish_reason": "stop"}]}
    body = streamed_body({name: "hm", "content": None}, {"content": "yes"}, finish="stop")
    server.fail(body if streams else Body(json.dumps(whole).encode()))
    chain = opened(server)
    text = (await streamed(chain))[1].text if streams else (await chain.complete(ASK)).text
    assert text == "yes"


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "stream"])
async def test_thoughts_that_leave_no_room_for_an_answer_are_none(serve: Any, opened: Opening, streams: bool) -> None:
    server = serve()
    whole = {"choices": [{"message": {"content": None, "reasoning": "hm"}, "finish_reason": "length"}]}
    server.fail(streamed_body({"reasoning": "hm"}, finish="length") if streams else Body(json.dumps(whole).encode()))
    chain = opened(server)
    with pytest.raises(ModelError) as caught:
        await (streamed(chain) if streams else chain.complete(ASK))
    assert caught.value.kind == "truncated"


@pytest.mark.parametrize(("value", "seconds"), [("86400", 86_400.0), ("inf", 0.0), ("nan", 0.0)])
async def test_a_rest_of_a_day_is_told_and_one_without_an_end_is_none(
    serve: Any, opened: Opening, value: str, seconds: float
) -> None:
    server = serve()
    server.fail(*[Status(429, headers={"Retry-After": value})] * 3)
    with pytest.raises(ModelError) as caught:
        await opened(server).complete(ASK)
    assert caught.value.retry_after == seconds
    assert ("86,400 s" in str(caught.value)) is (seconds > 0)
    assert len(server.requests) == (1 if seconds else 3)


async def test_an_event_that_is_no_json_is_garbage(serve: Any, opened: Opening) -> None:
    server = serve()
    server.fail(Body(b'data: {"choices": [{"delta": {"content": "a"}}]}\n\ndata: {"cho\n\n', "text/event-stream"))
    with pytest.raises(ModelError) as caught:
        await streamed(opened(server))
    assert caught.value.kind == "garbage"


async def test_a_model_that_is_not_there_is_a_diagnostic(serve: Any, opened: Opening) -> None:
    server = serve("ollama")
    server.missing = "small"
    with pytest.raises(HiveError, match="try pulling it first") as caught:
        await opened(server).complete(ASK)
    assert caught.value.diagnostics[0].code == "HIVE-401"


async def test_a_dead_server_is_waited_for_twice_and_then_not_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget_breakers()
    settings = endpoint_settings(f"http://127.0.0.1:{lasting_port()}/v1", models="deadline_seconds = 30.0")
    place = workspace_with(tmp_path / "ws", settings, monkeypatch)
    kinds = []
    for _ in range(3):
        with pytest.raises(ModelError) as caught:
            await open_chain(["lab:small"], place.settings, workspace=place, by_user=True).complete(ASK)
        kinds.append(caught.value.kind)
        assert caught.value.outage
    assert kinds == ["server", "server", "unavailable"]
    forget_breakers()


async def test_slow_answers_open_the_breaker_too(serve: Any, opened: Opening) -> None:
    server = serve()
    server.fail(Slow(2), Slow(2))
    chain, kinds = opened(server, deadline=0.4), []
    for _ in range(3):
        with pytest.raises(ModelError) as caught:
            await chain.complete(ASK)
        kinds.append(caught.value.kind)
    async with asyncio.timeout(30):
        while len(server.requests) < 2:  # the server may read a request after nobody waits for its answer
            await asyncio.sleep(0.01)
    assert (kinds, len(server.requests)) == (["timeout", "timeout", "unavailable"], 2)


def test_an_endpoint_of_a_workspace_that_is_not_trusted_is_not_used(
    serve: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve()
    place = workspace_with(tmp_path / "ws", endpoint_settings(server.url), monkeypatch, trusted=False)
    with pytest.raises(HiveError, match="not trusted") as caught:
        open_chain(["lab:small"], place.settings, workspace=place, by_user=True)
    assert caught.value.diagnostics[0].fix == "look with `hive trust --diff`, then allow it with `hive trust`"
    assert server.requests == []


def test_a_name_of_no_endpoint_says_how_to_add_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = workspace_with(tmp_path / "ws", "", monkeypatch)
    with pytest.raises(HiveError, match=r"models\.endpoints\.nowhere"):
        open_chain(["nowhere:small"], place.settings, workspace=place, by_user=True)


async def test_a_stream_that_is_sending_is_not_cut_and_one_that_falls_silent_is(serve: Any, opened: Opening) -> None:
    """However long the whole answer takes."""
    server = serve("openai")
    server.says = lambda _: "one two three four five six seven eight"
    server.fail(Dripping(pause=0.15))
    assert (await streamed(opened(server, deadline=1.0)))[0] == "one two three four five six seven eight"
    server.fail(*[Dripping(pause=1.0)] * 3)
    with pytest.raises(ModelError) as caught:
        await streamed(opened(server, deadline=0.6))
    assert caught.value.kind == "timeout"


async def test_a_request_that_nobody_waited_for_is_estimated(serve: Any, opened: Opening) -> None:
    """The server works on it all the same."""
    server = serve("openai")
    server.fail(Slow(1.0))
    with pytest.raises(ModelError) as caught:
        await streamed(opened(server, deadline=0.3))
    assert caught.value.kind == "timeout"
    assert caught.value.usage.estimated
    assert caught.value.usage.input_tokens > 0


async def test_what_a_server_leaves_uncounted_is_estimated_by_what_it_counted_before(
    serve: Any, opened: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its tokens have as many characters as those that it counted; one that never counted is overestimated."""
    server = serve("openai")
    server.count = lambda body, _: {"prompt_tokens": len(json.dumps([body["messages"], None])) // 6}
    server.faulty = lambda _: Dripping(silent=len(server.requests) in (1, 3))
    monkeypatch.setattr("tests.models.test_endpoint.ASK", [Message(role="user", content="word " * 600)])
    spent = [(await streamed(opened(server)))[1].usage for _ in range(3)]
    assert [one.estimated for one in spent] == [True, False, True]
    assert spent[0].input_tokens == pytest.approx(2 * spent[1].input_tokens, rel=0.01)
    assert spent[2].input_tokens == pytest.approx(spent[1].input_tokens, rel=0.01)


@pytest.mark.parametrize("counted", [0, -5, "many", None])
async def test_a_count_that_no_request_can_have_is_none(serve: Any, opened: Opening, counted: Any) -> None:
    """A server that counts nothing may say so by zeros; budgets hold all the same, and later estimates too."""
    server = serve("openai")
    server.count = lambda *_: {"prompt_tokens": counted, "completion_tokens": 0}
    spent = [(await streamed(opened(server)))[1].usage for _ in range(2)]
    assert all(one.estimated and one.input_tokens > 0 and one.output_tokens > 0 for one in spent)


async def test_a_stream_that_breaks_off_in_a_call_costs_what_the_server_wrote(serve: Any, opened: Opening) -> None:
    """By what it counted before, also for another process: the marks of a call are more than what is read of it."""
    server = serve("openai")
    server.says = lambda _: {"name": "look_up", "arguments": {"q": "key " * 60}}
    server.count = lambda body, message: {
        "prompt_tokens": len(json.dumps([body["messages"], body["tools"]])) // 5,
        "completion_tokens": len(json.dumps(message)) // 2,
    }
    counted = (await streamed(opened(server), [LOOK_UP]))[1].usage
    server.faulty = lambda _: Dripping(events=2)
    with pytest.raises(ModelError) as caught:
        await streamed(opened(server), [LOOK_UP])
    spent = caught.value.usage
    assert (counted.estimated, spent.estimated) == (False, True)
    assert spent.input_tokens == pytest.approx(counted.input_tokens, abs=1)
    assert spent.output_tokens == pytest.approx(counted.output_tokens, rel=0.01)


async def test_a_request_is_told_before_a_server_can_have_it(serve: Any, opened: Opening) -> None:
    """However long other tasks of the process take then: it may be killed while they are at work."""
    server, told, seen = serve("openai"), [], []
    server.says = lambda _: seen.append(list(told)) or "good"

    async def others() -> None:
        while True:
            time.sleep(0.02)
            await asyncio.sleep(0)

    at_work = asyncio.create_task(others())
    with sending(told.append):
        await streamed(opened(server))
    at_work.cancel()
    assert seen == [[1]]
