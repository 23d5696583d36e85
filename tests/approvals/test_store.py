from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.access import Principal
from hive_agents.approvals import ApprovalRequest, ApprovalStore, Approvers, store
from hive_agents.events import EventLog
from hive_agents.store import audit, connected
from hive_agents.workspace.trusted import trust
from tests.approvals.asking import editable, filing, refused
from tests.listening import answering
from tests.records import alter_json, execute, log_lines, rewrite_log

DANA, GIL = Principal("acme", "dana"), Principal("globex", "gil")


def settings(workspace: Workspace, text: str) -> Workspace:
    with (workspace.root / "hive.toml").open("a") as file:
        file.write(f"[approvals]\n{text}\n")
    trust(workspace)
    return Workspace(workspace.root)


class Clock:
    def __init__(self) -> None:
        self.at = "2030-01-01T00:00:00+00:00"

    def __call__(self) -> str:
        return self.at


def events(workspace: Workspace) -> list[str]:
    return [entry["event"] for entry in audit.entries(workspace, "approval")]


def test_a_filing_is_one_request_however_often_it_is_filed(place: Workspace) -> None:
    approvals = ApprovalStore(place)
    first = approvals.file(filing(run_id="r1"))
    assert approvals.file(filing(run_id="r1", title="asked again after a crash")).id == first.id
    assert approvals.file(filing(run_id="r1", kind="question")).id != first.id
    keyed = approvals.file(filing(run_id="r1", idempotency_key="k"))
    assert keyed.id != first.id
    assert approvals.file(filing(run_id="r1", idempotency_key="k")).id == keyed.id
    with refused("HIVE-416"):
        approvals.file(filing(run_id="r1", idempotency_key="k", title="another content"))
    assert len({approvals.file(filing()).id for _ in range(3)}) == 3


def test_a_request_survives_the_database_as_it_was(place: Workspace) -> None:
    made = ApprovalStore(place).file(editable(signals=[{"source": "rule"}], thread_id="t", run_id="r"))
    assert ApprovalStore(place).get(made.id) == made
    assert json.loads(json.dumps(made.to_json()))["remaining_approvals"] == 1


@pytest.mark.parametrize(
    ("verb", "answer", "status"),
    [
        ("approve", {}, "approved"),
        ("reject", {"reason": "no"}, "rejected"),
        ("respond", {"message": "ask dana"}, "responded"),
        ("edit", {"patch": {"n": 2}}, "edited"),
    ],
)
def test_a_decision_is_made_once_and_may_be_repeated(
    place: Workspace, verb: Any, answer: dict[str, Any], status: str
) -> None:
    approvals = ApprovalStore(place)
    request = approvals.file(editable())
    decided = approvals.decide(request.id, verb, by="dana", **answer)
    assert decided.status == status
    assert approvals.decide(request.id, verb, by="Dana", **answer) == decided
    with refused("HIVE-414"):
        approvals.decide(request.id, verb, by="eve", **answer)
    with refused("HIVE-414"):
        approvals.decide(request.id, "approve" if verb == "reject" else "reject", by="dana")
    assert events(place) == ["requested", "decided"]
    assert audit.verify(place).ok


def test_an_unknown_request_is_wrong_usage(place: Workspace) -> None:
    with refused("HIVE-409", 2):
        ApprovalStore(place).decide("nope", "approve", by="dana")


def test_what_was_changed_since_it_was_read_is_not_decided(place: Workspace) -> None:
    approvals = ApprovalStore(place)
    read = approvals.file(filing(approvers=Approvers(min=2)))
    approvals.decide(read.id, "approve", by="dana")
    revised = approvals.revise(read.id, context={"amount": 1_000_000})
    assert (revised.version, revised.status, revised.remaining_approvals) == (2, "pending", 2)
    with refused("HIVE-416"):
        approvals.decide(read.id, "approve", by="eve", version=read.version)
    with refused("HIVE-416"):
        approvals.decide(read.id, "approve", by="eve", content_hash=read.content_hash)
    approvals.decide(read.id, "approve", by="eve", version=2)
    assert approvals.decide(read.id, "approve", by="dana", version=2).status == "approved"


