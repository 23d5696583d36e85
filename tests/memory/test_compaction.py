from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings, strategies as st

from hive_agents import Workspace
from hive_agents.base.errors import HiveError
from hive_agents.base.text import fenced
from hive_agents.memory import ConversationStore, DataFiles, Spillover, ToolResult
from hive_agents.memory.compaction import compact
from hive_agents.memory.timeline import tokens_of
from hive_agents.models.model import Message, ToolCall

POINTER = (
    "[Previous conversation saved to 'conversation_1.md'. Use load_data('conversation_1.md') to review if needed.]"
)


@dataclass
class Talk:
    """A conversation that is written as an agent's loop writes it."""

    store: ConversationStore
    files: DataFiles
    id: str
    spill: Spillover
    ids: count[int]

    @classmethod
    def begin(cls, store: ConversationStore, files: DataFiles, limit: int = 30_000) -> Talk:
        return cls(store, files, store.create("digest", "r1"), Spillover(files, limit=limit), count())

    def say(self, role: str, text: str) -> None:
        self.store.append(self.id, {"role": role, "content": text})

    def call(
        self, *results: tuple[str, ToolResult], text: str = "", args: dict[str, str] | None = None, answered: int = 9
    ) -> None:
        calls = [ToolCall(name=tool, args=args or {}, id=f"{next(self.ids)}") for tool, _ in results]
        self.store.append(self.id, Message(role="assistant", content=text, tool_calls=calls))
        for call, (tool, result) in list(zip(calls, results, strict=True))[:answered]:
            sent = self.spill.deliver(tool, result)
            message = Message(role="tool", content=sent.content, tool_call_id=call.id)
            self.store.append(self.id, message, is_error=sent.is_error, pointer=sent.pointer)

    @property
    def view(self) -> list[Message]:
        return self.store.view(self.id)

    @property
    def texts(self) -> list[str]:
        return [message.content for message in self.view]

    @property
    def tokens(self) -> int:
        with self.store.timeline(self.id) as timeline:
            return tokens_of(timeline.lead, list(timeline.groups()))


@pytest.fixture
def talk(store: ConversationStore, files: DataFiles) -> Talk:
    return Talk.begin(store, files)


