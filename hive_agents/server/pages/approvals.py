"""The inbox: the requests to people, in groups, and the page of each request."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from starlette.responses import Response

from hive_agents.approvals import WITHHELD, ApprovalRequest, handed_to, hindrance
from hive_agents.base import HiveError, hides, spelled_json
from hive_agents.base.files import jsontext, load_value
from hive_agents.server import approvals, copilot, runs
from hive_agents.server.api import checked
from hive_agents.server.auth import APPROVER, REVIEWER, Call
from hive_agents.server.pages.view import Pages, seen_other

pages = Pages()
QUEUE = 25
"""Requests on one page of the inbox."""

LINE = 80
"""The most characters of a value that is shown on one line."""

LISTED = 2000
"""The most characters of a request that the list shows; a longer one is cut there, and in no batch."""

CUT = 120
"""Characters of each value of a request that is cut."""

GROUP = 3
"""Requests of one kind, of one requester, that stand in a group."""

DECISIONS = ("passed", "blocked", "inconclusive", "first")
"""What the gate may say of a config."""

AHEAD = 5
"""Requests that are looked through for the next one that a person may decide."""

_SHOWN_APART = frozenset(
    "args tool question options policy certificate changes result reasoning escalation_reason".split()
)
_WHY = ("escalation_reason", "reasoning", "question", "reason")


@pages.get("/approvals", REVIEWER, "approvals.html")
def inbox(call: Call) -> dict[str, Any]:
    """Pending requests by due time and risk, in groups, or decided ones."""
    status = call.request.query_params.get("status", "pending")
    query: dict[str, Any] = {"limit": QUEUE, "cursor": call.request.query_params.get("cursor")}
    if status == "pending":
        query |= {"status": "pending", "order": "due"}
    requests, cursor = approvals.read_page(call, checked(approvals.RequestsPage, query))
    rows = [_row(call, one) for one in requests]
    return {
        "groups": _grouped(rows) if status == "pending" else [[one] for one in rows],
        "next_cursor": cursor,
        "status": status,
        "waiting": approvals.count_waiting(call),
        "opinions": len(copilot.feedback_to_review(call)),
        "may_decide": bool(APPROVER & call.principal.roles),
        "done": call.request.query_params.get("done") == "last",
    }


def _row(call: Call, request: ApprovalRequest) -> dict[str, Any]:
    """Return a request as the list shows it; `alone` names the text that says why no batch may hold it."""
    row = approvals.whole(call, request)
    args, why = _call(row), _text(_why(row) or "")
    is_long = len(row["title"]) + len(why) + sum(len(name) + len(value) for name, value in args) > LISTED
    if is_long:
        args, why = [(name, _shortened(value)) for name, value in args[:GROUP]], _shortened(why)
    return row | {
        "call": args,
        "why": why,
        "brief": _brief(row),
        "mine": _may_answer(call, request),
        "handed_to": (handed_to(request, call.by) or "").removeprefix("user:"),
        "alone": _alone(row, hindrance(request, call.by, call.principal.hands)) or ("alone.long" if is_long else None),
    }


def _alone(row: Mapping[str, Any], hindered: str | None) -> str | None:
    """Return the name of the text that says why a request is decided by itself; None for one that a batch may hold."""
    if row["title"] == WITHHELD:
        return "withheld"
    if hindered is not None:
        return f"hindrance.{hindered}"
    if "changed" in row:
        return "alone.changed"
    if row["kind"] == "question" and "tool" in row["context"]:
        return "alone.unknown"
    if "approve" not in row["allowed_decisions"]:
        return "alone.words"
    return "alone.more" if row["kind"] not in ("tool_call", "question") or row["diff"] or row["signals"] else None


def _grouped(rows: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Return the rows in order, those of a group together where its first one stands."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(_likeness(row), []).append(row)
    found = [(row, groups[_likeness(row)]) for row in rows]
    return [group if len(group) >= GROUP else [row] for row, group in found if len(group) < GROUP or group[0] is row]


def _likeness(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["kind"], _text(row["context"].get("tool") or row["title"]), row["requester"]


def _brief(row: Mapping[str, Any]) -> str:
    """Return the short texts among a call's arguments, by which it is told from others of its group; "" without any."""
    args = row["context"].get("args")
    values = args.values() if isinstance(args, dict) else ()
    texts = [one for one in values if isinstance(one, str) and 0 < len(one) <= LINE and "\n" not in one]
    return " · ".join(texts[:GROUP])


