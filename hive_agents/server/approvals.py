"""Approval requests: listing, reading, deciding and delegating them."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Any, Literal

from pydantic import Field

from hive_agents.agents import changes_since
from hive_agents.approvals import ApprovalRequest, ApprovalStore, RequestReader, Status, Verb, batch_hash, refused
from hive_agents.base import HiveError, NotFound
from hive_agents.base.files import AnyCase, LongText, ShortName
from hive_agents.host import decide, decisions
from hive_agents.server.api import MOST, Api, Body, Value
from hive_agents.server.auth import APPROVER, REVIEWER, CallContext
from hive_agents.server.problems import status_of
from hive_agents.server.shapes import PageQuery, Problem
from hive_agents.store import audit

api = Api("approvals")


class RequestRow(Value):
    """`warning` says that a text has signs that can't be seen."""

    id: str
    kind: str
    title: str
    tenant: str
    status: Status
    risk: str
    requester: str
    created_at: str
    due_at: str | None
    allowed_decisions: list[Verb]
    version: int
    content_hash: str
    run_id: str | None
    warning: str | None = None


class RequestsPage(PageQuery):
    """The order `due` is by due time, then by descending risk."""

    status: Annotated[Status, AnyCase] | None = None
    order: Annotated[Literal["newest", "due"], AnyCase] = "newest"


class RequestList(Value):
    """`waiting` counts the requests on all pages that wait for a person."""

    items: list[RequestRow]
    next_cursor: str | None
    waiting: int


class RequestShown(Value):
    """A whole request; what may quote a document that the caller may not view is withheld."""

    request: dict[str, Any]


class Decide(Body):
    """`version` or `content_hash` name the content that was read: where it changed meanwhile, nothing is decided.
    Without either the present content is decided.

    `patch` edits the arguments (RFC 6902, or an object to merge), `message` responds; with `for_run` the same call may
    be made again in its run.
    """

    verb: Annotated[Verb, AnyCase]
    reason: LongText | None = None
    message: LongText | None = None
    patch: Any = None
    version: Annotated[int, Field(ge=1, le=MOST)] | None = None
    content_hash: ShortName | None = None
    for_run: bool = False


class DecidedRequest(Value):
    id: str
    status: Status
    decision: Verb
    by: str
    authn: str
    decided_at: str
    remaining_approvals: int
    run: dict[str, str] | None


class DecideBatch(Body):
    """`batch` is the name from GET /api/runs/{run_id}/approvals, of exactly the calls that were read."""

    batch: ShortName
    verb: Annotated[Literal["approve", "reject"], AnyCase]
    reason: LongText | None = None


class BatchItem(Value):
    """One request of a batch: its decision, or why it wasn't decided."""

    decided: DecidedRequest | None
    problem: Problem | None


class BatchDecided(Value):
    items: list[BatchItem]


class Delegate(Body):
    to: ShortName


class AuditEntry(Value):
    """A line of the audit log: `seq` is its number there, `digest` what the next line is chained to."""

    seq: int
    at: str
    event: str
    status: str
    version: int
    content_hash: str
    digest: str


class AuditTrail(Value):
    """`ok` says whether the whole log is intact; only with a key (`keyed`) does it detect changes by its writers."""

    ok: bool
    keyed: bool
    reason: str
    entries: list[AuditEntry]


@api.get("/api/approvals", REVIEWER)
def list_requests(call: CallContext, query: RequestsPage) -> RequestList:
    """The requests that the caller may read."""
    shown, cursor = read_page(call, query)
    return RequestList(items=[_row(one) for one in shown], next_cursor=cursor, waiting=count_waiting(call))


def count_waiting(call: CallContext) -> int:
    """Return how many of the requests that the caller may read wait for a person."""
    return ApprovalStore(call.workspace).count_pending(RequestReader(call.workspace, call.reaches()).tenants)


def read_page(call: CallContext, query: RequestsPage) -> tuple[list[ApprovalRequest], str | None]:
    """Return a page of the requests that the caller may read, and the cursor of the next one."""
    reader = RequestReader(call.workspace, call.reaches())
    shown, more = ApprovalStore(call.workspace).page(
        query.limit, status=query.status, tenants=reader.tenants, by_due=query.order == "due", after=query.cursor
    )
    return [reader.shown(one) for one in shown], shown[-1].id if more else None


