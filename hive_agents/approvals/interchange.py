"""Requests and decisions in the fields of LangChain's human-in-the-loop interrupts.

Two generations are in use. `current` is one object with lists: `action_requests` (name, args, description) and
`review_configs` (action_name, allowed_decisions, args_schema), answered by `decisions`. `legacy` is a list of
HumanInterrupt: `action_request` (action, args), `config` (allow_accept, …), `description`, answered by a list
of HumanResponse.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

from hive_agents.approvals.patch import json_patch
from hive_agents.approvals.request import ApprovalRequest, Filing, Verb
from hive_agents.base import HiveError

Names = Literal["current", "legacy"]
_FLAGS: Mapping[Verb, str] = {
    "approve": "allow_accept",
    "edit": "allow_edit",
    "respond": "allow_respond",
    "reject": "allow_ignore",
}
_LEGACY_TYPES: Mapping[Verb, str] = {"approve": "accept", "edit": "edit", "respond": "response", "reject": "ignore"}


def exported(requests: Sequence[Filing], names: Names = "current") -> Any:
    """Return the interrupt value that asks for all of `requests`; whatever isn't a tool call shows its kind as the
    action."""
    if names == "legacy":
        return [
            {
                "action_request": {"action": _action(one), "args": one.context.get("args", {})},
                "config": {flag: verb in one.allowed_decisions for verb, flag in _FLAGS.items()},
                "description": one.title,
            }
            for one in requests
        ]
    return {
        "action_requests": [
            {"name": _action(one), "args": one.context.get("args", {}), "description": one.title} for one in requests
        ],
        "review_configs": [
            {"action_name": _action(one), "allowed_decisions": list(one.allowed_decisions)}
            | ({"args_schema": one.args_schema} if one.args_schema is not None else {})
            for one in requests
        ],
    }


def imported(value: Any, *, requester: str, run_id: str | None = None, thread_id: str | None = None) -> list[Filing]:
    """Filings for an interrupt value of either generation, each with a key of its own within the run.

    An edit needs a schema: without one the arguments may change within their types.
    Raises: HIVE-104 for a value that is neither.
    """
    try:
        asked = _current(value) if isinstance(value, dict) and "action_requests" in value else _legacy(value)
        return [
            Filing(
                kind="tool_call",
                title=description or name,
                requester=requester,
                context={"tool": name, "args": args},
                allowed_decisions=allowed,
                args_schema=(schema or _shape(args)) if schema or "edit" in allowed else None,
                idempotency_key=f"{run_id}:{number}:{name}" if run_id else None,
                run_id=run_id,
                thread_id=thread_id,
            )
            for number, (name, args, description, allowed, schema) in enumerate(asked)
        ]
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        fix = "give action_requests with review_configs, or a list of action_request, config and description"
        raise HiveError.of("HIVE-104", f"this is no HumanInterrupt: {error!r}", fix=fix) from None


def exported_decision(request: ApprovalRequest, names: Names = "current") -> dict[str, Any]:
    """Return the value to resume the paused run with; an expired or superseded request is a rejection."""
    last = request.decisions[-1] if request.decisions else None
    verbs: Mapping[str, Verb] = {"approved": "approve", "edited": "edit", "responded": "respond"}
    verb = verbs.get(request.status, "reject")
    text = (last.message or last.reason if last else None) or request.status
    action, args = _action(request), request.context.get("args", {})
    if names == "legacy":
        legacy = {"edit": {"action": action, "args": args}, "respond": text}
        return {"type": _LEGACY_TYPES[verb], "args": legacy.get(verb)}
    if verb == "edit":
        return {"type": "edit", "edited_action": {"name": action, "args": args}}
    return {"type": verb} | ({"message": text} if verb in ("reject", "respond") else {})


def imported_decision(request: ApprovalRequest, value: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments for `ApprovalStore.decide`: verb, and message or patch.

    Raises: HIVE-104 for an unknown answer, or an edit that would call another tool.
    """
    legacy = {name: verb for verb, name in _LEGACY_TYPES.items()} | {"approve": "approve"}
    kind = str(value.get("type"))
    verb = cast("Verb | None", legacy.get(kind, kind if kind in _FLAGS else None))
    args = value.get("args")
    if verb == "respond":
        return {"verb": verb, "message": value.get("message", args)}
    if verb == "reject":
        return {"verb": verb, "message": value.get("message")}
    if verb == "edit":
        edited = value.get("edited_action", args)
        if isinstance(edited, Mapping) and edited.get("name", edited.get("action")) == _action(request):
            return {"verb": verb, "patch": json_patch(request.context.get("args", {}), edited.get("args"))}
        raise HiveError.of("HIVE-104", "an edit must keep the tool that was asked about", fix="reject it instead")
    if verb == "approve":
        return {"verb": verb}
    raise HiveError.of("HIVE-104", f'unknown decision "{kind}"', fix=f"use one of {', '.join(_FLAGS)}")


Asked = tuple[str, dict[str, Any], str, list[Verb], dict[str, Any] | None]


def _current(value: Mapping[str, Any]) -> list[Asked]:
    configs = {config["action_name"]: config for config in value["review_configs"]}
    return [
        (
            one["name"],
            one["args"] if "args" in one else one["arguments"],
            one.get("description") or "",
            list(configs[one["name"]]["allowed_decisions"]),
            configs[one["name"]].get("args_schema"),
        )
        for one in value["action_requests"]
    ]


def _legacy(value: Any) -> list[Asked]:
    entries = [value] if isinstance(value, dict) else value
    return [
        (
            one["action_request"]["action"],
            one["action_request"]["args"],
            one.get("description") or "",
            [verb for verb, flag in _FLAGS.items() if one["config"].get(flag) is True],
            None,
        )
        for one in entries
    ]


def _action(request: Filing) -> str:
    return str(request.context.get("tool", request.kind))


def _shape(args: Mapping[str, Any]) -> dict[str, Any]:
    names = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
    properties = {name: {"type": names.get(type(value), "null")} for name, value in args.items()}
    return {"type": "object", "properties": properties, "required": sorted(args), "additionalProperties": False}