def _shortened(text: str) -> str:
    return text if len(text) <= CUT else f"{text[:CUT]}…"


def _may_answer(call: Call, request: ApprovalRequest) -> bool:
    is_approver, is_shown = bool(APPROVER & call.principal.roles), request.title != WITHHELD
    return is_approver and is_shown and hindrance(request, call.by, call.principal.hands) is None


@pages.get("/approvals/{request_id}", REVIEWER, "approval.html")
def request(call: Call, request_id: str) -> dict[str, Any]:
    """One request: its requester, reasons, arguments and possible answers."""
    shown = approvals.readable(call, request_id)
    row = approvals.whole(call, shown)
    context = row["context"]
    may_decide, withheld = bool(APPROVER & call.principal.roles), row["title"] == WITHHELD
    hindered, figures = hindrance(shown, call.by, call.principal.hands), _figures(context)
    certificate, changes = context.get("certificate"), context.get("changes")
    gate = certificate if isinstance(certificate, dict) else {}
    apart = _SHOWN_APART | ({"evaluation"} if figures is not None else set())
    return {
        "one": row,
        "answers": _answers(shown, hindered) if may_decide and not withheld else [],
        "call_args": _call(row),
        "why": [(name, context[name]) for name in _WHY if context.get(name)],
        "rest": {name: value for name, value in context.items() if name not in apart and name not in _WHY},
        "changes": changes if isinstance(changes, list) else [],
        "says": said if (said := gate.get("decision")) in DECISIONS else None,
        "reasons": gate.get("reasons") or [],
        "figures": figures,
        "fields": _fields(row),
        "trail": approvals.audit_trail(call, request_id),
        "run": _run(call, row["run_id"]),
        "may_decide": may_decide,
        "hindrance": hindered,
        "handed_to": handed_to(shown, call.by),
        "withheld": withheld,
        "next_id": _next(call, request_id),
        "came": call.request.query_params.get("done") == "next",
    }


@pages.post("/approvals/{request_id}", APPROVER, "approval.html")
def answer(call: Call, request_id: str) -> Response:
    """Decide a request by a form alone, as it was shown, and go on to the next one."""
    row = approvals.whole(call, approvals.readable(call, request_id))
    following = _next(call, request_id)
    sent: dict[str, Any] = {name: call.sent(name) or None for name in ("verb", "reason", "message", "content_hash")}
    if sent["verb"] == "edit":
        sent["patch"] = _patch(call, _fields(row))
    decided = load_value(approvals.Decide, sent | {"for_run": bool(call.sent("for_run"))}, "body")
    approvals.decide_request(call, request_id, decided)
    return seen_other(f"/approvals/{quote(following, safe='')}?done=next" if following else "/approvals?done=last")


