"""What a person decides by is what is there: no sign that can't be seen reaches them unseen, in any channel."""

from __future__ import annotations

import io
import json
import re
import sys
import threading
import unicodedata
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.approvals import ApprovalRequest, ApprovalStore, Filing
from hive_agents.base.text import UNSEEN, hides, spelled, spelled_json
from hive_agents.cli import approvals as commands
from hive_agents.server.meta import OPERATIONS
from hive_agents.server.pages.entrance import PARTS
from hive_agents.workspace.trusted import trust
from tests.agents.conftest import agent_json, node, write_json
from tests.pages.people import noting_agent
from tests.sample import hive
from tests.server.serving import bearer, sample, served, token, value_of
from tests.server.test_mcp_session import Person, over_http
from tests.server.test_protocols import turn

SEEN_BLANKS = "\n\t"
FORMATS = "".join(chr(n) for n in range(sys.maxunicode + 1) if unicodedata.category(chr(n)) in ("Cf", "Cc", "Zl", "Zp"))
ALL = "".join(sign for sign in FORMATS if sign not in SEEN_BLANKS) + "\ufe0f\U000e01efé\u3164\u034f"
"""Every sign that can't be seen, with an accented letter that can."""
HIDDEN = ALL.replace("é", "")
PAY = "Pay to \u202eTesting\u202c account\u200b\U000e0041"


def unseen(text: str) -> set[str]:
    return {sign for sign in text if sign in HIDDEN or unicodedata.category(sign) in ("Cf", "Cs")}


def require_told(text: str, words: str = ALL) -> None:
    """The text has none of the signs, and the escape of each of `words`."""
    assert not unseen(text), [f"U+{ord(sign):04X}" for sign in unseen(text)]
    forms = {sign: (spelled(sign), json.dumps(sign)[1:-1]) for sign in words}  # JSON has short ones for three of them
    missing = [sign for sign, some in forms.items() if not any(one in text for one in some)]
    assert not missing, [f"U+{ord(sign):04X}" for sign in missing]


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    """A workspace with an agent `writer` whose call hides every sign there is, and one `asker` whose question does."""
    place = sample(tmp_path / "ws")
    noting_agent(place, {"filename": f"n{PAY}.txt", "text": ALL})
    question = {"question": f"which? {ALL}", "options": [f"this {ALL}", "that"]}
    asks = {"tool_calls": [{"name": "ask_user", "args": question}]}
    done = {"tool_calls": [{"name": "set_output", "args": {"key": "text", "value": "said"}}]}
    write_json(place, "asks.jsonl", f"{json.dumps(asks)}\n{json.dumps(done)}")
    asker = node("write", output_keys=["text"], client_facing=True)
    write_json(place, "agents/asker.json", agent_json(asker, id="asker", model="scripted:asks.jsonl"))
    return place


def filed(place: Workspace, **changes: Any) -> ApprovalRequest:
    fields = {"kind": "ticket", "title": f"may I {ALL}?", "requester": "agent:writer", "context": {f"k{ALL}": [ALL]}}
    return ApprovalStore(place).file(Filing(**fields | changes))


def waiting(place: Workspace, agent: str) -> str:
    ran = hive("run", agent, "--json", "-w", place.root)
    assert ran.json["status"] == "waiting", ran
    return str(ran.json["run_id"])


def test_every_sign_of_the_kinds_is_spelled_and_every_other_stays() -> None:
    kinds = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
    places = [*range(0x32000), *range(0xDFFF0, 0xF0010)]  # between them nothing is assigned
    every = "".join(sign for sign in map(chr, places) if unicodedata.category(sign) in kinds)
    every = every.replace("\n", "").replace("\t", "").replace("\udbff\udc00", "\udbff.\udc00")
    assert re.fullmatch(r"(\\u[0-9a-f]{4}|\.)+", spelled(every))
    assert json.loads(f'"{spelled(every)}"') == every
    words = "שלום, مرحبا, naïve 10\u00a0€, 日本\u3000語, 👍🏽\n\tline"
    assert spelled(words) == words
    assert spelled("👨\u200d👩\u200d👧") == r"👨\u200d👩\u200d👧"
    assert json.loads(spelled_json({ALL: [ALL, "\ud800"]})) == {ALL: [ALL, "\ud800"]}


def test_the_terminal_spells_what_is_asked(place: Workspace) -> None:
    # A command that is new here has to be walked, too.
    assert {one.name or one.callback.__name__ for one in commands.app.registered_commands if one.callback} == {
        "list", "show", "review", "approve", "reject", "edit", "respond", "delegate", "verify",
    }  # fmt: skip
    run = waiting(place, "writer")
    filed(place, kind="deploy", diff={"json_patch": [{"op": "add", "path": f"/{ALL}", "value": ALL}]})
    filed(place, signals=[{"source": ALL}], allowed_decisions=["respond"], kind="question")
    for request in ApprovalStore(place).list():
        for form in ((), ("--json",)):
            told = hive("approvals", "show", request.id, *form, "-w", place.root)
            require_told(told.out)
            assert UNSEEN in told.out or "warning" in told.json
    for command in (("list",), ("review", run)):
        for form in ((), ("--json",)):
            told = hive("approvals", *command, *form, "-w", place.root)
            require_told(told.out)
            assert UNSEEN in told.out or "warning" in told.out
    require_told(hive("queen", "which approvals are open?", "-w", place.root).out, "\x01")


