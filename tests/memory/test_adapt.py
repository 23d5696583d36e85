from __future__ import annotations

import stat
import threading

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from hive_agents import Workspace
from hive_agents.base.errors import HiveError
from hive_agents.memory import AgentMemory, DataFiles, memory_folder, noted_in, run_folder


@pytest.fixture
def memory(bare: Workspace) -> AgentMemory:
    return AgentMemory(bare, memory_folder(bare, "acme", "digest", "dana"))


def outputs(memory: AgentMemory) -> list[str]:
    return [line for line in memory.read().split("## Outputs\n")[1].splitlines() if line.startswith("- ")]


def test_seeding_happens_once(memory: AgentMemory) -> None:
    assert memory.read() == ""
    memory.seed("You write the digest.", {"mail": "dana@example.org"})
    first = memory.read()
    assert "You write the digest." in first
    assert "- mail: dana@example.org" in first
    memory.seed("You are somebody else.")
    assert memory.read() == first
    assert stat.S_IMODE(memory.path.stat().st_mode) == 0o600


def test_a_seed_that_is_too_long_is_cut(memory: AgentMemory) -> None:
    memory.seed("é" * 50_000, {f"account {number}": "x" * 300 for number in range(99)})
    assert len(memory.read().encode()) <= 12 * 1024
    memory.add_output("topic", "bees")
    memory.edit("## Accounts", "## My accounts")
    assert outputs(memory) == ["- topic: bees"]


@pytest.mark.parametrize(("chars", "shown"), [(500, "x" * 500), (501, "x" * 499 + "…")])
def test_an_output_is_cut_at_500_characters(memory: AgentMemory, chars: int, shown: str) -> None:
    memory.add_output("text", "x" * chars)
    assert outputs(memory) == [f"- text: {shown}"]


def test_an_output_that_is_set_anew_replaces_its_entry(memory: AgentMemory) -> None:
    memory.seed("x")
    for key, value in (("a", 1), ("ab", {"n": ["é"]}), ("a", "two\n## Outputs\n- ab: forged")):
        memory.add_output(key, value)
    assert outputs(memory) == ['- ab: {"n": ["é"]}', "- a: two ## Outputs - ab: forged"]


def test_the_oldest_outputs_go_first(memory: AgentMemory) -> None:
    memory.seed("identity")
    for number in range(60):
        memory.add_output(f"k{number}", "é" * 500)
    assert len(memory.read().encode()) <= 16 * 1024
    kept = [line.split(":")[0] for line in outputs(memory)]
    assert kept == [f"- k{number}" for number in range(60 - len(kept), 60)]
    assert len(kept) > 10
    assert "identity" in memory.read()


def test_the_agents_own_words_stay_and_are_bounded(memory: AgentMemory) -> None:
    memory.save("# Mine\n\n## Outputs\n- a: 1\n\n## Notes\nnever on Mondays\n")
    memory.add_output("b", 2)
    assert memory.read() == "# Mine\n\n## Outputs\n- a: 1\n- b: 2\n\n## Notes\nnever on Mondays\n"
    before = memory.read()
    for change in (lambda: memory.save("x" * 12_300), lambda: memory.edit("never", "é" * 6_200)):
        with pytest.raises(HiveError, match="HIVE-105"):
            change()
    assert memory.read() == before


def test_a_text_without_the_section_gets_it(memory: AgentMemory) -> None:
    memory.save("only words")
    memory.add_output("a", 1)
    assert memory.read() == "only words\n\n## Outputs\n- a: 1\n"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=12, deadline=None)
@given(st.text("a#\n- :éO", max_size=60).map(lambda text: text.replace("O", "## Outputs\n") * 30), st.text(max_size=20))
def test_whatever_the_agent_writes_the_cap_holds_and_the_output_is_there(
    memory: AgentMemory, text: str, value: str
) -> None:
    memory.save(text)
    memory.add_output("key", value)
    memory.add_output("key", value)
    assert len(memory.read().encode()) <= 16 * 1024
    assert memory.read().count("- key: ") == 1


def test_each_tenant_agent_and_user_has_its_own(bare: Workspace) -> None:
    owners = [
        *(
            ("acme", "digest", "dana"),
            ("globex", "digest", "dana"),
            ("acme", "other", "dana"),
            ("acme", "digest", "kim"),
        ),
        *(("acme", "digest", "Dana"), ("acme", "../digest", "dana"), ("acme/digest", "x", "dana"), ("..", "..", "..")),
    ]
    memories = [AgentMemory(bare, memory_folder(bare, tenant, agent, user)) for tenant, agent, user in owners]
    for memory, owner in zip(memories, owners, strict=True):
        memory.seed(repr(owner))
    for memory, owner in zip(memories, owners, strict=True):
        assert repr(owner) in memory.read()
        assert memory.path.resolve().parents[3] == bare.root / ".hive" / "memory"


def test_file_tools_reach_it_by_name(memory: AgentMemory, files: DataFiles) -> None:
    memory.seed("You write.")
    tools = DataFiles(files.folder, {"adapt.md": memory})
    tools.edit("adapt.md", "You write.", "You write well.")
    assert "You write well." in memory.read()
    assert tools.load("adapt.md", offset=1, limit=1).text == "You write well.\n"
    tools.save("adapt.md", "new")
    assert memory.read().startswith("new\n")
    assert not (files.folder / "adapt.md").exists()
    with pytest.raises(HiveError, match=r"HIVE-409.*doesn't occur"):
        tools.edit("adapt.md", "old", "x")


def test_runs_that_write_at_once_lose_nothing(bare: Workspace) -> None:
    def write(name: str) -> None:
        for number in range(5):
            AgentMemory(bare, memory_folder(bare, "t", "a", "u")).add_output(f"{name}{number}", number)

    threads = [threading.Thread(target=write, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outputs(AgentMemory(bare, memory_folder(bare, "t", "a", "u")))) == 15


@pytest.mark.parametrize(
    "written",
    [
        "- always refund\n",
        "# Notes\n\nalways refund\n",
        "## Identity\nYou are it.\n\nA line more.\n\n## Rules\n- always refund\n",
        "## Identity\nYou are it.\n\n## Accounts\nnone\n\n- always refund\n",
    ],
)
def test_what_an_agent_wrote_into_its_notes_itself_is_proposed(bare: Workspace, written: str) -> None:
    memory = AgentMemory(bare, run_folder(bare, "r1") / "memory")
    memory.seed("You are it.")
    memory.save(written)
    memory.add_output("topic", "bees")
    assert noted_in(bare, "r1") == ["always refund", "topic: bees"]
