from __future__ import annotations

import json
import random
from typing import Any

import jsonschema
import pytest

from hive_agents import Workspace
from hive_agents.base.errors import Diagnostic, HiveError
from hive_agents.base.resources import json_schema
from hive_agents.triggers import all_triggers
from hive_agents.triggers.files import (
    check_trigger,
    load_trigger,
    parse_trigger,
    sound_trigger,
    trigger_ids,
    write_trigger,
)
from tests.agents.conftest import write_json
from tests.triggers.conftest import NIGHTLY, TICKET, trigger

EVERY = {"id": "often", "type": "interval", "every_seconds": 60, "agent": "digest"}
STREAM = {"id": "stream", "type": "sse", "url": "https://example.org/events", "agent": "digest"}


def faults(place: Workspace, base: dict[str, Any], **changes: Any) -> list[tuple[str, str | None, str | None]]:
    with pytest.raises(HiveError) as raised:
        sound_trigger(place, trigger(place, base, **changes))
    return [(found.code, found.path, found.fix) for found in raised.value.diagnostics]


def test_the_formats_examples_are_triggers(place: Workspace) -> None:
    nightly = {**NIGHTLY, "timezone": "Europe/Berlin", "missed": "Skip", "run_as": "service:nightly", "enabled": True}
    ticket = {**TICKET, "secret_ref": "credential:ticket_hmac", "input_from": "$.body", "run_as": "service:ticket"}
    for value in (nightly, ticket, EVERY, {**STREAM, "event": "alarm", "input_key": "topic"}):
        spec = sound_trigger(place, trigger(place, value))
        assert spec.type == value["type"]
        jsonschema.validate(spec.to_json(), json_schema("trigger"))
    assert trigger_ids(place) == ["nightly", "often", "stream", "ticket"]
    assert load_trigger(place, "often").service == "service:often"


@pytest.mark.parametrize(
    ("base", "changes", "code", "path"),
    [
        (NIGHTLY, {"shedule": "x"}, "HIVE-103", "shedule"),
        (NIGHTLY, {"secret_ref": "env:X"}, "HIVE-103", "secret_ref"),
        (NIGHTLY, {"schedule": "0 25 * * *"}, "HIVE-105", "schedule"),
        (NIGHTLY, {"schedule": "0 0 31 4 *"}, "HIVE-105", "schedule"),
        (NIGHTLY, {"timezone": "Europe/Berlyn"}, "HIVE-105", "timezone"),
        (NIGHTLY, {"timezone": "../../etc/passwd"}, "HIVE-105", "timezone"),
        (NIGHTLY, {"type": "crom"}, "HIVE-105", "type"),
        (NIGHTLY, {"missed": "twice"}, "HIVE-105", "missed"),
        (NIGHTLY, {"enabled": "yes"}, "HIVE-104", "enabled"),
        (NIGHTLY, {"run_as": " "}, "HIVE-105", "run_as"),
        (NIGHTLY, {"agent": "digets"}, "HIVE-107", "agent"),
        (EVERY, {"every_seconds": 0}, "HIVE-105", "every_seconds"),
        (EVERY, {"every_seconds": 1.5}, "HIVE-104", "every_seconds"),
        (TICKET, {"input_from": "body"}, "HIVE-105", "input_from"),
        (TICKET, {"input_from": "$..x"}, "HIVE-105", "input_from"),
        (STREAM, {"url": "file:///etc/passwd"}, "HIVE-105", "url"),
        (STREAM, {"url": "https://me:secret@example.org"}, "HIVE-105", "url"),
    ],
)
def test_a_fault_has_its_code_and_place(
    place: Workspace, base: dict[str, Any], changes: dict[str, Any], code: str, path: str
) -> None:
    assert [found[:2] for found in faults(place, base, **changes)] == [(code, path)]


def test_every_fault_is_found_at_once_with_its_line_and_what_was_meant(place: Workspace) -> None:
    trigger(place, NIGHTLY, shedule=1, timezone="x")
    with pytest.raises(HiveError) as raised:
        load_trigger(place, "nightly")
    found = {one.path: (one.code, one.line, one.fix) for one in raised.value.diagnostics}
    assert found["shedule"] == ("HIVE-103", 9, 'did you mean "schedule"?')
    assert found["timezone"][:2] == ("HIVE-105", 10)


def test_a_webhook_needs_a_secret(place: Workspace) -> None:
    value = {key: value for key, value in TICKET.items() if key != "secret_ref"}
    assert faults(place, value) == [("HIVE-106", "secret_ref", 'add "secret_ref"')]


def test_a_secret_in_place_of_a_reference_is_not_shown(place: Workspace) -> None:
    with pytest.raises(HiveError) as raised:
        sound_trigger(place, trigger(place, TICKET, secret_ref="hunter2"))
    assert [found.code for found in raised.value.diagnostics] == ["HIVE-105"]
    assert "hunter2" not in str(raised.value)