def _patch(call: Call, fields: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the changed arguments of a form as RFC 6902 operations; an empty field of an absent one leaves it absent.

    Raises: HIVE-101 for what is no JSON, HIVE-409 where nothing was changed.
    """
    steps: list[dict[str, Any]] = []
    sent: dict[str, list[str]] = call.request.state.sent
    for field in fields:
        name, was, is_text = field["name"], field["was"], field["widget"] in ("text", "choice")
        if f"arg.{name}" not in sent:
            continue
        text = sent[f"arg.{name}"][0].replace("\r\n", "\n")  # as browsers end lines
        path = "/" + name.replace("~", "~0").replace("/", "~1")
        if not text and (was is None or field["widget"] != "text"):
            steps += [{"op": "remove", "path": path}] if was is not None else []
            continue
        value, before = text if is_text else jsontext.parse(text, name), None if was is None else json.loads(was)
        if was is None or (before.replace("\r\n", "\n") if isinstance(before, str) else before) != value:
            steps.append({"op": "add" if was is None else "replace", "path": path, "value": value})
    if not steps:
        raise HiveError.of("HIVE-409", "no argument was changed", fix="change one, or approve it as it is", exit_code=2)
    return steps


def _next(call: Call, request_id: str) -> str | None:
    """Return the id of the request that comes after one in the inbox; for an approver one that they may decide."""
    query = {"status": "pending", "order": "due", "limit": AHEAD, "cursor": request_id}
    found, _ = approvals.read_page(call, checked(approvals.RequestsPage, query))
    decides = bool(APPROVER & call.principal.roles)
    return next((one.id for one in found if not decides or _may_answer(call, one)), None)


def _answers(request: ApprovalRequest, hindered: str | None) -> list[str]:
    """Return the answers that are offered; a person who has agreed already may only reject."""
    if request.status != "pending" or hindered not in (None, "agreed"):
        return []
    return [verb for verb in request.allowed_decisions if hindered is None or verb == "reject"]


def _why(row: Mapping[str, Any]) -> Any:
    """Return the most specific reason of a request; None where it has none."""
    reasons = (row["context"].get(name) for name in ("question", "reasoning", "reason"))
    return next((one for one in reasons if one), None)


def _figures(context: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the gate's figures of a config and of the active one; None for a request without such."""
    measured = context.get("evaluation")
    if not isinstance(measured, dict):
        return None
    after, before, gain = (measured.get(name) for name in ("candidate", "active", "difference"))
    if not isinstance(after, dict) or not isinstance(after.get("nudcg"), int | float):
        return None
    before, gain = before if isinstance(before, dict) else {}, gain if isinstance(gain, dict) else {}
    return {
        "n": measured.get("n"),
        "held_out": measured.get("split") == "holdout",
        "before": before.get("nudcg"),
        "after": after["nudcg"],
        "difference": gain.get("nudcg"),
        "distractors_before": before.get("distractors"),
        "distractors_after": after.get("distractors"),
        "readers": measured.get("readers"),
        **{name: gain.get(name) for name in ("ci95", "p_value", "mde")},
        "alpha": measured.get("alpha"),
    }


def _call(row: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the arguments of a call as (name, text)."""
    args = row["context"].get("args")
    return [(str(name), _text(value)) for name, value in args.items()] if isinstance(args, dict) else []


def _text(value: Any) -> str:
    """Return a text as it is; another value as JSON, on one line where it fits there."""
    if isinstance(value, str):
        return value
    line = spelled_json(value)
    return line if len(line) <= LINE else spelled_json(value, indent=1)


def _fields(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the fields of the edit form, one for each argument that the schema names or the call has.

    Arguments without a simple type, and texts with signs that can't be seen, are edited as JSON. One with such a name
    isn't edited here, since the path of an edit would name another.
    """
    schema, args = row["args_schema"] or {}, row["context"].get("args") or {}
    if "edit" not in row["allowed_decisions"] or not isinstance(args, dict):
        return []
    properties: dict[str, Any] = schema.get("properties") or {}
    names = [name for name in {**properties, **args} if not hides(name)]
    return [_field(name, properties.get(name) or {}, args, schema) for name in names]


def _field(
    name: str, described: Mapping[str, Any], args: Mapping[str, Any], schema: Mapping[str, Any]
) -> dict[str, Any]:
    kind, choices, value = described.get("type"), described.get("enum"), args.get(name)
    if hides([value, choices]):
        widget = "json"
    elif isinstance(choices, list) and all(isinstance(one, str) for one in choices):
        widget = "choice"
    elif kind in ("integer", "number", "boolean"):
        widget = kind
    elif kind == "string" or (kind is None and isinstance(value, str)):
        widget = "text"
    else:
        widget = "json"
    return {
        "name": name,
        "widget": widget,
        "choices": choices,
        "value": "" if name not in args else value if widget in ("text", "choice") else spelled_json(value),
        "was": spelled_json(value) if name in args else None,
        "required": name in (schema.get("required") or ()),
        "about": described.get("description"),
    }


def _run(call: Call, run_id: str | None) -> Any:
    """Return the summary of a request's run; None where there is none, or the caller may not see it."""
    if run_id is None:
        return None
    try:
        return runs.show_run(call, run_id).run
    except HiveError:
        return None
