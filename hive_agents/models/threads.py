"""Blocking calls and iterators in threads that don't delay the end of the event loop."""

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
    """Return or raise the result of `call`. Cancelling doesn't stop the thread.

    Not `asyncio.to_thread`: its pool is joined when the loop ends, so that a command would still wait for a slow model
    after its timeout.
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
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(deliver, result, failure)

    Thread(target=work, name="hive-model", daemon=True).start()
    return await answer


def waited(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of `work` to synchronous code, also inside a running event loop, as in a notebook.

    There `work` gets its own loop in a thread, and the caller's loop is blocked until it ends.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(contextvars.copy_context().run, asyncio.run, work).result()


async def from_thread(start: Callable[[], Generator[T, None, None]]) -> AsyncGenerator[T, None]:
    """Yield the items of the generator of `start`. After closing, the thread ends at the next item."""
    loop = asyncio.get_running_loop()
    items: asyncio.Queue[tuple[list[T], BaseException | None]] = asyncio.Queue()
    context = contextvars.copy_context()
    closed = Event()

    def deliver(item: list[T], error: BaseException | None = None) -> None:
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(items.put_nowait, (item, error))

    def work() -> None:
        try:
            with closing(start()) as generator:
                for item in generator:
                    if closed.is_set():
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
        closed.set()
