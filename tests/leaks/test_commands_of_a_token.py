"""Every command with a guest's token in HIVE_TOKEN: nothing of a document hidden from them is told or written."""

from __future__ import annotations

import io
import json
import shutil
import sys
from pathlib import Path

import pytest

from hive_agents.access import known_principal, mint
from hive_agents.runs import RunStore
from tests.agents.conftest import GOAL, agent_json, write_json
from tests.cli.test_surface import commands
from tests.conftest import make_workspace, write_config, write_document
from tests.sample import Ran, hive

SECRET = "zebra"
"""Part of the id, the title, the text and a value of what is hidden, and of nothing else."""
ASKED = "where is the rotor kept?"
HIDDEN, OPEN = f"{SECRET}/rotor.md", "open/rotor.md"
DOCUMENTS = {
    HIDDEN: f"""---
title: The {SECRET} rotor
tenant: acme
view: ["user:dana"]
labels: [{SECRET}]
---
The rotor is kept in the {SECRET} cabinet for 20 days. It is sealed by the {SECRET} officer.
""",
    f"{SECRET}/twin.md": f"""---
title: The {SECRET} rotor again
tenant: acme
view: ["user:dana"]
labels: [{SECRET}]
---
The rotor is kept in the {SECRET} cabinet for 30 days. It is sealed by the {SECRET} officer.
""",
    f"{SECRET}/faulty.md": f"---\ntitle: [{SECRET}\n---\nThe {SECRET} rotor is faulty.\n",
    OPEN: """---
title: Keeping a rotor
tenant: acme
view: [tenant]
labels: [plain]
---
A rotor is kept in the drawer below the bench.
""",
}
PEOPLE = {
    "tenants": {"acme": {"admins": []}},
    "principals": {
        "dana": {"tenant": "acme", "groups": [], "roles": ["reader", "operator", "approver", "admin"]},
        "guest": {"tenant": "acme", "groups": [], "roles": ["reader"]},
        "kim": {"tenant": "acme", "groups": [], "roles": ["reader", "operator"]},
    },
}
GOLDEN = {
    "collection": "kb",
    "k": 5,
    "queries": [
        {"id": "q1", "query": ASKED, "relevant": [OPEN], "distractors": [HIDDEN]},
        {"id": "q2", "query": "how many days is a rotor kept?", "relevant": [HIDDEN], "distractors": [OPEN]},
        {"id": "q3", "query": "which rotor is sealed?", "relevant": [HIDDEN], "distractors": []},
    ],
}
SCRIPT = [
    {"tool_calls": [{"name": "search_documents", "args": {"query": "rotor"}}]},
    {"tool_calls": [{"name": "set_output", "args": {"key": "items", "value": [1]}}]},
    {"tool_calls": [{"name": "set_output", "args": {"key": "text", "value": "kept"}}]},
]
Arguments = tuple[str, ...]
PUT_IN = ("RUN", "THREAD", "AGENT_RUN", "OUT", "RECEIPT", "INCOMING")

