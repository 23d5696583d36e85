"""Deployments and rollbacks: the only place that changes the active config."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from hive_agents.access import Principal, local_user
from hive_agents.base import Diagnostic, HiveError
from hive_agents.evaluation import GoldenSet
from hive_agents.events import Event, EventLog, EventType
from hive_agents.gate.acceptance import nothing_to_accept, require_acceptable
from hive_agents.gate.certificate import changed_since
from hive_agents.gate.gate import GateResult, as_seen, run_gate
from hive_agents.ranking import (
    SearchEngine,
    StoredConfig,
    Version,
    build_index,
    deployed,
    find_active,
    is_inside,
    require_sound,
    versions,
)
from hive_agents.store import RecordsConnection, audit, exclusive
from hive_agents.workspace import Workspace


@dataclass(frozen=True)
class Deployment:
    """The outcome of a deploy; `deployed` is None where the gate kept the active config.

    `result` is the gate's, `shown` what its `viewer` is told of it.
    """

    result: GateResult
    deployed: str | None
    previous: str | None
    warnings: tuple[Diagnostic, ...]
    shown: GateResult

    def to_json(self) -> dict[str, Any]:
        return {
            "decision": self.shown.decision,
            "reasons": [reason.to_json() for reason in self.shown.reasons],
            "watch": [change.to_json() for change in self.shown.watch],
            "deployed": self.deployed,
            "previous": self.previous,
            "evaluation": self.shown.to_json(),
            "certificate": asdict(self.shown.certificate),
            "approval_id": None,
            "override": None,
        }


def deploy(
    workspace: Workspace,
    candidate: StoredConfig,
    golden: GoldenSet,
    *,
    allow_inconclusive: bool = False,
    accept_tags: Collection[str] = (),
    accept: Collection[str] = (),
    reason: str | None = None,
    by: str | None = None,
    authn: str = "local",
    before_look: Callable[[], None] = lambda: None,
    viewer: Principal | None = None,
    require: Callable[[], object] = lambda: None,
) -> Deployment:
    """Refresh the index, check levels 1 to 3, and switch to `candidate` if the gate lets it pass.

    `accept_tags` names tags, `accept` figures of the readers whose loss `by` accepts for `reason`; every other block
    stays. `before_look` is called after all checks, before the gate measures the candidate. Told is what `viewer` may
    know, as for `as_seen`. `require` raises where whoever asked may no longer deploy: measuring takes minutes.
    Raises: every error of levels 1 and 2; HIVE-307 when another deployment won the race; HIVE-409 for an acceptance
    without a reason or of an unknown tag, HIVE-415 for one by anybody but a person.
    """
    by = by or local_user()
    require_acceptable(golden, accept_tags, accept, by=by, reason=reason)
    file = workspace.root / candidate.file
    if file.parent != workspace.configs or not is_inside(file, workspace.configs):
        raise HiveError.of(
            "HIVE-114",
            f"{candidate.file} is outside configs/",
            file=candidate.file,
            path="$",
            fix="copy it into configs/, then deploy it",
        )
    build_index(workspace)
    require_sound(workspace, candidate, judged=golden.collection, viewer=viewer)
    active = find_active(workspace)
    engine, old = SearchEngine(workspace), active.stored if active else None
    before_look()
    result = run_gate(workspace, engine, candidate, old, golden, accept_tags=accept_tags, accept=accept)
    shown = result if viewer is None else as_seen(workspace, engine, result, candidate, old, viewer)
    previous = active.stored.name if active else None
    notices = nothing_to_accept(golden, accept_tags, shown.accepted_tags)
    warnings = (*(active.warnings if active else ()), *shown.warnings, *notices)
    if result.decision == "blocked" or (result.decision == "inconclusive" and not allow_inconclusive):
        return Deployment(result, None, previous, warnings, shown)
    switch(
        workspace,
        candidate,
        result.record(),
        decision=result.decision,
        via="deploy",
        reason=reason,
        by=by,
        authn=authn,
        require=require,
    )
    return Deployment(result, candidate.name, previous, warnings, shown)


def switch(
    workspace: Workspace,
    candidate: StoredConfig,
    evaluation: dict[str, Any],
    *,
    decision: str,
    via: str,
    reason: str | None = None,
    by: str | None = None,
    authn: str = "local",
    require: Callable[[], object] = lambda: None,
) -> Version:
    """Make `candidate` serve; `evaluation` is `GateResult.record()`, `authn` says how `by` is known, `require` is as in
    `deploy`.

    Raises: HIVE-307 where the active config, the golden set or the index is no longer the one measured.
    """
    with exclusive(workspace, "deploying"):
        require()
        active = find_active(workspace)
        now = active.stored.hash if active else None
        if active and active.version and now == candidate.hash and active.version.evaluation == evaluation:
            return active.version  # killed after the switch, before its caller knew
        changed = changed_since(workspace, candidate, now, evaluation)
        if changed:
            raise HiveError.of(
                "HIVE-307",
                f"{changed} since {candidate.name} was measured",
                file=candidate.file,
                path="$",
                fix="run the command again: it measures against what is there now",
                exit_code=1,
            )
        return _record(
            workspace,
            candidate,
            previous=_baseline(workspace, active),
            evaluation=evaluation,
            decision=decision,
            via=via,
            reason=reason,
            by=by,
            authn=authn,
        )


def rollback(
    workspace: Workspace,
    *,
    reason: str | None = None,
    by: str | None = None,
    authn: str = "local",
    of: int | None = None,
    require: Callable[[], object] = lambda: None,
) -> tuple[Version, str]:
    """Serve the previous config again, from its stored text; a further call goes further back.

    `authn` says how `by` is known; with `of` only that version is rolled back; `require` is as for `deploy`.

    Returns the new version and the name of the config that served until now.
    Raises: HIVE-412 when there is nothing to go back to, HIVE-307 where another version than `of` serves.
    """
    with exclusive(workspace, "rolling back"):
        require()
        history = versions(workspace)
        if of is not None and (not history or history[0].id != of):
            message = f"version {of} was to be rolled back, and it doesn't serve any more"
            raise HiveError.of(
                "HIVE-307",
                message,
                file="configs/active.json",
                path="$",
                fix="run `hive history` to see what serves",
                exit_code=1,
            )
        target = _before(history)
        if target is None:
            raise HiveError.of(
                "HIVE-412",
                "there is no earlier deployment to go back to",
                file="configs/active.json",
                path="$",
                fix="run `hive history` to see what was deployed",
                exit_code=1,
            )
        version = _record(
            workspace,
            target.stored,
            decision="rollback",
            via="rollback",
            reason=reason,
            previous=target.previous,
            by=by,
            authn=authn,
            evaluation=target.evaluation,
        )
        return version, history[0].name


def _before(history: Sequence[Version]) -> Version | None:
    """Return the last version whose text differs from the active one's."""
    by_id = {version.id: version for version in history}
    target = by_id.get(history[0].previous or 0) if history else None
    while target is not None and target.config_hash == history[0].config_hash:
        target = by_id.get(target.previous or 0)
    return target


