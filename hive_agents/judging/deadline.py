"""Code of others, kept to a deadline: late is late, also for what takes no notice of being cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


async def within(seconds: float, awaited: Awaitable[T]) -> T:
    """Return what is awaited; its own task is cancelled at the deadline, and not waited for.

    Raises: TimeoutError when it is late; asyncio.CancelledError also where it cancels itself.
    """
    loop = asyncio.get_running_loop()
    task: asyncio.Future[T] = asyncio.ensure_future(awaited)
    task.add_done_callback(_looked_at)
    end = loop.time() + seconds
    try:
        done, _ = await asyncio.wait({task}, timeout=seconds)
    finally:
        task.cancel()
    # The clock, too: who blocks the loop keeps the deadline from being noticed.
    if not done or loop.time() > end:
        raise TimeoutError
    return task.result()


def must_end(error: BaseException) -> bool:
    """Return whether an error of others' code is none of theirs: the process is to end, or the task that runs now."""
    if isinstance(error, BaseExceptionGroup):
        return any(map(must_end, error.exceptions))
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0
    return isinstance(error, KeyboardInterrupt | SystemExit)


def _looked_at(task: asyncio.Future[T]) -> None:
    """What comes after the deadline interests nobody: asyncio would complain that it wasn't looked at."""
    if not task.cancelled():
        task.exception()