CALLS: dict[str, list[Arguments]] = {
    "import": [("INCOMING",)],
    "index": [()],
    "query": [(ASKED,), (ASKED, "--explain", HIDDEN), (ASKED, "--explain", OPEN), (ASKED, "--config", "words"),
              (ASKED, "-f", "labels=zebr"), (ASKED, "-f", "labels=plain")],
    "why": [(ASKED, HIDDEN), (ASKED, OPEN)],
    "stale": [()],
    "fields": [()],
    "label": [(ASKED, "-r", OPEN), (ASKED,), (ASKED, "--between", "words", "boosted"), ("--chat",), ("--suggest", "2")],
    "evaluate": [(), ("words",), ("--accept-golden",)],
    "compare": [("v1", "words"), ("v1", "--engine")],
    "validate": [("v1", "--behavioral"), ("filtered",)],
    "explain": [("HIVE-203",)],
    "gate": [("--before", "v1", "--after", "words", "--qrels", "evals/golden.json")],
    "deploy": [("words",), ("words", "--override", "--reason", "r")],
    "rollback": [()],
    "canary": [()],
    "export": [(config, "--to", engine, *rest) for config in ("v1", "words")
               for engine in ("qdrant", "postgres", "opensearch")
               for rest in ((), ("--out", "OUT"), ("--query", ASKED))],
    "history": [()],
    "optimize": [("--iterations", "1")],
    "chat": [(ASKED,), (ASKED, "--doc", HIDDEN), (ASKED, "--filter", "labels=zebr"), ("--threads",),
             ("--trace", "RUN"), ("--export", "THREAD"), (ASKED, "--thread", "THREAD")],
    "run": [("digest", "--input", '{"topic": "rotor"}'), ("--resume", "AGENT_RUN")],
    "queen": [("status",), (ASKED,)],
    "status": [()],
    "sources add": [("desk", "--kind", "folder", "--url", "INCOMING")],
    "sources list": [()],
    "sources run": [(), ("desk",)],
    "sources pause": [("desk",)],
    "sources remove": [("desk", "--keep-documents")],
    "sources log": [("desk",)],
    "schema": [("config",)],
    "token": [(), ("--user", "dana"), ("--user", "ghost", "--tenant", "acme", "--roles", "admin"), ("--revoke", "j1")],
    "token list": [()],
    "token revoke": [("j1",)],
    "people end": [("guest",)],
    "trust": [("--diff",)],
    "open": [(), ("--as", "dana")],
    "doctor": [(), ("--documents",)],
    "backup": [("OUT",)],
    "verify": [("RECEIPT",)],
    "agents propose": [("digest", "--reason", "r")],
    "agents deploy": [("digest",)],
    "agents rollback": [("digest",)],
    "agents history": [("digest",)],
    "agents align": [("digest",)],
    "agents list": [()],
    "agents show": [("digest",)],
    "agents validate": [("digest",)],
    "agents eval": [("digest",)],
    "agents new": [("mine",)],
    "agents graph": [("digest",)],
    "agents memory show": [("digest",), ("digest", "--user", "dana")],
    "agents memory accept": [("digest", "AGENT_RUN")],
    "agents memory edit": [("digest", "1", "--text", "t")],
    "agents memory clear": [("digest",)],
    "receipt deployment": [(), ("1",)],
    "receipt decision": [("x1",)],
    "receipt answer": [("RUN",)],
    "trigger add": [("t1", "--agent", "digest", "--cron", "0 2 * * *")],
    "trigger list": [()],
    "trigger remove": [("t1",)],
    "trigger fire": [("t1",)],
    "runs": [()],
    "runs list": [()],
    **{f"runs {verb}": [("RUN",), ("AGENT_RUN",)]
       for verb in ("show", "stop", "pause", "resume", "retry", "delete", "logs", "replay")},
    "runs record": [("AGENT_RUN", "--case")],
    "runs say": [("AGENT_RUN", "hello")],
    "models list": [()],
    "models test": [()],
    "tools list": [()],
    "tools show": [("search_documents",)],
    "tools call": [("search_documents", "--args", '{"query": "rotor"}')],
    "storage": [()],
    "storage migrate": [("--to", "here")],
    "storage setup": [("postgresql://hive@127.0.0.1:9/hive", "--yes")],
    "storage reopen": [()],
    "credentials set": [("x",)],
    "credentials list": [()],
    "credentials delete": [("x",)],
    "feedback add": [("--run", "RUN", "--verdict", "relevant", "--doc", HIDDEN)],
    "feedback list": [()],
    "feedback review": [(), ("f1", "--accept")],
    "judge stats": [()],
    "judge calibrate": [()],
    "judge audit": [()],
    "judge propose": [(), ("--certify",), ("--use",)],
    "judge rules mine": [()],
    "judge rules list": [()],
    "judge rules show": [("r1",)],
    "judge rules approve": [("r1",)],
    "judge rules retire": [("r1", "--reason", "r")],
    "approvals list": [()],
    "approvals show": [("x1",)],
    "approvals review": [("AGENT_RUN",)],
    "approvals approve": [("x1",)],
    "approvals reject": [("x1",)],
    "approvals edit": [("x1", "--patch", "{}")],
    "approvals respond": [("x1", "--message", "m")],
    "approvals delegate": [("x1", "--to", "guest")],
    "approvals verify": [()],
}  # fmt: skip
ELSEWHERE = {
    "init": "makes a workspace of its own",
    "demo": "makes a workspace of its own",
    "help ask": "makes a workspace of its own",
    "serve": "speaks HTTP, where each request has a token of its own",
    "mcp": "speaks MCP as the token's holder, in tests/server/test_mcp_session.py",
}
OF_THE_OWNER = [
    ("query", ASKED),
    ("why", ASKED, HIDDEN),
    ("stale",),
    ("fields",),
    ("evaluate",),
    ("index",),
    ("doctor", "--documents"),
    ("export", "v1", "--to", "qdrant", "--out", "OUT"),
    ("label", ASKED),
    ("receipt", "answer", "RUN", "--as", "dana"),
    ("runs", "logs", "AGENT_RUN"),
]
"""What tells of hidden documents without a token: else the others would prove nothing."""


