"""The event loop's built-in tools: outputs, files, questions, delegation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from hive_agents import models
from hive_agents.agents.node_work import NodeWork
from hive_agents.agents.tools import strictest
from hive_agents.agents.verify import FILE_TOOLS
from hive_agents.approvals import ToolDecision, ToolRule
from hive_agents.base import HiveError, encodable, schemas, sha256
from hive_agents.memory import ToolResult, replace_once

DELEGATE, ASK, REPORT, SET = "delegate_to_sub_agent", "ask_user", "report_to_parent", "set_output"
WRITING = ("save_data", "edit_data")
LIST = "list_data_files"
_TEXT: dict[str, Any] = {"type": "string"}
_FLAG = {"type": "boolean"}
_COUNT = {"type": "integer", "minimum": 0}


def synthetic_tools(work: NodeWork) -> list[models.Tool]:
    """Return the tools of this node besides those of the registry."""
    node = work.node
    offered: Iterable[models.Tool] = _offered(tuple(node.output_keys), tuple(node.sub_agents), work.delegated)
    if (schema := work.output_schema) is not None:
        typed = schema | {"properties": _typed(work)}
        typed["required"] = [key for key in schema.get("required", ()) if key in node.output_keys]
        setting = models.Tool(name=SET, description="Set the outputs.", parameters=typed)
        offered = [setting if tool.name == SET else tool for tool in offered]
    if work.in_code:  # a function reports to nobody, and has no files before a result is too long
        useful = {SET, *(FILE_TOOLS if work.needs_files else ())}
        offered = [tool for tool in offered if tool.name in useful]
    return [tool for tool in offered if tool.name not in FILE_TOOLS or decision(work, tool.name) != "deny"]


@lru_cache(maxsize=256)
def _offered(output_keys: tuple[str, ...], sub_agents: tuple[str, ...], delegated: bool) -> tuple[models.Tool, ...]:
    """Return the tools before any policy, cached: each turn needs them twice."""
    tools = [_tool(name, *_FILES[name]) for name in FILE_TOOLS]
    if output_keys:
        key = {"type": "string", "enum": list(output_keys)}
        description = "Set a declared output of this phase to a JSON value; set again, the last value holds."
        tools.append(_tool(SET, description, {"key": key, "value": {}}, ["key", "value"]))
    if delegated:
        fields = {"message": _TEXT, "data": {}, "mark_complete": _FLAG, "wait_for_response": _FLAG}
        description = "Report your progress. mark_complete ends the task; wait_for_response asks a person."
        return (*tools, _tool(REPORT, description, fields, ["message"]))
    options = {"type": "array", "items": _TEXT}
    tools.append(
        _tool(ASK, "Ask the person something; the run waits.", {"question": _TEXT, "options": options}, ["question"])
    )
    if sub_agents:
        name = {"type": "string", "enum": list(sub_agents)}
        fields = {"agent": name, "task": _TEXT, "inputs": {"type": "object"}}
        description = "Let a sub-agent do a task; several in one turn work together. Returns its outputs as JSON."
        tools.append(_tool(DELEGATE, description, fields, ["agent", "task"]))
    return tuple(tools)


def wrong_arguments(work: NodeWork, name: str, arguments: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with a call of a synthetic tool; [] for a valid one."""
    schema = next((tool.parameters for tool in synthetic_tools(work) if tool.name == name), None)
    if schema is None:
        return [f"there is no {name} here"]
    if name == SET:
        values = given_outputs(work, arguments)
        if values is None:  # the accumulator says which keys there are
            schema = schema | {"properties": {"key": _TEXT, "value": {}}}
            return schemas.faults(dict(arguments), schema, closed=True)
        return unfit(work, values)
    return schemas.faults(dict(arguments), schema, closed=True)


