"""The chat: conversations, questions, and answers with their passages."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

from hive_agents.base import HiveError, NotFound, Unindexed, one_line
from hive_agents.copilot import OPERATOR_SIGNS, told_before
from hive_agents.runs import CHAT_GRAPH
from hive_agents.server import copilot, documents, runs
from hive_agents.server.api import checked
from hive_agents.server.auth import OPERATOR, READER, Call
from hive_agents.server.copilot import Why
from hive_agents.server.pages import library
from hive_agents.server.pages.documents import found_for, shown_document
from hive_agents.server.pages.passages import blocks, claims
from hive_agents.server.pages.view import Pages

pages = Pages()
OTHERS = 5
"""Documents that are shown for a part of a title."""
OPEN = ("queued", "running", "waiting", "paused")
STEPS = ("rewrite", "route", "retrieve", "rerank", "permission_gate", "finalize")
VERDICTS = ("relevant", "distractor", "outdated", "wrong_document")
FAULTS = ("wrong", "outdated", "incomplete")
"""Of an answer."""
THREADS = 30
GLANCE = 140
"""Letters of a result's passage that are shown before it is opened."""
_GAP = re.compile(r"\n\s*\n\s*\n")


@pages.get("/chat", READER, "chat.html")
def begin(call: Call) -> dict[str, Any]:
    """A new conversation, with the list of the existing ones."""
    ask: dict[str, Any] = {"pinned": [], "doc_id": call.request.query_params.get("about") or None}
    fields = _fields(call)
    empty = library.dropped(call) if not any(fields.values()) and library.is_empty(call) else None
    shown: dict[str, Any] = {"thread": None, "turns": [], "most_shown": None, "files": [], "most": _most(call)}
    return shown | {"asked": ask, "fields": fields, "empty": empty} | _threads(call)


@pages.get("/chat/threads", READER, "chat_threads.html")
def threads(call: Call) -> dict[str, Any]:
    """A page of the conversations, or of those that match a search."""
    return {"thread": None, **_threads(call)}


@pages.get("/chat/documents/{doc_id:path}", READER, "chat_document.html")
def document(call: Call, doc_id: str) -> dict[str, Any]:
    """A document, with the passage of a result, of a claim or for a question marked."""
    opened = copilot.document(call, doc_id)
    parameters = call.request.query_params
    run_id = parameters.get("run", "")
    of_run = _quoted(call, run_id, doc_id, parameters.get("claim")) if run_id else []
    quoted = of_run or found_for(call, doc_id, parameters.get("query", ""))
    text = _GAP.sub("\n\n", opened.text.strip())
    shown = shown_document(doc_id, text, quoted)
    if of_run and not shown.found:  # the claim paraphrases the document
        shown = shown_document(doc_id, text, _quoted(call, run_id, doc_id, None))
    return {"document": opened, "shown": shown, "cited": parameters.get("n"), "searched": bool(of_run)}


@pages.get("/chat/runs/{run_id}/why", READER, "chat_facts.html")
def why(call: Call, run_id: str) -> dict[str, Any]:
    """Why a result has its rank."""
    query = Why(doc_id=call.request.query_params.get("doc_id", ""))
    return {"facts": copilot.why(call, run_id, query).explanation}


@pages.get("/chat/runs/{run_id}/others", READER, "chat_others.html")
def others(call: Call, run_id: str) -> dict[str, Any]:
    """Documents that the reader may view by a part of their title, each with why it isn't among the results."""
    reply, search = _reply(call, run_id) or {}, call.request.query_params.get("search", "").strip()
    if not search:
        return {"run_id": run_id, "search": "", "found": []}
    page = checked(documents.DocumentsPage, {"search": search, "status": "indexed", "limit": OTHERS})
    ranks = {one["doc_id"]: one["rank"] for one in reversed(reply.get("results", []))}
    found = []
    for one in documents.documents(call, page).documents:
        with suppress(HiveError):  # it was removed meanwhile, or isn't searched by this config
            why = {} if one.doc_id in ranks else copilot.why(call, run_id, Why(doc_id=one.doc_id)).explanation
            found.append((one, ranks.get(one.doc_id), why))
    return {"run_id": run_id, "search": search, "found": found}


@pages.get("/chat/runs/{run_id}/passages", READER, "chat_passages.html")
def passages(call: Call, run_id: str) -> dict[str, Any]:
    """More of the passages of a result."""
    doc_id = checked(Why, {"doc_id": call.request.query_params.get("doc_id", "")}).doc_id
    results = call.chat().render(run_id, unfold=True)["results"]
    return {"passages": [shown for one in results if one["doc_id"] == doc_id for shown in passages_of(one)]}