def _baseline(workspace: Workspace, active: deployed.ActiveConfig | None) -> int | None:
    """Return the version that a rollback returns to; an active config without a version gets one."""
    if active is None:
        return None
    if active.version is not None:
        return active.version.id
    reason = "was active before the first deployment"
    return _record(workspace, active.stored, decision="first", via="deploy", reason=reason, link=False).id


def _record(
    workspace: Workspace,
    stored: StoredConfig,
    *,
    decision: str,
    via: str,
    reason: str | None,
    previous: int | None = None,
    evaluation: dict[str, Any] | None = None,
    by: str | None = None,
    authn: str = "local",
    link: bool = True,
) -> Version:
    """Write audit line, row, file and link, in this order: after a crash in between, the audit line decides."""
    at, by = audit.now(), by or local_user()
    fields = (stored.name, stored.file, stored.text, stored.hash, at, by, authn, decision, via, reason)
    if link:
        deployed.announce_switch(workspace)
    version = deployed.DEPLOYMENTS.append(
        workspace, lambda number: Version(number, *fields, evaluation, previous), _record_event if link else None
    )
    if link:
        deployed.settle(workspace, version)
    return version


def _record_event(connection: RecordsConnection, version: Version) -> None:
    kind = EventType.CONFIG_ROLLED_BACK if version.via == "rollback" else EventType.CONFIG_DEPLOYED
    details = {name: getattr(version, name) for name in ("by", "decision", "via")}
    EventLog.record(connection, [Event(kind, payload={"config": version.name, "version": version.id, **details})])
