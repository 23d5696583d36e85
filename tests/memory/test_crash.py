"""`kill -9` at any instant: what was promised is there, nothing is there twice, every pointer resolves."""

from __future__ import annotations

import json
import random
import re
import time

import pytest

from hive_agents import Workspace
from hive_agents.memory import ConversationStore, DataBuffer, DataFiles, OutputAccumulator
from hive_agents.memory.compaction import compact
from hive_agents.memory.entries import Entry
from hive_agents.models.model import Message
from tests.memory.processes import killed_after, start

# Steps of an agent; a line is printed when the step counts as done.
AGENT = """
import asyncio
from itertools import count
store = ConversationStore(workspace, tenant="acme")
chat = store.create("digest", "r1", key="main")
outputs = OutputAccumulator(store, chat, ["n", "text"])
buffer = DataBuffer(workspace, tenant="acme", run_id="r1")
files = DataFiles(run_folder(workspace, "r1"))
spill = Spillover(files, limit=100)
memory = AgentMemory(workspace, memory_folder(workspace, "acme", "digest", "dana"))
memory.seed("identity")
first = outputs.values.get("n", -1) + 1
print("open", flush=True)
for step in count(first):
    call = Message(role="assistant", content=f"thought {step}", tool_calls=[ToolCall(name="t", id=f"{step}")])
    store.append(chat, call, key=f"call-{step}")
    if store.find(chat, f"result-{step}") is None:
        sent = spill.deliver("t", ToolResult(f"result {step} " * 20))
        message = Message(role="tool", content=sent.content, tool_call_id=f"{step}")
        store.append(chat, message, key=f"result-{step}", pointer=sent.pointer)
    asyncio.run(compact(store, chat, files, context_tokens=600))
    buffer.write("last", step)
    memory.add_output("n", step)
    outputs.set("n", step)
    print(step, flush=True)
"""


def run_and_kill(workspace: Workspace, steps: int, seed: int) -> int:
    """Let the agent work, kill it, check everything; returns the last step that it promised, -1 for none."""
    process = start(AGENT, workspace.root)
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    if not steps:
        time.sleep(random.Random(seed).random() / 20)
    promised = [int(line) for line in killed_after(process, steps)]
    require_whole(workspace, last := max(promised, default=-1))
    return last


def require_whole(workspace: Workspace, last: int) -> None:
    store = ConversationStore(workspace, tenant="acme")
    (chat,) = store.of_run("r1")
    entries = store.messages(chat)
    assert OutputAccumulator(store, chat, ["n"]).values.get("n", -1) >= last
    assert DataBuffer(workspace, tenant="acme", run_id="r1").read("last", default=-1) >= last
    assert {f"{kind}-{step}" for kind in ("call", "result") for step in range(last + 1)} <= {e.key for e in entries}
    assert [entry.n for entry in entries] == list(range(1, len(entries) + 1))
    files = DataFiles(workspace.state / "runs" / "r1")
    require_pointers_resolve(files, entries, store.view(chat))
    store.close()


def require_pointers_resolve(files: DataFiles, entries: list[Entry], view: list[Message]) -> None:
    saved = {file.name: files.read(file.name) for file in files.list()}
    texts = [*(message.content for message in view), *saved.values()]
    named = {name for text in texts for name in re.findall(r"'([^']+\.(?:md|txt))'", text)}
    assert named <= set(saved)
    everything = "\n".join([*saved.values(), *(message.content for message in view)])
    for entry in entries:
        text = entry.message.content.removesuffix(f"\n\n{entry.pointer}")
        assert text in everything, json.dumps(text)


def test_a_killed_agent_goes_on_where_it_was(bare: Workspace) -> None:
    first = run_and_kill(bare, 4, seed=0)
    assert run_and_kill(bare, 3, seed=1) >= first + 3


@pytest.mark.slow
def test_an_agent_that_is_killed_again_and_again_loses_nothing(bare: Workspace) -> None:
    """At a random instant each time, so that every write is hit sooner or later."""
    last: list[int] = []
    while len(last) < 40 or max(last) <= 5:  # a busy machine comes less far each time
        last.append(run_and_kill(bare, 0, seed=len(last)))
    assert run_and_kill(bare, 2, seed=99) > max(last)


async def test_a_crash_before_the_mark_leaves_a_file_and_no_pointer(store: ConversationStore, files: DataFiles) -> None:
    """The file of a compaction is on disk before anything points to it; the next one takes another number."""
    chat = store.create("digest", "r1")
    for role in ("user", "assistant"):
        store.append(chat, {"role": role, "content": "x" * 2000})
    with files.lock():
        files.seal("conversation_1.md", "from before the crash")
    done = await compact(store, chat, files, context_tokens=300)
    assert done.file == "conversation_2.md"
    assert "conversation_2.md" in store.view(chat)[0].content
    assert files.read("conversation_1.md") == "from before the crash"
