"""A workspace in which people have worked: what pages show when something is there, and every address of a page."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from hive_agents import Workspace
from hive_agents.access import known_principal
from hive_agents.approvals import ApprovalStore, Filing
from hive_agents.events import EscalationTicket, EventLog, EventType
from hive_agents.runs import RunStore
from hive_agents.store import connected, transaction
from tests.agents.conftest import write_json
from tests.pages.people import noting_agent
from tests.server.serving import bearer, followed

EVERYTHING = ("reader", "approver", "operator")
"""The roles of whoever sees all pages."""
QUESTIONS = ("smallest volume the P50 can do", "effective SOPs about cleaning validation", "all retired documents",
             "show me stuff", "hello", "xyzzy quux")  # fmt: skip
"""One for each kind of reply."""
TOLD_OF = ("where does the tip box go?", "who approves a change request?")
"""Questions of which somebody says what they think of the first result."""
CERTIFICATE = {
    "decision": "passed", "n": 45, "before": 0.412, "after": 0.561, "difference": 0.149, "ci95": [0.061, 0.238],
    "p_value": 0.0012, "alpha": 0.0167, "mde": 0.118, "distractors_before": 1.42, "distractors_after": 0.61,
    "reasons": [{"code": "HIVE-305", "message": "12% of the documents returned for fully judged queries are unjudged"}],
    "watch": [{"tag": "versions", "before": 0.61, "after": 0.58, "n": 4}],
}  # fmt: skip
MEASURED = {
    "n": 45, "split": "holdout", "alpha": 0.0167,
    "active": {"config": "v1-naive", "nudcg": 0.412, "distractors": 1.42},
    "candidate": {"config": "fewer-distractors", "nudcg": 0.561, "distractors": 0.61},
    "difference": {"nudcg": 0.149, "ci95": [0.061, 0.238], "p_value": 0.0012},
}  # fmt: skip
CHANGES = [
    {"path": "retrieval.method", "a": "keyword", "b": "hybrid"},
    {"path": "filters.status", "a": None, "b": ["effective", "published"]},
    {"path": "retrieval.top_k", "a": 10, "b": 6},
]
STEPS = (
    ("top_k 10 → 6", CHANGES[2], "the tail of the list is mostly distractors", "tail_junk"),
    ("updated: half-life 365 days", {"path": "boosts.updated", "a": None, "b": {"half_life_days": 365.0}},
     "older versions stand above newer ones", "stale_versions"),
    ("method keyword → hybrid", CHANGES[0], "readers use other words than the documents", "vocabulary"),
    ("per_document 3 → 1", {"path": "retrieval.per_document", "a": 3, "b": 1}, "sweep of retrieval.per_document",
     "sweep"),
)  # fmt: skip


@dataclass(frozen=True)
class Filled:
    """What was made, by id."""

    thread: str
    waiting: str
    decided: str
    approvals: dict[str, str]
    found: str
    failed: str
    agent: str
    asked: str


async def filled(place: Workspace, client: httpx.AsyncClient, questions: Sequence[str] = QUESTIONS) -> Filled:
    """Ask, search, file and decide as people would. `client` reaches a server that works on runs."""
    root = bearer(place, "root", *EVERYTHING)
    thread, asked = await _conversation(client, root, questions)
    await _opinions(place, client, TOLD_OF if questions is QUESTIONS else questions)
    approvals = requests(place)
    body = {"verb": "respond", "message": "Write to the customer, and close the ticket."}
    await _sent(client, f"/api/approvals/{approvals['question']}/decide", body, bearer(place))
    agent, waiting = await _agent(place, client, root)
    found = search(place)
    failed = RunStore(place).insert("optimizer", {"golden": None, "deploy": False, "settings": {}},
                                    owner=known_principal(place, "root"), status="running")[0].run_id  # fmt: skip
    error = {"code": "HIVE-423", "message": "the model's budget of $2.00 is spent"}
    RunStore(place).update(failed, "failed", error=error, stopped_by="budget")
    tickets(place, agent)
    write_json(place, "access/groups.json", {"groups": {"metrology": {"tenant": "acme", "members": ["dana"]}}})
    write_json(place, "triggers/nightly.json", {
        "id": "nightly", "type": "cron", "schedule": "0 2 * * *", "timezone": "Europe/Berlin", "agent": "writer",
        "input": {}, "missed": "skip", "run_as": "service:nightly", "enabled": True,
    })  # fmt: skip
    return Filled(thread, waiting, approvals["question"], approvals, found, failed, agent, asked)


async def _sent(client: httpx.AsyncClient, path: str, body: Any, headers: dict[str, str]) -> Any:
    answer = await client.post(path, json=body, headers=headers)
    assert answer.is_success, answer.text
    return answer.json()


async def _conversation(
    client: httpx.AsyncClient, headers: dict[str, str], questions: Sequence[str]
) -> tuple[str, str]:
    """The conversation in which these were asked, and the run of the first."""
    thread: dict[str, str] = {}
    runs = []
    for question in questions:
        run = await _sent(client, "/api/runs", {"input": {"text": question}, **thread}, headers)
        await followed(client, run["events"], headers)
        thread = {"thread_id": run["thread_id"]}
        runs.append(run["run_id"])
    return thread["thread_id"], runs[0]


async def _opinions(place: Workspace, client: httpx.AsyncClient, questions: Sequence[str]) -> None:
    dana = bearer(place)
    said = (("relevant", "it shows the deck"), ("outdated", "that was before the merger"))
    for question, (verdict, why) in zip(questions, said, strict=False):
        run = await _sent(client, "/api/runs", {"input": {"text": question}}, dana)
        await followed(client, run["events"], dana)
        opinion = {"run_id": run["run_id"], "verdict": verdict, "result": 1, "comment": why}
        await _sent(client, "/api/feedback", opinion, dana)


async def _agent(place: Workspace, client: httpx.AsyncClient, headers: dict[str, str]) -> tuple[str, str]:
    """A run of an agent that waits for a person, and the request that it waits for."""
    noting_agent(place, budget={"usd": 2.5})
    body = {"graph": "event_loop", "agent": "writer", "input": {}}
    run: str = (await _sent(client, "/api/runs", body, headers))["run_id"]
    while not (shown := (await client.get(f"/api/runs/{run}", headers=headers)).json())["approval_ids"]:
        assert shown["run"]["status"] in ("queued", "running", "waiting"), shown
        await asyncio.sleep(0.05)
    return run, shown["approval_ids"][0]


def requests(place: Workspace) -> dict[str, str]:
    """A request of each kind that people see most, by kind."""
    asked: dict[str, dict[str, Any]] = {
        "judgment": {
            "title": "Is this reply to ticket 4711 good enough to send?", "risk": "high",
            "requester": "agent:support", "on_behalf_of": "user:alice",
            "context": {
                "result": {"reply": "Hold the green button for three seconds; the lamp goes out.", "ticket": 4711},
                "reasoning": "The reply names a button that the manual of this model doesn't mention.",
                "escalation_reason": "The model's confidence is below the threshold that people's answers certified.",
                "goal": "support", "threshold": 0.82,
            },
            "signals": [
                {"source": "rule:names_a_source", "action": "accept", "confidence": 1.0, "detail": "cites 2 passages"},
                {"source": "llm", "action": "retry", "confidence": 0.64, "detail": "the button isn't in the manual"},
            ],
            "allowed_decisions": ["approve", "reject", "respond"],
        },
        "deploy": {
            "title": "Deploy fewer-distractors though one tag loses", "requester": "user:root",
            "context": {"config": "fewer-distractors", "reason": "the old versions are gone next week",
                        "changes": CHANGES[1:],
                        "certificate": CERTIFICATE, "evaluation": MEASURED},
            "diff": {"json_patch": [{"op": "replace", "path": "/retrieval/top_k", "value": 6},
                                    {"op": "add", "path": "/retrieval/filters/status", "value": ["effective"]}]},
            "approvers": {"min": 2, "exclude_requester": True}, "on_timeout": "reject",
        },
        "tool_call": {
            "title": "Send a mail to kim@example.org", "requester": "agent:support", "risk": "medium",
            "context": {"tool": "send_mail", "args": {"to": "kim@example.org", "subject": "Your pipette", "text":
                        "Dear Kim,\n\nthe calibration is done. You can fetch it from Monday on.\n\nSupport",
                        "attach": ["certificate.pdf"], "urgent": False}},
            "args_schema": {"type": "object", "required": ["to", "text"], "properties": {
                "to": {"type": "string", "description": "One address."}, "subject": {"type": "string"},
                "text": {"type": "string"}, "attach": {"type": "array", "items": {"type": "string"}},
                "urgent": {"type": "boolean"}}},
            "allowed_decisions": ["approve", "edit", "reject"],
        },
        "question": {
            "title": "Close ticket 4712, or write to the customer first?", "requester": "agent:support", "risk": "low",
            "context": {"question": "The customer wrote that it works now. Close it, or write first?",
                        "options": ["close it", "write first"]},
            "allowed_decisions": ["respond", "reject"],
        },
    }  # fmt: skip
    store = ApprovalStore(place)
    return {kind: store.file(Filing.model_validate({"kind": kind, **what})).id for kind, what in asked.items()}


def search(place: Workspace, trials: int = 64) -> str:
    """A search that ended with a config which the gate passed; it stands in the workspace, and doesn't serve."""
    config = json.loads((place.configs / "v1.json").read_text(encoding="utf-8"))
    config |= {"name": "fewer-distractors", "parent": "v1-naive", "description": "Fewer, newer, and by meaning, too."}
    config["retrieval"] |= {"top_k": 6}
    write_json(place, "configs/fewer-distractors.json", config)
    rows = []
    best = 0.402
    for n in range(trials):
        step, change, reason, cause = STEPS[n % len(STEPS)]
        train = 0.38 + 0.16 * n / trials + 0.05 * ((n * 7) % 11 - 5) / 5
        verdict = "invalid" if n % 17 == 9 else "accept" if train > best else "retry"
        said = {
            "accept": "better on train and validation, with fewer distractors",
            "retry": "validation loses 0.021 with it",
            "invalid": "HIVE-205: top_k 12 is more than the 10 candidates of a lane",
        }[verdict]
        best = max(best, train) if verdict == "accept" else best
        measured = verdict != "invalid"
        rows.append({
            "n": 1 + n // 8, "config": None, "changes": [change], "step": step, "reason": reason, "cause": cause,
            "proposer": "model" if n % 5 == 3 else "heuristic", "train": train if measured else None,
            "validation": train - 0.02 if measured else None, "distractors": 1.4 - n / 80 if measured else None,
            "verdict": verdict, "feedback": said,
        })  # fmt: skip
    old = {"config": "v1-naive", "changes": [], "train": 0.402, "validation": 0.391, "distractors": 1.38}
    new = {"config": "fewer-distractors", "changes": CHANGES, "train": best, "validation": 0.548, "distractors": 0.57}
    why = "`procedures` loses 0.08 with it; `hive deploy --accept-tag procedures` answers for that"
    refused = {"config": "fewer-distractors", "train": 0.57, "validation": 0.501, "distractors": 1.02, "why": why,
               "changes": CHANGES[:1]}  # fmt: skip
    result = {
        "status": "stopped", "baseline": old | {"holdout": None}, "best": new | {"holdout": None},
        "certificate": CERTIFICATE, "needed_queries": None, "rejected": [refused], "watch": [],
        "iterations": rows, "usage": {}, "fallbacks": [{"iteration": 3, "reason": "the model answered with no config"}],
        "unavailable": None, "diagnosis": None, "evaluations": trials + 1, "stopped_by": "no_deploy",
        "first_diagnosis": "Of 90 questions 31 have an outdated version above the one that is in force, and 22 have a"
                           " tail of documents that answer nothing.",
        "first_losses": [{"cause": cause, "queries": queries, "n": 90, "points": points} for cause, queries, points in
                         (("other_version", 31, 0.09), ("tail_junk", 22, 0.04), ("repeats", 80, 0.0))],
        "approval_id": None, "decision": None,
    }  # fmt: skip
    value = {"golden": None, "deploy": False, "settings": {}}
    owner = known_principal(place, "root")
    row = RunStore(place).insert("optimizer", value, owner=owner, status="running")[0]
    assert RunStore(place).update(row.run_id, "done", result=result | {"run_id": row.run_id})
    return row.run_id


