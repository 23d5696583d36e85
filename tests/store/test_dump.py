"""A dump of the whole database, after all kinds of work: no secret is in it, and of texts what docs/scale.md says."""

from __future__ import annotations

import asyncio
import base64
import datetime as dt
import json
import re
import uuid
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.agents import AgentRun, ToolRegistry
from hive_agents.models import Chain, ChatResult, Message, Tool
from hive_agents.triggers.webhooks import accept, sign
from hive_agents.workspace.credentials import CredentialStore, Secret
from hive_agents.workspace.trusted import trust
from tests.agents.conftest import agent_json, node, write_json
from tests.agents.loops import Told, say, sets
from tests.conftest import write_document
from tests.copilot.chats import PAGES, ask, make_knowledge_base, use_models
from tests.host.hosting import prepared
from tests.real_engines import Postgres, postgres
from tests.sample import hive
from tests.topics import holdout_queries, make_topics, query, write_golden
from tests.triggers.conftest import Fired

pytestmark = [pytest.mark.slow, pytest.mark.sqlite_file]

SECRETS = {
    "credential": "narwhalschatz-4711",
    "variable": "dugongschatz-4712",
    "webhook": "manateeschatz-4713",
    "password": "belugaschatz-4714",
    "audit key": "orcaschatz-4715",
    "credential key": base64.urlsafe_b64encode(b"seekuhschatz-4716".ljust(32, b"k")).decode(),
}
TEXTS = {
    "found": "zanzibarrel",
    "hidden": "tapirversteck",
    "imported": "ibisimport",
    "beside": "emuneben",
    "question": "quokkafrage",
    "comment": "wombatnotiz",
    "prompt": "lemurauftrag",
    "input": "okapieingabe",
    "told": "gnuergebnis",
    "reason": "yakgrund",
    "body": "alpakainhalt",
    "golden": "kiwifrage",
}
_CHECKPOINTS = {"checkpoints", "checkpoint_blobs", "checkpoint_writes"}
_WORK = {"effects", "messages", "buffers", "events", *_CHECKPOINTS}
ALLOWED: dict[str, set[str]] = {
    "found": {"runs", "turns", "answers", "judge_decisions", *_CHECKPOINTS},
    "hidden": set(),
    "imported": set(),
    "beside": set(),
    "question": {"feedback", "runs", "threads", "turns", "judge_decisions", *_CHECKPOINTS},
    "comment": {"feedback"},
    "prompt": {"runs", "agent_versions"},
    "input": {"runs", "approvals", *_WORK},
    "told": {"runs", *_WORK},
    "reason": {"approvals", "audit_lines", "config_versions", *_WORK},
    "body": {"runs", *_WORK},
    "golden": set(),
}
"""In which tables each may be read, as docs/scale.md says: nowhere else."""


def test_no_secret_is_in_a_dump_and_of_texts_what_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIVE_CREDENTIAL_KEY", SECRETS["credential key"])
    monkeypatch.setenv("HIVE_AUDIT_KEY", SECRETS["audit key"])
    monkeypatch.setenv("TICKET_SECRET", SECRETS["webhook"])
    monkeypatch.setenv("TOOL_SECRET", SECRETS["variable"])
    monkeypatch.setenv("SERVER_SECRET", SECRETS["password"])
    with postgres() as server:
        chat(on(make_chat(tmp_path / "chat"), server), tmp_path)
        tune(on(make_tuned(tmp_path / "tuned"), server))
        work(on(make_agents(tmp_path / "agents"), server))
        found = tables_by_word(server.dump(), SECRETS | TEXTS)
    assert {name for name in SECRETS if found[name]} == set()
    assert {name: tables for name in TEXTS if (tables := found[name] - ALLOWED[name])} == {}
    assert {name for name in TEXTS if ALLOWED[name] and not found[name]} == set(), "the test would prove nothing"


def on(place: Workspace, server: Postgres) -> Workspace:
    with (place.root / "hive.toml").open("a", encoding="utf-8") as file:
        namespace = f"t{uuid.uuid4().hex[:12]}"
        file.write(f'[storage]\nurl = "{server.url}"\npassword_ref = "env:SERVER_SECRET"\nnamespace = "{namespace}"\n')
    trust(Workspace(place.root))
    return Workspace(place.root)


def make_chat(root: Path) -> Workspace:
    place = make_knowledge_base(root)
    page = PAGES["faqs/rotate.md"].replace("revoke the first key", f"revoke the {TEXTS['found']} key")
    write_document(place, "faqs/rotate.md", page)
    hidden = PAGES["sops/globex.md"].replace("one signature", f"{TEXTS['hidden']} to rotate a key")
    write_document(place, "sops/globex.md", hidden)
    Workspace(root).index()
    use_models(
        place,
        answer=[{"content": f"Create a second key, then revoke the {TEXTS['found']} key [1]."}],
        judge=[{"structured": {"action": "accept", "confidence": 0.95, "reasoning": "as the passage says"}}],
    )
    return Workspace(root)


