from __future__ import annotations

from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.base.errors import HiveError
from hive_agents.base.text import fenced
from hive_agents.memory import AgentMemory, ConversationStore, DataFiles, Spillover, ToolResult, memory_folder
from hive_agents.memory.compaction import compact
from hive_agents.memory.onion import Phase, build_prompt, narrative

LAYERS: dict[str, Any] = {"identity": "You are IDENTITY.", "narrative": "NARRATIVE so far.", "focus": "FOCUS on it."}


def test_layers_and_lists_come_in_order(bare: Workspace) -> None:
    text = build_prompt(bare, **LAYERS, memory="remembered")
    marks = [
        "IDENTITY",
        "NARRATIVE",
        "FOCUS",
        "AGENT MEMORY:\nWhat stands between",
        "DATA FILES:\n",
        "CONVERSATION HISTORY:\n",
    ]
    places = [text.index(mark) for mark in marks]
    assert places == sorted(places)


def test_nothing_to_list_says_so(bare: Workspace) -> None:
    text = build_prompt(bare, **LAYERS)
    assert text.endswith("AGENT MEMORY:\n(empty)\n\nDATA FILES:\n(none)\n\nCONVERSATION HISTORY:\n(none)\n")


def test_a_dollar_in_a_layer_stays_one(bare: Workspace) -> None:
    text = build_prompt(bare, **{**LAYERS, "focus": "costs $5 $memory ${identity}"}, memory="$focus")
    assert "costs $5 $memory ${identity}" in text
    assert f"AGENT MEMORY:\n{fenced('$focus')}\n" in text


def test_a_missing_variable_is_an_error(bare: Workspace) -> None:
    (bare.root / "prompts").mkdir()
    (bare.root / "prompts" / "agent_system.md").write_text("$identity\n$mood")
    with pytest.raises(HiveError, match=r"HIVE-106.*\$mood"):
        build_prompt(bare, **LAYERS)


async def test_files_and_saved_conversations_are_listed_apart(store: ConversationStore, files: DataFiles) -> None:
    Spillover(files).deliver("web_search", ToolResult("1234"))
    files.save("conversation_notes.md", "of the agent")
    chat = store.create("digest", "r1")
    for role in ("user", "assistant"):
        store.append(chat, {"role": role, "content": "x" * 2000})
    await compact(store, chat, files, context_tokens=300)
    text = build_prompt(store.workspace, **LAYERS, files=files.list())
    assert "DATA FILES:\n- conversation_notes.md (12 bytes)\n- web_search_1.txt (4 bytes)\n\n" in text
    assert "CONVERSATION HISTORY:\n- conversation_1.md (" in text


def test_many_files_are_cut_to_the_last(bare: Workspace, files: DataFiles) -> None:
    files.folder.mkdir()
    for number in range(60):
        (files.folder / f"f_{number}.txt").write_text("x")
    text = build_prompt(bare, **LAYERS, files=files.list())
    assert "f_9.txt" not in text
    assert "f_59.txt" in text
    assert "- and 10 more" in text


async def test_memory_survives_an_emergency(store: ConversationStore, files: DataFiles) -> None:
    """It is read anew each turn and is no part of the conversation."""
    memory = AgentMemory(store.workspace, memory_folder(store.workspace, "acme", "digest", "dana"))
    memory.add_output("topic", "bees")
    chat = store.create("digest", "r1")
    for role in ("user", "assistant"):
        store.append(chat, {"role": role, "content": "x" * 4000})
    assert (await compact(store, chat, files, context_tokens=300)).tier == "emergency"
    text = build_prompt(store.workspace, **LAYERS, memory=memory.read())
    assert f"AGENT MEMORY:\n{fenced(memory.read().strip())}\n" in text
    assert "- topic: bees" in memory.read()


def test_the_same_state_gives_the_same_narrative() -> None:
    path = [Phase("collect", outputs=("items",)), Phase("write", "failed", ("text", "items"))]
    values: dict[str, Any] = {"text": "long " * 200, "items": [1], "b": 1, "a": {"x": "$y\nz"}}
    text = narrative(path, values)
    assert text == narrative(list(path), dict(reversed(values.items())))
    assert text == fenced("\n".join(text.splitlines()[2:-1]))
    lines = text.splitlines()[2:-1]
    assert [line.strip()[:9] for line in lines] == [
        *("Phases so", "1. collec", "2. write:", "- text: l", "- items: ", "Other val", '- a: {"x"', "- b: 1")
    ]
    assert max(map(len, lines)) < 320
    assert narrative([], {}) == "No phase is completed yet."