def tickets(place: Workspace, run: str) -> None:
    """What the health judge saw of a run."""
    at = dt.datetime.now(dt.UTC).isoformat()
    row = RunStore(place).get(run)
    ticket = EscalationTicket(
        id="t1", run_id=run, severity="high", cause="stall", first_seen=at, last_seen=at, agent="writer",
        evidence=["no step for 14 minutes", "the same tool was called 6 times with the same arguments"],
        suggested_action="ask whoever has the request to answer it", tenant=row.tenant,
        assessment="It waits for a person; nothing is wrong with the agent itself.",
    )  # fmt: skip
    with connected(place.records) as connection, transaction(connection):
        EventLog.record(connection, [ticket.told(EventType.ESCALATION_OPENED, row.thread_id)])


def addresses(made: Filled, question: str = "how do I rotate an API token") -> dict[str, str]:
    """Every page, by the name of its picture."""
    asked = made.approvals
    return {
        "home": "/",
        "chat-new": "/chat",
        "chat": f"/chat/{made.thread}",
        "documents": "/documents",
        "document": "/documents/api-docs/api-tokens.md",
        "golden": "/golden",
        "golden-label": f"/golden/label?query={question}",
        "golden-label-new": "/golden/label",
        "golden-feedback": "/golden/feedback",
        "approvals": "/approvals",
        "approvals-all": "/approvals?status=all",
        "approval-judgment": f"/approvals/{asked['judgment']}",
        "approval-deploy": f"/approvals/{asked['deploy']}",
        "approval-call": f"/approvals/{asked['tool_call']}",
        "approval-decided": f"/approvals/{made.decided}",
        "optimize": "/optimize",
        "search": f"/optimize/{made.found}",
        "search-failed": f"/optimize/{made.failed}",
        "config": "/optimize/configs/fewer-distractors",
        "colony": "/colony",
        "run": f"/colony/runs/{made.agent}",
    }