def readable(call: CallContext, request_id: str) -> ApprovalRequest:
    """Return a request, without what the caller may not read.

    Raises: HIVE-409 (404) for one that they may not read, as for one that doesn't exist.
    """
    reader, request = RequestReader(call.workspace, call.reaches()), None
    with suppress(NotFound):
        request = ApprovalStore(call.workspace).get(request_id, reader.tenants)
    if request is None or not reader.may_read(request):
        raise NotFound.of("HIVE-409", f"there is no approval request {request_id}", fix="GET /api/approvals lists them")
    return reader.shown(request)


@api.get("/api/approvals/{request_id}", REVIEWER)
def show_request(call: CallContext, request_id: str) -> RequestShown:
    """One request, whole."""
    return RequestShown(request=whole(call, readable(call, request_id)))


def whole(call: CallContext, request: ApprovalRequest) -> dict[str, Any]:
    """Return a request as JSON; `changed` says what became of the guards of its call since it was asked."""
    changes = changes_since(call.workspace, request)
    return request.to_json() | ({"changed": changes} if changes else {})


@api.get("/api/approvals/{request_id}/audit", REVIEWER)
def audit_trail(call: CallContext, request_id: str) -> AuditTrail:
    """The entries of a request in the audit log, and whether the log is intact."""
    readable(call, request_id)
    entries, verdict = audit.intact(call.workspace, "approval")
    names = AuditEntry.model_fields
    trail = [AuditEntry(**{name: one[name] for name in names}) for one in entries if one["approval"] == request_id]
    return AuditTrail(ok=verdict.ok, keyed=verdict.keyed, reason=verdict.reason, entries=trail)


@api.post("/api/approvals/{request_id}/decide", APPROVER)
def decide_request(call: CallContext, request_id: str, body: Decide) -> DecidedRequest:
    """Decide a request and carry it out. 409 says that another decision came first, or that the content changed."""
    readable(call, request_id)
    return _decided(call, request_id, body)


@api.post("/api/approvals/batch", APPROVER)
def decide_batch(call: CallContext, body: DecideBatch) -> BatchDecided:
    """Decide all calls of a run that were read together, each on its own."""
    run_id = body.batch.partition(":")[0]
    pending = ApprovalStore(call.workspace).batch(run_id)
    reader = RequestReader(call.workspace, call.reaches())
    readable_all = all(map(reader.may_read, pending))
    if not pending or not readable_all or body.batch != f"{run_id}:{batch_hash(pending)[:24]}":
        why = "the calls that wait are not those that were read"
        raise refused("HIVE-416", why, f"read them again: GET /api/runs/{run_id}/approvals")
    return BatchDecided(items=[_each(call, one, body) for one in pending])


@api.post("/api/approvals/{request_id}/delegate", APPROVER)
def delegate(call: CallContext, request_id: str, body: Delegate) -> RequestShown:
    """Delegate a request to another person."""
    readable(call, request_id)
    ApprovalStore(call.workspace).delegate(request_id, to=body.to, **call.asker.decider().handing())
    return RequestShown(request=readable(call, request_id).to_json())


def _row(request: ApprovalRequest) -> RequestRow:
    return RequestRow(**request.summary(), content_hash=request.content_hash, run_id=request.run_id)


def _decided(call: CallContext, request_id: str, answer: Decide) -> DecidedRequest:
    decision = {"reason": answer.reason, "message": answer.message, "patch": answer.patch, "for_run": answer.for_run}
    decision |= {"version": answer.version, "content_hash": answer.content_hash, **call.asker.decider().named()}
    request, run = decide(call.workspace, request_id, answer.verb, **decision)
    call.wake()
    return DecidedRequest(**decisions.decision_json(request, answer.verb, decision["by"], run))


def _each(call: CallContext, request: ApprovalRequest, body: DecideBatch) -> BatchItem:
    answer = Decide(verb=body.verb, reason=body.reason, content_hash=request.content_hash)
    try:
        return BatchItem(decided=_decided(call, request.id, answer), problem=None)
    except HiveError as error:
        return BatchItem(decided=None, problem=Problem.of(status_of(error), error.diagnostics))
