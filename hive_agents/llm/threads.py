"""Blocking calls and iterators beside the event loop, in threads that nobody has to wait for."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from threading import Event, Thread
from typing import Any, TypeVar

T = TypeVar("T")


async def in_thread(call: Callable[[], T]) -> T:
    """Return what `call` returns or raises. Cancelling leaves the thread to itself.

    Not `asyncio.to_thread`: its pool is joined when the loop ends, so a command that gave up on a slow
    model would still wait for it.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def deliver(result: T | None, error: BaseException | None) -> None:
        if answer.done():
            return
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(result)  # type: ignore[arg-type]  # T may include None

    def work() -> None:
        result, failure = None, None
        try:
            result = context.run(call)
        except BaseException as error:
            failure = error
        with suppress(RuntimeError):  # the loop has closed: nobody listens any more
            loop.call_soon_threadsafe(deliver, result, failure)

    Thread(target=work, name="hive-model", daemon=True).start()
    return await answer


def waited(work: Coroutine[Any, Any, T]) -> T:
    """Return what `work` returns, for code that doesn't await; also beneath a running event loop, as in a notebook.

    There it gets a loop of its own in a thread of its own, and the caller's stands still meanwhile.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(contextvars.copy_context().run, asyncio.run, work).result()


async def from_thread(start: Callable[[], Generator[T, None, None]]) -> AsyncGenerator[T, None]:
    """Yield what the generator of `start` yields or raises. Closing leaves the thread, which ends at the next item."""
    loop = asyncio.get_running_loop()
    items: asyncio.Queue[tuple[list[T], BaseException | None]] = asyncio.Queue()
    context = contextvars.copy_context()
    left = Event()

    def deliver(item: list[T], error: BaseException | None = None) -> None:
        with suppress(RuntimeError):  # the loop has closed: nobody listens any more
            loop.call_soon_threadsafe(items.put_nowait, (item, error))

    def work() -> None:
        try:
            with closing(start()) as generator:
                for item in generator:
                    if left.is_set():
                        return
                    deliver([item])
            deliver([])
        except BaseException as error:
            deliver([], error)

    Thread(target=context.run, args=(work,), name="hive-model", daemon=True).start()
    try:
        while True:
            item, error = await items.get()
            if error is not None:
                raise error
            if not item:
                return
            yield item[0]
    finally:
        left.set()