@pytest.mark.parametrize(
    "forgery",
    [
        "status = 'approved'",
        "title = 'harmless'",
        "requester = 'user:somebody'",
        lambda request: request["context"].update(tool="pay"),
        lambda request: request["approvers"].update(exclude_requester=True),
        "version = 7",
    ],
)
def test_a_row_that_was_altered_is_not_decided(place: Workspace, forgery: Any) -> None:
    request = ApprovalStore(place).file(editable())
    if callable(forgery):
        alter_json(place, "approvals", "request", forgery)
    else:
        execute(place, f"UPDATE approvals SET {forgery}")
    for verb in ("approve", "reject"):
        with refused("HIVE-413"):
            ApprovalStore(place).decide(request.id, verb, by="dana")


def test_a_request_that_the_audit_log_lost_is_not_decided(place: Workspace) -> None:
    request = ApprovalStore(place).file(filing())
    rewrite_log(place, [])
    with refused("HIVE-413"):
        ApprovalStore(place).decide(request.id, "approve", by="dana")


@pytest.mark.parametrize("line", [1, 2, 3])
def test_the_chain_shows_any_edit_of_the_log(place: Workspace, line: int) -> None:
    approvals = ApprovalStore(place)
    request = approvals.file(filing(approvers=Approvers(min=2)))
    for who in ("dana", "eve"):
        approvals.decide(request.id, "approve", by=who)
    lines = log_lines(place)
    lines[line - 1] = lines[line - 1].replace('"pending"', '"approved"').replace("user:eve", "user:mal")
    rewrite_log(place, lines)
    assert audit.verify(place).first_bad == line


