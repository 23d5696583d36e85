"""The copilot: searches, conversations, documents and feedback, with the caller's present rights."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import Field
from starlette.responses import Response

from hive_agents.base import HiveError, unfetched
from hive_agents.base.files import AnyCase, LongText, QuestionText, Reference, ShortName
from hive_agents.copilot import Request, SearchReply, search
from hive_agents.runs import RunRow, Scope
from hive_agents.server.api import MOST, PRIVATE, Api, Body, Query, Value
from hive_agents.server.auth import ANYBODY, OPERATOR, READER, REVIEWER, Call, CallContext
from hive_agents.server.forms import Form, SentFiles
from hive_agents.server.protocols.agui_events import spoken
from hive_agents.server.shapes import Acknowledged, FilterWords, PageQuery, Pinned, RunSummary, paged

api = Api("copilot")
Verdict = Annotated[
    Literal["relevant", "distractor", "outdated", "wrong_document", "right", "wrong", "incomplete"], AnyCase
]
MOST_TURNS = 100
"""The last turns of a conversation that one request renders: each is looked up with the reader's present rights."""


class SearchRequest(Body):
    """`filters` have the syntax of the command line, `pinned` the shape of a reply's filters; `unfold` shows more."""

    query: QuestionText
    filters: FilterWords = []
    pinned: Pinned = []
    unfold: bool = False


class WindowShape(Value):
    """Lines of a document, from 1, without and with `<mark>` around the question's words; one is the best of them."""

    text: str
    from_line: int
    to_line: int
    marked: str
    best: bool


class ResultShape(Value):
    """One result of a search or of a reply; `excerpt` is the marked text of its windows."""

    rank: int
    doc_id: str
    chunk_id: str | None
    title: str
    excerpt: str
    windows: list[WindowShape]
    reason: str
    relevance: float | None
    relevance_source: str
    metadata: dict[str, Any]
    citation: str | None


class Results(Value):
    query: str
    results: list[ResultShape]
    notice: str | None


class ThreadRow(Value):
    thread_id: str
    title: str
    turns: int
    created_at: str
    updated_at: str


class ThreadsPage(PageQuery):
    """`search` looks for words in titles and questions."""

    search: ShortName | None = None


class ThreadList(Value):
    threads: list[ThreadRow]
    next_cursor: str | None


class Thread(Value):
    """`turns` are replies, each with its question in `text`."""

    thread_id: str
    title: str
    turns: list[dict[str, Any]]


class ThreadRun(Value):
    """One question of a conversation, answered or not; `request` is null where its record is damaged."""

    run: RunSummary
    request: Request | None


class ThreadRuns(Value):
    runs: list[ThreadRun]


class Renamed(Body):
    title: Annotated[ShortName, Field(min_length=1)]


class Begun(Value):
    thread_id: str


class Drop(Form):
    """One file, a part `file`."""

    file: Annotated[SentFiles, Field(max_length=1)]


class FileRow(Value):
    """A file of a conversation; `characters` are those of its text."""

    file_id: str
    name: str
    characters: int
    at: str


class FileList(Value):
    files: list[FileRow]


class OpenedDocument(Value):
    doc_id: str
    title: str
    metadata: dict[str, Any]
    text: str


class Fields(Value):
    """The fields to filter by, with the values in documents that the caller may view."""

    fields: dict[str, list[str]]


class Why(Query):
    doc_id: Reference


class Explanation(Value):
    explanation: dict[str, Any]


class NextQuestion(Value):
    """A question that may be asked next, with the words to offer it by: `about` is a field or a document's title,
    `value` one of its values or sections."""

    kind: Literal["valid", "other", "section", "more"]
    about: str
    value: str
    request: Request


class NextQuestions(Value):
    questions: list[NextQuestion]


class ResultOpinion(Body):
    """A verdict on a result of one of the caller's turns, named by its rank (`result`) or its document: relevant,
    distractor, outdated or wrong_document. Without both it is on the answer that a model wrote: right, wrong, outdated
    or incomplete. Of a relevant result the `passage` that was shown may be wrong."""

    run_id: ShortName
    verdict: Verdict
    result: Annotated[int, Field(ge=1, le=MOST)] | None = None
    doc_id: Reference | None = None
    comment: LongText | None = None
    passage: Literal["wrong"] | None = None


