"""Coroutines beside the event loop: what they return, raise and see, and that they end when nobody wants them."""

from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar

import pytest

from hive_agents.runs.beside import beside

WHO: ContextVar[str] = ContextVar("who", default="nobody")


async def test_it_computes_elsewhere_and_the_loop_goes_on() -> None:
    begun, free = threading.Event(), threading.Event()

    async def work() -> tuple[str, int]:
        begun.set()
        assert free.wait(60)  # stands still, as what computes does
        return WHO.get(), threading.get_ident()

    WHO.set("dana")
    working = asyncio.ensure_future(beside(work))
    while not begun.is_set():
        await asyncio.sleep(0)
    free.set()
    who, thread = await working
    assert who == "dana"
    assert thread != threading.get_ident()


async def test_what_it_raises_comes_back() -> None:
    async def work() -> None:
        raise KeyError("gone")

    with pytest.raises(KeyError, match="gone"):
        await beside(work)


async def test_cancelled_it_ends_at_its_next_await() -> None:
    begun, ended = threading.Event(), threading.Event()

    async def work() -> None:
        begun.set()
        try:
            await asyncio.sleep(3600)
        finally:
            ended.set()

    working = asyncio.ensure_future(beside(work))
    while not begun.is_set():
        await asyncio.sleep(0)
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    assert await asyncio.to_thread(ended.wait, 60)


async def test_cancelled_at_once_it_leaves_nothing_behind() -> None:
    working = asyncio.ensure_future(beside(lambda: asyncio.sleep(0, "first")))
    await asyncio.sleep(0)
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    assert await beside(lambda: asyncio.sleep(0, "next")) == "next"


async def test_a_thread_whose_result_nobody_wants_is_told_free_at_its_end_alone() -> None:
    begun, free, freed = threading.Event(), threading.Event(), asyncio.Event()

    async def work() -> None:
        begun.set()
        assert free.wait(60)  # computes, and awaits nothing

    working = asyncio.ensure_future(beside(work, freed=freed.set))
    while not begun.is_set():
        await asyncio.sleep(0)
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    assert not freed.is_set()
    free.set()
    await asyncio.wait_for(freed.wait(), 60)
