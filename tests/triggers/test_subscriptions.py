from __future__ import annotations

import asyncio
import datetime as dt
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.base.errors import HiveError, RefusedInput
from hive_agents.runs import RunStore
from hive_agents.triggers import Subscriptions, TriggerStore
from hive_agents.triggers.spec import SseTrigger
from hive_agents.triggers.sse import StreamSubscription
from tests.triggers.conftest import Fired, trigger
from tests.triggers.streams import OK, Streams, served, status

STREAM = {"id": "alarms", "type": "sse", "agent": "digest", "url": "http://127.0.0.1/"}


def event(topic: str, id: str | None = None, **fields: Any) -> str:
    lines = [f"id: {id}"] if id is not None else []
    lines += [f"{name}: {value}" for name, value in fields.items()]
    return "\n".join([*lines, f"data: {json.dumps({'topic': topic})}", "", ""])


class Pauses:
    """Sleeps shortly, and writes down for how long it should have been."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        await asyncio.sleep(0.001)


def subscription(place: Workspace, fired: Fired, url: str, pauses: Pauses, **changes: Any) -> StreamSubscription:
    spec = SseTrigger.model_validate({**STREAM, "url": url, **changes})
    return StreamSubscription(place, spec, fired, sleep=pauses, jitter=lambda: 0.0)


@asynccontextmanager
async def running(one: StreamSubscription | Subscriptions) -> AsyncIterator[None]:
    task = asyncio.create_task(one.run())
    try:
        async with asyncio.timeout(20):
            yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(0.005)


def topics(fired: Fired) -> list[str]:
    return [input["topic"] for input in fired.inputs]


async def test_every_event_fires_once_however_the_connection_breaks(place: Workspace, fired: Fired) -> None:
    """Cut within an event, ended, and repeated from an earlier place: three events, three runs."""
    answers: list[Any] = [
        event("a", "1") + event("b", "2")[:-4],
        event("b", "2"),
        event("a", "1") + event("b", "2") + event("c", "3"),
    ]
    async with served(Streams(answers)) as streams:
        pauses = Pauses()
        async with running(subscription(place, fired, streams.url, pauses)):
            await until(lambda: len(fired.keys) == 3)
            state = TriggerStore(place).get("alarms")
            await until(lambda: (state := TriggerStore(place).get("alarms")) and state.last_event_id == "3")
    assert topics(fired) == ["a", "b", "c"]
    assert streams.last_ids == [None, "1", "2"]
    assert state is not None
    assert fired.keys[0].startswith("trigger/alarms/1/")


async def test_a_new_process_goes_on_after_the_last_event_that_has_a_run(place: Workspace, fired: Fired) -> None:
    everything = [event("a", "1"), event("b", "2"), event("c", "é3")]

    def after_the_last(request: dict[str, str]) -> str:
        last = request.get("last-event-id")
        return "".join(everything[["1", "2", "é3"].index(last) + 1 :] if last else everything[:2])

    def remembers(last: str) -> bool:
        state = TriggerStore(place).get("alarms")
        return state is not None and state.last_event_id == last

    async with served(Streams([after_the_last])) as streams:
        async with running(subscription(place, fired, streams.url, Pauses())):
            await until(lambda: remembers("2"))
        async with running(subscription(place, fired, streams.url, Pauses())):
            await until(lambda: remembers("é3"))
        async with running(subscription(place, fired, streams.url, Pauses())):
            await until(lambda: len(streams.requests) == 3)
    assert streams.last_ids == [None, "2", "é3"]
    assert topics(fired) == ["a", "b", "c"]


async def test_events_without_an_id_are_known_by_their_content(place: Workspace, fired: Fired) -> None:
    """The decoder gives them the id of the event before: that must not make two events one."""
    text = event("a", "1") + event("b") + event("c") + event("b")
    async with served(Streams([text, text + event("d")])) as streams:
        async with running(subscription(place, fired, streams.url, Pauses())):
            await until(lambda: len(fired.keys) == 4)
    assert topics(fired) == ["a", "b", "c", "d"]
    assert streams.last_ids == [None, "1"]


async def test_an_event_that_is_sent_twice_is_one(place: Workspace, fired: Fired) -> None:
    text = event("a", "5") * 3 + event("b") + event("c", "6")
    async with served(Streams([text])) as streams:
        async with running(subscription(place, fired, streams.url, Pauses())):
            await until(lambda: len(fired.keys) == 3)
    assert topics(fired) == ["a", "b", "c"]


async def test_only_the_named_event_and_no_empty_one_fires(place: Workspace, fired: Fired) -> None:
    text = ": hello\n\nid: 5\n\n" + event("x", event="other") + event("a", event="alarm") + "event: alarm\n\n"
    async with served(Streams([text])) as streams:
        async with running(subscription(place, fired, streams.url, Pauses(), event="alarm", input={"team": "qa"})):
            await until(lambda: fired.keys)
    assert fired.inputs == [{"team": "qa", "topic": "a"}]


async def test_text_that_is_no_json_can_be_an_input(place: Workspace, fired: Fired) -> None:
    async with served(Streams(["data: two\r\ndata: lines\r\n\r\n"])) as streams:
        async with running(subscription(place, fired, streams.url, Pauses(), input_key="topic")):
            await until(lambda: fired.keys)
    assert topics(fired) == ["two\nlines"]


@pytest.mark.parametrize("charset", ["punycode", "utf-16", "undefined"])
async def test_a_stream_chooses_no_decoder(place: Workspace, fired: Fired, charset: str) -> None:
    """That of punycode takes the square of what it is given, on the thread that serves all."""
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset={charset}\r\n\r\n"
    async with served(Streams([(head + event("ä", "1")).encode()])) as streams:
        async with running(subscription(place, fired, streams.url, Pauses())):
            await until(lambda: fired.keys)
    assert topics(fired) == ["ä"]


async def test_it_backs_off_and_waits_as_long_as_the_server_says(place: Workspace, fired: Fired) -> None:
    busy, gone = status("503 Busy"), b""
    text = [event("a", "1", retry="7000"), event("b", "2", retry="1"), event("c", "3", retry="900000"), event("d", "4")]
    answers: list[Any] = [busy, status("429 Slow"), gone, busy, *text]
    async with served(Streams(answers)) as streams:
        pauses = Pauses()
        async with running(subscription(place, fired, streams.url, pauses)):
            await until(lambda: len(fired.keys) == 4)
    assert pauses.seconds == [1, 2, 4, 8, 7, 1, 60]


@pytest.mark.parametrize(
    "answer",
    [status("204 No Content"), status("401 Unauthorized"), status("404 Not Found"), status("302 Found", "Location: /"),
     status("200 OK", "Content-Type: text/html"),
     status("200 OK", "Content-Type: text/event-stream", "Content-Encoding: gzip")],
)  # fmt: skip
async def test_an_answer_that_will_not_change_stops_it(place: Workspace, fired: Fired, answer: bytes) -> None:
    async with served(Streams([answer])) as streams:
        one = subscription(place, fired, streams.url, Pauses())
        async with asyncio.timeout(10):
            await one.run()
    assert (one.state, len(streams.requests)) == ("stopped", 1)
    assert one.error is not None
    assert one.error.code == "HIVE-426"


async def test_the_secret_is_a_bearer_token_and_is_needed(
    place: Workspace, fired: Fired, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with served(Streams([event("a", "1")])) as streams:
        pauses = Pauses()
        async with running(subscription(place, fired, streams.url, pauses, secret_ref="env:STREAM_TOKEN")):
            await until(lambda: len(pauses.seconds) > 2)
            assert streams.requests == []
            monkeypatch.setenv("STREAM_TOKEN", "hunter2")
            await until(lambda: fired.keys)
    assert streams.requests[0]["authorization"] == "Bearer hunter2"
    assert "hunter2" not in caplog.text


async def test_what_cannot_be_started_is_tried_again_and_what_is_refused_is_left(
    place: Workspace, fired: Fired
) -> None:
    locked = HiveError.of("HIVE-402", "the database is locked")
    fired.before = [locked, locked, RefusedInput.of("HIVE-103", "no input", file="input", path="topic")]
    async with served(Streams([event("a", "1") + "id: 2\ndata: []\n\n" + event("b", "3")])) as streams:
        async with running(subscription(place, fired, streams.url, Pauses())):
            await until(lambda: fired.keys)
    assert topics(fired) == ["b"]
    assert len(streams.requests) == 1


async def test_an_endless_event_breaks_the_connection(place: Workspace, fired: Fired) -> None:
    endless = OK + b"%x\r\n" % 3_000_000 + b"data: " + b"x" * 2_999_994 + b"\r\n"
    async with served(Streams([endless, event("a", "1")])) as streams:
        async with running(subscription(place, fired, streams.url, Pauses())):
            await until(lambda: fired.keys)
    assert topics(fired) == ["a"]


async def test_many_small_events_are_no_endless_one(place: Workspace, fired: Fired) -> None:
    text = "".join(f"id: {n}\nevent: noise\ndata: {'x' * 1000}\n\n" for n in range(3_000)) + event("a", event="alarm")
    async with served(Streams([text])) as streams:
        async with running(subscription(place, fired, streams.url, Pauses(), event="alarm")):
            await until(lambda: fired.keys)
    assert len(streams.requests) == 1


async def test_subscriptions_follow_the_files(place: Workspace, fired: Fired) -> None:
    async with served(Streams([event("a", "1"), event("b", "2")])) as streams:
        trigger(place, STREAM, url=streams.url)
        every = Subscriptions(place, fired)
        async with running(every):
            await until(lambda: topics(fired) == ["a"])
            trigger(place, STREAM, url=streams.url, input={"team": "qa"})
            before = every.active["alarms"]
            await every.refresh()
            assert every.active["alarms"] is not before
            await until(lambda: topics(fired) == ["a", "b"])
            trigger(place, STREAM, url=streams.url, enabled=False)
            await every.refresh()
            assert every.active == {}
    assert fired.inputs[1] == {"team": "qa", "topic": "b"}
    assert len(RunStore(place).list()) == 2


async def test_an_event_told_again_after_a_day_is_another_one(place: Workspace, fired: Fired) -> None:
    store, now = TriggerStore(place), dt.datetime.now(dt.UTC)
    row, _ = RunStore(place).insert("event_loop", {"input": {}}, agent="digest", key="trigger/alarms/x")
    assert store.key_of("local", "trigger/alarms/x", now) == ("trigger/alarms/x", row.run_id)
    tomorrow = now + dt.timedelta(hours=25)
    assert store.key_of("local", "trigger/alarms/x", tomorrow) == (f"trigger/alarms/x#{row.run_id}", None)
