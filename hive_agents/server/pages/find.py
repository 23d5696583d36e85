"""What is found by a word: pages, actions, the caller's conversations, and the documents and runs that they may see."""

from __future__ import annotations

from typing import Any

from hive_agents.server import copilot, documents, runs
from hive_agents.server.api import checked
from hive_agents.server.auth import ANYBODY, OPERATOR, READER, Call
from hive_agents.server.pages.view import Pages

pages = Pages()
SHOWN = 5
"""Conversations, documents and runs, of each so many."""
LATEST = 200
"""Runs that are looked through: the last ones."""
ACTIONS = (
    ("ask", "/chat", "chat"),
    ("add", "/documents", "documents"),
    ("label", "/golden/label", "golden"),
    ("improve", "/optimize", "optimize"),
    ("decide", "/approvals", "approvals"),
    ("people", "/settings/people", "settings"),
    ("model", "/settings/models", "settings"),
    ("agent", "/settings/agents", "settings"),
    ("schedule", "/settings/schedules", "settings"),
)
"""What somebody wants to do, where that is done, and the page whose roles it needs."""


@pages.get("/find", ANYBODY, "find.html")
def find(call: Call) -> dict[str, Any]:
    """What has the word in its title; without one the pages and actions, and what was used last."""
    wanted = " ".join(call.request.query_params.get("find", "").split())[:200]
    titled = {"limit": SHOWN, "search": wanted} if wanted else {"limit": SHOWN}
    reads, operates = READER & call.principal.roles, OPERATOR & call.principal.roles
    looked = runs.runs_of(call, runs.RunsPage(limit=LATEST if wanted else SHOWN), None).runs
    return {
        "find": wanted,
        "actions": ACTIONS,
        "threads": copilot.threads(call, checked(copilot.ThreadsPage, titled)).threads if reads else [],
        "documents": documents.documents(call, checked(documents.DocumentsPage, titled)).documents
        if wanted and (reads or operates)
        else [],
        "runs": [one for one in looked if wanted.casefold() in f"{one.agent or ''} {one.about}".casefold()][:SHOWN],
        "operates": bool(operates),
    }