class FeedbackRow(Value):
    """One opinion; only one on an `answer` has its text, and no document."""

    id: str
    created_at: str
    tenant: str
    thread_id: str
    query: str
    doc_id: str | None
    verdict: Verdict
    by: str
    comment: str | None
    status: Literal["pending", "accepted", "rejected"]
    reviewed_by: str | None
    passage: Literal["wrong"] | None
    answer: str | None = None


class FeedbackPage(PageQuery):
    status: Annotated[Literal["pending", "accepted", "rejected"], AnyCase] | None = None


class FeedbackList(Value):
    items: list[FeedbackRow]
    next_cursor: str | None


class Review(Body):
    accept: bool


@api.post("/api/query", READER)
async def query(call: CallContext, body: SearchRequest) -> Results:
    """Search once with the active config, without a conversation."""
    await call.freshness.current()
    found = await call.beside(partial(_found, call, body))
    return Results(query=body.query, results=[ResultShape(**one) for one in found.results], notice=found.notice)


async def _found(call: CallContext, body: SearchRequest) -> SearchReply:
    pinned = [*(call.chat().filters(body.filters) if body.filters else ()), *body.pinned]
    return await search(call.workspace, call.principal, body.query, pinned, engine=call.engine, unfold=body.unfold)


@api.get("/api/fields", READER)
def fields(call: Call) -> Fields:
    """The fields to filter by."""
    return Fields(fields=call.chat().field_values())


@api.get("/api/documents/{doc_id:path}", READER)
def document(call: CallContext, doc_id: str) -> OpenedDocument:
    """A document that the caller may view; one that they may not is reported as unknown."""
    return OpenedDocument(**call.chat().document(doc_id))


@api.get("/api/threads", READER)
def threads(call: Call, query: ThreadsPage) -> ThreadList:
    """The caller's conversations, most recently used first."""
    shown, cursor = paged(call.chat().threads.threads(query.search), query, lambda one: str(one["thread_id"]))
    return ThreadList(threads=[ThreadRow(**one) for one in shown], next_cursor=cursor)


@api.post("/api/threads", READER, status=201)
def begin(call: Call) -> Begun:
    """Begin a conversation without a question, so that files can be dropped into it; its first question names it."""
    call.require_kept()
    return Begun(thread_id=call.chat().threads.create(""))


@api.get("/api/threads/{thread_id}", READER)
def thread(call: Call, thread_id: str) -> Thread:
    """The last hundred turns of a conversation, rendered with the caller's present rights."""
    chat = call.chat(thread_id)
    title = next(str(one["title"]) for one in chat.threads.threads() if one["thread_id"] == thread_id)
    return Thread(thread_id=thread_id, title=title, turns=chat.transcript(MOST_TURNS))


@api.get("/api/threads/{thread_id}/runs", READER)
def thread_runs(call: Call, thread_id: str) -> ThreadRuns:
    """The last hundred questions of a conversation, oldest first, answered or not."""
    call.chat(thread_id)
    rows = Scope(call.principal).runs(call.workspace, thread_id=thread_id, limit=MOST_TURNS)
    return ThreadRuns(
        runs=[ThreadRun(run=RunSummary.of(row, call.principal), request=_request(row)) for row in reversed(rows)]
    )


def _request(row: RunRow) -> Request | None:
    with suppress(HiveError, KeyError, ValueError):
        return Request.model_validate(row.value["request"])
    return None


@api.get("/api/threads/{thread_id}/export", READER, media="text/markdown")
def export(call: Call, thread_id: str) -> Response:
    """The last hundred turns of a conversation as Markdown, without passages of the files that were dropped into it."""
    parts = []
    for turn in call.chat(thread_id).transcript(MOST_TURNS):
        question = "\n".join(f"> {line}" for line in turn["text"].splitlines())
        sources = "\n".join(f"{one['citation']} {one['title']} ({one['doc_id']})" for one in turn["results"]
                            if one["citation"] and turn["answer"])  # fmt: skip
        said = spoken(turn | {"files": []})  # an export goes elsewhere
        parts.append("\n\n".join(part for part in (question, said, sources) if part))
    headers = PRIVATE | {"Content-Disposition": f'attachment; filename="{thread_id}.md"'}
    return Response(unfetched("\n\n---\n\n".join(parts)) + "\n", headers=headers, media_type="text/markdown")


