"""A property that is computed for one object holds up no other object's."""

from __future__ import annotations

import threading
from pathlib import Path

from hive_agents.base import cached_property
from hive_agents.store import connected, transaction
from hive_agents.store.database import connect


class Visit:
    """Its conversation is made in the records when it is first asked for, as that of an agent's node is."""

    def __init__(self, file: Path, asked: threading.Event) -> None:
        self._file, self._asked = file, asked

    @cached_property
    def conversation(self) -> str:
        self._asked.set()
        with connected(self._file) as connection, transaction(connection):
            return "made"


def test_who_has_the_records_waits_for_nobody_who_waits_for_them(tmp_path: Path) -> None:
    file, asked = tmp_path / "hive.db", threading.Event()
    connect(file).close()
    first, second = Visit(file, asked), Visit(tmp_path / "other.db", threading.Event())
    waiting = threading.Thread(target=lambda: first.conversation)
    with connected(file) as connection, transaction(connection):
        waiting.start()
        assert asked.wait(60)
        assert second.conversation == "made"
        assert waiting.is_alive()
    waiting.join(60)
    assert vars(first)["conversation"] == "made"


def test_two_who_ask_at_once_get_the_same() -> None:
    both = threading.Barrier(2, timeout=60)

    class Work:
        @cached_property
        def value(self) -> object:
            both.wait()
            return object()

    work, found = Work(), list[object]()
    threads = [threading.Thread(target=lambda: found.append(work.value)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(found) == 2
    assert found[0] is found[1] is work.value