class Place:
    """A workspace that was worked in, and what of it the arguments of a command name."""

    def __init__(self, folder: Path) -> None:
        self.workspace = place = make_workspace(folder / "ws", embedding=False, documents={})
        for doc_id, text in DOCUMENTS.items():
            write_document(place, doc_id, text)
        write_json(place, "access/people.json", PEOPLE)
        write_json(place, "evals/golden.json", GOLDEN)
        write_json(place, "goals/digest.json", GOAL)
        write_json(place, "agents/digest.json", agent_json(model="scripted:script.jsonl"))
        write_json(place, "script.jsonl", "\n".join(map(json.dumps, SCRIPT)))
        write_config(place, "v1", "keyword")
        write_config(place, "filtered", "keyword", filters={"labels": "zebr"})
        incoming = folder / "incoming"
        incoming.mkdir()
        (incoming / "new.md").write_text("# New\n\nA new one.\n", encoding="utf-8")
        assert self.hive("deploy", "v1").code == 0
        asked = self.hive("chat", ASKED, "--as", "dana", "--json").json
        assert SECRET in json.dumps(asked)
        self.hive("run", "digest", "--input", '{"topic": "rotor"}', "--as", "dana")
        ran = RunStore(place).list(graph="event_loop")[0].run_id
        receipt = folder / "receipt.json"
        assert self.hive("receipt", "answer", asked["run_id"], "--as", "dana", "--out", receipt).code == 0
        self.out = folder / "out"
        values = (asked["run_id"], asked["thread_id"], ran, self.out, receipt, incoming)
        self._named = dict(zip(PUT_IN, map(str, values), strict=True))

    def hive(self, *arguments: object) -> Ran:
        return hive(*arguments, "-w", self.workspace.root)

    def called(self, *arguments: str) -> Ran:
        return self.hive(*(self._named.get(one, one) for one in arguments))

    def files(self) -> dict[Path, bytes]:
        """What stands in the workspace beside its documents and its state, and what was written elsewhere."""
        roots = [self.out, *(path for path in self.workspace.root.iterdir() if path.name not in ("documents", ".hive"))]
        paths = [path for root in roots for path in (root, *root.rglob("*")) if path.is_file()]
        return {path: path.read_bytes() for path in paths}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("token"))


