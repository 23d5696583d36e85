"""Coroutines that compute: each in a thread, on an event loop of its own, so that the host's loop stays free."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")
MOST = 32
"""Threads at most; they are kept, and with them the connections that they have open."""

_threads = ThreadPoolExecutor(MOST, thread_name_prefix="hive-turn")


async def beside(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Return what `work` returns, with the context variables of whoever waits for it.

    Cancelled, it is cancelled there as well, at its next await; nobody waits until it has ended.
    """
    context, guard = contextvars.copy_context(), threading.Lock()
    there: tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]] | None = None
    wanted = True

    async def begun() -> T:
        nonlocal there
        task = asyncio.current_task()
        assert task is not None
        with guard:
            if not wanted:
                raise asyncio.CancelledError
            there = asyncio.get_running_loop(), task
        return await work()

    # Shielded: a call that has begun can't be cancelled from outside, and would go on unheard.
    done = asyncio.get_running_loop().run_in_executor(_threads, context.run, lambda: asyncio.run(begun()))
    try:
        return await asyncio.shield(done)
    except asyncio.CancelledError:
        with guard:
            wanted = False
            if there is not None:
                with suppress(RuntimeError):  # it has ended meanwhile
                    there[0].call_soon_threadsafe(there[1].cancel)
        raise