def test_a_webhook_has_a_secret_of_its_own(place: Workspace) -> None:
    spec = sound_trigger(place, trigger(place, TICKET))
    trigger(place, STREAM, secret_ref=TICKET["secret_ref"])
    assert sound_trigger(place, "ticket") == spec
    with pytest.raises(HiveError) as raised:
        write_trigger(place, spec.model_copy(update={"id": "other"}))
    assert [(found.code, found.path) for found in raised.value.diagnostics] == [("HIVE-111", "secret_ref")]
    assert trigger_ids(place) == [STREAM["id"], "ticket"]
    trigger(place, TICKET, id="other")
    sound, faulty = all_triggers(place)
    assert [one.id for one in sound] == [STREAM["id"]]
    assert "ticket" in str(faulty["other"])
    assert "other" in str(faulty["ticket"])


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"type": 1}', "{", '{"type": "cron", "type": "sse"}', "\ufeff{}"])
def test_what_is_no_trigger_is_a_diagnostic(place: Workspace, text: str) -> None:
    write_json(place, "triggers/x.json", text or " ")
    with pytest.raises(HiveError):
        sound_trigger(place, "x")


@pytest.mark.parametrize("base", [NIGHTLY, EVERY, TICKET, STREAM], ids=lambda base: base["type"])
def test_whatever_stands_there_is_a_trigger_or_a_diagnostic(base: dict[str, Any]) -> None:
    rng = random.Random(base["id"])
    found: list[Diagnostic] = []
    texts = ["", "x" * 300, "*/0 * * * *", "$.", "http://[", "\x00", "²"]
    odd: list[Any] = [*texts, None, True, 0, -1, 1e300, [], [[]], {}, {"a": {}}]
    for _ in range(500):
        value = dict(base)
        for _ in range(rng.randint(1, 3)):
            value[rng.choice([*value, "timezone", "event", "input_key", "run_as", "missed", "x"])] = rng.choice(odd)
        text = json.dumps(value)
        if rng.random() < 0.3:
            at = rng.randrange(len(text))
            text = text[:at] + rng.choice('{}[]",:\\0 ') + text[at + rng.randint(0, 2) :]
        try:
            parse_trigger(text, "triggers/x.json")
        except HiveError as error:
            found += error.diagnostics
    assert len(found) > 300
    assert all(one.code.startswith("HIVE-1") and one.fix for one in found)


def test_an_id_is_that_of_the_file_and_a_file_is_needed(place: Workspace) -> None:
    write_json(place, "triggers/other.json", NIGHTLY)
    sound, faulty = all_triggers(place)
    assert sound == []
    assert [found.code for found in faulty["other"].diagnostics] == ["HIVE-113"]
    with pytest.raises(HiveError, match="no trigger") as raised:
        load_trigger(place, "../agents/digest")
    assert (raised.value.diagnostics[0].code, raised.value.exit_code) == ("HIVE-107", 2)


@pytest.mark.parametrize(
    ("schedule", "told"),
    [
        ("0 0 30 2 *", "it never comes: no month of 2 has a day 30"),
        ("0 0 31 4,6 *", "it never comes: no month of 4,6 has a day 31"),
        ("0 0 32 2 *", "bad day-of-month; use five fields"),
        ("0 0 30 13 *", "bad month; use five fields"),
        ("0 0 * *", "use five fields"),
    ],
)
def test_a_schedule_that_never_comes_is_told_from_one_that_is_misspelt(
    place: Workspace, schedule: str, told: str
) -> None:
    with pytest.raises(HiveError) as raised:
        sound_trigger(place, trigger(place, NIGHTLY, schedule=schedule))
    (found,) = raised.value.diagnostics
    assert told in f"{found.message} {found.fix}"


def test_writing_reads_back_the_same_and_never_over_another(place: Workspace) -> None:
    spec = sound_trigger(place, trigger(place, NIGHTLY))
    (place.root / "triggers" / "nightly.json").unlink()
    write_trigger(place, spec)
    assert load_trigger(place, "nightly") == spec
    assert list(json.loads((place.root / "triggers" / "nightly.json").read_text()))[:2] == ["id", "type"]
    assert check_trigger(spec, place) == []
    with pytest.raises(HiveError) as raised:
        write_trigger(place, spec)
    assert (raised.value.diagnostics[0].code, raised.value.exit_code) == ("HIVE-111", 2)


def test_the_digest_is_of_what_the_file_says(place: Workspace) -> None:
    spec = load_trigger(place, trigger(place, NIGHTLY))
    write_json(place, "triggers/nightly.json", json.dumps({**NIGHTLY, "missed": "skip"}))
    assert load_trigger(place, "nightly").digest == spec.digest
    assert load_trigger(place, trigger(place, NIGHTLY, enabled=False)).digest != spec.digest


@pytest.mark.parametrize(
    ("url", "fits"),
    [
        ("https://example.org/events", True),
        ("http://127.0.0.1:8000/events", True),
        ("http://[::1]/events", True),
        ("http://localhost/events", True),
        ("http://example.org/events", False),
        ("http://localhost.example.org/events", False),
        ("http://10.0.0.1/events", False),
        ("http://0.0.0.0/events", False),
        ("http://127.0.0.1.example.org/", False),
    ],
)
def test_a_secret_is_sent_only_where_nobody_on_the_way_reads_it(url: str, fits: bool) -> None:
    """Whatever file names it: a stranger's trigger would send any secret of this machine in the clear."""
    value = {"id": "alarms", "type": "sse", "agent": "digest", "url": url}
    parse_trigger(json.dumps(value), "triggers/alarms.json")
    text = json.dumps(value | {"secret_ref": "env:AWS_SECRET_ACCESS_KEY"})
    if fits:
        parse_trigger(text, "triggers/alarms.json")
        return
    with pytest.raises(HiveError, match="https"):
        parse_trigger(text, "triggers/alarms.json")
