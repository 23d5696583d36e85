from __future__ import annotations

import asyncio
import datetime as dt
import json
import logging
import random
from collections.abc import Callable
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.base.errors import HiveError, RefusedInput
from hive_agents.runs import RunStore
from hive_agents.store import connected
from hive_agents.triggers import TriggerStore
from hive_agents.triggers.webhooks import Accepted, RefusedRequest, accept, sign
from tests.agents.conftest import write_json
from tests.triggers.conftest import NIGHTLY, TICKET, Fired, trigger

SECRET = "correct horse battery staple"
NOW = dt.datetime.now(dt.UTC).replace(microsecond=0)
UNIX = int(NOW.timestamp())
BODY = json.dumps({"topic": "bees"}).encode()
Pairs = list[tuple[str, str]]


@pytest.fixture(autouse=True)
def _secret(place: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TICKET_SECRET", SECRET)
    trigger(place, TICKET)


def signed(body: bytes = BODY, id: str = "e1", timestamp: int | str = UNIX, secret: str = SECRET) -> Pairs:
    return [
        ("X-Hive-Timestamp", str(timestamp)),
        ("X-Hive-Signature", sign(secret, body, timestamp)),
        ("X-Hive-Id", id),
    ]


async def post(place: Workspace, fired: Fired, headers: Any, body: bytes = BODY, id: str = "ticket", **at: Any) -> Any:
    return await accept(place, id, headers, body, at.get("now", NOW), fire=fired)


async def test_a_genuine_request_starts_a_run(place: Workspace, fired: Fired) -> None:
    answer = await post(place, fired, dict(signed()))
    assert answer == Accepted(202, RunStore(place).list()[0].run_id)
    assert (fired.keys, fired.inputs) == (["trigger/ticket/e1"], [{"topic": "bees"}])
    state = TriggerStore(place).get("ticket")
    assert state is not None
    assert (state.last_at, state.last_run_id) == (NOW, answer.run_id)


async def test_the_same_id_gives_the_first_run_for_a_day(place: Workspace, fired: Fired) -> None:
    """Also with another body and signature, and twice at once; after 24 hours an id is a new one."""
    first, twin = await asyncio.gather(post(place, fired, signed()), post(place, fired, signed()))
    assert first.run_id == twin.run_id
    assert sorted([first.status, twin.status]) == [200, 202]  # whoever of the two comes first
    again = b'{"topic": "wasps"}'
    later = UNIX + 86_000
    in_time = NOW + dt.timedelta(seconds=86_000)
    assert await post(place, fired, signed(again, timestamp=later), again, now=in_time) == Accepted(200, first.run_id)
    with connected(place.records) as connection:
        connection.execute("UPDATE runs SET started_at = ?", ((NOW - dt.timedelta(hours=25)).isoformat(),))
    second = await post(place, fired, signed())
    assert second.status == 202
    assert second.run_id != first.run_id
    assert await post(place, fired, signed()) == Accepted(200, second.run_id)


async def test_a_secret_that_two_webhooks_share_counts_at_neither(place: Workspace, fired: Fired) -> None:
    """A signature covers no webhook's name: what is read on its way to one would start another one's agent."""
    trigger(place, TICKET, id="other")
    for id in ("ticket", "other"):
        assert (await post(place, fired, signed(), id=id)).status == 404
    for changes in ({"enabled": False}, {"secret_ref": "env:OTHER_SECRET"}):
        trigger(place, TICKET, id="other", **changes)
        assert (await post(place, fired, signed(id=f"e-{len(fired.keys)}"))).status == 202
        assert isinstance(await post(place, fired, signed(), id="other"), RefusedRequest)
    assert len(fired.keys) == 2


async def test_twins_with_different_bodies_start_one_run(place: Workspace, fired: Fired) -> None:
    bodies = [json.dumps({"topic": str(number)}).encode() for number in range(6)]
    answers = await asyncio.gather(*(post(place, fired, signed(body), body) for body in bodies))
    assert {answer.status for answer in answers} <= {200, 202}
    assert len({answer.run_id for answer in answers}) == len(RunStore(place).list()) == 1


def change(name: str, value: Callable[[str], str]) -> Callable[[random.Random, Pairs, bytes], tuple[Pairs, bytes]]:
    def changed(rng: random.Random, headers: Pairs, body: bytes) -> tuple[Pairs, bytes]:
        return [(key, value(text) if key == name else text) for key, text in headers], body

    return changed


def flipped(rng: random.Random, headers: Pairs, body: bytes) -> tuple[Pairs, bytes]:
    place = rng.randrange(len(body))
    return headers, body[:place] + bytes([body[place] ^ (1 << rng.randrange(8))]) + body[place + 1 :]


def cut(rng: random.Random, headers: Pairs, body: bytes) -> tuple[Pairs, bytes]:
    return headers, body[: rng.randrange(len(body))]


def longer(rng: random.Random, headers: Pairs, body: bytes) -> tuple[Pairs, bytes]:
    return headers, body + rng.choice([b" ", b"\n", b"\x00", b"{}"])


def moved(rng: random.Random, headers: Pairs, body: bytes) -> tuple[Pairs, bytes]:
    return signed(body, timestamp=UNIX + rng.choice([-1, 1]) * rng.randint(301, 10**9)), body


def restamped(rng: random.Random, headers: Pairs, body: bytes) -> tuple[Pairs, bytes]:
    return change("X-Hive-Timestamp", lambda text: str(int(text) + rng.choice([-200, -1, 1, 200])))(rng, headers, body)


def other_secret(rng: random.Random, headers: Pairs, body: bytes) -> tuple[Pairs, bytes]:
    return signed(body, secret=rng.choice(["", "x", SECRET + " ", SECRET[:-1], SECRET.upper(), "sécret"])), body


def dropped(rng: random.Random, headers: Pairs, body: bytes) -> tuple[Pairs, bytes]:
    gone = rng.randrange(3)
    return [pair for number, pair in enumerate(headers) if number != gone], body


def doubled(rng: random.Random, headers: Pairs, body: bytes) -> tuple[Pairs, bytes]:
    name, value = rng.choice(headers)
    pairs = [*headers, (rng.choice([name, name.lower(), name.upper()]), rng.choice([value, "0", ""]))]
    rng.shuffle(pairs)
    return pairs, body


def odd_signature(rng: random.Random, headers: Pairs, body: bytes) -> tuple[Pairs, bytes]:
    odd: list[Callable[[str], str]] = [
        lambda text: text.removeprefix("sha256="),
        lambda text: text.replace("sha256", "sha1"),
        lambda text: text.upper(),
        lambda text: text[:-1],
        lambda text: text + "0",
        lambda text: text + "\n",
        lambda text: " " + text,
        lambda text: "sha256=" + "é" * 64,
        lambda text: "sha256=",
        lambda text: "sha256=" + "0" * 64,
        lambda text: f"{text},{text}",
        lambda text: "",
    ]
    return change("X-Hive-Signature", rng.choice(odd))(rng, headers, body)


def odd_timestamp(rng: random.Random, headers: Pairs, body: bytes) -> tuple[Pairs, bytes]:
    eastern = str(UNIX).translate({ord(str(digit)): 0x660 + digit for digit in range(10)})
    odd = rng.choice(
        [eastern, f"+{UNIX}", f" {UNIX}", f"{UNIX}.0", f"{UNIX}\n", "", "nan", "-1", "9" * 400, f"{UNIX}e0"]
    )
    return signed(body, timestamp=odd), body


def odd_id(rng: random.Random, headers: Pairs, body: bytes) -> tuple[Pairs, bytes]:
    odd = rng.choice(["", " ", "a\r\nX-Hive-Id: b", "a\nb", "a\x00", "é", "x" * 201, "a ", "\u202ea", "a\tb"])
    return signed(body, id=odd), body


ATTACKS = [flipped, cut, longer, moved, restamped, other_secret, dropped, doubled, odd_signature, odd_timestamp, odd_id]


async def test_a_thousand_forged_requests_start_nothing(
    place: Workspace, fired: Fired, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    rng = random.Random(9)
    for number in range(1_000):
        body = json.dumps({"topic": f"bees {number}"}).encode()
        headers, sent = ATTACKS[number % len(ATTACKS)](rng, signed(body, id=f"e{number}"), body)
        answer = await post(place, fired, headers, sent)
        assert isinstance(answer, RefusedRequest), (number, headers, sent)
        assert answer.status == 401
        assert answer.diagnostics[0].code == "HIVE-426"
        assert SECRET not in str(answer)
    assert fired.keys == []
    assert SECRET not in caplog.text
    assert (await post(place, fired, signed())).status == 202


async def test_the_window_is_five_minutes_both_ways(place: Workspace, fired: Fired) -> None:
    for number, offset in enumerate([-300, 300]):
        headers = signed(id=f"e{number}", timestamp=UNIX + offset)
        assert (await post(place, fired, headers)).status == 202
        assert (
            await post(place, fired, headers, now=NOW + dt.timedelta(seconds=offset * 2 + offset // 300))
        ).status == 401


@pytest.mark.parametrize("id", ["nobody", "off", "nightly", "broken", "../agents/digest", "", "ticket\n", "é"])
async def test_what_is_no_webhook_is_404_however_it_is_signed(place: Workspace, fired: Fired, id: str) -> None:
    trigger(place, TICKET, id="off", enabled=False)
    trigger(place, NIGHTLY)
    write_json(place, "triggers/broken.json", "{")
    for headers in (signed(), [], signed(secret="x")):
        assert (await post(place, fired, headers, id=id)).status == 404


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400), (b"{", 400), (b"\xff\xfe", 400), (b'{"a": 1, "a": 2}', 400), (b"[" * 10_000, 400), (b"NaN", 400),
        (b"[]", 422), (b"7", 422), (b"null", 422), (b"x" * 20_001, 413),
    ],
)  # fmt: skip
async def test_a_body_that_does_not_fit_is_told_so(place: Workspace, fired: Fired, body: bytes, status: int) -> None:
    write_json(place, "hive.toml", (place.root / "hive.toml").read_text() + "[server]\nbody_bytes = 20_000\n")
    place = Workspace(place.root)
    answer = await post(place, fired, signed(body), body)
    assert answer.status == status
    assert answer.diagnostics
    assert fired.keys == []
    assert (await post(place, fired, [], body)).status == (413 if status == 413 else 401)


async def test_part_of_the_body_can_be_the_input(place: Workspace, fired: Fired) -> None:
    trigger(place, TICKET, input={"team": "qa", "topic": "none"}, input_from="$.body.issue")
    body = b'{"issue": {"topic": "bees"}, "noise": 1}'
    assert (await post(place, fired, signed(body), body)).status == 202
    trigger(place, TICKET, input_from="$.body.labels[1]", input_key="topic")
    body = b'{"labels": ["a", "b"]}'
    assert (await post(place, fired, signed(body, id="e2"), body)).status == 202
    assert fired.inputs == [{"team": "qa", "topic": "bees"}, {"topic": "b"}]
    short = b'{"labels": ["a"]}'
    answer = await post(place, fired, signed(short, id="e3"), short)
    assert (answer.status, answer.diagnostics[0].path) == (422, "body.labels[1]")


async def test_faults_of_the_agent_and_of_the_workspace_differ(
    place: Workspace, fired: Fired, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sender hears what is wrong with the input; what is wrong here is the owner's to know."""
    fired.before = [
        RefusedInput.of("HIVE-103", '"topik" is no input of digest', file="input", path="topik"),
        HiveError.of("HIVE-402", "the database is locked", file=".hive/hive.db"),
    ]
    assert (await post(place, fired, signed())).status == 422
    answer = await post(place, fired, signed())
    assert (answer.status, answer.diagnostics[0].code) == (503, "HIVE-426")
    write_json(place, "access/broken.json", "{")
    assert (await post(place, fired, signed())).status == 503
    (place.root / "access" / "broken.json").unlink()
    monkeypatch.delenv("TICKET_SECRET")
    assert (await post(place, fired, signed())).status == 503
    assert (await post(place, fired, signed(secret=""))).status == 503
    assert fired.keys == []
