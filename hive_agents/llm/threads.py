"""A blocking call beside the event loop, in a thread that nobody has to wait for."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import TypeVar

Answer = TypeVar("Answer")


async def in_thread(call: Callable[[], Answer]) -> Answer:
    """What `call` returns or raises. Cancelling leaves the thread to itself.

    Not `asyncio.to_thread`: its pool is joined when the loop ends, so a command that gave up on a slow
    model would still wait for it.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Answer] = loop.create_future()
    context = contextvars.copy_context()

    def deliver(result: Answer | None, error: BaseException | None) -> None:
        if answer.done():
            return
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(result)  # type: ignore[arg-type]  # Answer may include None

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