@pytest.fixture
def guest(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIVE_TOKEN", mint(place.workspace, known_principal(place.workspace, "guest")).token)
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n" * 20))
    monkeypatch.chdir(place.workspace.root)


def test_every_command_is_called() -> None:
    assert {" ".join(words) for words, _ in commands()} == CALLS.keys() | ELSEWHERE.keys()


@pytest.mark.parametrize(
    ("name", "arguments"),
    [pytest.param(name, one, id=" ".join((name, *one))) for name, each in CALLS.items() for one in each],
)
@pytest.mark.usefixtures("guest")
def test_a_guest_is_told_of_nothing_hidden(place: Place, name: str, arguments: Arguments) -> None:
    for way in ((), ("--json",)):
        shutil.rmtree(place.out, ignore_errors=True)
        before = place.files()
        ran = place.called(*name.split(), *arguments, *way)
        told = (ran.out + ran.err).replace(HIDDEN, "") if HIDDEN in arguments else ran.out + ran.err
        assert SECRET not in told.lower()
        written = {path: content for path, content in place.files().items() if before.get(path) != content}
        assert {path for path, content in written.items() if SECRET in f"{path.name}{content!r}".lower()} == set()


@pytest.mark.usefixtures("guest")
def test_a_guest_searches_what_they_may_view(place: Place) -> None:
    ran = place.called("query", ASKED, "--json")
    assert [hit["doc_id"] for hit in ran.json["results"]] == [OPEN]
    filtered = place.called("query", ASKED, "--filter", "labels=plain", "--json")
    assert [hit["doc_id"] for hit in filtered.json["results"]] == [OPEN]
    assert "Keeping a rotor" in place.called("query", ASKED).out
    values = {field["name"]: field["values"] for field in place.called("fields", "--json").json["fields"]}
    assert values["labels"] == [{"value": "plain", "documents": 1}]
    for more in (("--config", "words"), ("--explain", OPEN)):
        assert place.called("query", ASKED, *more, "--json").codes == {"HIVE-415"}


@pytest.mark.usefixtures("guest")
def test_a_guest_is_not_told_how_many_records_there_are(place: Place) -> None:
    """Of every tenant, and of what they may not view: an operator may know."""
    assert place.called("storage", "--json").codes == {"HIVE-415"}


@pytest.mark.parametrize("arguments", [("receipt", "deployment"), ("verify", "RECEIPT")], ids=" ".join)
def test_the_evidence_of_a_deployment_measures_everything(
    place: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arguments: Arguments
) -> None:
    receipt = tmp_path / "deployment.json"
    assert place.hive("receipt", "deployment", "--out", receipt).code == 0
    words = [receipt if one == "RECEIPT" else one for one in arguments]
    assert place.hive(*words, "--json").code == 0
    monkeypatch.setenv("HIVE_TOKEN", mint(place.workspace, known_principal(place.workspace, "kim")).token)
    assert place.hive(*words, "--json").codes == {"HIVE-415"}


def test_an_operator_is_shown_figures_and_hits_of_their_own(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIVE_TOKEN", mint(place.workspace, known_principal(place.workspace, "kim")).token)
    monkeypatch.setattr(sys, "stdin", io.StringIO("n\n" * 20))
    measured = place.called("evaluate", "--json").json
    assert (measured["n"], {hit["doc_id"] for query in measured["queries"] for hit in query["hits"]}) == (2, {OPEN})
    for arguments in (("evaluate",), ("stale",), ("label", ASKED)):
        ran = place.called(*arguments)
        assert SECRET not in f"{ran.out}{ran.err}"
    assert place.called("stale", "--json").json["pairs"] == []
    assert place.called("label", "--suggest", "2", "--json").codes == {"HIVE-415"}


@pytest.mark.parametrize("arguments", OF_THE_OWNER, ids=" ".join)
def test_the_owner_is_told(place: Place, monkeypatch: pytest.MonkeyPatch, arguments: Arguments) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("n\n" * 20))
    shutil.rmtree(place.out, ignore_errors=True)
    ran = place.called(*arguments)
    assert SECRET in f"{ran.out}{ran.err}{place.files()}".lower()
