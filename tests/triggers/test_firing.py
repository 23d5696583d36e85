"""`runtime.firing` and `hive trigger`: what is written, listed, started, and how mistakes are told."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.access import service_principal
from hive_agents.agents.run import AgentRun
from hive_agents.base.errors import HiveError
from hive_agents.events import Event, EventLog, EventType
from hive_agents.host.firing import fire
from hive_agents.runs import RunStore
from hive_agents.triggers import Scheduler
from hive_agents.triggers.files import load_trigger
from hive_agents.triggers.webhooks import Accepted, accept, sign
from tests.agents.conftest import write_json
from tests.records import all_records
from tests.sample import Ran, hive
from tests.triggers.conftest import NIGHTLY, TICKET, at, trigger

CRON = ("nightly", "--agent", "digest", "--cron", "0 2 * * *", "--input", '{"topic": "bees"}')


@pytest.fixture
def place(place: Workspace) -> Workspace:
    chat = '[models]\nembedding = "none"\nchat = ["scripted:script.jsonl"]\n'
    (place.root / "hive.toml").write_text(chat)
    answers = [{"name": "set_output", "args": {"key": key, "value": "x"}} for key in ("items", "text")]
    lines = [json.dumps({"tool_calls": [answer]}) for answer in answers]
    (place.root / "script.jsonl").write_text("\n".join(lines))
    return Workspace(place.root)


def command(place: Workspace, *arguments: str) -> Ran:
    return hive("trigger", *arguments, "-w", place.root)


def fired_events(place: Workspace) -> list[Event]:
    return EventLog(place).replay(types=[EventType.TRIGGER_FIRED])


async def test_a_schedule_starts_a_run_that_a_host_can_take(place: Workspace) -> None:
    trigger(place, NIGHTLY)
    scheduler = Scheduler(place, partial(fire, place))
    await scheduler.tick(at("2026-06-01"))
    (outcome,) = await scheduler.tick(at("2026-06-01 02:00"))
    (row,) = RunStore(place).list()
    assert (row.run_id, row.status, row.user, row.value["input"]) == (
        outcome.run_id, "queued", "service:nightly", {"topic": "bees"},
    )  # fmt: skip
    (event,) = fired_events(place)
    key = "trigger/nightly/2026-06-01T02:00:00+00:00"
    assert event.payload["key"] == key
    assert (event.run_id, event.payload["trigger"]) == (row.run_id, "nightly")
    told: list[Event] = []

    async def publish(event: Event) -> None:
        told.append(event)

    spec = load_trigger(place, "nightly")
    again = await fire(place, spec, {"topic": "bees"}, key=key, scheduled="2026-06-01", publish=publish)
    assert again == row.run_id
    assert [one.id for one in told] == [event.id]
    result = await AgentRun.resume(place, row.run_id).work()
    assert result["status"] == "done"


async def test_a_webhook_that_the_agent_refuses_starts_nothing(
    place: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TICKET_SECRET", "s3cret")
    trigger(place, TICKET)
    large = b'{"topic": [1' + b",1" * 400_000 + b"]}"  # too large for a run, and not for a request
    for body, expected in (
        (b'{"topik": "bees"}', 422),
        (large, 422),
        (b'{"topic": "bees"}', 202),
        (b'{"topik": "bees"}', 200),
    ):
        stamp = "1780000000"
        headers = {"x-hive-id": "e1", "x-hive-timestamp": stamp, "x-hive-signature": sign("s3cret", body, stamp)}
        answer = await accept(place, "ticket", headers, body, at("2026-05-28 20:26:40"), fire=partial(fire, place))
        assert answer.status == expected
        if expected == 422:
            assert not isinstance(answer, Accepted)
            found = {(one.code, one.path, one.fix) for one in answer.diagnostics}
            assert ("HIVE-103", "topik", 'did you mean "topic"?') in found or body == large
    assert len(RunStore(place).list()) == len(fired_events(place)) == 1


def test_a_service_is_whom_the_access_files_say(place: Workspace) -> None:
    spec = load_trigger(place, trigger(place, NIGHTLY))
    alone = service_principal(place, spec.service)
    assert (alone.tenant, alone.user, alone.roles) == ("local", "service:nightly", frozenset())
    entries: dict[str, Any] = {"nightly": {"tenant": "acme", "groups": ["qa"]}}
    write_json(place, "access/principals.json", {"tenants": {"acme": {"admins": []}}, "principals": entries})
    assert service_principal(place, spec.service).tenant == "acme"
    entries["service:nightly"] = {"tenant": "acme", "roles": []}
    write_json(place, "access/principals.json", {"tenants": {"acme": {"admins": []}}, "principals": entries})
    assert service_principal(place, spec.service).user == "service:nightly"
    write_json(place, "access/broken.json", "{")
    with pytest.raises(HiveError):
        service_principal(place, spec.service)


def test_add_list_fire_and_remove(place: Workspace) -> None:
    added = command(place, "add", *CRON, "--timezone", "Europe/Berlin", "--missed", "once", "--json")
    assert added.code == 0
    assert added.json["file"] == "triggers/nightly.json"
    written = json.loads((place.root / "triggers" / "nightly.json").read_text())
    assert written == {**NIGHTLY, "timezone": "Europe/Berlin", "missed": "once", "enabled": True}
    (row,) = command(place, "list", "--json").json["triggers"]
    assert list(row) == ["id", "type", "agent", "enabled", "next_at", "last_at", "missed", "last_run_id"]
    assert row["next_at"][-14:] in ("00:00:00+00:00", "01:00:00+00:00")
    fired = command(place, "fire", "nightly", "--json")
    assert (fired.code, fired.json["status"]) == (0, "queued")
    assert command(place, "fire", "nightly").out.count("hive run --resume") == 1
    (row,) = command(place, "list", "--json").json["triggers"]
    assert (row["last_at"], row["missed"]) == (None, 0)
    assert row["last_run_id"] == RunStore(place).list()[0].run_id
    assert "nightly" in command(place, "list").out
    assert command(place, "remove", "nightly").code == 0
    assert command(place, "list", "--json").json == {"triggers": []}
    assert len(RunStore(place).list()) == 2


def test_every_kind_can_be_added_also_from_a_file(place: Workspace) -> None:
    added = command(place, "add", "often", "--agent", "digest", "--every", "60")
    assert (added.code, "warning[HIVE-106]" in added.err) == (0, True)
    assert command(place, "add", "hook", "--agent", "digest", "--webhook", "--secret-ref", "env:X").code == 0
    assert (
        command(place, "add", "stream", "--agent", "digest", "--sse", "https://example.org/e", "--disabled").code == 0
    )
    file = write_json(place, "new.json", {**TICKET, "run_as": "service:desk"})
    assert command(place, "add", str(file)).code == 0
    rows = {row["id"]: row for row in command(place, "list", "--json").json["triggers"]}
    assert {id: row["type"] for id, row in rows.items()} == {
        "hook": "webhook", "often": "interval", "stream": "sse", "ticket": "webhook",
    }  # fmt: skip
    assert rows["often"]["next_at"] is not None
    assert (rows["hook"]["next_at"], rows["stream"]["enabled"]) == (None, False)


@pytest.mark.parametrize(
    ("arguments", "code", "exit_code"),
    [
        (("x", "--agent", "digest"), "HIVE-409", 2),
        (("x", "--cron", "0 2 * * *"), "HIVE-409", 2),
        (("x", "--agent", "digest", "--cron", "0 2 * * *", "--every", "5"), "HIVE-409", 2),
        (("x", "--agent", "digest", "--every", "5", "--timezone", "UTC"), "HIVE-103", 2),
        (("x", "--agent", "digest", "--cron", "0 2 * *"), "HIVE-105", 2),
        (("x", "--agent", "digest", "--webhook"), "HIVE-106", 2),
        (("x", "--agent", "digest", "--webhook", "--secret-ref", "hunter2"), "HIVE-105", 1),
        (("x", "--agent", "digets", "--every", "5"), "HIVE-107", 1),
        (("X y", "--agent", "digest", "--every", "5"), "HIVE-113", 2),
        (("x", "--agent", "digest", "--every", "5", "--input", "[]"), "HIVE-104", 2),
        (("nowhere.json",), "HIVE-107", 2),
        (("nowhere.json", "--every", "5"), "HIVE-409", 2),
    ],
)
def test_a_mistake_writes_nothing(place: Workspace, arguments: tuple[str, ...], code: str, exit_code: int) -> None:
    ran = command(place, "add", *arguments, "--json")
    assert (ran.code, ran.codes) == (exit_code, {code})
    assert "hunter2" not in ran.out
    assert not (place.root / "triggers").exists()


def test_mistakes_with_a_trigger_that_is_there_or_is_not(place: Workspace) -> None:
    command(place, "add", *CRON)
    assert command(place, "add", *CRON, "--json").codes == {"HIVE-111"}
    write_json(place, "triggers/broken.json", '{"id": "broken", "type": "cron"}')
    listed = command(place, "list", "--json")
    assert (listed.code, [row["id"] for row in listed.json["triggers"]]) == (0, ["nightly"])
    assert {found["file"] for found in listed.json["diagnostics"]} == {"triggers/broken.json"}
    for verb in ("remove", "fire"):
        ran = command(place, verb, "nihgtly", "--json")
        assert (ran.code, ran.codes) == (2, {"HIVE-107"})
    ran = command(place, "fire", "nightly", "--input", '{"topik": 1}', "--json")
    assert (ran.code, ran.codes) == (2, {"HIVE-103"})
    assert RunStore(place).list() == []


async def test_where_nothing_is_due_nothing_is_written(place: Workspace) -> None:
    for number in range(20):
        trigger(place, NIGHTLY, id=f"t{number}")
    scheduler = Scheduler(place, partial(fire, place))
    await scheduler.tick(at("2026-06-01"))
    before = all_records(place)
    for second in range(5):
        assert await scheduler.tick(at(f"2026-06-01 00:00:{second:02}")) == []
    assert all_records(place) == before