def test_a_row_that_a_crash_left_behind_follows_the_audit_log(
    place: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    approvals = ApprovalStore(place)
    request = approvals.file(filing())

    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as crash:
        crash.setattr(store.rows, "update", dies)
        with pytest.raises(KeyboardInterrupt):
            approvals.decide(request.id, "reject", by="dana")
    assert approvals.get(request.id).status == "rejected"
    with refused("HIVE-414"):
        approvals.decide(request.id, "approve", by="eve")
    assert approvals.decide(request.id, "reject", by="dana").status == "rejected"
    assert events(place) == ["requested", "decided"]


def test_an_answer_that_a_crash_left_half_written_wakes_its_run_and_is_told_of(
    place: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    approvals = ApprovalStore(place)
    request = approvals.file(filing())

    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as crash:
        crash.setattr(store.rows, "update", dies)
        with pytest.raises(KeyboardInterrupt):
            approvals.decide(request.id, "approve", by="dana")
    approvals.sweep()
    approvals.sweep()
    with connected(place.records) as connection:
        assert connection.execute("SELECT status FROM approvals").fetchone() == ("approved",)
    told = [event.payload["decision"] for event in EventLog(place).replay() if event.type == "approval.decided"]
    assert told == ["approve"]


def test_time_rejects_and_never_approves(place: Workspace) -> None:
    clock = Clock()
    approvals = ApprovalStore(place, now=clock)
    request = approvals.file(filing(on_timeout="reject"))
    clock.at = "2030-01-04T00:00:00+00:00"
    with refused("HIVE-414"):
        approvals.decide(request.id, "approve", by="dana")
    assert approvals.get(request.id).status == "expired"
    assert approvals.get(request.id).decisions == []


def test_time_asks_louder_where_it_may_not_reject(place: Workspace) -> None:
    clock = Clock()
    approvals = ApprovalStore(place, now=clock)
    request = approvals.file(filing())
    assert (request.on_timeout, request.due_at) == ("escalate", "2030-01-04T00:00:00+00:00")
    for day in range(2, 40):
        clock.at = f"2030-{1 + day // 29:02}-{1 + day % 28:02}T00:00:00+00:00"
        assert approvals.get(request.id).status == "pending"
    assert approvals.get(request.id).escalations >= 5
    assert {"reminder", "escalated"} <= set(events(place))
    assert approvals.decide(request.id, "approve", by="dana").status == "approved"


def test_nothing_is_due_with_zero_hours(place: Workspace) -> None:
    request = ApprovalStore(settings(place, "due_hours = 0\nremind_hours = 0")).file(filing())
    assert (request.due_at, request.remind_at) == (None, None)


def test_a_plain_name_decides_nothing_where_tokens_are_wanted(place: Workspace) -> None:
    approvals = ApprovalStore(settings(place, "require_token = true"))
    request = approvals.file(filing())
    with refused("HIVE-415"):
        approvals.decide(request.id, "approve", by="dana")
    assert approvals.decide(request.id, "approve", by="dana", authn="token", holder=DANA).decisions[0].authn == "token"


def test_a_token_decides_for_its_own_tenant_and_for_the_workspace(place: Workspace) -> None:
    approvals = ApprovalStore(place)
    acme, own = approvals.file(filing(tenant="acme")), approvals.file(filing())
    with refused("HIVE-415"):
        approvals.decide(acme.id, "approve", by="gil", authn="token", tenant="globex", holder=GIL)
    with refused("HIVE-415"):
        approvals.delegate(acme.id, by="gil", to="dana", authn="token", tenant="globex")
    for request in (acme, own):
        decided = approvals.decide(request.id, "approve", by="dana", authn="token", tenant="acme", holder=DANA)
        assert (decided.status, decided.decisions[0].authn) == ("approved", "token")
    assert [one.id for one in approvals.list(tenant="acme")] == [acme.id]


def test_requests_are_listed_by_run_kind_requester_and_how_they_stand(place: Workspace) -> None:
    approvals = ApprovalStore(place)
    call = approvals.file(filing(run_id="r1", kind="question"))
    other = approvals.file(filing(run_id="r2", kind="question", requester="user:kim"))
    ticket = approvals.file(filing(requester="service:queen"))
    approvals.decide(call.id, "approve", by="dana")

    def listed(*args: Any, **asked: Any) -> set[str]:
        return {one.id for one in approvals.list(*args, **asked)}

    assert listed(run_ids=["r1", "r2"]) == {call.id, other.id}
    assert listed("pending", run_ids=["r1", "r2"]) == {other.id}
    assert listed(run_ids=[]) == listed(run_ids=["r3"]) == set()
    assert listed("approved") == {call.id}
    assert listed("approved", run_ids=["r2"]) == set()
    assert listed(kind="ticket") == listed(requester="service:queen") == {ticket.id}
    assert listed(kind="question", requester="user:kim") == {other.id}


def test_a_request_is_decided_by_the_verbs_that_it_lists(place: Workspace) -> None:
    approvals = ApprovalStore(place)
    request = approvals.file(filing(allowed_decisions=["reject", "respond"]))
    with refused("HIVE-415"):
        approvals.decide(request.id, "approve", by="dana")
    assert approvals.get(request.id).status == "pending"
    assert approvals.decide(request.id, "respond", by="dana", message="why?").status == "responded"


def test_who_handed_a_request_on_decides_it_no_more(place: Workspace) -> None:
    approvals = ApprovalStore(place)
    request = approvals.file(filing())
    approvals.delegate(request.id, by="dana", to="bo")
    with refused("HIVE-415"):
        approvals.decide(request.id, "approve", by="Dana")
    assert approvals.decide(request.id, "approve", by="bo").status == "approved"


def test_what_several_people_decide_is_granted_for_no_run(place: Workspace) -> None:
    approvals = ApprovalStore(place)
    request = approvals.file(editable(run_id="r1", approvers=Approvers(min=2)))
    with refused("HIVE-415"):
        approvals.decide(request.id, "approve", by="dana", for_run=True)
    assert approvals.get(request.id).remaining_approvals == 2


@pytest.mark.parametrize("who", ["agent:worker", "user:", "", "user:a b", "system:clock", "service:nightly"])
def test_only_people_decide(place: Workspace, who: str) -> None:
    request = ApprovalStore(place).file(filing())
    with refused("HIVE-409", 2):
        ApprovalStore(place).decide(request.id, "approve", by=who)


def test_an_edit_must_fit_the_schema(place: Workspace) -> None:
    approvals = ApprovalStore(place)
    request = approvals.file(editable())
    bad: list[Any] = [{"n": 4}, {"to": "a@evil.org"}, {"to": None}, {"cc": "b@example.org"}, {"n": True}, "x", [1]]
    bad += [[{"op": "remove", "path": "/nowhere"}], [{"op": "replace", "path": "", "value": []}], None]
    for patch in bad:
        with refused("HIVE-105"):
            approvals.decide(request.id, "edit", by="dana", patch=patch)
    patch = [{"op": "test", "path": "/n", "value": 1}, {"op": "replace", "path": "/n", "value": 3}]
    edited = approvals.decide(request.id, "edit", by="dana", patch=patch)
    assert edited.context["args"] == {"to": "a@example.org", "n": 3}
    assert (edited.status, edited.version, edited.hash) == ("edited", 2, edited.content_hash)


@pytest.mark.parametrize("verb", ["approve", "reject", "respond"])
def test_a_patch_of_what_is_no_edit_is_refused_and_not_left_out(place: Workspace, verb: Any) -> None:
    approvals = ApprovalStore(place)
    request = approvals.file(editable())
    with refused("HIVE-105"):
        approvals.decide(request.id, verb, by="dana", patch={"n": 2}, message="two")
    approvals.decide(request.id, verb, by="dana", message="two")
    with refused("HIVE-414"):
        approvals.decide(request.id, verb, by="dana", patch={"n": 2}, message="two")


def test_an_edit_is_checked_again_by_rules_and_permissions(place: Workspace) -> None:
    seen: list[ApprovalRequest] = []

    def recheck(request: ApprovalRequest) -> list[str]:
        seen.append(request)
        return ["only one mail a day"] if request.context["args"]["n"] > 1 else []

    approvals = ApprovalStore(place, recheck=recheck)
    request = approvals.file(editable())
    with refused("HIVE-105"):
        approvals.decide(request.id, "edit", by="dana", patch={"n": 2})
    assert approvals.get(request.id).status == "pending"
    assert approvals.decide(request.id, "edit", by="dana", patch={"n": 0}).status == "edited"
    assert [one.context["args"]["n"] for one in seen] == [2, 0]


def test_others_agree_to_an_edit_and_not_to_what_was_before(place: Workspace) -> None:
    approvals = ApprovalStore(place)
    request = approvals.file(editable(approvers=Approvers(min=2)))
    approvals.decide(request.id, "approve", by="dana")
    edited = approvals.decide(request.id, "edit", by="eve", patch={"n": 2})
    assert (edited.status, edited.remaining_approvals) == ("pending", 1)
    assert approvals.decide(request.id, "approve", by="dana").status == "edited"


def test_a_filing_that_could_not_be_edited_safely_is_refused() -> None:
    for parts in ({"args_schema": None}, {"context": {}}, {"args_schema": {"if": {}}}, {"args_schema": {"type": "x"}}):
        with pytest.raises(ValueError, match=r"args|schema"):
            editable(**parts)


def test_one_rule_is_listed_for_bulk(place: Workspace) -> None:
    approvals = ApprovalStore(place)
    mine = {approvals.file(filing(context={"rule_id": "r"})).id for _ in range(3)}
    approvals.file(filing(context={"rule_id": "other"}))
    assert {one.id for one in approvals.list("pending", "r")} == mine


def test_notices_go_out_and_failures_stay_here(place: Workspace, tmp_path: Path) -> None:
    from http.server import BaseHTTPRequestHandler, HTTPServer
    from threading import Thread

    from hive_agents.approvals.notify import notify

    told: list[dict[str, Any]] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            told.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Hook) as server:
        thread = Thread(target=server.handle_request)
        thread.start()
        addresses = [f"http://127.0.0.1:{server.server_port}/secret", "http://127.0.0.1:9/", f"file://{tmp_path}", "::"]
        request = ApprovalStore(place).file(filing(context={"private": "text"}))
        for one in notify(settings(place, f"notify = {json.dumps(addresses)}"), "requested", request):
            one.result()
        thread.join()
    assert told == [{"occasion": "requested", "request": request.summary()}]


def test_an_address_that_never_ends_its_answer_or_sends_elsewhere_is_left(
    place: Workspace, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    from hive_agents.approvals import notify as module

    monkeypatch.setattr(module, "TIMEOUT_SECONDS", 0.5)
    asked: list[str] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(self.path)
            if self.path == "/elsewhere":
                self.send_response(303)
                self.send_header("location", "/inside")
                self.end_headers()
            while self.path == "/endless":
                try:
                    self.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                except OSError:
                    return

        do_GET = do_POST

        def log_message(self, *_: object) -> None:
            pass

    with answering(ThreadingHTTPServer(("127.0.0.1", 0), Hook)) as url:
        request = ApprovalStore(place).file(filing())
        addresses = [f"{url}/endless", f"{url}/elsewhere"]
        for one in module.notify(settings(place, f"notify = {json.dumps(addresses)}"), "requested", request):
            one.result()
    assert sorted(asked) == ["/elsewhere", "/endless"]
    assert sorted(line.partition("told: ")[2] for line in caplog.messages if "notify" in line) == [
        "it answered with status 303",
        "no answer within 0.5 s",
    ]


def test_a_program_that_ends_has_told_an_address_before(place: Workspace) -> None:
    """Also one with a name, which other threads would look up that a program which ends doesn't get any more."""
    from http.server import BaseHTTPRequestHandler, HTTPServer

    told = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            told.append(json.loads(self.rfile.read(int(self.headers["Content-Length"])))["request"]["title"])
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with answering(HTTPServer(("127.0.0.1", 0), Hook)) as url:
        settings(place, f"notify = {json.dumps([url.replace('127.0.0.1', 'localhost')])}")
        filed = (
            "import sys; from hive_agents import Workspace; from hive_agents.approvals import ApprovalStore;"
            " from tests.approvals.asking import filing; store = ApprovalStore(Workspace(sys.argv[1]));"
            " [store.file(filing(title=title)) for title in ('one', 'two')]"
        )
        command = [sys.executable, "-c", filed, str(place.root)]
        ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert (sorted(told), ran.stderr) == (["one", "two"], "")


def test_an_address_that_does_not_answer_holds_no_other_and_what_waits_for_it_has_an_end(
    place: Workspace, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    from hive_agents.approvals import notify as module

    monkeypatch.setattr(module, "WAITING", 3)
    answered, asked, go_on = list[str](), threading.Event(), threading.Event()

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            if self.path == "/slow":
                asked.set()
                go_on.wait()
            answered.append(self.path)
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with answering(ThreadingHTTPServer(("127.0.0.1", 0), Hook)) as url:
        request = ApprovalStore(place).file(filing())
        workspace = settings(place, f"notify = {json.dumps([f'{url}/slow', f'{url}/quick'])}")
        for number in range(6):
            slow, quick = module.notify(workspace, "requested", request)
            quick.result()
            assert answered == ["/quick"] * (number + 1)
            assert asked.wait(30)
        working = [one for one in threading.enumerate() if one.name.startswith("approvals.notify")]
        assert len(working) <= module.THREADS
        go_on.set()
        slow.result()
    assert sorted(answered) == ["/quick"] * 6 + ["/slow"] * 4
    assert [line for line in caplog.messages if "notify" in line] == [
        f"approvals.notify[0] was not told of {request.id}: 3 wait for it"
    ] * 2


def test_what_is_decided_is_not_revised(place: Workspace) -> None:
    approvals = ApprovalStore(place)
    request = approvals.file(filing(context={"amount": 1}))
    approvals.decide(request.id, "approve", by="dana")
    with refused("HIVE-414"):
        approvals.revise(request.id, context={"amount": 1_000_000})
    assert approvals.get(request.id).context == {"amount": 1}


def test_pages_of_requests_follow_each_other_by_due_time_risk_and_age(place: Workspace) -> None:
    clock = Clock()
    approvals = ApprovalStore(place, now=clock)
    made: dict[str, str] = {}
    for n, risk in enumerate(("low", "high", "medium", "high", "low")):
        clock.at = f"2030-01-0{1 + n // 4}T00:00:00+00:00"
        made[approvals.file(filing(title=f"request {n}", risk=risk)).id] = str(n)

    def gone_through(limit: int, **asked: Any) -> list[str]:
        found, after, more = list[str](), None, True
        while more:
            page, more = approvals.page(limit, after=after, **asked)
            found += [one.id for one in page]
            after = found[-1] if page else None
        return [made[id] for id in found]

    assert gone_through(2) == ["4", "3", "2", "1", "0"]
    assert gone_through(2, status="pending", by_due=True) == ["1", "3", "2", "0", "4"]
    second = approvals.page(2, status="pending", by_due=True)[0][-1].id
    approvals.decide(second, "approve", by="user:kim")
    rest = [made[one.id] for one in approvals.page(9, status="pending", by_due=True, after=second)[0]]
    assert made[second] not in rest
    assert len(rest) == 3, "what was decided meanwhile is a place to go on from"
    assert [made[one.id] for one in approvals.page(9, status="approved")[0]] == [made[second]]
    assert approvals.count_pending() == 4


def test_a_page_shows_no_other_tenants_requests_and_begins_behind_none_of_them(place: Workspace) -> None:
    approvals = ApprovalStore(place)
    ours = approvals.file(filing(tenant="acme")).id
    theirs = approvals.file(filing(tenant="globex")).id
    assert [one.id for one in approvals.page(5, tenants={"acme", "local"})[0]] == [ours]
    assert approvals.count_pending({"acme", "local"}) == 1
    for cursor in (theirs, "a000"):
        with refused("HIVE-409", 2):
            approvals.page(5, tenants={"acme", "local"}, after=cursor)


def test_a_page_shows_a_request_as_the_log_has_it_where_its_row_lags_behind(place: Workspace) -> None:
    approvals = ApprovalStore(place)
    ids = [approvals.file(filing(title=f"request {n}")).id for n in range(3)]
    with connected(place.records) as connection:
        before = connection.execute("SELECT status, version, request, decisions FROM approvals").fetchall()
        approvals.decide(ids[1], "approve", by="user:kim")
        values = (*before[1], ids[1])
        connection.execute(
            "UPDATE approvals SET status = ?, version = ?, request = ?, decisions = ? WHERE id = ?", values
        )
    assert {one.id for one in approvals.page(2, status="pending")[0]} == {ids[0], ids[2]}
    assert [one.id for one in approvals.page(2, status="approved")[0]] == [ids[1]]
    with connected(place.records) as connection:
        connection.execute("UPDATE approvals SET title = 'forged' WHERE id = ?", (ids[0],))
    assert [one.id for one in approvals.page(1, status="pending")[0]] == [ids[2]]
    assert approvals.page(1, status="pending")[1] is False
