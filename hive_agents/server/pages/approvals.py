"""Approvals: the queue, and each request with all that it takes to decide it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from hive_agents.approvals import WITHHELD, ApprovalRequest, handed_to, hindrance
from hive_agents.errors import HiveError
from hive_agents.server import approvals, runs
from hive_agents.server.api import checked
from hive_agents.server.auth import APPROVER, REVIEWER, Call
from hive_agents.server.pages.view import Pages

pages = Pages()
QUEUE = 25
"""Requests on one page of the queue; each is shown whole, so that a batch is what was looked at."""

LINE = 80
"""Characters of a value that is shown on one line."""

_SHOWN_APART = frozenset(
    "args tool question options policy certificate changes result reasoning escalation_reason diagnosis".split()
)
_WHY = ("escalation_reason", "reasoning", "question", "reason", "diagnosis")


@pages.get("/approvals", REVIEWER, "approvals.html")
def queue(call: Call) -> dict[str, Any]:
    """What waits by due time and risk, or what was decided."""
    status = call.request.query_params.get("status", "pending")
    asked: dict[str, Any] = {"limit": QUEUE, "cursor": call.request.query_params.get("cursor")}
    if status == "pending":
        asked |= {"status": "pending", "order": "due"}
    found, cursor = approvals.read_page(call, checked(approvals.RequestsPage, asked))
    may_decide = bool(APPROVER & call.principal.roles)
    rows = []
    for one in found:
        row = one.to_json()
        free = may_decide and hindrance(one, call.by) is None
        rows.append(row | {"call": _call(row), "choice": free and _is_whole(row), "why": _why(row)})
    return {
        "rows": rows,
        "next_cursor": cursor,
        "status": status,
        "waiting": approvals.count_waiting(call),
        "may_decide": may_decide,
    }


@pages.get("/approvals/{request_id}", REVIEWER, "approval.html")
def request(call: Call, request_id: str) -> dict[str, Any]:
    """One request: asked by whom, why, with which arguments, and what its answers do."""
    asked = approvals.readable(call, request_id)
    found = asked.to_json()
    context = found["context"]
    may_decide, withheld = bool(APPROVER & call.principal.roles), found["title"] == WITHHELD
    hindered, figures = hindrance(asked, call.by), _figures(context)
    apart = _SHOWN_APART | ({"evaluation"} if figures is not None else set())
    return {
        "one": found,
        "answers": _answers(asked, hindered) if may_decide and not withheld else [],
        "call_args": _call(found),
        "why": [(name, context[name]) for name in _WHY if context.get(name)],
        "rest": {name: value for name, value in context.items() if name not in apart and name not in _WHY},
        "figures": figures,
        "fields": _fields(found),
        "trail": approvals.audit_trail(call, request_id),
        "run": _run(call, found["run_id"]),
        "may_decide": may_decide,
        "hindrance": hindered,
        "handed_to": handed_to(asked, call.by),
        "withheld": withheld,
    }


def _answers(asked: ApprovalRequest, hindered: str | None) -> list[str]:
    """Return the answers that are offered: to whoever agreed before only to take that back."""
    if asked.status != "pending" or hindered not in (None, "agreed"):
        return []
    return [verb for verb in asked.allowed_decisions if hindered is None or verb == "reject"]


def _why(found: Mapping[str, Any]) -> Any:
    """Return what says most about why a person is asked; None where nothing does."""
    given = (found["context"].get(name) for name in ("question", "reasoning", "reason"))
    return next((one for one in given if one), None)


def _figures(context: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what the gate measured of a config and of the one that serves; None where nothing such was measured."""
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
        "nudcg": (before.get("nudcg"), after["nudcg"], gain.get("nudcg")),
        "ci95": gain.get("ci95"),
        "distractors": (before.get("distractors"), after.get("distractors")),
        "proof": (gain.get("p_value"), measured.get("alpha")),
    }


def _is_whole(found: Mapping[str, Any]) -> bool:
    """Return whether a row shows all that approving it does: a diff and signals are read on their own page."""
    plain = (
        "approve" in found["allowed_decisions"]
        and found["kind"] in ("tool_call", "question")
        and not found["diff"]
        and not found["signals"]
    )
    return plain and found["title"] != WITHHELD


def _call(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the arguments of a call, each as a person reads it."""
    given = found["context"].get("args")
    return [(str(name), _text(value)) for name, value in given.items()] if isinstance(given, dict) else []


def _text(value: Any) -> str:
    """Return a text as it is; another value as JSON, on one line where it fits there."""
    if isinstance(value, str):
        return value
    line = json.dumps(value, ensure_ascii=False)
    return line if len(line) <= LINE else json.dumps(value, ensure_ascii=False, indent=1)


def _fields(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the form of an edit: a field for each argument that the schema names or the call has.

    What has no simple type is edited as JSON.
    """
    schema, given = found["args_schema"] or {}, found["context"].get("args") or {}
    if "edit" not in found["allowed_decisions"] or not isinstance(given, dict):
        return []
    properties: dict[str, Any] = schema.get("properties") or {}
    return [_field(name, properties.get(name) or {}, given, schema) for name in {**properties, **given}]


def _field(
    name: str, described: Mapping[str, Any], given: Mapping[str, Any], schema: Mapping[str, Any]
) -> dict[str, Any]:
    kind, choices, value = described.get("type"), described.get("enum"), given.get(name)
    if isinstance(choices, list) and all(isinstance(one, str) for one in choices):
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
        "value": "" if name not in given else value if widget in ("text", "choice") else json.dumps(value),
        "was": json.dumps(value, ensure_ascii=False) if name in given else None,
        "required": name in (schema.get("required") or ()),
        "about": described.get("description"),
    }


def _run(call: Call, run_id: str | None) -> Any:
    """Return the run that asks, for those who may see it."""
    if run_id is None:
        return None
    try:
        return runs.show_run(call, run_id).run
    except HiveError:
        return None
