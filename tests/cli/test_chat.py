"""`hive chat` as scripts and readers meet it."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from hive_agents import Workspace
from hive_agents.access import known_principal, mint, revoke
from hive_agents.base.text import safe_text
from hive_agents.cli.main import run
from hive_agents.cli.replies import marked
from tests.conftest import write_document
from tests.copilot.chats import as_bytes, copied_knowledge_base, knowledge_base, use_models
from tests.sample import Ran, hive


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    return copied_knowledge_base(tmp_path / "w")


def chat(place: Workspace, *arguments: object, user: str = "dana") -> Ran:
    return hive("chat", *arguments, "--as", user, "-w", place.root)


def typed(monkeypatch: pytest.MonkeyPatch, place: Workspace, *lines: str, user: str = "dana") -> str:
    """What the interactive chat prints for these lines."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(lines) + "\n"))
    ran = chat(place, user=user)
    assert ran.code == 0, ran.err
    return ran.out


@pytest.mark.parametrize(
    "question", ["how do I rotate a key?", "list all drafts", "hello", "show me stuff", "unheard-of zebra"]
)
def test_every_answer_is_a_success(question: str) -> None:
    ran = chat(knowledge_base(), question, "--json")
    assert ran.code == 0
    assert ran.json["thread_id"].startswith("t")


@pytest.mark.parametrize(
    ("arguments", "code", "diagnostic"),
    [
        (["", "--as", "dana"], 2, "HIVE-409"),
        (["--as", "dana"], 2, "HIVE-409"),
        (["hello", "--as", "nobody"], 2, "HIVE-409"),
        (["hello"], 2, "HIVE-409"),
        (["hello", "--as", "dana", "--thread", "t0000000000"], 2, "HIVE-409"),
        (["hello", "--as", "dana", "-f", "status=drafd"], 2, "HIVE-208"),
        (["list all guides", "--as", "dana", "--cursor", "nonsense"], 2, "HIVE-409"),
        (["--delete", "--as", "dana"], 2, "HIVE-409"),
        (["how do I rotate", "--doc", "\udcff", "--as", "dana"], 2, "HIVE-112"),
        (["how do I rotate", "--doc", "", "--as", "dana"], 2, "HIVE-409"),
        (["how do I rotate a key?", "--cursor", "nonsense", "--as", "dana"], 2, "HIVE-409"),
        (["--trace", "r0000000000", "--as", "dana"], 1, "HIVE-415"),
    ],
)
def test_failures_have_their_exit_codes(arguments: list[str], code: int, diagnostic: str) -> None:
    ran = hive("chat", *arguments, "-w", knowledge_base().root, "--json")
    assert (ran.code, ran.json["ok"], ran.codes) == (code, False, {diagnostic})


def test_what_the_environment_lacks_is_exit_code_3(place: Workspace) -> None:
    (place.root / "hive.toml").write_text('[models]\nembedding = "none"\nchat = ["scripted:missing.jsonl"]\n')
    assert chat(place, "how do I rotate a key?", "--json").code == 3
    (place.root / "hive.toml").write_text('[models]\nembedding = "none"\n[index]\nauto_refresh = false\n')
    place.database.unlink()
    ran = chat(place, "how do I rotate a key?", "--json")
    assert (ran.code, ran.codes) == (3, {"HIVE-406"})


def test_an_escalated_answer_is_still_an_answer(place: Workspace) -> None:
    use_models(
        place,
        answer=[{"content": "A recall takes two signatures [1]."}],
        judge=[{"structured": {"action": "accept", "confidence": 0.2, "reasoning": "not sure"}}],
    )
    ran = chat(place, "how many signatures does a recall take?", "--json")
    assert (ran.code, ran.json["judgment"]["action"]) == (0, "escalate")
    items = hive("approvals", "list", "-w", place.root, "--json").json["items"]
    assert [(item["kind"], item["tenant"]) for item in items] == [("judgment", "acme")]


def test_the_text_names_what_the_next_command_needs() -> None:
    ran = chat(knowledge_base(), "rotate a key in effective documents")
    assert "filtered by status = effective" in ran.out
    assert "faqs/rotate.md · effective" in ran.out
    assert "limited to documents that you can open" in ran.out
    thread = ran.out.rsplit("--thread ", 1)[1].split()[0]
    assert chat(knowledge_base(), "and drafts?", "--thread", thread, "--json").json["thread_id"] == thread


