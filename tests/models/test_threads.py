from __future__ import annotations

from collections.abc import Generator
from contextlib import aclosing
from threading import Event

import pytest

from hive_agents.models.threads import from_thread


async def test_a_generators_items_and_error_come_out_of_its_thread() -> None:
    def source() -> Generator[int, None, None]:
        yield from (1, 2)
        raise KeyError("over")

    items = from_thread(source)
    assert [await anext(items), await anext(items)] == [1, 2]
    with pytest.raises(KeyError):
        await anext(items)


async def test_a_generator_that_nobody_listens_to_is_closed_at_its_next_item() -> None:
    go_on, closed = Event(), Event()

    def source() -> Generator[int, None, None]:
        try:
            yield 1
            go_on.wait()
            yield 2
            raise AssertionError("asked on")
        finally:
            closed.set()

    async with aclosing(from_thread(source)) as items:
        assert await anext(items) == 1
    go_on.set()
    assert closed.wait(5)
