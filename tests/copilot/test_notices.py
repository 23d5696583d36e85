"""What is said above passages: unknown words, another language, the newest of several, numbers that differ."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hive_agents import Principal, Workspace
from hive_agents.cli.sample import init_workspace
from hive_agents.copilot import Request
from hive_agents.copilot.chat import Chat
from hive_agents.copilot.notices import FOREIGN, NEAREST, notice
from hive_agents.copilot.outcome import TurnOutcome
from hive_agents.copilot.plan import RouterDecision, SearchStrategy

LEAVE = """---
title: Leave
tenant: local
view: [tenant]
valid_from: 202{n}-01-01
---
# Leave

Each employee has {days} days of leave. Ask the office before you book a journey.
"""
LAMP = "---\ntenant: local\nview: [tenant]\n---\n# Lamps\n\nA lamp is switched off before it is opened.\n"
COLLECTION = '{"name": "kb", "fields": {"valid_from": {"type": "date", "filterable": true}}}'


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    root = Path(init_workspace(tmp_path_factory.mktemp("notices") / "ws", empty=True))
    for file in (root / "collections").glob("*.json"):
        file.write_text(COLLECTION.replace("kb", file.stem), encoding="utf-8")
    for n, days in ((3, 28), (5, 30)):
        (root / "documents" / f"leave{n}.md").write_text(LEAVE.format(n=n, days=days), encoding="utf-8")
    (root / "documents" / "lamp.md").write_text(LAMP, encoding="utf-8")
    workspace = Workspace(root)
    workspace.index()
    return workspace


async def asked(place: Workspace, text: str) -> dict[str, Any]:
    return await Chat(place, Principal("local", "me")).ask(Request(text=text))


async def test_the_newest_of_several_and_numbers_that_differ_are_told(place: Workspace) -> None:
    notice = (await asked(place, "how many days of leave does an employee have"))["notice"]
    assert 'There are 2 documents called "Leave": the newest of them is' in notice
    assert "2025-01-01" in notice
    assert "differ in a number" in notice
    assert "28 days" in notice
    assert "30 days" in notice


async def test_words_that_no_document_has_are_said_to_be_nearest_by_meaning(place: Workspace) -> None:
    reply = await asked(place, "illumination bulb")
    assert reply["results"][0]["doc_id"] == "lamp.md"
    assert reply["notice"] == f"No document that you may read has these words: illumination, bulb. {NEAREST}"


def test_of_a_question_in_another_language_not_every_word_is_listed() -> None:
    decision = RouterDecision(rewritten_query="Wie oft?", strategy=SearchStrategy.CONTENT_ONLY)
    outcome = TurnOutcome(
        decision=decision, planner="deterministic", status="results", unknown=["oft"], by_meaning="language"
    )
    assert notice(outcome, []) == FOREIGN
