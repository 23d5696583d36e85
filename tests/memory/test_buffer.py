from __future__ import annotations

import threading
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.base.errors import HiveError
from hive_agents.memory import DataBuffer
from tests.memory.processes import finish, start


@pytest.fixture
def buffer(bare: Workspace) -> DataBuffer:
    return DataBuffer(bare, tenant="acme", run_id="r1", stream_id="s1")


def test_scopes_are_shared_as_far_as_they_say(buffer: DataBuffer, bare: Workspace) -> None:
    for scope in ("execution", "stream", "global"):
        buffer.write(scope, scope, scope)
    same_stream = DataBuffer(bare, tenant="acme", run_id="r2", stream_id="s1")
    no_stream = DataBuffer(bare, tenant="acme", run_id="r2")
    assert list(buffer.read_all()) == ["execution", "global", "stream"]
    assert list(same_stream.read_all()) == ["global", "stream"]
    assert list(no_stream.read_all()) == ["global"]
    assert DataBuffer(bare, tenant="globex", run_id="r1", stream_id="s1").read_all() == {}
    assert DataBuffer(bare, tenant="acme", run_id="r1", stream_id="s1").read("execution") == "execution"


def test_the_nearest_scope_wins(buffer: DataBuffer) -> None:
    for scope in ("global", "stream", "execution"):
        buffer.write("key", scope, scope)
        assert buffer.read("key") == buffer.read_all()["key"] == scope
    assert buffer.read("key", "stream") == "stream"
    assert buffer.read_all("global") == {"key": "global"}


def test_a_scope_that_is_not_there_is_an_error(bare: Workspace) -> None:
    buffer = DataBuffer(bare, run_id="r1")
    for scope in ("stream", "galaxy"):
        with pytest.raises(HiveError, match="HIVE-409"):
            buffer.write("key", 1, scope)  # type: ignore[arg-type]


def test_a_node_uses_the_keys_that_it_declared(buffer: DataBuffer) -> None:
    buffer.write("secret", 1)
    buffer.write("topic", "bees")
    node = buffer.for_node(["topic"], ["items"])
    assert node.write("items", [1]) == 1
    assert node.read_all() == {"items": [1], "topic": "bees"}
    assert dict(node.snapshot()) == {"items": (1,), "topic": "bees"}
    for use in (
        lambda: node.write("topic", 2),
        lambda: node.write("secret", 2),
        lambda: node.read("secret"),
        lambda: node.update("topic", lambda _: 2),
        lambda: node.read("secret", "execution"),
    ):
        with pytest.raises(HiveError, match=r'HIVE-103.*"(topic|secret)"'):
            use()
    assert buffer.read("topic") == "bees"


def test_versions_count_the_writes(buffer: DataBuffer) -> None:
    assert [buffer.write("key", value) for value in "abc"] == [1, 2, 3]
    assert buffer.write("key", "d", "global") == 1


def test_a_null_is_a_value(buffer: DataBuffer) -> None:
    buffer.write("key", None)
    assert buffer.read("key", default="default") is None
    assert buffer.read("other", default="default") == "default"


def test_a_snapshot_is_read_only_all_the_way_down(buffer: DataBuffer) -> None:
    buffer.write("plan", {"steps": [{"n": 1}]})
    snapshot: Any = buffer.snapshot()
    for change in (
        lambda: snapshot.__setitem__("plan", 1),
        lambda: snapshot["plan"].__setitem__("steps", 1),
        lambda: snapshot["plan"]["steps"].append(2),
        lambda: snapshot["plan"]["steps"][0].__setitem__("n", 2),
    ):
        with pytest.raises((TypeError, AttributeError)):
            change()
    buffer.write("plan", "new")
    assert snapshot["plan"]["steps"][0]["n"] == 1


def test_what_is_read_is_a_copy(buffer: DataBuffer) -> None:
    buffer.write("plan", {"steps": []})
    buffer.read("plan")["steps"].append(1)
    assert buffer.read("plan") == {"steps": []}


@pytest.mark.parametrize(
    ("value", "code"),
    [(float("inf"), 104), ({1: 1}, 104), (object(), 104), ("x" * 1_000_001, 105), (["y" * 9] * 100_000, 105)],
)
def test_a_value_that_is_no_json_or_too_long_is_refused(buffer: DataBuffer, value: object, code: int) -> None:
    buffer.write("key", 1)
    with pytest.raises(HiveError, match=f"HIVE-{code}.*key"):
        buffer.write("key", value)
    assert buffer.read("key") == 1


@pytest.mark.parametrize("key", ["", None, 1, "\ud800"])
def test_a_key_is_a_text(buffer: DataBuffer, key: Any) -> None:
    with pytest.raises(HiveError, match="HIVE-104"):
        buffer.write(key, 1)


def test_threads_lose_no_update(buffer: DataBuffer, bare: Workspace) -> None:
    """Each thread has a buffer of its own, so that only the scope's lock and the version stand between them."""

    def count(name: str) -> None:
        mine = DataBuffer(bare, tenant="acme", run_id=name, stream_id="s1")
        for _ in range(25):
            mine.update("n", lambda n: n + 1, "stream", default=0)

    threads = [threading.Thread(target=count, args=(f"r{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert buffer.read("n") == 100


def test_processes_lose_no_update(buffer: DataBuffer, bare: Workspace) -> None:
    program = """
buffer = DataBuffer(workspace, tenant="acme", run_id=argument, stream_id="s1")
for number in range(50):
    buffer.update("n", lambda n: n + 1, "stream", default=0)
    buffer.write(f"{argument}{number}", number, "global")
"""
    finish([start(program, bare.root, name) for name in "ab"])
    assert buffer.read("n") == 100
    assert len(buffer.read_all("global")) == 100
