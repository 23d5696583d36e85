"""What somebody wrote into the database or the log: it is told, and never carried out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.approvals import ApprovalRequest, ApprovalStore, Approvers, log
from hive_agents.host.decisions import carry_out, finish
from hive_agents.store import audit, connected
from tests.approvals.asking import filing, refused
from tests.records import alter_json, execute, log_lines, rewrite_log
from tests.sample import hive

CEO = {"verb": "approve", "by": "user:ceo", "authn": "token", "at": "2026-11-21T19:00:00+00:00", "version": 1}
CARRIED_OUT = {"decision_id": None, "label": None}
"""What answering a judgement that nobody logged does: the least that can be carried out."""


@pytest.fixture(params=["", "secret"], ids=["unkeyed", "keyed"])
def key(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIVE_AUDIT_KEY", request.param)


with_and_without_a_key = pytest.mark.usefixtures("key")


def judgment(place: Workspace, **parts: Any) -> ApprovalRequest:
    return ApprovalStore(place).file(filing(kind="judgment", **parts))


def outcome(place: Workspace, request: str) -> Any:
    with connected(place.records) as connection:
        (found,) = connection.execute("SELECT request FROM approvals WHERE id = ?", (request,)).fetchone()
    return json.loads(found)["outcome"]


def approve_in_the_row(place: Workspace, request: ApprovalRequest) -> None:
    statement = "UPDATE approvals SET status = 'approved', decisions = ? WHERE id = ?"
    execute(place, statement, json.dumps([CEO]), request.id)


def insert_a_copy(place: Workspace, request: ApprovalRequest) -> None:
    approve_in_the_row(place, request)
    execute(place, "UPDATE approvals SET id = 'a0' WHERE id = ?", request.id)


def lead_by_a_step(place: Workspace, request: ApprovalRequest) -> None:
    approve_in_the_row(place, request)
    alter_json(place, "approvals", "request", lambda found: found.update(step=2), id=request.id)


@with_and_without_a_key
@pytest.mark.parametrize("forge", [approve_in_the_row, insert_a_copy, lead_by_a_step])
def test_a_row_that_was_edited_is_not_carried_out(place: Workspace, forge: Any) -> None:
    request, other = judgment(place), judgment(place)
    forge(place, request)
    ApprovalStore(place).decide(other.id, "approve", by="dana")
    (warning,) = finish(place)
    (damaged,) = ApprovalStore(place).damaged()
    assert (warning.code, warning.severity) == ("HIVE-413", "warning")
    assert (outcome(place, damaged), outcome(place, other.id)) == (None, CARRIED_OUT)
    assert [one.id for one in ApprovalStore(place).list()] == [other.id]
    with refused("HIVE-413"):
        carry_out(place, request.model_copy(update={"status": "approved", "id": damaged}))


def test_a_second_approval_that_nobody_gave_does_not_count(place: Workspace) -> None:
    request = judgment(place, approvers=Approvers(min=2))
    ApprovalStore(place).decide(request.id, "approve", by="dana")
    alter_json(place, "approvals", "decisions", lambda found: found[0].update(by="user:ceo"))
    with refused("HIVE-413"):
        ApprovalStore(place).decide(request.id, "approve", by="dana")


def test_a_history_whose_steps_are_not_counted_one_by_one_is_damaged(place: Workspace) -> None:
    request = judgment(place)
    for step in (7, 3):
        log.append(place, "noted", request.model_copy(update={"step": step}), {})
    with refused("HIVE-413"):
        ApprovalStore(place).decide(request.id, "approve", by="dana")


def forged(place: Workspace, request: ApprovalRequest) -> dict[str, Any]:
    last = list(audit.entries(place))[-1]
    told = {"event": "decided", "step": 2, "status": "approved", "seq": 2, "previous": last["digest"]}
    return last | told | {"changes": {"status": "approved", "decisions": [CEO]}, "digest": "f" * 64}


def append(place: Workspace, entry: dict[str, Any]) -> None:
    rewrite_log(place, [*log_lines(place), json.dumps(entry)])


@with_and_without_a_key
def test_a_line_of_the_log_whose_digest_is_wrong_is_not_carried_out(place: Workspace) -> None:
    request = judgment(place)
    append(place, forged(place, request))
    (warning,) = finish(place)
    assert (warning.code, warning.severity, bool(warning.fix)) == ("HIVE-413", "warning", True)
    assert outcome(place, request.id) is None


def test_a_broken_log_can_be_read_and_decides_nothing(place: Workspace) -> None:
    """The list shows the rows as they are; deciding, revising and time wait until the log is mended."""
    store, request = ApprovalStore(place), judgment(place, on_timeout="reject")
    whole = log_lines(place)
    append(place, forged(place, request))
    assert [(one.id, one.status) for one in store.list()] == [(request.id, "pending")]
    late = ApprovalStore(place, now=lambda: "2100-01-01T00:00:00+00:00")
    assert [one.status for one in late.list()] == ["pending"]
    shown, (warning,) = store.read(request.id)
    assert (shown.status, warning.code, warning.severity) == ("pending", "HIVE-413", "warning")
    for act in (
        lambda: store.decide(request.id, "approve", by="dana"),
        lambda: store.revise(request.id, context={}),
        lambda: store.supersede(request.id, "why not"),
        lambda: store.delegate(request.id, by="dana", to="eve"),
    ):
        with refused("HIVE-413"):
            act()
    rewrite_log(place, whole)
    assert store.decide(request.id, "approve", by="dana").status == "approved"


@with_and_without_a_key
def test_a_line_that_was_cut_off_the_log_is_not_carried_out(place: Workspace) -> None:
    """A rejection cut off the log would leave a request that somebody else could approve."""
    store, request = ApprovalStore(place), judgment(place)
    store.decide(request.id, "reject", by="dana")
    rewrite_log(place, log_lines(place)[:1])
    execute(place, "UPDATE approvals SET status = 'pending', decisions = '[]'")
    alter_json(place, "approvals", "request", lambda found: found.update(step=1))
    with refused("HIVE-413"):
        store.decide(request.id, "approve", by="eve")


def test_another_requests_key_is_no_key(place: Workspace) -> None:
    """A request that was approved doesn't answer the filing of another."""
    store = ApprovalStore(place)
    approved = store.file(filing(kind="judgment", run_id="r1"))
    store.decide(approved.id, "approve", by="dana")
    execute(place, "UPDATE approvals SET idempotency_key = 'local/run:r2:judgment'")
    with refused("HIVE-413"):
        store.file(filing(kind="judgment", run_id="r2"))


