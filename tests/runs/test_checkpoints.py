"""What a checkpoint database may make a process do: nothing but hold plain data."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import ormsgpack
import pytest
from langgraph.checkpoint.base import ERROR, INTERRUPT, RESUME, empty_checkpoint

from hive_agents import Workspace
from hive_agents.runs import LeaseLost, Leases
from hive_agents.runs.checkpoints import async_checkpointer, checkpointer

CALL = 0  # LangGraph's extension type for "import this, call it with that"


def poisoned(marker: Path) -> bytes:
    """Stored bytes that write `marker` where whoever reads them builds any type that they name."""
    call = ormsgpack.packb(("pathlib", "Path", str(marker)))
    write = ormsgpack.packb(("os", "mkdir", str(marker)))
    return ormsgpack.packb({"channel_values": {"a": ormsgpack.Ext(CALL, write), "b": ormsgpack.Ext(CALL, call)}})


@pytest.mark.parametrize("imported_before", [False, True])
def test_stored_bytes_call_nothing_whenever_langgraph_was_imported(
    text_workspace: Workspace, tmp_path: Path, imported_before: bool
) -> None:
    marker = tmp_path / "called"
    program = f"""
import sys
{"import langgraph.checkpoint.sqlite, langgraph.graph" if imported_before else ""}
from hive_agents.runs.checkpoints import checkpointer
from hive_agents import Workspace
with checkpointer(Workspace({str(text_workspace.root)!r})) as saver:
    print(saver.serde.loads_typed(("msgpack", bytes.fromhex({poisoned(marker).hex()!r}))))
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert not marker.exists()


def test_no_saver_reads_a_pickle(text_workspace: Workspace) -> None:
    async def opened() -> object:
        async with async_checkpointer(text_workspace) as saver:
            return saver.serde

    with checkpointer(text_workspace) as saver:
        serializers = [saver.serde, asyncio.run(opened())]
    for serde in serializers:
        with pytest.raises(NotImplementedError):
            serde.loads_typed(("pickle", b"cos\nsystem\n(S'true'\ntR."))  # type: ignore[attr-defined]


async def test_a_graph_with_threads_keeps_its_checkpoints_under_its_lease(text_workspace: Workspace) -> None:
    """As the optimizer's, which computes: many threads write at once, and none once another worker has the thread."""
    leases = Leases(text_workspace)
    lease = leases.acquire("t", "r")
    assert lease is not None
    barrier = Barrier(8)

    def put(saver: Any, number: int) -> None:
        barrier.wait()
        config = {"configurable": {"thread_id": f"t{number}", "checkpoint_ns": ""}}
        for _ in range(5):
            saver.put(config, empty_checkpoint(), {}, {})
            assert saver.get_tuple(config) is not None

    async with async_checkpointer(text_workspace, lease) as saver:
        with ThreadPoolExecutor(8) as threads:
            assert await asyncio.to_thread(lambda: [*threads.map(lambda n: put(saver, n), range(8))]) == [None] * 8
        lease.release()
        assert leases.acquire("t", "r2") is not None
        with pytest.raises(LeaseLost):
            saver.put({"configurable": {"thread_id": "t0", "checkpoint_ns": ""}}, empty_checkpoint(), {}, {})


def stored(workspace: Workspace, namespace: str = "") -> tuple[str | None, list[str]]:
    """The newest checkpoint of another process's view, and the tasks whose writes it has."""
    with checkpointer(workspace) as saver:
        found = saver.get_tuple({"configurable": {"thread_id": "t", "checkpoint_ns": namespace}})
    return (None, []) if found is None else (found.checkpoint["id"], [task for task, *_ in found.pending_writes or ()])


def config_of(namespace: str, id: str | None = None) -> dict[str, Any]:
    return {"configurable": {"thread_id": "t", "checkpoint_ns": namespace} | ({"checkpoint_id": id} if id else {})}


def checkpoint(id: str, *following: str) -> Any:
    return empty_checkpoint() | {"id": id, "channel_values": {f"branch:to:{name}": None for name in following}}


async def test_what_a_step_makes_again_is_written_with_the_next_checkpoint(text_workspace: Workspace) -> None:
    async with async_checkpointer(text_workspace) as saver:
        await saver.aput(config_of(""), checkpoint("a", "node"), {"step": -1}, {})
        assert stored(text_workspace) == ("a", [])  # from which the run goes on after a crash
        await saver.aput(config_of("", "a"), checkpoint("b", "node"), {"step": 0}, {})
        await saver.aput(config_of("node"), checkpoint("c", "enter"), {"step": -1}, {})
        await saver.aput(config_of("node", "c"), checkpoint("d", "enter"), {"step": 0}, {})
        await saver.aput_writes(config_of("node", "d"), [("next", "think")], "enter")
        assert (stored(text_workspace), stored(text_workspace, "node")) == (("a", []), (None, []))
        # An iteration's, which isn't repeated after a crash.
        await saver.aput(config_of("node", "d"), checkpoint("e", "think"), {"step": 1}, {})
        assert (stored(text_workspace), stored(text_workspace, "node")) == (("b", []), ("e", []))
        await saver.aput(config_of("node", "e"), checkpoint("f"), {"step": 2}, {})
        await saver.aput_writes(config_of("", "b"), [("ends", "x")], "node")
        assert (stored(text_workspace), stored(text_workspace, "node")) == (("b", []), ("e", []))
        await saver.aput(config_of("", "b"), checkpoint("g"), {"step": 1}, {})
        assert (stored(text_workspace), stored(text_workspace, "node")) == (("g", []), ("f", []))


async def test_a_saver_reads_what_it_has_not_written_yet(text_workspace: Workspace) -> None:
    async with async_checkpointer(text_workspace) as saver:
        await saver.aput(config_of("node"), checkpoint("a", "enter"), {"step": 0}, {})
        await saver.aput_writes(config_of("node", "a"), [("next", "think")], "enter")
        found = await saver.aget_tuple(config_of("node"))
        assert found is not None
        assert [task for task, *_ in found.pending_writes or ()] == ["enter"]
        await saver.aput(config_of("node", "a"), checkpoint("b"), {"step": 1}, {})
        listed = [one.checkpoint["id"] async for one in saver.alist(config_of("node"))]
        assert listed == ["b", "a"]


@pytest.mark.parametrize("channel", [INTERRUPT, RESUME, ERROR])
async def test_a_question_its_answer_and_an_error_are_written_at_once(text_workspace: Workspace, channel: str) -> None:
    async with async_checkpointer(text_workspace) as saver:
        await saver.aput(config_of("node"), checkpoint("a", "wait"), {"step": 0}, {})
        await saver.aput_writes(config_of("node", "a"), [(channel, "why?")], "wait")
        assert stored(text_workspace, "node") == ("a", ["wait"])


async def test_a_saver_that_is_closed_has_written_all(text_workspace: Workspace) -> None:
    async with async_checkpointer(text_workspace) as saver:
        await saver.aput(config_of("node"), checkpoint("a"), {"step": 3}, {})
    assert stored(text_workspace, "node") == ("a", [])
