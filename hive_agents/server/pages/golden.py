"""The golden set: labelling questions, reviewing feedback, and the coverage of the labels."""

from __future__ import annotations

from collections import Counter, defaultdict
from contextlib import suppress
from typing import Any

from starlette.responses import Response

from hive_agents.base import HiveError, NotFound
from hive_agents.evaluation import load_golden
from hive_agents.gate import accept
from hive_agents.server import copilot, golden
from hive_agents.server.api import checked
from hive_agents.server.auth import ADMIN, OPERATOR, REVIEWER, Call
from hive_agents.server.pages.chat import passages_of
from hive_agents.server.pages.machine import is_owner, require_owner
from hive_agents.server.pages.settings import done_of
from hive_agents.server.pages.view import Pages, seen_other

pages = Pages()
PAGE = 50
KEYS = {"r": "relevant", "d": "distractor", "i": "irrelevant"}
UNTAGGED = ""


@pages.get("/golden", OPERATOR, "golden.html")
def overview(call: Call) -> dict[str, Any]:
    """The labelled questions, their coverage, and open questions."""
    labelled = _golden(call)
    queries = labelled.queries if labelled is not None else []
    return {
        "golden": labelled,
        "missing": golden.labels_left(call)[1],
        "coverage": _coverage(queries),
        "unsplit": 0 if labelled is None or labelled.holdout else sum(one["split"] is None for one in queries),
        "open": golden.open_to_label(call).questions,
        "read": _whole_hash(call) if labelled is not None and not labelled.accepted and is_owner(call) else None,
        "done": done_of(call),
        "pending": len(copilot.feedback_to_review(call)),
        **_queries(call, queries),
    }


@pages.post("/golden", ADMIN, "golden.html")
def stand_behind(call: Call) -> Response:
    """Accept the labels as they were shown, which somebody changed elsewhere; the workspace's owner may."""
    require_owner(call)
    whole = load_golden(call.workspace)
    if whole.hash != call.sent("read"):
        return seen_other("/golden?done=another")
    accept(call.workspace, whole, call.by, call.sent("reason"))
    return seen_other("/golden?done=trusted")


@pages.get("/golden/queries", OPERATOR, "golden_queries.html")
def queries(call: Call) -> dict[str, Any]:
    """A page of the labelled questions."""
    labelled = _golden(call)
    return _queries(call, labelled.queries if labelled is not None else [])


@pages.get("/golden/worth", OPERATOR, "golden_worth.html")
def worth(call: Call) -> dict[str, Any]:
    """How small a gain the labels can show."""
    return {"worth": golden.worth(call)}


@pages.get("/golden/label", OPERATOR, "golden_label.html")
def label(call: Call) -> dict[str, Any]:
    """One question, and the documents to judge for it."""
    query = " ".join(call.request.query_params.get("query", "").split())
    unlabelled = golden.open_to_label(call).questions
    shown = golden.label_pool(call, golden.Pool(query=query[:1000])) if query else None
    labelled, missing = golden.labels_left(call)
    return {
        "pool": shown,
        "keys": KEYS,
        "labelled": labelled,
        "missing": missing,
        "waiting": len(unlabelled),
        "next": next((one for one in unlabelled if one != query), None),
    }


@pages.get("/golden/feedback", REVIEWER, "golden_feedback.html")
def feedback(call: Call) -> dict[str, Any]:
    """Readers' feedback, for another person to accept or reject."""
    parameters = call.request.query_params
    status = parameters.get("status", "pending")
    query = checked(copilot.FeedbackPage, {"status": status or None, "cursor": parameters.get("cursor"), "limit": PAGE})
    page = copilot.list_feedback(call, query)
    asked = [one.query for one in page.items if one.status == "pending" and one.doc_id]
    measuring: dict[str, str | None] = {}
    with suppress(HiveError):  # faults of the golden set are told where it is shown, or something is accepted
        measuring = golden.measuring(call, asked)
    labels = OPERATOR & call.principal.roles
    by_hand = [one for one, split in measuring.items() if labels and split != "holdout"]
    decides = copilot.feedback_to_review(call)
    shown = {"items": page.items, "next_cursor": page.next_cursor, "status": status, "decides": decides}
    wrong = [one.id for one in page.items if one.passage]
    results = {item_id: passages_of(one) for item_id, one in copilot.feedback_results(call, wrong).items()}
    return shown | {"measuring": measuring, "by_hand": by_hand, "results": results}


def _golden(call: Call) -> golden.Golden | None:
    try:
        return golden.golden(call)
    except NotFound:
        return None


def _queries(call: Call, labelled: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a page of the questions, of one `tag` on request, beginning after the id `after`."""
    parameters = call.request.query_params
    tag, after = parameters.get("tag"), parameters.get("after")
    rows = [one for one in labelled if tag is None or tag in (one["tags"] or [UNTAGGED])]
    start = next((n + 1 for n, one in enumerate(rows) if one["id"] == after), 0)
    shown = rows[start : start + PAGE]
    return {"rows": shown, "tag": tag, "after": shown[-1]["id"] if len(rows) > start + PAGE else None}


def _coverage(labelled: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the counts of each tag, the most frequent tag first."""
    tags: dict[str, Counter[str]] = defaultdict(Counter)
    for one in labelled:
        for tag in one["tags"] or [UNTAGGED]:
            counts = tags[tag]
            counts["questions"] += 1
            counts[one["split"] or "none"] += 1
            counts["answered"] += bool(one["relevant"])
            counts["misled"] += bool(one["distractors"])
            counts["judged"] += one["irrelevant"] is not None
    ordered = sorted(tags.items(), key=lambda item: (-item[1]["questions"], item[0]))
    return [{"tag": tag, **counts} for tag, counts in ordered]


def _whole_hash(call: Call) -> str | None:
    """Return the hash of all labels, None where they can't be read: then nobody stands behind them."""
    try:
        return load_golden(call.workspace).hash
    except HiveError:
        return None
