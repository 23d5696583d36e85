"""LangSmith, which a variable of the environment turns on in any process: off here, unless the workspace says so.

A trace holds prompts and answers, and so documents. `[telemetry] langsmith = true` in a trusted workspace leaves it to
the environment's variables again.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, TypeVar

from hive_agents.trust import is_trusted

if TYPE_CHECKING:
    from hive_agents.workspace import Workspace

Piece = TypeVar("Piece")
_DEAD = ("LANGCHAIN_TRACING", "LANGCHAIN_HANDLER")
"""Of a protocol that is no more: LangChain only refuses to work while one of them is set."""
_allowed: ContextVar[bool] = ContextVar("hive_langsmith", default=False)


@contextmanager
def tracing(workspace: Workspace) -> Iterator[None]:
    """Let what runs inside be traced as the workspace's settings say."""
    token = _allowed.set(workspace.settings.telemetry.langsmith and is_trusted(workspace))
    try:
        with untraced():
            yield
    finally:
        _allowed.reset(token)


@contextmanager
def untraced() -> Iterator[None]:
    """Let nothing that runs inside be traced, but for a workspace that allows it: see `tracing`."""
    if _allowed.get():
        yield
        return
    import langsmith

    for name in _DEAD:
        os.environ.pop(name, None)
    with langsmith.tracing_context(enabled=False):
        yield


async def untraced_steps(pieces: AsyncGenerator[Piece, None]) -> AsyncGenerator[Piece, None]:
    """Yield `pieces`, each of which is made as in `untraced`; whoever takes them is not affected."""
    async with aclosing(pieces):
        while True:
            with untraced():
                try:
                    piece = await anext(pieces)
                except StopAsyncIteration:
                    return
            yield piece