def chat(place: Workspace, tmp_path: Path) -> None:
    """A question with a model's answer, feedback, and an import of files of which one can't be read."""
    reply = ask(place, "dana", f"{TEXTS['question']} how do I rotate a key?")
    given = ("--result", "1", "--verdict", "relevant", "--comment", TEXTS["comment"])
    assert TEXTS["found"] in reply["answer"]
    assert hive("feedback", "add", "--run", reply["run_id"], *given, "--as", "dana", "-w", place.root).code == 0
    folder = tmp_path / "from"
    folder.mkdir()
    (folder / f"{TEXTS['beside']}.md").write_text(f"# Imported\n\n{TEXTS['imported']} stands here.\n")
    (folder / f"{TEXTS['beside']}.pdf").write_bytes(b"no such thing " + TEXTS["imported"].encode())
    hive("import", folder, "-w", place.root)
    assert hive("index", "-w", place.root).code == 0


def make_tuned(root: Path) -> Workspace:
    place = make_topics(root)
    asked = query("autoclave", query=f"autoclave {TEXTS['golden']}", split="train")
    write_golden(place, [asked, *holdout_queries()[1:]])
    return place


def tune(place: Workspace) -> None:
    """The gate, a deployment, a rollback with its reason, and the optimizer."""
    for arguments in (
        ("deploy", "naive"),
        ("deploy", "careful"),
        ("rollback", "--reason", TEXTS["reason"]),
        ("evaluate", "careful"),
    ):
        assert hive(*arguments, "-w", place.root).code == 0, arguments
    ran = hive("optimize", "--iterations", "2", "--no-deploy", "-w", place.root, "--json")
    assert "status" in ran.json


def make_agents(root: Path) -> Workspace:
    place = prepared(root)
    keys = node("toil", input_keys=["what"], output_keys=["text"], tools=["log_in", "fail"])
    keys["system_prompt"] = f"You are {TEXTS['prompt']}."
    policy = [{"match": "log_in", "decision": "ask"}, {"match": "*", "decision": "allow"}]
    write_json(place, "agents/keyed.json", agent_json(keys, id="keyed", tool_policy=policy))
    ticket = {"id": "ticket", "type": "webhook", "agent": "keyed", "secret_ref": "env:TICKET_SECRET"}
    write_json(place, "triggers/ticket.json", ticket)
    return place


def work(place: Workspace) -> None:
    """An agent whose tools get secrets, say them and fail with them; a person's approval; a webhook."""
    CredentialStore(place).set("key", SECRETS["credential"])
    run = AgentRun.start(place, "keyed", {"what": TEXTS["input"]}, **seams())
    (request,) = run.go()["approval_ids"]
    assert hive("approvals", "approve", request, "--reason", TEXTS["reason"], "-w", place.root).code == 0
    assert AgentRun.resume(place, run.run_id, **seams()).go()["status"] == "done"
    body, now = json.dumps({"what": TEXTS["body"]}).encode(), dt.datetime.now(dt.UTC).replace(microsecond=0)
    at = int(now.timestamp())
    signed = {"X-Hive-Timestamp": str(at), "X-Hive-Signature": sign(SECRETS["webhook"], body, at), "X-Hive-Id": "e1"}
    assert asyncio.run(accept(place, "ticket", signed, body, now, fire=Fired(place))).status == 202


def seams() -> dict[str, Any]:
    registry = ToolRegistry()

    def log_in(what: str, token: Secret) -> str:
        """Say what was given."""
        return f"{TEXTS['told']} {what} {token.reveal()} {token.reveal().encode().hex()}"

    def fail(what: str, token: Secret) -> str:
        """Fail with what was given."""
        raise RuntimeError(f"no entry with {token.reveal()}")

    registry.register(log_in, side_effect="external", credentials={"token": "credential:key"})
    registry.register(fail, side_effect="external", credentials={"token": "env:TOOL_SECRET"})
    return {"tools": registry, "models": lambda role: Chain([Told(calling)])}


def calling(messages: list[Message], offered: list[Tool]) -> ChatResult:
    done = sum(one.role == "assistant" for one in messages)
    if done == 2:
        return say([sets("text", "done")])
    return say([(("log_in", "fail")[done], {"what": TEXTS["input"]})])


def tables_by_word(dump: str, words: dict[str, str]) -> dict[str, set[str]]:
    """The tables in whose rows each word stands: as text, in bytes, or in base64 at any place."""
    rows: dict[str, list[str]] = defaultdict(list)
    table = ""
    for line in dump.split("\n"):
        if (begun := re.match(r"INSERT INTO \w+\.(\w+) ", line)) is not None:
            table = begun[1]
        rows[table].append(line)  # what is no row is asked as well, under the name of the last table
    found = {}
    for name, word in words.items():
        forms = {word, word.encode().hex()}
        for shift in range(3):
            told = base64.b64encode(b"\0" * shift + word.encode()).decode().rstrip("=")
            forms.add(told[2 * (shift > 0) + 2 : -2])
        found[name] = {table for table, lines in rows.items() if any(form in line for line in lines for form in forms)}
    return found