@api.patch("/api/threads/{thread_id}", READER)
def rename(call: Call, thread_id: str, body: Renamed) -> Acknowledged:
    """Give a conversation another title."""
    call.chat(thread_id).threads.rename(thread_id, body.title)
    return Acknowledged()


@api.delete("/api/threads/{thread_id}", READER)
def forget(call: Call, thread_id: str) -> Acknowledged:
    """Delete a conversation with all its turns."""
    call.chat(thread_id).threads.delete(thread_id)
    return Acknowledged()


@api.get("/api/threads/{thread_id}/files", READER)
def files(call: Call, thread_id: str) -> FileList:
    """The files that the caller dropped into a conversation, in the order in which they came."""
    return FileList(files=[FileRow(**vars(one)) for one in call.chat(thread_id).files.files()])


@api.post("/api/threads/{thread_id}/files", READER, status=201)
def drop(call: Call, thread_id: str, form: Drop) -> FileRow:
    """Drop a file into a conversation: from now on its questions, and no others, search it beside the documents. It
    takes the place of one with the same name. The original isn't kept."""
    (sent,) = form.file
    return FileRow(**vars(call.chat(thread_id).drop(sent.name, sent.data)))


@api.delete("/api/threads/{thread_id}/files/{file_id}", READER)
def remove_file(call: Call, thread_id: str, file_id: str) -> Acknowledged:
    """Remove a file from a conversation; its answers no longer show a passage of it."""
    call.chat(thread_id).files.remove(file_id)
    return Acknowledged()


@api.get("/api/runs/{run_id}/why", READER)
def why(call: Call, run_id: str, query: Why) -> Explanation:
    """Why a result of one of the caller's turns has its rank."""
    return Explanation(explanation=call.chat().why(run_id, query.doc_id))


@api.get("/api/runs/{run_id}/next", READER)
def follow_ups(call: Call, run_id: str) -> NextQuestions:
    """At most three questions that may be asked after one of the caller's turns, out of what they may view."""
    return NextQuestions(questions=[NextQuestion(**vars(one)) for one in call.chat().follow_ups(run_id)])


@api.get("/api/runs/{run_id}/trace", OPERATOR)
def trace(call: Call, run_id: str) -> Explanation:
    """The trace of a turn of the caller's tenant: counts and ids."""
    return Explanation(explanation=call.chat().trace(run_id))


@api.post("/api/feedback", READER, status=201)
def give_feedback(call: Call, body: ResultOpinion) -> FeedbackRow:
    """Give feedback on a result of one's own turn, or on its answer; it replaces earlier feedback on the same."""
    call.require_kept()
    told = body.model_dump(exclude={"run_id", "result", "verdict"})
    item = call.chat().feedback().add(body.run_id, body.result, body.verdict, **told)
    return FeedbackRow(**item.to_json())


@api.get("/api/feedback", ANYBODY)
def list_feedback(call: Call, query: FeedbackPage) -> FeedbackList:
    """Feedback that the caller gave or may review, oldest first."""
    shown, cursor = paged(call.chat().feedback().items(query.status), query, lambda one: one.id)
    return FeedbackList(items=[FeedbackRow(**one.to_json()) for one in shown], next_cursor=cursor)


def feedback_to_review(call: CallContext) -> set[str]:
    """Return the ids of the pending feedback that the caller may decide."""
    return {one.id for one in call.chat().feedback().waiting()}


def feedback_results(call: CallContext, ids: Collection[str]) -> dict[str, dict[str, Any]]:
    """Return the results that this feedback is on, as the caller may see them, by its id."""
    queue = call.chat().feedback()
    found = {one.id: queue.result(one) for one in queue.items() if one.id in ids} if ids else {}
    return {item_id: result for item_id, result in found.items() if result is not None}


@api.post("/api/feedback/{item_id}/review", REVIEWER)
def review(call: Call, item_id: str, body: Review) -> FeedbackRow:
    """Accept or reject another person's feedback."""
    return FeedbackRow(**call.chat().feedback().review(item_id, accept=body.accept).to_json())
