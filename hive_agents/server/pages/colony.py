"""The colony: its runs, tickets and triggers, and the page of each run."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from hive_agents.base import HiveError
from hive_agents.server import colony, runs
from hive_agents.server.api import checked
from hive_agents.server.auth import ANYBODY, OPERATOR, Call
from hive_agents.server.pages.view import Pages
from hive_agents.server.pages.waterfall import lanes

pages = Pages()
ROWS = 50
WORK, QUESTIONS = ("event_loop", "optimizer"), "worker"
LATEST = 200
"""Events and messages of a run that are shown, the latest, unless all are asked for."""
_ACTIVE = ("queued", "running", "waiting")
_WORDS = ("tool", "key", "action", "status", "title", "task", "message", "feedback", "measure", "config", "by")
"""Fields of an event's payload that its line shows."""
_OF_TICKETS = ("cause",)
"""The same for a ticket's events, whose type says whether it was opened or closed."""


@pages.get("/colony", ANYBODY, "colony.html")
def overview(call: Call) -> dict[str, Any]:
    """The runs that the caller may see; for operators the tickets, the queen, the triggers and the host, too.

    By default the runs of agents and the optimizer come first: questions are far more frequent.
    """
    parameters = call.request.query_params
    wanted = {name: parameters[name] for name in ("status", "graph", "cursor") if parameters.get(name)}
    graph = wanted.pop("graph", "work")
    query = checked(runs.RunsPage, {"limit": ROWS, **wanted} | ({} if graph in ("work", "all") else {"graph": graph}))
    context: dict[str, Any] = {
        "found": runs.runs_of(call, query, WORK if graph == "work" else query.graph),
        "questions": runs.runs_of(call, query, QUESTIONS) if graph == "work" and "cursor" not in wanted else None,
        "status": wanted.get("status", ""),
        "graph": graph,
        "operates": bool(OPERATOR & call.principal.roles),
    }
    if context["operates"]:
        context |= {
            "agents": colony.list_agents(call).agents,
            "queen": colony.overview(call),
            "triggers": colony.list_triggers(call),
            "roles": call.host.roles,
            "faults": asyncio.run(call.host.faults()),
        }
    return context


@pages.get("/colony/runs/{run_id}", ANYBODY, "colony_run.html")
def run(call: Call, run_id: str) -> dict[str, Any]:
    """One run: its state, its steps with what they took, events and messages."""
    shown = runs.show_run(call, run_id)
    whole = call.request.query_params.get("all") == "1"
    events = [_event_row(event) for event in runs.run_timeline(call, run_id).events]
    is_agent = shown.run.graph == "event_loop"
    messages = runs.run_messages(call, run_id).messages if is_agent else []
    steps = runs.run_steps(call, run_id).steps if is_agent else []
    since = 0 if whole else -LATEST
    return {
        "shown": shown,
        "events": events[since:],
        "lanes": lanes(steps[since:], messages),
        "ended": {event["node"] for event in events if event["type"] in ("node.completed", "node.failed")},
        "earlier": 0 if whole else max(0, max(len(events), len(messages), len(steps)) - LATEST),
        "said": messages[since:],
        "outputs": (shown.result or {}).get("outputs") or {},
        "active": shown.run.status in _ACTIVE,
    }


@pages.get("/colony/compare", ANYBODY, "colony_compare.html")
def compare(call: Call) -> dict[str, Any]:
    """Two runs side by side: what they took, node by node, and what they came to."""
    wanted = list(dict.fromkeys(call.request.query_params.getlist("run")))
    if len(wanted) != 2:
        raise HiveError.of("HIVE-409", "two runs are compared", fix="choose two in the list", exit_code=2)
    sides = [runs.show_run(call, run_id) for run_id in wanted]
    walks = [{one.node: one for one in lanes(runs.run_steps(call, run_id).steps, [])} for run_id in wanted]
    came = [(one.result or {}).get("outputs") or {} for one in sides]
    return {
        "sides": [one.run for one in sides],
        "nodes": [(name, *(walk.get(name) for walk in walks)) for name in dict.fromkeys([*walks[0], *walks[1]])],
        "outputs": [(name, *(side.get(name) for side in came)) for name in dict.fromkeys([*came[0], *came[1]])],
    }


def _event_row(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return an event as a line: its time, type and node, and the fields of its payload to show."""
    payload = event["payload"]
    names = _OF_TICKETS if event["type"].startswith("escalation.") else _WORDS
    words = [(name, str(payload[name])) for name in names if payload.get(name) not in (None, "", [], {})]
    if isinstance(error := payload.get("error"), dict):
        words.append((str(error.get("code")), str(error.get("message", ""))))
    elif error:
        words.append(("", str(error)))
    used = [(name, payload[name]) for name in ("iterations", "tokens", "usd") if payload.get(name)]
    return {
        "time": event["time"],
        "type": event["type"],
        "node": event.get("node_id"),
        "words": words,
        "used": used,
        "approval": payload.get("approval_id"),
    }