async def run(talk: Talk, room: int, **options: object) -> str:
    """Compact to `room` tokens; returns the tier."""
    done = await compact(talk.store, talk.id, talk.files, context_tokens=-(-room * 5 // 4), **options)  # type: ignore[arg-type]
    assert done.budget == room
    assert done.after == talk.tokens <= room
    return done.tier


async def test_nothing_happens_up_to_eighty_percent(talk: Talk) -> None:
    talk.say("user", "x" * 316)  # 79 tokens, and 4 for the message
    assert (await compact(talk.store, talk.id, talk.files, context_tokens=104)).tier == "none"
    assert (await compact(talk.store, talk.id, talk.files, context_tokens=114, prompt_tokens=8)).tier == "none"
    assert (await compact(talk.store, talk.id, talk.files, context_tokens=103)).tier == "emergency"


async def test_the_settings_say_how_large_the_context_is(talk: Talk) -> None:
    (talk.store.workspace.root / "hive.toml").write_text("[agents]\ncontext_tokens = 200\n")
    del talk.store.workspace.settings  # which were read when the conversation was opened
    talk.say("user", "x" * 1000)
    assert (await compact(talk.store, talk.id, talk.files)).budget == 160


async def test_old_results_become_their_pointers_first(talk: Talk) -> None:
    talk.say("user", "Search.")
    talk.call(("web_search", ToolResult("a" * 4000)), ("web_search", ToolResult("b" * 40_000)), text="I look.")
    talk.call(("web_search", ToolResult("c" * 4000)))
    before = talk.store.messages(talk.id)
    assert await run(talk, 1400) == "results"
    assert talk.texts == [
        "Search.",
        "I look.",
        "[Saved to 'web_search_1.txt']",
        "[Result from web_search: 40,000 chars — too large for context, saved to 'web_search_2.txt'. "
        "Use load_data(filename='web_search_2.txt') to read the full result.]",
        "",
        "c" * 4000 + "\n\n[Saved to 'web_search_3.txt']",
    ]
    assert talk.store.messages(talk.id) == before


async def test_free_text_goes_next_and_the_structure_stays(talk: Talk) -> None:
    talk.say("user", "task " * 400)
    talk.call(("web_search", ToolResult("a" * 4000)), text="thought " * 400, args={"q": "bees"})
    talk.call(("web_search", ToolResult("no network, " * 30, is_error=True)))
    talk.call(("set_output", ToolResult("items is set")))
    talk.call(("load_data", ToolResult("loaded " * 100)))
    talk.say("assistant", "answer " * 100)
    talk.say("user", "and now?")
    assert await run(talk, 500) == "structure"
    assert talk.texts == [
        POINTER,
        "",
        "[Saved to 'web_search_1.txt']",
        "",
        "no network, " * 30,
        "",
        "items is set\n\n[Saved to 'set_output_2.txt']",
        "",
        "[Saved to 'conversation_1.md']",
        "answer " * 100,
        "and now?",
    ]
    assert next(call.args for message in talk.view for call in message.tool_calls) == {"q": "bees"}
    saved = talk.files.read("conversation_1.md")
    assert all(text in saved for text in ("task " * 400, "thought " * 400, "loaded " * 100))
    assert "no network" not in saved


async def test_a_summary_comes_only_when_that_is_not_enough(talk: Talk) -> None:
    asked: list[str] = []

    async def summarise(text: str) -> str:
        asked.append(text)
        return "They looked for bees."

    talk.say("user", "task " * 400)
    for _ in range(20):
        talk.call(("web_search", ToolResult("a" * 100)), args={"q": "bees"})
    talk.say("assistant", "done")
    assert await run(talk, 900, summarise=summarise) == "structure"
    assert asked == []
    assert await run(talk, 200, summarise=summarise) == "summary"
    assert len(asked) == 1
    assert talk.texts[0].startswith(POINTER.replace("_1", "_2"))
    assert talk.texts[0].endswith(f"Summary of it:\n{fenced('They looked for bees.')}")
    assert talk.texts[1:] == ["done"]
    assert POINTER in talk.files.read("conversation_2.md")
    assert talk.files.read("conversation_2.md").count('→ web_search {"q": "bees"}') == 20


@pytest.mark.parametrize("answer", ["", "  \n", "error", "x" * 100_000])
async def test_a_summary_that_fails_or_says_nothing_is_done_without(talk: Talk, answer: str) -> None:
    async def summarise(text: str) -> str:
        if answer == "error":
            raise TimeoutError
        return answer

    talk.say("user", "x" * 4000)
    for _ in range(20):
        talk.call(("web_search", ToolResult("a" * 100)), args={"q": "y" * 50})
    talk.say("assistant", "last words")
    tier = await run(talk, 300, summarise=summarise)
    assert tier == ("summary" if "x" in answer else "emergency")
    assert talk.texts[-1] == "last words"


async def test_an_emergency_leaves_pointers_and_the_last_turn(talk: Talk) -> None:
    for number in range(30):
        talk.call(("web_search", ToolResult(f"{number} " * 100)), args={"q": "bees " * 9}, text=f"thought {number}")
    assert await run(talk, 500) == "emergency"
    lead, *turn = talk.view
    assert lead.content.startswith(POINTER)
    assert "[Saved to 'web_search_29.txt']" in lead.content
    assert [message.role for message in turn] == ["assistant", "tool"]
    assert turn[0].content == "thought 29"


async def test_a_last_turn_that_is_too_long_is_shortened(talk: Talk) -> None:
    talk.say("user", "start " + "x" * 40_000)
    talk.call(("save_data", ToolResult("y" * 40_000)), args={"text": "z" * 40_000})
    assert await run(talk, 500) == "emergency"
    assert [message.role for message in talk.view] == ["user", "user", "assistant", "tool"]
    assert talk.texts[1].startswith("start xx")
    assert talk.texts[1].endswith("[Saved to 'conversation_1.md']")
    assert talk.view[2].tool_calls[0].args == {"saved_to": "conversation_1.md"}
    assert "'save_data_1.txt'" in talk.texts[3]
    saved = talk.files.read("conversation_1.md")
    assert "x" * 40_000 in saved
    assert json.dumps("z" * 40_000) in saved


async def test_results_that_are_in_files_already_need_no_other_file(talk: Talk) -> None:
    talk.call(("web_search", ToolResult("x" * 9000)))
    assert await run(talk, 100) == "emergency"
    assert talk.texts == ["", "[Saved to 'web_search_1.txt']"]
    assert [file.name for file in talk.files.list()] == ["web_search_1.txt"]


async def test_in_the_end_one_pointer_is_left(talk: Talk) -> None:
    talk.call(*[("web_search", ToolResult("x"))] * 50)
    assert await run(talk, 60) == "emergency"
    assert talk.texts == [POINTER]


async def test_a_prompt_that_leaves_no_room_is_an_error_and_changes_nothing(talk: Talk) -> None:
    talk.say("user", "hello" * 20)
    with pytest.raises(HiveError, match=r"HIVE-105.*\n.*hive.toml: agents.context_tokens"):
        await compact(talk.store, talk.id, talk.files, context_tokens=1000, prompt_tokens=790)
    assert talk.texts == ["hello" * 20]
    assert talk.files.list() == []


async def test_the_prompt_counts(talk: Talk) -> None:
    talk.say("user", "x" * 400)
    done = await compact(talk.store, talk.id, talk.files, context_tokens=1000, prompt_tokens=750)
    assert (done.tier, done.budget, done.before) == ("emergency", 800, 854)


async def test_two_at_once_compact_once(talk: Talk) -> None:
    talk.say("user", "x" * 4000)
    talk.say("assistant", "done")
    other = Talk(ConversationStore(talk.store.workspace, tenant="acme"), talk.files, talk.id, talk.spill, talk.ids)
    tiers = await asyncio.gather(run(talk, 300), run(other, 300))
    assert sorted(tiers) == ["emergency", "none"]
    assert talk.view == other.view


async def test_what_comes_later_is_sent_as_it_is(talk: Talk) -> None:
    talk.call(("web_search", ToolResult("x" * 9000)), ("web_search", ToolResult("late")), text="look", answered=1)
    assert await run(talk, 500) == "emergency"
    late = talk.store.messages(talk.id)[0].message.tool_calls[1].id
    talk.store.append(talk.id, Message(role="tool", content="late", tool_call_id=late))
    talk.say("user", "thanks")
    assert talk.texts[-2:] == ["late", "thanks"]


TEXT = st.builds(lambda text, times: text * times, st.text(max_size=12), st.integers(0, 60))
RESULT = st.tuples(
    st.sampled_from(["web_search", "load_data", "set_output"]), st.builds(ToolResult, TEXT, st.booleans())
)
ARGS = st.dictionaries(st.text(max_size=3), TEXT, max_size=2)
STEP = st.one_of(
    st.tuples(st.just("user"), TEXT),
    st.tuples(st.just("assistant"), TEXT),
    st.tuples(st.just("call"), st.lists(RESULT, min_size=1, max_size=3), TEXT, ARGS, st.integers(0, 3)),
    st.tuples(st.just("compact"), st.integers(60, 2000), st.booleans()),
)


@settings(max_examples=25, deadline=None)
@given(st.lists(STEP, max_size=14), st.integers(60, 400))
def test_any_conversation_fits_with_its_pairs_whole_and_its_texts_in_files(steps: list[tuple], last: int) -> None:  # type: ignore[type-arg]
    async def summarise(text: str) -> str:
        return text[:50]

    with TemporaryDirectory() as folder:
        (Path(folder) / "collections").mkdir()
        talk = Talk.begin(ConversationStore(Workspace(folder)), DataFiles(Path(folder) / "files"), limit=200)
        for kind, *step in [*steps, ("compact", last, False)]:
            if kind == "compact":
                asyncio.run(run(talk, step[0], summarise=summarise if step[1] else None))
                require_whole_pairs(talk.view)
                require_pointers_resolve(talk)
                require_nothing_lost(talk)
            elif kind == "call":
                results, text, args, answered = step
                talk.call(*results, text=text, args=args, answered=answered)
            else:
                talk.say(kind, step[0])
        talk.store.close()


def require_whole_pairs(view: list[Message]) -> None:
    """Results stand behind their calls, one for each."""
    waiting: list[str] = []
    for message in view:
        if message.role == "tool":
            assert waiting.pop(0) == message.tool_call_id
        else:
            assert waiting == []
            waiting = [call.id for call in message.tool_calls]
    assert waiting == []


def require_pointers_resolve(talk: Talk) -> None:
    names = {file.name for file in talk.files.list()}
    pointed = re.compile(r"(?:aved to|load_data\() ?'([a-z_]+[0-9]+\.[a-z]+)'")
    for text in [*talk.texts, *map(talk.files.read, names)]:
        assert set(pointed.findall(text)) <= names


def require_nothing_lost(talk: Talk) -> None:
    sent = "\n".join(
        "\n".join([message.content, *(json.dumps(call.args, ensure_ascii=False) for call in message.tool_calls)])
        for message in talk.view
    )
    saved = "\n".join(talk.files.read(file.name) for file in talk.files.list())
    everything = "".join((sent + saved).split())
    for entry in talk.store.messages(talk.id):
        # The pointer was added to the result's own text, and is not a part of it.
        text = entry.message.content.removesuffix(f"\n\n{entry.pointer}")
        assert "".join(text.split()) in everything
        for call in entry.message.tool_calls:
            assert "".join(json.dumps(call.args, ensure_ascii=False).split()) in everything