def test_greetings_speak_of_no_search() -> None:
    out = chat(knowledge_base(), "hello").out
    assert len(out.strip().splitlines()) == 1


def test_a_reader_of_another_tenant_is_told_the_same_as_if_nothing_were_there(place: Workspace) -> None:
    before = chat(place, "how many signatures does a recall take?", "--json", user="guest").json
    (place.documents / "sops" / "recall.md").unlink()
    after = chat(place, "how many signatures does a recall take?", "--json", user="guest").json
    assert as_bytes(before) == as_bytes(after)


def test_threads_are_listed_renamed_exported_and_deleted(place: Workspace) -> None:
    reply = chat(place, "how do I rotate a key?", "--json").json
    thread = ("--thread", reply["thread_id"])
    assert chat(place, *thread, "--rename", "Keys", "--json").json["title"] == "Keys"
    assert [one["title"] for one in chat(place, "--threads", "--json").json["threads"]] == ["Keys"]
    assert chat(place, "--threads", "--json", user="guest").json == {"threads": []}
    (turn,) = chat(place, *thread, "--export", "--json").json["turns"]
    assert turn == reply | {"text": "how do I rotate a key?"}
    assert "> how do I rotate a key?" in chat(place, *thread, "--export").out
    assert chat(place, *thread, "--delete").code == 0
    assert chat(place, *thread, "--export").code == 2


def test_a_conversation_has_its_commands(monkeypatch: pytest.MonkeyPatch, place: Workspace) -> None:
    out = typed(
        monkeypatch, place,
        "how do I rotate a key?", "/open 1", "/why 1", "/why 99", "/good 1", "/filters status=drafd",
        "/filters status=draft", "list all guides", "/more", "/more", "/filters clear", "/filters", "/threads", "/nope",
        "/as guest", "how many signatures does a recall take?", "/quit", "never asked",
    )  # fmt: skip
    assert "deploy it, then revoke the first key" in out
    assert "keyword rank: 1" in out
    assert "there is no such result" in out
    assert "waits for a reviewer" in out
    assert 'did you mean "draft"' in out
    assert out.count("matched by filter") == 2  # 12 drafts on two pages
    assert "there is no next page" in out
    assert "filters: none" in out
    assert "there is no /nope" in out
    assert "sops/recall.md" not in out.split("guest> how many signatures")[1]
    assert "never asked" not in out


def test_a_field_that_no_document_uses_is_no_filter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert hive("init", tmp_path / "new", "--empty").code == 0
    place = Workspace(tmp_path / "new")
    write_document(place, "alone.md", "# Alone\n\nA page in no folder has no category.")
    place.index()
    monkeypatch.setattr(sys, "stdin", io.StringIO("/filters\n"))
    ran = hive("chat", "-w", place.root)
    assert ran.code == 0
    assert "filters: none" in ran.out
    assert "category" not in ran.out


def test_a_number_chooses_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    out = typed(monkeypatch, knowledge_base(), "show me stuff", "1", user="guest")
    assert "filtered by category = " in out


def test_documents_do_not_speak_to_the_terminal(place: Workspace) -> None:
    text = (
        '---\ntitle: "\\e[31mLamp"\ntenant: acme\nview: [tenant]\n---\nThe zither \x1b[2J needs [bold]tuning[/bold].\n'
    )
    write_document(place, "faqs/zither.md", text)
    out = chat(place, "how do I tune the zither?").out
    assert "\x1b" not in out
    assert "[bold]tuning[/bold]" in out


def test_marks_become_style() -> None:
    assert marked("a <mark>key</mark> here").plain == "a key here"


def test_a_token_that_ends_ends_the_conversation(monkeypatch: pytest.MonkeyPatch, place: Workspace) -> None:
    token = mint(place, known_principal(place, "dana"))

    class Lines(io.StringIO):
        def readline(self, *size: int) -> str:
            if (line := super().readline(*size)) == "/open 1\n":
                revoke(place, token.jti)
            return line

    monkeypatch.setenv("HIVE_TOKEN", token.token)
    monkeypatch.setattr(sys, "stdin", Lines("how many signatures does a recall take?\n/open 1\nlist all drafts\n"))
    ran = hive("chat", "-w", place.root)
    before, after = ran.out.split("/open 1")
    assert "two signatures" in before
    assert "two signatures" not in after
    assert (ran.code, after.count("HIVE-417")) == (0, 2)


