"""Requests of a run to people, and their answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from hive_agents.agents.call_bounds import CallBounds
from hive_agents.agents.node_work import NodeWork
from hive_agents.agents.tool import SideEffect
from hive_agents.approvals import ApprovalRequest, Filing


class Pending(Exception):
    """A step has to wait until people have answered these requests."""

    def __init__(self, requests: list[str]) -> None:
        super().__init__(", ".join(requests))
        self.requests = requests


def tool_call(
    work: NodeWork,
    key: str,
    name: str,
    arguments: Mapping[str, Any],
    parameters: Mapping[str, Any],
    effect: SideEffect,
    bounds: CallBounds | None = None,
) -> Filing:
    """Return the request to call a tool; an edit of its arguments has to fit the tool's `parameters` and `bounds`."""
    policy = [rule.model_dump() for rule in work.agent.tool_policy]
    context = {"agent": work.agent.id, "node": work.node.id, "tool": name, "args": dict(arguments), "policy": policy}
    constraints = bounds.violated(name, arguments) if bounds is not None else []
    if constraints:
        context["constraints"] = constraints
    if bounds is not None:
        context["hard_constraints"] = bounds.model_dump(mode="json")
    fields: dict[str, Any] = _asked(work, key) | {
        "kind": "tool_call",
        "title": f"{work.agent.id} wants to call {name}",
        "context": context,
        "risk": "high" if constraints else "low" if effect == "read" else "medium",
    }
    try:
        return Filing(**fields, allowed_decisions=["approve", "edit", "reject"], args_schema=dict(parameters))
    except ValidationError:  # an edit can't be checked by this schema
        return Filing(**fields, allowed_decisions=["approve", "reject"])


def broken_off(work: NodeWork, key: str, name: str, arguments: Mapping[str, Any]) -> Filing:
    """Return the request to repeat a call that may have been made before the process died."""
    text = (
        f"{name} was being called when its process died or fell silent: it may have happened, and may yet where that"
        " process is merely stopped. Look, then respond with what came of it where it did, approve to call it again, or"
        " reject to go on without it."
    )
    context = {"agent": work.agent.id, "node": work.node.id, "tool": name, "args": dict(arguments), "question": text}
    return Filing(
        kind="question",
        title=f"call {name} again? It may have happened",
        context=context,
        allowed_decisions=["respond", "approve", "reject"],
        risk="high",
        **_asked(work, key),
    )


def question(work: NodeWork, key: str, text: str, options: list[str]) -> Filing:
    context = {"agent": work.agent.id, "node": work.node.id, "question": text, "options": options}
    return Filing(
        kind="question",
        title=text[:200] or "a question",
        context=context,
        allowed_decisions=["respond", "reject"],
        risk="low",
        **_asked(work, key),
    )


def permission(work: NodeWork) -> Filing:
    """Return the request to begin a node; a response is permission with advice."""
    context = {"agent": work.agent.id, "node": work.node.id, "visit": work.visit}
    return Filing(
        kind="question",
        title=f"may {work.agent.id} begin with {work.node.id}?",
        context=context,
        allowed_decisions=["approve", "reject", "respond"],
        **_asked(work, f"{work.key}/begin"),
    )


def words_of(request: ApprovalRequest) -> str:
    """Return the message or reason of the last decision, or why there is none."""
    if not request.decisions:
        return request.note or f"the request is {request.status}"
    last = request.decisions[-1]
    return last.message or last.reason or f"{last.by} {request.status} it"


def _asked(work: NodeWork, key: str) -> dict[str, Any]:
    """Return who asks, for whom, and the key by which a repeated step files the same request."""
    return {
        "requester": f"agent:{work.agent.id}",
        **work.session.asking,
        "idempotency_key": f"run:{work.session.run_id}:{key}",
    }
