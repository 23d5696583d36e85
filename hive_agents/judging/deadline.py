"""Foreign code under a deadline, which holds even where the code ignores its cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


async def within(seconds: float, awaited: Awaitable[T]) -> T:
    """Return the awaited result; at the deadline its task is cancelled, and not waited for.

    Raises: TimeoutError at the deadline; asyncio.CancelledError also where it cancels itself.
    """
    loop = asyncio.get_running_loop()
    task: asyncio.Future[T] = asyncio.ensure_future(awaited)
    task.add_done_callback(_retrieve_exception)
    end = loop.time() + seconds
    try:
        done, _ = await asyncio.wait({task}, timeout=seconds)
    finally:
        task.cancel()
    # Code that blocks the loop delays the timeout, so the clock is checked, too.
    if not done or loop.time() > end:
        raise TimeoutError
    return task.result()


def must_end(error: BaseException) -> bool:
    """Return whether an error is no fault of foreign code: the process ends, or the current task was cancelled."""
    if isinstance(error, BaseExceptionGroup):
        return any(map(must_end, error.exceptions))
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0
    return isinstance(error, KeyboardInterrupt | SystemExit)


def _retrieve_exception(task: asyncio.Future[T]) -> None:
    """Retrieve an exception after the deadline, which asyncio would log as never retrieved."""
    if not task.cancelled():
        task.exception()
