"""What a stranger wrote reaches a terminal as text: nothing in it moves a cursor, sets a title or hides a line."""

from __future__ import annotations

import ast
import json
import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hive_agents.base.files.sandbox import Sandbox
from hive_agents.cli.terminal import console, write
from tests.approvals.asking import filing
from tests.parsed import nodes
from tests.sample import hive, words_sample

ROOT = Path(__file__).parents[2]
ATTACK = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202egnp.exe\x1b]8;;http://evil.example\x1b\\\\"
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
COLOURS = re.compile("\x1b\\[[0-9;]*m")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Documents, fields, file names, configs, goals and requests that speak to a terminal."""
    from hive_agents.approvals import ApprovalStore

    place = words_sample(tmp_path / "ws")
    front = {"title": f"Rotate {ATTACK}", "status": f"effective{ATTACK}", "tenant": "acme", "view": ["tenant"]}
    text = f"---\n{json.dumps(front)}\n---\n# Keys {ATTACK}\n\nrotate an API key {ATTACK} zebrafish\n"
    (place.documents / f"evil{ATTACK[:4]}.md").write_text(text, "utf-8")
    config = json.loads((place.configs / "v1.json").read_text())
    (place.configs / "evil.json").write_text(json.dumps(config | {"name": "evil", "description": ATTACK, ATTACK: 1}))
    ApprovalStore(place).file(filing(title=f"may I {ATTACK}", requester=f"agent:{ATTACK}", context={"x": ATTACK}))
    return place.root


COMMANDS = (
    ("index",),
    ("query", "zebrafish"),
    ("query", f"zebrafish {ATTACK}"),
    ("fields",),
    ("validate", "evil"),
    ("validate", ATTACK),
    ("approvals", "list"),
    ("chat", "zebrafish", "--as", "dana"),
    ("explain", ATTACK),
    ("history",),
    ("doctor",),
    ("trust", "--diff"),
    ("agents", "show", ATTACK),
    ("trigger", "list"),
    ("label", f"zebrafish {ATTACK}", "--relevant", ATTACK),
)


@pytest.mark.parametrize("form", [(), pytest.param(("--json",), marks=pytest.mark.slow)])
def test_no_command_sends_what_a_document_says_to_the_terminal(root: Path, form: tuple[str, ...]) -> None:
    hive("index", "-w", root)
    for arguments in COMMANDS:
        told = hive(*arguments, *form, "-w", root) if arguments[0] != "explain" else hive(*arguments, *form)
        for text in (told.out, told.err):
            assert "Traceback" not in text
            found = OBEYED.search(COLOURS.sub("", text))
            assert found is None, (arguments, text)
    assert "zebrafish" in hive("query", "zebrafish", "-w", root).out


def test_a_real_terminal_gets_colours_and_no_other_sequence(root: Path) -> None:
    """The same through a pseudo-terminal, in which style is on."""
    hive("index", "-w", root)
    leader, follower = os.openpty()
    command = [sys.executable, "-m", "hive_agents", "query", "zebrafish", "-w", str(root)]
    environment = {**os.environ, "TERM": "xterm-256color", "PYTHONPATH": str(ROOT)}
    done = subprocess.Popen(command, stdout=follower, stderr=follower, stdin=subprocess.DEVNULL, env=environment)
    os.close(follower)
    parts = []
    while True:
        try:
            part = os.read(leader, 65536)
        except OSError:
            break
        if not part:
            break
        parts.append(part)
    os.close(leader)
    assert done.wait() == 0
    text = COLOURS.sub("", b"".join(parts).decode()).replace("\r\n", "\n")
    text = re.sub("^(\r?\x1b\\[1A\x1b\\[2K)+", "", text.rpartition("\x1b[?25h")[2])  # after progress
    assert "zebrafish" in text
    assert OBEYED.search(text) is None, text


def test_signs_are_shown_and_style_stays(capsys: pytest.CaptureFixture[str]) -> None:
    from rich.table import Table

    table = Table("a\x1b[2J")
    table.add_row("x\x9by")
    console().print(table)
    console().print("plain \x1b[1m", style="red")
    write("raw \x07")
    told = capsys.readouterr().out
    assert "a\\x1b[2J" in told
    assert "x\\x9by" in told
    assert "plain \\x1b[1m" in told
    assert "raw \\x07\n" in told
    assert OBEYED.search(told) is None


def test_logs_reach_the_terminal_the_same_way(monkeypatch: pytest.MonkeyPatch) -> None:
    program = (
        "import logging\nfrom hive_agents.cli.terminal import log_plainly\nlog_plainly()\n"
        "logging.getLogger('x').warning('seen %s', '\\x1b[2J')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stderr == "seen \\x1b[2J\n"
    assert logging.lastResort is not None


@pytest.mark.static
def test_no_command_writes_past_the_one_place() -> None:
    found = []
    for path in sorted((ROOT / "hive_agents" / "cli").glob("*.py")):
        if path.name == "terminal.py":
            continue
        for node in nodes(path):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                if called in (
                    "print",
                    "input",
                    "typer.echo",
                    "typer.secho",
                    "sys.stdout.write",
                    "sys.stderr.write",
                    "Console",
                ):
                    found.append((path.name, node.lineno, ast.unparse(node)))
    assert [name for name, _, _ in found] == ["main.py"], found  # the version, a constant


def test_a_reader_of_files_says_nothing_to_the_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    """Its libraries warn of what files hold: so did one of every book, and it is nothing that anybody could mend."""
    sandbox = Sandbox(seconds=30.0, memory=1_000_000_000)
    for output in (1, 2):
        assert sandbox.call("os", "write", output, b"\x1b[2Jcleared") == 11
    sandbox.close()
    assert capfd.readouterr() == ("", "")