def test_a_line_that_makes_no_sense_ends_no_conversation(monkeypatch: pytest.MonkeyPatch) -> None:
    many = b"9" * 6000
    lines = [b"show me stuff", many, b"/open " + many, b"how \xff do I rotate a key?", b"how do I rotate a key?"]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\n".join(lines) + b"\n"), "utf-8"))
    ran = chat(knowledge_base())
    assert ran.code == 0
    assert "no such result" in ran.out
    assert ran.out.count("HIVE-112") == 1
    assert "revoke the first key" in ran.out


@pytest.mark.parametrize(("closed", "code"), [("stdout", 3), ("stdin", 0), ("stderr", 0)])
def test_a_closed_stream_is_no_traceback(monkeypatch: pytest.MonkeyPatch, closed: str, code: int) -> None:
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, None if name == closed else io.TextIOWrapper(io.BytesIO()))
    monkeypatch.setattr(sys, "argv", ["hive", "chat", "--as", "dana", "-w", str(knowledge_base().root)])
    with pytest.raises(SystemExit) as ended:
        run()
    assert ended.value.code == code
    for stream in (sys.stdin, sys.stderr):
        stream.close()


def test_diagnostics_do_not_speak_to_the_terminal_either(monkeypatch: pytest.MonkeyPatch, place: Workspace) -> None:
    text = '---\ntitle: Lamp\nstatus: "\\e[31mzed"\ntenant: acme\nview: [tenant]\n---\nThe zither needs tuning.\n'
    write_document(place, "faqs/q\x1b[31mx.md", text)
    ran = chat(place, "list all", "--filter", "status=\x1bnope")
    assert (ran.code, "zed" in ran.err, "\x1b" in ran.err) == (2, True, False)
    out = typed(monkeypatch, place, "/filters status=nope", "/as \x1b[31mkim", "how do I tune the zither?")
    assert ("zed" in out, "\x1b" in out) == (True, False)
    run_id = chat(place, "how do I tune the zither?", "--json").json["run_id"]
    said = hive(
        *("feedback", "add", "--run", run_id, "--result", 1, "--verdict", "relevant", "--as", "dana"),
        *("-w", place.root),
    )
    assert ("31mx.md" in said.out, "\x1b" in said.out) == (True, False)


def test_text_keeps_its_order_on_a_terminal() -> None:
    assert safe_text("a\u202eb\u2066c\td") == "a�b�c\td"


def test_how_a_document_stands_is_told_by_whatever_field_says_so(
    place: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection = place.root / "collections" / "kb.json"
    fields = {"state": {"type": "keyword", "filterable": True}, "tags": {"type": "keyword", "filterable": True}}
    known = json.loads(collection.read_text("utf-8"))
    collection.write_text(json.dumps(known | {"fields": known["fields"] | fields}), encoding="utf-8")
    head = "title: The old kiln\ntenant: acme\nview: [tenant]\nstate: retired\ntags: [oven, clay]"
    write_document(place, "kiln.md", f"---\n{head}\n---\nThe kiln burns clay.\n")
    place.index()
    shown = typed(monkeypatch, place, "which clay does the kiln burn", "/open 1", "/quit")
    assert "kiln.md · retired" in shown
    assert "tags: oven, clay" in shown


def test_a_passage_of_two_releases_is_shown_once(place: Workspace) -> None:
    text = "title: Zephyr valve\ntenant: acme\nview: [tenant]\n---\nThe zephyr valve is opened by its red lever.\n"
    for release in ("one", "two"):
        (place.documents / f"zephyr-{release}.md").write_text(f"---\n{text}", encoding="utf-8")
    place.index()
    shown = chat(place, "open the zephyr valve").out
    assert shown.count("red lever") == 1
    again = next(line for line in shown.splitlines() if "zephyr-two.md" in line)
    assert again.split()[:2] == ["2", "zephyr-two.md"]
    assert again.endswith("the same passage as 1")
