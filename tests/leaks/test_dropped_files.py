"""A file that was dropped into a conversation leaves no word outside of its own row: in no other table, file or log."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hive_agents import Workspace
from hive_agents.access import known_principal
from hive_agents.cli.main import command_line
from hive_agents.copilot import Chat, ThreadStore, asked_questions
from tests.copilot.chats import copied_knowledge_base, use_models
from tests.copilot.test_dropped import stored
from tests.leaks.corpus import files

NAME, WORDS = "quoxle.md", ("quoxle", "vortimer", "zandrel")
TEXT = f"# Vortimer {WORDS[0]}\n\nA recall of keys in a zandrel cabinet takes nine signatures.\n"
COMMANDS = ("status", "doctor", "runs list", "chat --threads", "feedback list", "approvals list", "judge decisions")


def told(text: str) -> set[str]:
    return {word for word in WORDS if word in text.casefold()}


def test_no_other_channel_has_a_word_of_a_dropped_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    place = copied_knowledge_base(tmp_path / "ws")
    answer = [{"content": "A recall takes two signatures [1].", "repeat": True}]
    use_models(place, answer=answer, judge=answer)
    place = Workspace(place.root)
    reader = known_principal(place, "dana")
    chat = Chat(place, reader, ThreadStore(place, reader).create(""))
    with caplog.at_level(logging.DEBUG):
        file = chat.drop(NAME, TEXT.encode())
        reply = asyncio.run(chat.ask("how many signatures does a recall take?"))
    assert told(json.dumps(reply["files"])) == set(WORDS) - {"vortimer"}  # the control: the conversation shows it
    assert reply["results"]
    rows = stored(place)
    assert told(rows.pop("thread_files")) == set(WORDS)
    assert {name: told(text) for name, text in rows.items() if told(text)} == {}
    written = [path for path in files(place.root) if not path.name.startswith("hive.db")]
    assert [path for path in written if told(f"{path.name} {path.read_bytes()!r}")] == []
    assert told(caplog.text) == set()
    assert told(str(asked_questions(place)) + str(chat.field_values(1000)) + str(chat.threads.threads("e"))) == set()
    for command in COMMANDS:
        shown = CliRunner().invoke(command_line(), [*command.split(), "--json", "-w", str(place.root)])
        assert told(shown.output) == set(), command
    chat.files.remove(file.file_id)
    assert {name: told(text) for name, text in stored(place).items() if told(text)} == {}