def test_an_agents_question_is_spelled_where_it_is_asked(place: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    told = hive("run", "asker", "--chat", "-w", place.root)
    require_told(told.out)
    assert UNSEEN in told.out


def test_a_notice_spells_its_words(place: Workspace) -> None:
    from hive_agents.approvals.notify import notify

    told: list[str] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            told.append(body["request"]["title"] + body["request"]["warning"])
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Hook) as server:
        server.timeout = 30
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        toml = place.root / "hive.toml"
        toml.write_text(
            f'{toml.read_text("utf-8")}\n[approvals]\nnotify = ["http://127.0.0.1:{server.server_port}/"]\n', "utf-8"
        )
        trust(Workspace(place.root))
        for one in notify(Workspace(place.root), "requested", filed(place)):
            one.result()
        thread.join()
    require_told(told[0])
    assert UNSEEN in told[0]


async def test_no_page_shows_a_sign_that_hides(place: Workspace) -> None:
    """Every page that there is but the readers' chat, with each request."""
    run = waiting(place, "writer")
    requests = [filed(place), filed(place, title=PAY), *ApprovalStore(place).list(run_ids=[run])]
    asked = waiting(place, "asker")
    requests += ApprovalStore(place).list(run_ids=[asked])
    async with served(place, roles=("http",)) as client:
        root = bearer(place, "root", "reader", "operator", "approver", "admin")
        views = [view for part in PARTS for view in part.pages.views if not view.template.startswith("chat")]
        assert len(views) > 12
        for view in views:
            for one in requests:
                path = view.path.replace("{request_id}", one.id).replace("{run_id}", run)
                answer = await client.get(path.replace("{", "").replace("}", ""), headers=root)
                assert not unseen(answer.text), (path, [hex(ord(sign)) for sign in unseen(answer.text)])
                if "{" not in view.path:
                    break
        queue = (await client.get("/approvals", headers=root)).text
        assert "can't be seen" in queue.replace("&#39;", "'")
        for one in requests:
            page = (await client.get(f"/approvals/{one.id}", headers=root)).text
            require_told(page, PAY[8] if one.title == PAY else ALL)
            assert r"account\u200b\udb40\udc41" in page or one.title != PAY
            assert "can't be seen" in page.replace("&#39;", "'")
            assert "<bdi>" in page


async def test_json_stays_as_it_is_and_warns(place: Workspace) -> None:
    """Every operation that tells of requests: an object with such a title has a warning beside it."""
    run = waiting(place, "writer")
    request = filed(place)

    def require_warned(value: Any) -> int:
        if isinstance(value, list):
            return sum(map(require_warned, value))
        if not isinstance(value, dict):
            return 0
        if "title" in value and "requester" in value:
            assert value["warning"] == UNSEEN, value
            return 1
        return sum(map(require_warned, value.values()))

    paths = [one.path for one in OPERATIONS if one.method == "GET" and "approvals" in one.path]
    assert len(paths) == 4
    async with served(place, roles=("http",)) as client:
        root = bearer(place, "root", "operator", "approver", "admin")
        for path in paths:
            found = await client.get(path.format(request_id=request.id, run_id=run), headers=root)
            assert found.status_code == 200, found.text
            assert require_warned(found.json()) or "audit" in path
        shown = (await client.get(f"/api/approvals/{request.id}", headers=root)).json()["request"]
        assert shown["context"] == request.context


async def test_an_interrupt_spells_its_message_and_warns(place: Workspace) -> None:
    async with served(place) as client:
        both = bearer(place, "root", "operator", "approver")
        for agent in ("asker", "writer"):
            found = await client.post(f"/agui/{agent}", json=turn("go", thread=agent, run=agent), headers=both)
            last = [line for line in found.text.split("\n") if line.startswith("data: ")][-1]
            (interrupt,) = json.loads(last.removeprefix("data: "))["outcome"]["interrupts"]
            assert not unseen(interrupt["message"])
            assert UNSEEN in interrupt["message"]
            assert interrupt["metadata"]["hive"]["warning"] == UNSEEN
            assert hides(interrupt["metadata"])  # data stays as it is


async def test_an_mcp_client_asks_with_what_will_run(place: Workspace) -> None:
    run = waiting(place, "writer")
    filed(place)
    (request,) = ApprovalStore(place).list(run_ids=[run])
    person = Person()
    async with served(place) as client, over_http(client, token(place, "root", "approver", "operator"), person) as one:
        listed = value_of(await one.call_tool("list_approvals", {}))
        require_told(json.dumps(listed, ensure_ascii=False).replace("\\\\", "\\"))
        assert all(row["warning"] == UNSEEN for row in listed["items"] if row["id"] != request.id)
        decide = {"request_id": request.id, "verb": "reject", "version": 1, "reason": "no"}
        await one.call_tool("decide_approval", decide)
    (question,) = person.asked
    require_told(question, ALL[:100])
    assert UNSEEN in question
    assert "save_data" in question


def test_two_names_that_look_the_same_are_two_arguments(place: Workspace) -> None:
    context = {"tool": "pay", "args": {"to": "kim", "to\u200b": "eve", r"to\u200b": "joe"}}
    request = filed(place, kind="tool_call", context=context)
    told = hive("approvals", "show", request.id, "-w", place.root).out
    assert r'"to\u200b": "eve"' in told
    assert r'"to\\u200b": "joe"' in told
