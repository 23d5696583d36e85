"""What is done on the thread that serves everybody."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

ROOMS = (
    *("documents", "index", "engines", "ranking", "readers", "sync", "copilot", "evaluation", "judging"),
    *("store.database", "agents", "access", "base.files", "triggers.payload"),
)
WORK = (*(f"hive_agents.{room}" for room in ROOMS), "markdown_it", "jinja2", "yaml", "json.decoder")
"""What reads, computes and renders: nothing of it is for that thread."""


@contextmanager
def work_on_this_thread() -> Iterator[set[str]]:
    """The functions of `WORK` that are called on this thread meanwhile."""
    called: set[str] = set()

    def seen(frame: Any, event: str, _: Any) -> None:
        if event == "call" and frame.f_globals.get("__name__", "").startswith(WORK):
            called.add(f"{frame.f_globals['__name__']}.{frame.f_code.co_qualname}")

    sys.setprofile(seen)
    try:
        yield called
    finally:
        sys.setprofile(None)