def parts(made: Filled) -> dict[str, str]:
    """What pages load later, or lead to: each can be opened by itself, too."""
    turn, doc = f"/chat/runs/{made.asked}", "api-docs/labware.md"
    return {
        "threads": "/chat/threads",
        "chat-document": f"/chat/documents/{doc}?run={made.asked}&n=1",
        "why": f"{turn}/why?doc_id={doc}",
        "others": f"{turn}/others?search=calibration",
        "passages": f"{turn}/passages?doc_id={doc}",
        "trace": f"{turn}/trace",
        "turn": f"/chat/{made.thread}/turns/{made.asked}",
        "document-rows": "/documents/rows",
        "tried": "/documents/try?query=calibration",
        "found": "/find?find=calibration",
        "golden-queries": "/golden/queries",
        "golden-worth": "/golden/worth",
        "trials": f"/optimize/{made.found}/trials",
        "search-queries": "/optimize/compare/v1/fewer-distractors",
        "compare": f"/colony/compare?run={made.agent}&run={made.asked}",
    }


def administered() -> dict[str, str]:
    """The pages on which the workspace's owner administers."""
    named = ("people", "readers", "tokens", "signin", "models", "trust", "agents", "schedules", "judge", "records")
    return {
        "settings": "/settings",
        **{f"settings-{name}": f"/settings/{name}" for name in named},
        "settings-person": "/settings/person?user=dana",
        "settings-group": "/settings/group?name=metrology",
        "settings-agent": "/settings/agent?name=writer",
        "settings-schedule": "/settings/schedule?agent=writer",
    }