@pages.get("/chat/runs/{run_id}/trace", OPERATOR, "chat_trace.html")
def trace(call: Call, run_id: str) -> dict[str, Any]:
    """The trace of a turn."""
    return {"trace": copilot.trace(call, run_id).explanation, "run": runs.show_run(call, run_id)}


@pages.get("/chat/{thread_id}", READER, "chat.html")
def thread(call: Call, thread_id: str) -> dict[str, Any]:
    """A conversation, including questions without an answer yet."""
    states = copilot.thread_runs(call, thread_id).runs
    conversation = copilot.thread(call, thread_id)
    turns = _with_given(call, _with_next(call, _turns(thread_id, states, conversation.turns)))
    pinned: list[dict[str, Any]] = next((one["pinned"] for one in reversed(turns) if one["reply"] is not None), [])
    return {
        "thread": conversation,
        "turns": turns,
        "most_shown": copilot.MOST_TURNS if len(turns) >= copilot.MOST_TURNS else None,
        "asked": {"pinned": pinned, "doc_id": None},
        "fields": _fields(call),
        "empty": None,
        "files": copilot.files(call, thread_id).files,
        "most": _most(call),
        **_threads(call),
    }


@pages.get("/chat/{thread_id}/turns/{run_id}", READER, "chat_one_turn.html")
def turn(call: Call, thread_id: str, run_id: str) -> dict[str, Any]:
    """One question of a conversation, in its present state."""
    states = copilot.thread_runs(call, thread_id).runs
    result = _reply(call, run_id, thread_id)
    replies = [result | {"text": None}] if result is not None else []
    turns = _with_next(call, _turns(thread_id, states, replies, only=run_id))
    return {"turns": _with_given(call, turns), "run_id": run_id}