@pytest.mark.parametrize(
    "damage",
    [
        "decisions = 'garbage'",
        "decisions = '[1]'",
        "decisions = 3",
        "request = '[]'",
        "request = '{}'",
        pytest.param("title = x'ff00'", marks=pytest.mark.sqlite_file),
        pytest.param("title = CAST(x'ff' AS TEXT)", marks=pytest.mark.sqlite_file),
        "kind = 'party'",
        "due_at = '1999', decisions = 'garbage'",
    ],
)
def test_a_damaged_row_is_shown_and_refused_and_hides_no_other(place: Workspace, damage: str) -> None:
    bad, good = judgment(place), judgment(place)
    execute(place, f"UPDATE approvals SET {damage} WHERE id = ?", bad.id)
    store = ApprovalStore(place)
    assert [one.id for one in store.list()] == [good.id]
    assert [(one, found.code) for one, found in store.damaged().items()] == [(bad.id, "HIVE-413")]
    with refused("HIVE-413"):
        store.decide(bad.id, "approve", by="dana")
    assert store.decide(good.id, "approve", by="dana").status == "approved"
    ran = hive("approvals", "list", "-w", place.root)
    assert (ran.code, "HIVE-413" in ran.err) == (0, True)
    assert [line.split()[:2] for line in ran.out.splitlines()[1:]] == [[good.id, "approved"], [bad.id, "damaged"]]


@pytest.mark.parametrize("entry", [{}, {"step": "2"}, {"step": 2}, {"step": 2, "content_hash": "x", "changes": 3}])
def test_an_entry_that_is_no_step_damages_its_request_only(place: Workspace, entry: dict[str, Any]) -> None:
    bad, good = judgment(place), judgment(place)
    audit.append(place, "approval", approval=bad.id, **entry)
    assert [one.id for one in ApprovalStore(place).list()] == [good.id]
    with refused("HIVE-413"):
        ApprovalStore(place).get(bad.id)


def test_changes_that_make_no_request_damage_it(place: Workspace) -> None:
    request = judgment(place)
    changes = {"status": "party"}
    audit.append(place, "approval", approval=request.id, step=2, content_hash=request.content_hash, changes=changes)
    with refused("HIVE-413"):
        ApprovalStore(place).get(request.id)
