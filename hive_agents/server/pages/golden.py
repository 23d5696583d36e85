"""The golden set: labelling a question, what readers say of results, and what the labels cover and can show."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from hive_agents.errors import NotFound
from hive_agents.server import copilot, golden
from hive_agents.server.api import checked
from hive_agents.server.auth import OPERATOR, REVIEWER, Call
from hive_agents.server.pages.view import Pages

pages = Pages()
PAGE = 50
KEYS = {"r": "relevant", "d": "distractor", "i": "irrelevant"}
UNTAGGED = ""


@pages.get("/golden", OPERATOR, "golden.html")
def overview(call: Call) -> dict[str, Any]:
    """What is labelled, what it covers, and what is open."""
    found = _golden(call)
    queries = found.queries if found is not None else []
    return {
        "golden": found,
        "coverage": _coverage(queries),
        "unsplit": 0 if found is None or found.holdout else sum(one["split"] is None for one in queries),
        "open": golden.open_to_label(call).questions,
        "pending": len(copilot.list_feedback(call, copilot.FeedbackPage(status="pending", limit=500)).items),
        **_queries(call, queries),
    }


@pages.get("/golden/queries", OPERATOR, "golden_queries.html")
def queries(call: Call) -> dict[str, Any]:
    """A page of the labelled questions."""
    found = _golden(call)
    return _queries(call, found.queries if found is not None else [])


@pages.get("/golden/worth", OPERATOR, "golden_worth.html")
def worth(call: Call) -> dict[str, Any]:
    """How small a gain the labels can show."""
    return {"worth": golden.worth(call)}


@pages.get("/golden/label", OPERATOR, "golden_label.html")
def label(call: Call) -> dict[str, Any]:
    """One question, and what both lanes find for it."""
    query = " ".join(call.request.query_params.get("query", "").split())
    left = golden.open_to_label(call).questions
    shown = golden.label_pool(call, golden.Pool(query=query[:1000])) if query else None
    return {"pool": shown, "keys": KEYS, "next": next((one for one in left if one != query), None)}


@pages.get("/golden/feedback", REVIEWER, "golden_feedback.html")
def feedback(call: Call) -> dict[str, Any]:
    """What readers say, for somebody else to accept or reject."""
    given = call.request.query_params
    status = given.get("status", "pending")
    query = checked(copilot.FeedbackPage, {"status": status or None, "cursor": given.get("cursor"), "limit": PAGE})
    found = copilot.list_feedback(call, query)
    return {"items": found.items, "next_cursor": found.next_cursor, "status": status}


def _golden(call: Call) -> golden.Golden | None:
    try:
        return golden.golden(call)
    except NotFound:
        return None


def _queries(call: Call, found: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a page of the questions, of a tag where one is asked for; `after` is the id of the last one before."""
    given = call.request.query_params
    tag, after = given.get("tag"), given.get("after")
    rows = [one for one in found if tag is None or tag in (one["tags"] or [UNTAGGED])]
    start = next((n + 1 for n, one in enumerate(rows) if one["id"] == after), 0)
    shown = rows[start : start + PAGE]
    return {"rows": shown, "tag": tag, "after": shown[-1]["id"] if len(rows) > start + PAGE else None}


def _coverage(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what is labelled of each tag, the one with most questions first."""
    tags: dict[str, Counter[str]] = defaultdict(Counter)
    for one in found:
        for tag in one["tags"] or [UNTAGGED]:
            counts = tags[tag]
            counts["questions"] += 1
            counts[one["split"] or "none"] += 1
            counts["answered"] += bool(one["relevant"])
            counts["misled"] += bool(one["distractors"])
            counts["judged"] += one["irrelevant"] is not None
    ordered = sorted(tags.items(), key=lambda item: (-item[1]["questions"], item[0]))
    return [{"tag": tag, **counts} for tag, counts in ordered]
