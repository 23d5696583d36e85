"""The store of requests: filed once, decided once, never approved by time."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from hive_agents.access import AccessRules, Principal, person, same_person, who
from hive_agents.approvals import log, rows
from hive_agents.approvals.answers import Recheck, content, edited_args, effect, later, overdue, repeats
from hive_agents.approvals.notify import notify, record
from hive_agents.approvals.permission import (
    refused,
    require_current,
    require_grantable,
    require_known,
    require_open,
    require_permitted,
)
from hive_agents.approvals.reader import require_viewable
from hive_agents.approvals.request import (
    ApprovalRequest,
    Decision,
    Delegation,
    Filing,
    Kind,
    Status,
    Verb,
    needs_four_eyes,
)
from hive_agents.approvals.rows import inbox
from hive_agents.base import AuditFault, Diagnostic, HiveError, NotFound
from hive_agents.events import EventType
from hive_agents.store import RecordsConnection, audit, connected, transaction
from hive_agents.workspace import Workspace


class ApprovalStore:
    """`recheck` returns the violations of rules and permissions by an edited request.

    Every change is one transaction: entry in the audit log, then the row. After a crash in
    between the next reader updates the row. A row that contradicts the verified log is damaged: it is only reported.
    """

    def __init__(
        self, workspace: Workspace, *, recheck: Recheck | None = None, now: Callable[[], str] = audit.now
    ) -> None:
        self.workspace = workspace
        self.recheck = recheck
        self.now = now
        self.settings = workspace.settings.approvals

    def file(self, filing: Filing, *, told: bool = False) -> ApprovalRequest:
        """Return a pending request; an equal filing, by its key or its run and kind, has the same request.

        `told` leaves the event `approval.requested` to the caller, who publishes it with its node.

        Raises: HIVE-416 for an idempotency key with other content, HIVE-413 where the existing request can't be
        trusted.
        """
        if needs_four_eyes(filing) and not filing.approvers.exclude_requester:
            approvers = filing.approvers.model_copy(update={"exclude_requester": True})
            filing = filing.model_copy(update={"approvers": approvers})
        key = None if filing.key is None else f"{filing.tenant}/{filing.key}"
        with connected(self.workspace.records) as connection, transaction(connection):
            found = rows.select(connection, "idempotency_key = ?", [key]) if key is not None else []
            if found:
                return self._filed_before(found[0], filing)
            at = self.now()
            request = ApprovalRequest(
                **{name: getattr(filing, name) for name in Filing.model_fields if name != "on_timeout"},
                on_timeout=filing.on_timeout or self.settings.on_timeout,
                id=f"a{uuid.uuid4().hex[:10]}",
                status="pending",
                created_at=at,
                due_at=later(at, self.settings.due_hours),
                remind_at=later(at, self.settings.remind_hours),
                version=1,
                content_hash=filing.hash,
            )
            log.append_filed(self.workspace, request)
            rows.insert(connection, request, key)
            if not told:
                record(connection, EventType.APPROVAL_REQUESTED, request)
        notify(self.workspace, "requested", request)
        return request

    def list(
        self,
        status: Status | None = None,
        rule_id: str | None = None,
        *,
        tenant: str | None = None,
        run_ids: Collection[str] | None = None,
        kind: Kind | None = None,
        requester: str | None = None,
    ) -> list[ApprovalRequest]:
        """Return requests, newest first; `rule_id` selects those of one rule, the others by their fields.

        Without the `damaged` ones; while the audit log is broken, unverified.
        """
        self._act_on_due()
        given: dict[str, Any] = {"tenant": tenant, "kind": kind, "requester": requester, "run_ids": run_ids}
        with connected(self.workspace.records) as connection:
            read = rows.select_those(connection, **given, **self._standing(status))
        return [
            request
            for request in inbox(self.workspace, read).requests
            if status in (None, request.status) and (rule_id is None or request.context.get("rule_id") == rule_id)
        ]

    def page(
        self,
        limit: int,
        *,
        status: Status | None = None,
        tenants: Collection[str] | None = None,
        by_due: bool = False,
        after: str | None = None,
    ) -> tuple[Sequence[ApprovalRequest], bool]:
        """Return up to `limit` requests after the one with the id `after`, and whether there are more.

        Newest first; `by_due` by due time and risk. Without the `damaged` ones.
        Raises: HIVE-409 for an id that is no request of these tenants.
        """
        self._act_on_due()
        order = rows.DUE if by_due else rows.NEWEST
        found: list[ApprovalRequest] = []
        with connected(self.workspace.records) as connection:
            place = None if after is None else self._place(connection, after, order, tenants)
            given = self._standing(status)
            while True:
                read = rows.select_page(connection, order, place, limit + 1, tenants=tenants, **given)
                found += [one for one in inbox(self.workspace, read).requests if status in (None, one.status)]
                if len(found) > limit or len(read) <= limit:
                    return found[:limit], len(found) > limit
                place = rows.place_of(connection, str(read[-1][0]), order)

    def count_pending(self, tenants: Collection[str] | None = None) -> int:
        """Return the number of pending requests by the database."""
        if not self.workspace.records.exists():
            return 0
        with connected(self.workspace.records) as connection:
            return rows.count_pending(connection, tenants)

    def _place(
        self, connection: RecordsConnection, request_id: str, order: rows.Order, tenants: Collection[str] | None
    ) -> tuple[Any, ...] | None:
        known = rows.select(connection, "id = ?", [request_id])
        if not known or (tenants is not None and known[0][1] not in tenants):
            raise NotFound.of("HIVE-409", "the cursor leads nowhere any more", fix="begin with the first page")
        return rows.place_of(connection, request_id, order)

    def batch(self, run_id: str) -> Sequence[ApprovalRequest]:
        """Return the pending tool calls of a run in the order of its turns, as for `batch_hash`."""
        pending = self.list("pending", kind="tool_call", run_ids=[run_id])
        return sorted(pending, key=lambda one: (len(one.idempotency_key or ""), one.idempotency_key or ""))

    def granted(self, filing: Filing) -> str | None:
        """Return the id of the approval that allows such a call for the rest of its run; None without one."""
        if filing.run_id is None:
            return None
        found = (one for one in self.list(run_ids=[filing.run_id]) if one.grant is not None)
        return next((one.id for one in found if one.grant == filing.call_hash), None)

    def damaged(self) -> dict[str, Diagnostic]:
        """Return the diagnostics, HIVE-413, of requests that were altered outside the store, by id."""
        self._act_on_due()
        with connected(self.workspace.records) as connection:
            return inbox(self.workspace, rows.select(connection)).damaged

    def get(self, request_id: str, tenants: Collection[str] | None = None) -> ApprovalRequest:
        """Return a request of these tenants, None for all.

        Raises: HIVE-409 for an unknown id, HIVE-413 for an altered one or a broken log.
        """
        self._act_on_due()
        with connected(self.workspace.records) as connection:
            return self._find(connection, request_id, tenants)

    def read(
        self, request_id: str, tenants: Collection[str] | None = None
    ) -> tuple[ApprovalRequest, Sequence[Diagnostic]]:
        """As `get`; while the audit log is broken, the unverified request, with HIVE-413 as a warning."""
        verdict = audit.verify(self.workspace)
        if verdict.ok:
            return self.get(request_id, tenants), ()
        with connected(self.workspace.records) as connection:
            found = rows.request_of(self._row(connection, request_id, tenants))
        return found, [replace(one, severity="warning") for one in audit.broken(verdict).diagnostics]

    def decide(
        self,
        request_id: str,
        verb: Verb,
        *,
        by: str,
        authn: str = "local",
        tenant: str | None = None,
        jti: str | None = None,
        maker: str | None = None,
        makers: Sequence[str] = (),
        holder: Principal | None = None,
        reason: str | None = None,
        message: str | None = None,
        patch: Any = None,
        version: int | None = None,
        content_hash: str | None = None,
        for_run: bool = False,
        check: Callable[[ApprovalRequest], None] | None = None,
        again: Callable[[], object] | None = None,
    ) -> ApprovalRequest:
        """Answer a request; the same answer by the same person again changes nothing.

        With several approvers it stays pending until the last of them. `tenant` is that of a token's person, None for a
        local name; `jti`, `maker` and `makers` are of their proof, `holder` is the person whom it names. `version` or
        `content_hash` name the content that was read. With `for_run` the same call may be made again in its run without
        asking. `check` is called before an answer that is allowed counts, and raises to refuse it; so does `again`,
        which looks up anew who decides, while nobody else can write.
        Raises: HIVE-414 decided otherwise, by somebody else or too late, HIVE-415 not
        allowed, or not to be read by them, HIVE-416 the content has changed, HIVE-105 an edit that isn't valid, or a
        patch without one.
        """
        assert holder is not None or authn != "token"
        by = person(by)
        seen, caller = self.get(request_id), who.Caller(by, authn, tenant, makers=tuple(makers))
        require_known(seen, caller, require_token=self.settings.require_token)
        require_viewable(self.workspace, seen, holder)
        if repeats(seen, verb, by, message, patch):
            self._catch_up(request_id)  # the previous answer may be incomplete after a crash
            return seen
        if for_run:
            require_grantable(seen, verb)
        self._require(seen, verb, caller, version, content_hash)
        if verb == "respond" and not message:
            raise HiveError.of("HIVE-409", "a response needs a text", fix='add --message "…"')
        args = edited_args(seen, verb, patch, self.recheck)
        if check is not None:
            check(seen)
        with connected(self.workspace.records) as connection, transaction(connection):
            request = self._find(connection, request_id)
            if repeats(request, verb, by, message, patch):
                return request
            self._require(request, verb, caller, version, content_hash or seen.content_hash)
            if again is not None:
                again()
            decision = Decision(
                verb=verb,
                by=by,
                authn=authn,
                at=self.now(),
                version=request.version + (args is not None),
                tenant=tenant,
                jti=jti,
                maker=maker,
                makers=list(makers),
                reason=reason,
                message=message,
                args=args,
            )
            decided = self._write(connection, "decided", request, effect(request, decision, for_run=for_run))
        if decided.decided:
            notify(self.workspace, "decided", decided)
        return decided

    def revise(self, request_id: str, *, title: str | None = None, context: dict[str, Any]) -> ApprovalRequest:
        """Change a pending request's content; earlier approvals don't count any more."""
        with connected(self.workspace.records) as connection, transaction(connection):
            request = self._find(connection, request_id)
            require_open(request, self.now())
            return self._write(connection, "revised", request, content(request, context, title))

    def supersede(self, request_id: str, why: str) -> ApprovalRequest:
        """Close an obsolete request: pending, or approved and not carried out."""
        with connected(self.workspace.records) as connection, transaction(connection):
            request = self._find(connection, request_id)
            if request.status == "superseded":
                return request
            if request.status not in ("pending", "approved", "edited") or request.outcome is not None:
                require_open(request, self.now())
            closed = self._write(connection, "superseded", request, {"status": "superseded", "note": why})
        notify(self.workspace, "superseded", closed)
        return closed

    def delegate(
        self,
        request_id: str,
        *,
        by: str,
        to: str,
        authn: str = "local",
        tenant: str | None = None,
        makers: Sequence[str] = (),
        again: Callable[[], object] | None = None,
    ) -> ApprovalRequest:
        """Hand a request to another person, who then decides in place of `by`.

        Raises: HIVE-415 also where `access/*.json` has them in a tenant that doesn't decide it.
        """
        by, to = person(by), person(to)
        with connected(self.workspace.records) as connection, transaction(connection):
            request = self._find(connection, request_id)
            require_open(request, self.now())
            verb = request.allowed_decisions[0]
            for one in (who.Caller(by, authn, tenant, makers=tuple(makers)), who.Caller(to, authn, tenant)):
                require_permitted(request, verb, one, require_token=self.settings.require_token)
            for name, listed in AccessRules.load(self.workspace).principals.items():
                if same_person(f"user:{name}", to):
                    one = who.Caller(to, authn, listed.tenant)
                    require_known(request, one, require_token=self.settings.require_token)
            if same_person(by, to):
                raise refused("HIVE-415", f"{by} can't delegate to themselves", "name another person")
            if again is not None:
                again()
            delegations = [*request.delegations, Delegation(by=by, to=to, at=self.now())]
            changes = {"delegations": [one.model_dump() for one in delegations]}
            delegated = self._write(connection, "delegated", request, changes)
        notify(self.workspace, "delegated", delegated)
        return delegated

    def record_outcome(self, request_id: str, outcome: dict[str, Any]) -> None:
        """Record that a decision was carried out."""
        with connected(self.workspace.records) as connection, transaction(connection):
            request = self._find(connection, request_id)
            rows.update(connection, request.model_copy(update={"outcome": outcome}))

    def asks(self, run_id: str) -> bool:
        """Return whether a request of that run is pending."""
        with connected(self.workspace.records) as connection:
            query = "SELECT 1 FROM approvals WHERE run_id = ? AND status = 'pending' LIMIT 1"
            return connection.execute(query, (run_id,)).fetchone() is not None

    def sweep(self) -> None:
        """Remind, escalate and expire what is due, and complete answers that a crash left incomplete.

        Time rejects or escalates; it never approves. Reading requests does what is due as well, but only this looks for
        incomplete answers, which needs the whole log.
        """
        if not self.workspace.records.exists():
            return
        with connected(self.workspace.records) as connection:
            pending = rows.pending(connection)
        if pending:
            for request_id in log.answered(self.workspace, pending):
                with suppress(AuditFault):
                    self._catch_up(request_id)
        self._act_on_due()

    def _act_on_due(self) -> None:
        now = self.now()
        if not self.workspace.records.exists():
            return
        with connected(self.workspace.records) as connection:
            due = rows.overdue(connection, now)
        for request_id in due:
            with suppress(AuditFault):  # a damaged request must not block others
                self._act_on(request_id, now)

    def _catch_up(self, request_id: str) -> None:
        """Update a row from the log: the answer counts, and only now its run is woken and its event published."""
        with connected(self.workspace.records) as connection, transaction(connection):
            request = rows.request_of(self._row(connection, request_id))
            standing = log.standing(request, log.histories(self.workspace).get(request_id, []))
            if standing.step != request.step:
                self._update(connection, request, standing)

    def _act_on(self, request_id: str, now: str) -> None:
        with connected(self.workspace.records) as connection, transaction(connection):
            request = self._find(connection, request_id)
            occasion, changes = overdue(request, now, self.settings.due_hours, self.settings.remind_hours)
            if occasion is not None:
                request = self._write(connection, occasion, request, changes)
        if occasion is not None:
            notify(self.workspace, occasion, request)

    def _require(
        self, request: ApprovalRequest, verb: Verb, caller: who.Caller, version: int | None, content_hash: str | None
    ) -> None:
        require_open(request, self.now())
        require_permitted(request, verb, caller, require_token=self.settings.require_token)
        require_current(request, version, content_hash)

    def _filed_before(self, row: rows.Row, filing: Filing) -> ApprovalRequest:
        request = rows.request_of(row)
        entries = log.histories(self.workspace).get(request.id, [])
        request = log.standing(request, entries)
        if (request.tenant, request.key) != (filing.tenant, filing.key):
            raise log.untrusted(request.id, "it stands under another request's key")
        if filing.idempotency_key is not None and entries[0]["content_hash"] != filing.hash:
            message = f"{request.id} was filed under the same idempotency key with another content"
            raise refused("HIVE-416", message, "give the new content a key of its own")
        return request

    def _write(
        self, connection: RecordsConnection, event: str, request: ApprovalRequest, changes: dict[str, Any]
    ) -> ApprovalRequest:
        after = log.changed(request, changes)
        log.append(self.workspace, event, after, changes)
        self._update(connection, request, after)
        return after

    def _update(self, connection: RecordsConnection, request: ApprovalRequest, after: ApprovalRequest) -> None:
        rows.update(connection, after)
        if after.status != "pending" and request.status == "pending":
            expired = after.status == "expired"
            record(connection, EventType.APPROVAL_EXPIRED if expired else EventType.APPROVAL_DECIDED, after)

    def _find(
        self, connection: RecordsConnection, request_id: str, tenants: Collection[str] | None = None
    ) -> ApprovalRequest:
        request = rows.request_of(self._row(connection, request_id, tenants))
        return log.standing(request, log.histories(self.workspace).get(request_id, []))

    def _row(self, connection: RecordsConnection, request_id: str, tenants: Collection[str] | None = None) -> rows.Row:
        found = rows.select(connection, "id = ?", [request_id])
        if not found or (tenants is not None and found[0][1] not in tenants):
            fix = "`hive approvals list` shows all of them"
            raise NotFound.of("HIVE-409", f"there is no approval request {request_id}", fix=fix)
        return found[0]

    def _standing(self, status: Status | None) -> dict[str, Any]:
        """Return what rows can stand so by the log; one that lags behind it is pending."""
        if status in (None, "pending"):
            return {"pending": status == "pending", "ids": None}
        return {"pending": False, "ids": log.standing_so(self.workspace, status)}
