"""Run coroutines that compute in threads with their own event loops, so that the host's loop isn't blocked."""

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
"""The number of threads at most; they are reused, with their open connections."""

_threads = ThreadPoolExecutor(MOST, thread_name_prefix="hive-turn")


async def beside(work: Callable[[], Coroutine[Any, Any, T]], freed: Callable[[], object] | None = None) -> T:
    """Return the result of `work`, called in a thread with the caller's context variables.

    Cancelling this cancels `work` at its next await, without waiting for its end. `freed` is called when
    the thread is free again.
    """
    context, guard = contextvars.copy_context(), threading.Lock()
    there: tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]] | None = None
    wanted = True

    async def run() -> T:
        nonlocal there
        task = asyncio.current_task()
        assert task is not None
        with guard:
            if not wanted:
                raise asyncio.CancelledError
            there = asyncio.get_running_loop(), task
        return await work()

    # Shielded: cancelling the future of a call that has begun would not end the call.
    done = asyncio.get_running_loop().run_in_executor(_threads, context.run, lambda: asyncio.run(run()))
    if freed is not None:
        done.add_done_callback(lambda _: freed())
    try:
        return await asyncio.shield(done)
    except asyncio.CancelledError:
        with guard:
            wanted = False
            if there is not None:
                with suppress(RuntimeError):  # it has ended meanwhile
                    there[0].call_soon_threadsafe(there[1].cancel)
        raise
