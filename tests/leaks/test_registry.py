"""A new way out of the copilot has to be in the registry of channels, or this fails."""

from __future__ import annotations

import io
import random
import sqlite3
import stat
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import typer
from rich.console import Console

from graphs.worker import WorkerState
from hive_agents import Workspace
from hive_agents.cli.conversation import Conversation
from hive_agents.cli.main import command_line
from hive_agents.copilot import Request, ThreadStore
from hive_agents.copilot.chat import Chat
from hive_agents.copilot.feedback import FeedbackQueue
from hive_agents.copilot.outcome import Trace, TurnOutcome
from tests.leaks.channels import CHANNELS, INDEX_TABLES, TABLES, collected
from tests.leaks.corpus import Doc, Rules, canaries, files, make, random_documents, random_rules, readers
from tests.leaks.visits import Visit

SURFACES = {
    "Chat": {
        "ask": "reply", "transcript": "transcript", "render": "render", "document": "document", "filters": "filters",
        "field_values": "field_values", "why": "why", "feedback": "feedback", "trace": "trace", "gate": "reply",
        "follow_ups": "follow-ups", "threads": "threads", "active": "reply", "files": "render", "drop": "render",
    },
    "FeedbackQueue": {
        "add": "feedback", "items": "feedback review", "review": "hive chat", "hindrance": "hive chat",
        "waiting": "feedback review", "result": "feedback results", "given": "feedback",
    },
    "ThreadStore": {
        "create": "threads", "require": "threads", "threads": "threads", "turns": "thread rows", "turn": "render",
        "add": "table turns", "answer": "table answers", "rename": "threads", "delete": "threads",
        "of_client": "threads", "require_room": "threads", "of_questions": "threads", "name": "threads",
    },
    "hive chat": dict.fromkeys(
        "text as_user thread doc filters cursor unfold threads export rename delete trace workspace json quiet".split(),
        "hive chat",
    ),
    "hive feedback": dict.fromkeys(("add", "list", "review"), "hive chat"),
    "conversation": dict.fromkeys(
        "open unfold why filters more good wrong as new threads help".split(), "conversation"
    ),
    "graph state": dict.fromkeys(
        "run_id request decision planner doc_id tally depth candidates short results next_cursor outcome".split(),
        "graph stream",
    ),
    "turn": dict.fromkeys(
        "decision doc_id planner pinned status results answer_source rests_on by_words by_meaning named"
        " by_own_index away_since corrected shared unknown unknown_version left_out count removed_citations judgment"
        " approval_id next_cursor unfold tally usage files".split(),
        "thread rows",
    ),
    "trace": dict.fromkeys("nodes strategy hybrid counts models notes basis".split(), "trace"),
}  # fmt: skip
"""Every public way out, and the channel that looks at it."""


def public(kind: type) -> set[str]:
    return {name for name in vars(kind) if not name.startswith("_")}


def answered(root: Path, documents: Sequence[Doc]) -> Workspace:
    """A workspace whose model answers each question, so that answers are judged and the judge asks a person."""
    place = make(root, documents, settings='[models]\nembedding = "none"\nanswer = ["scripted:answer.jsonl"]\n')
    (root / "answer.jsonl").write_text('{"content": "Nobody wrote this [1].", "repeat": true}\n', encoding="utf-8")
    return place


def found(tmp_path: Path) -> dict[str, set[str]]:
    rng, people = random.Random(1), readers()
    place = make(tmp_path / "found", random_documents(rng, 3))
    talk = Conversation(Chat(place, people[0]), Console(file=io.StringIO()), [])
    root = typer.main.get_command(command_line())
    commands = root.commands  # type: ignore[attr-defined]
    return {
        "Chat": public(Chat),
        "FeedbackQueue": public(FeedbackQueue),
        "ThreadStore": public(ThreadStore),
        "hive chat": {option.name for option in commands["chat"].params},
        "hive feedback": set(commands["feedback"].commands),
        "conversation": set(talk.commands),
        "graph state": set(WorkerState.__annotations__),
        "turn": set(TurnOutcome.model_fields),
        "trace": set(Trace.__dataclass_fields__),
    }


async def ask_about_each(visit: Visit) -> None:
    """Ask what the first sentence of each document answers: those that the reader may view are quoted."""
    for document in visit.documents:
        first, second, *_ = document.words
        await visit.ask(Request(text=f"how long is the {first} kept near the {second}?"))


def test_every_way_out_is_a_channel(tmp_path: Path) -> None:
    assert found(tmp_path) == {name: set(ways) for name, ways in SURFACES.items()}
    assert {name for ways in SURFACES.values() for name in ways.values()} <= set(CHANNELS)


async def test_every_table_and_file_is_a_channel(tmp_path: Path) -> None:
    rng, people = random.Random(2), readers()
    documents = random_documents(rng, 12)
    place = answered(tmp_path / "ws", documents)
    reader = people[1]
    visit = Visit(place, place.engine(), reader, documents, random_rules(rng, documents, people), people, rng)
    visit.grant(visit.rules)
    await ask_about_each(visit)
    await collected(visit)
    with closing(sqlite3.connect(place.database)) as connection:
        names = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        written = {name for name in names if connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0]}
    # A table that a visit fills is a way out, whoever made it.
    assert written - INDEX_TABLES == set(TABLES)
    assert {f"table {name}" for name in TABLES} <= set(CHANNELS)
    assert place.state.stat().st_mode & 0o777 == 0o700
    assert {path.name for path in files(place.state) if stat.S_IMODE(path.stat().st_mode) & 0o077} == set()
    assert {path for path in place.state.rglob("*") if path.is_dir() and path.stat().st_mode & 0o077} == set()


async def test_the_channels_can_see_a_canary(tmp_path: Path) -> None:
    """The control: what a reader may view is in the channels that show text, so that an empty one proves nothing."""
    rng, people = random.Random(3), readers()
    documents = random_documents(rng, 12)
    place = answered(tmp_path / "ws", documents)
    operator = people[2]
    visit = Visit(place, place.engine(), operator, documents, random_rules(rng, documents, people), people, rng)
    visit.grant(Rules(admins=((operator.tenant, f"user:{operator.user}"),)))
    await ask_about_each(visit)
    await visit.ask(Request(text="newest documents"))
    shown = await collected(visit)
    while not canaries(shown["graph stream"]):
        shown |= await collected(visit, ["graph stream"])
    text = {"reply", "transcript", "render", "hive chat", "conversation"}
    ids = {"field_values", "thread rows", "model context", "graph stream", "table turns", "table judge_decisions"}
    for name in text | ids:
        assert canaries(shown[name]), name
    for name in CHANNELS:
        assert isinstance(shown[name], str)