def passages_of(result: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the windows of a result for a template, of the first result the best one first, and large."""
    windows = result["windows"] or [{"marked": result["excerpt"], "best": False}]
    large = result["rank"] == 1 and len(windows) > 1
    ordered = sorted(windows, key=lambda one: not one["best"]) if large else windows
    return [{"blocks": blocks(one["marked"]), "large": large and one["best"]} for one in ordered]


def _reply(call: Call, run_id: str, thread_id: str | None = None) -> dict[str, Any] | None:
    """Return the reply of a turn, None while there is none. Raises: HIVE-409 (404) for another run or thread's."""
    shown = runs.show_run(call, run_id)
    if shown.run.graph != CHAT_GRAPH or thread_id not in (None, shown.run.thread_id):
        raise NotFound.of("HIVE-409", f"there is no turn {run_id}", fix="GET /api/threads lists the conversations")
    return shown.result


def _fields(call: Call) -> dict[str, list[str]]:
    """Return the fields to filter by; the first to look has the documents indexed."""
    try:
        return copilot.fields(call).fields
    except Unindexed:
        if library.is_empty(call):
            return {}
    call.freshness.refresh(now=True)
    return copilot.fields(call).fields


def _most(call: Call) -> int:
    """Return the most bytes of a file that is dropped."""
    return call.workspace.settings.server.upload_bytes


def _threads(call: Call) -> dict[str, Any]:
    parameters = call.request.query_params
    search = parameters.get("search") or None
    wanted = {"limit": THREADS, "cursor": parameters.get("cursor"), "search": search}
    page = copilot.threads(call, checked(copilot.ThreadsPage, wanted))
    return {"threads": page.threads, "next_cursor": page.next_cursor, "search": search}


def _turns(
    thread_id: str, states: list[copilot.ThreadRun], replies: list[dict[str, Any]], only: str | None = None
) -> list[dict[str, Any]]:
    """Return the template values of a conversation's questions, those with a reply first.

    `states` have to be read before `replies`: a run that ends in between is then shown with its reply, and not as one
    whose reply is gone.
    """
    remaining = {one.run.run_id: one for one in states}
    turns = []
    for reply in replies:
        run = remaining.pop(reply["run_id"], None)
        turns.append(_turn(thread_id, reply["run_id"], run, reply))
    for run_id, run in remaining.items():
        if only in (None, run_id):
            turns.append(_turn(thread_id, run_id, run, None))
    return turns


def _with_next(call: Call, turns: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the turns, the last one with what may be asked after it."""
    if turns and turns[-1]["reply"] is not None:
        with suppress(HiveError):  # it was deleted meanwhile
            turns[-1]["next"] = copilot.follow_ups(call, turns[-1]["run_id"]).questions
    return turns


def _with_given(call: Call, turns: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the turns, each with the documents that the reader has given feedback on; "" is the answer."""
    given = call.chat().feedback().given([one["run_id"] for one in turns])
    return [one | {"given": {doc_id for run_id, doc_id in given if run_id == one["run_id"]}} for one in turns]


def _turn(thread_id: str, run_id: str, run: copilot.ThreadRun | None, reply: dict[str, Any] | None) -> dict[str, Any]:
    request = run.request if run is not None else None
    text = request.text if request is not None else (reply or {}).get("text") or ""
    filters = reply["filters"] if reply is not None else []
    pinned = [_demand(one) for one in filters if one["source"] == "reader"]
    if request is not None:
        pinned = [one.model_dump(mode="json") for one in request.pinned]
    status = run.run.status if run is not None else "done"
    asked = {
        "text": text,
        "pinned": pinned,
        "dropped": request.dropped if request is not None else [],
        "doc_id": request.doc_id if request is not None else None,
    }
    cited = {one["rank"] for one in reply["results"] if one["citation"]} if reply is not None else set()
    return {
        "thread_id": thread_id,
        "run_id": run_id,
        "text": text,
        "pinned": pinned,
        "asked": asked,
        "chips": [_chip(asked, one) for one in filters],
        "at": run.run.started_at if run is not None else None,
        "status": status,
        "open": reply is None and status in OPEN,
        "error": run.run.error if run is not None else None,
        "reply": reply,
        "claims": claims(reply["answer"], cited) if reply is not None and reply["answer"] else [],
        "copied": _copied(reply) if reply is not None and reply["answer"] else None,
        "in_files": [_in_file(one) for one in (reply or {}).get("files", ())],
        "passages": [passages_of(one) for one in reply["results"]] if reply is not None else [],
        "previews": [_preview(one) for one in reply["results"]] if reply is not None else [],
        "above": told_before(reply["results"]) if reply is not None else [],
        "more": asked | {"cursor": reply["next_cursor"]} if reply is not None and reply["next_cursor"] else None,
        "options": [(one, {"text": one}) for one in reply["options"]] if reply is not None else [],
        "searched": reply is not None and reply["strategy"] not in ("NoMatch", "NeedsClarification"),
        "next": [],
        "steps": STEPS,
        "verdicts": VERDICTS,
        "faults": FAULTS,
    }


def _in_file(found: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"blocks": blocks(one["marked"]), "large": False} for one in found["windows"]]


def _preview(result: dict[str, Any]) -> str:
    """Return the beginning of a result's best passage, in a line."""
    best = next((one["text"] for one in result["windows"] if one["best"]), "")
    return one_line(best, GLANCE)


def _copied(reply: dict[str, Any]) -> str:
    """Return an answer with its sources, as text for the clipboard."""
    sources = [f"{one['citation']} {one['title']} ({one['doc_id']})" for one in reply["results"] if one["citation"]]
    return "\n\n".join([reply["answer"], *(["\n".join(sources)] if sources else [])])


def _demand(shown: dict[str, Any]) -> dict[str, Any]:
    return {name: shown[name] for name in ("field", "op", "value")}


def _chip(asked: dict[str, Any], shown: dict[str, Any]) -> dict[str, Any]:
    """Return a filter as text, and the question without it."""
    value = shown["value"]
    words = " | ".join(map(str, value)) if isinstance(value, list) else str(value)
    field = shown["field"]
    without = asked | {
        "pinned": [one for one in asked["pinned"] if one["field"] != field],
        "dropped": list(dict.fromkeys([*asked["dropped"], field])),
    }
    return {"words": f"{field} {OPERATOR_SIGNS[shown['op']]} {words}", "source": shown["source"], "without": without}


def _quoted(call: Call, run_id: str, doc_id: str, claim: str | None) -> list[str]:
    """Return the texts to mark in a document: the numbered claim that cites it, else the result's passages, the best
    one first."""
    reply = _reply(call, run_id) or {}
    result = next((one for one in reply.get("results", ()) if one["doc_id"] == doc_id), None)
    if result is None:
        return []
    if claim is not None and claim.isdecimal() and reply["answer"]:
        in_answer = [one for line in claims(reply["answer"], {result["rank"]}) for one in line]
        if int(claim) < len(in_answer) and in_answer[int(claim)].cites:
            return [in_answer[int(claim)].text]
    return [window["text"] for window in sorted(result["windows"], key=lambda one: not one.get("best"))]
