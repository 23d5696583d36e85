"""The home page: what is left to set up, then what waits, what failed, and what was spent today."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from hive_agents.base import HiveError
from hive_agents.server import approvals, configs, copilot, documents, golden, runs
from hive_agents.server.auth import ADMIN, ANYBODY, APPROVER, OPERATOR, READER, REVIEWER, Call
from hive_agents.server.pages import library
from hive_agents.server.pages.view import Pages
from hive_agents.server.shapes import PageQuery

T = TypeVar("T")
pages = Pages()
LATEST = 500
"""Runs that are looked through for today's spend."""
SHOWN = 5
FOLDERS = 20
"""Folders that a reader's page names."""


@pages.get("/", ANYBODY, "home.html")
def home(call: Call) -> dict[str, Any]:
    """What is left to do, by the caller's roles."""
    reads, operates = bool(READER & call.principal.roles), bool(OPERATOR & call.principal.roles)
    empty = library.is_empty(call) if reads or operates else False
    labels = golden.labels_left(call) if operates else None
    steps = _steps(call, empty, is_labelled=not labels[1]) if labels else []
    context: dict[str, Any] = {
        "steps": steps if not all(done for _, _, done in steps) else [],
        "labels": labels,
        "empty": empty,
        "mine": _folders(call) if reads and not operates and not empty else None,
        "threads": copilot.threads(call, copilot.ThreadsPage(limit=SHOWN)).threads if reads else [],
        "waiting": approvals.count_waiting(call) if APPROVER & call.principal.roles else None,
        "opinions": len(copilot.feedback_to_review(call)) if REVIEWER & call.principal.roles else 0,
        "failed": None,
        "open": [],
        "spent": None,
        **library.dropped(call),
    }
    if operates:
        today = dt.datetime.now(dt.UTC).date().isoformat()
        latest = runs.list_runs(call, runs.RunsPage(limit=LATEST)).runs
        mine = [one for one in latest if one.started_at.startswith(today)]
        context |= {
            "failed": [one for one in mine if one.status == "failed"][:SHOWN],
            "open": (_tried(lambda: golden.open_to_label(call).questions) or [])[:SHOWN],
            "spent": (sum(one.usd for one in mine), len(mine)),
        }
    return context


def _folders(call: Call) -> tuple[int, list[tuple[str, int]]]:
    """Return how many documents a reader may view, and how many of them are in each folder of the top."""
    readable = documents.readable(call)
    found = Counter(one.partition("/")[0] for one in readable if "/" in one)
    return len(readable), sorted(found.items())[:FOLDERS]


def _steps(call: Call, empty: bool, *, is_labelled: bool) -> list[tuple[str, str, bool]]:
    """Return (name, address, done) of each step of the setup, in their order."""
    deployed = _tried(lambda: configs.history(call, PageQuery(limit=1)).versions)
    asked = runs.runs_of(call, runs.RunsPage(limit=1), "worker").runs
    connected = bool(call.workspace.settings.models.of("answer"))
    return [
        ("documents", "/documents", not empty),
        ("ask", "/chat", bool(asked)),
        ("label", "/golden/label", is_labelled),
        ("improve", "/optimize", bool(deployed)),
        ("model", "/settings/models" if ADMIN & call.principal.roles else "", connected),
    ]


def _tried(look: Callable[[], T]) -> T | None:
    with suppress(HiveError):  # nothing of the kind is there yet
        return look()
    return None
