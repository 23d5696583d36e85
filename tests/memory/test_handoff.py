from __future__ import annotations

import pytest

from hive_agents import Workspace
from hive_agents.base.errors import HiveError
from hive_agents.memory import ContextHandoff, ConversationStore, transition_marker

REFLECTION = (
    "Before proceeding, briefly reflect: what went well in the previous phase? "
    "Are there any gaps or surprises worth noting?"
)


def test_the_marker_has_all_that_the_next_phase_needs(bare: Workspace) -> None:
    text = transition_marker(
        bare,
        completed="collect",
        following="write",
        outputs={"items": [1], "long": "x" * 900},
        files=["web_search_1.txt"],
        memory="## Identity",
        tools=["save_data", "load_data"],
    )
    for part in ("collect", "write", "- items: [1]", "- web_search_1.txt", "## Identity", "save_data, load_data"):
        assert part in text
    assert text.endswith(f"{REFLECTION}\n")
    assert "x" * 500 not in text


def test_the_marker_of_a_phase_that_left_nothing(bare: Workspace) -> None:
    text = transition_marker(bare, completed="a", following="b", outputs={})
    assert text.count("(none)") == 3
    assert text.count("(empty)") == 1


@pytest.fixture
def chat(store: ConversationStore) -> str:
    chat = store.create("digest", "r1")
    for role, content in (("user", "go"), ("assistant", "I found two."), ("assistant", "")):
        store.append(chat, {"role": role, "content": content})
    return chat


async def test_a_handoff_summarises(store: ConversationStore, chat: str) -> None:
    async def summarise(text: str) -> str:
        assert "I found two." in text
        return "Two were found."

    made = await ContextHandoff.build(
        store, chat, source="a", target="b", outputs={"items": [1]}, files=["f.txt"], summarise=summarise
    )
    assert (made.summary, made.outputs, made.files, made.messages) == ("Two were found.", {"items": [1]}, ["f.txt"], 3)
    assert ContextHandoff.model_validate_json(made.model_dump_json()) == made
    text = made.to_text()
    assert all(part in text for part in ("Two were found.", "- items: [1]", "- f.txt"))


@pytest.mark.parametrize("answer", [None, "", "error"])
async def test_without_a_model_the_last_words_stand(store: ConversationStore, chat: str, answer: str | None) -> None:
    async def summarise(text: str) -> str:
        if answer == "error":
            raise TimeoutError
        return answer or ""

    made = await ContextHandoff.build(
        store, chat, source="a", target="b", outputs={}, summarise=None if answer is None else summarise
    )
    assert made.summary == "I found two."


async def test_a_handoff_of_an_unknown_conversation_is_an_error(store: ConversationStore) -> None:
    with pytest.raises(HiveError, match="HIVE-409"):
        await ContextHandoff.build(store, "c0", source="a", target="b", outputs={})