def given_outputs(work: NodeWork, arguments: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the outputs that a call of set_output sets, as {"key": …, "value": …} or each by its own name; None where
    it is neither."""
    pair = arguments.keys() == {"key", "value"} and "key" not in work.node.output_keys
    if pair and isinstance(arguments["key"], str):
        return {arguments["key"]: arguments["value"]}
    return dict(arguments) if work.output_schema is not None else None


def unfit(work: NodeWork, values: Mapping[str, Any]) -> list[str]:
    """Return where outputs don't fit their schema; nullable ones may be null."""
    node, schema = work.node, work.output_schema
    if schema is None:
        return []
    given = {key: value for key, value in values.items() if value is not None or key not in node.nullable_output_keys}
    known = {key: value for key, value in given.items() if key in node.output_keys}
    return schemas.faults(known, schema | {"properties": _typed(work), "required": []})


def _typed(work: NodeWork) -> dict[str, Any]:
    """Return the schema of each output; one that the schema doesn't have may be anything."""
    properties = (work.output_schema or {}).get("properties") or {}
    return {key: properties.get(key, {}) for key in work.node.output_keys}


def set_outputs(work: NodeWork, values: Mapping[str, Any]) -> ToolResult:
    for key, value in values.items():
        work.outputs.set(key, value)
    missing = work.outputs.missing(nullable=work.node.nullable_output_keys)
    # A null is no value, unless the node declares the key as nullable.
    done = [f"{key} can't be null." if key in missing else f"{key} is set." for key in values]
    return ToolResult(" ".join(done) + (f" Not yet set: {', '.join(missing)}." if missing else ""))


def file_tool(work: NodeWork, name: str, arguments: Mapping[str, Any]) -> ToolResult:
    """Return the result of any file tool but `edit_data`. Raises: HiveError for what the files refuse."""
    files = work.files
    if name == "list_data_files":
        listed = [f"{file.name} ({file.size:,} bytes)" for file in files.list()]
        return ToolResult("\n".join(listed) or "There are no data files.")
    filename = arguments["filename"]
    if name == "load_data":
        page = files.load(filename, arguments.get("offset", 0), arguments.get("limit"))
        shown = f"{page.offset + 1} to {page.offset + page.lines} of {page.total_lines}"
        more = f"\n[Lines {shown}; offset={page.next_offset} goes on.]"
        return ToolResult(page.text + (more if page.next_offset is not None else ""))
    files.save(filename, arguments["text"])
    return ToolResult(f"Saved to {filename}.")


def planned_edit(work: NodeWork, filename: str, old: str, new: str) -> dict[str, str]:
    """Return digests of the file {before, after} an edit. Raises: HiveError where there is nothing to edit."""
    text = work.files.read(filename)
    return {"before": sha256(text), "after": sha256(encodable(replace_once(text, old, new, filename)))}


def edit(work: NodeWork, filename: str, old: str, new: str, *, plan: Mapping[str, str], again: bool) -> ToolResult:
    """Carry out a planned edit once: `again` where a process that died may have done so.

    Raises: HiveError for what the files refuse, and where the file is as neither before nor after the edit.
    """
    now = sha256(work.files.read(filename)) if again else plan["before"]
    if now == plan["before"]:
        work.files.edit(filename, old, new)
    elif now != plan["after"]:
        why = f"{filename} was changed by others while this edit was interrupted"
        raise HiveError.of("HIVE-409", why, fix="read it, and edit it again where the edit is missing")
    return ToolResult(f"{filename} is changed.")


def decision(
    work: NodeWork, name: str, arguments: Mapping[str, Any] | None = None, others: Iterable[Sequence[ToolRule]] = ()
) -> ToolDecision:
    """Return the decision on a file tool: allow, unless a rule of the agent, of the delegating agent or of `others`
    matches.

    For tools that only read, rules for "*" don't count.
    """
    policies = [work.agent.tool_policy, work.session.agent.tool_policy, *others]
    if name not in WRITING:  # a model needs them to read its long results: "*" is meant for the registry's tools
        policies = [[rule for rule in policy if rule.match != "*"] for policy in policies]
    return strictest(policies, name, "allow", arguments)


def file_parameters(name: str) -> dict[str, Any]:
    """Return the schema of a file tool's arguments."""
    return _tool(name, *_FILES[name]).parameters


def _tool(name: str, description: str, fields: Mapping[str, Any], required: Iterable[str]) -> models.Tool:
    schema = {"type": "object", "properties": dict(fields), "required": list(required)}
    return models.Tool(name=name, description=description, parameters=schema)


_FILES: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "load_data": (
        "Read a data file, or `limit` lines of it after the first `offset` ones.",
        {"filename": _TEXT, "offset": _COUNT, "limit": _COUNT},
        ["filename"],
    ),
    "save_data": ("Write a data file, or replace it.", {"filename": _TEXT, "text": _TEXT}, ["filename", "text"]),
    "edit_data": (
        "Replace the one place of a data file where `old` stands.",
        {"filename": _TEXT, "old": _TEXT, "new": _TEXT},
        ["filename", "old", "new"],
    ),
    "list_data_files": ("The names and sizes of the data files.", {}, []),
}
