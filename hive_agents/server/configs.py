"""Retrieval configs: reading, checking, measuring, comparing, deploying through the gate, and rolling back."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from hive_agents.access import ViewGate
from hive_agents.base import HiveError, NotFound, Stale, has_errors
from hive_agents.base.files import NAME_PATTERN, AnyCase, FewEntries, LongText, ShortName
from hive_agents.evaluation import Split, changed, compare, evaluate, load_golden, results
from hive_agents.gate import deploy, holdout, rollback, visible_part
from hive_agents.host import decisions
from hive_agents.ranking import (
    StoredConfig,
    check_config,
    config_files,
    find_active,
    named_config,
    read_config,
    require_sound,
    versions,
)
from hive_agents.server.api import MOST, Api, Body, Query, Value
from hive_agents.server.auth import OPERATOR, CallContext
from hive_agents.server.shapes import ConfigRef, DiagnosticShape, PageQuery, paged

api = Api("configs")


class ConfigRow(Value):
    """`error` is why a file can't be read as a config."""

    name: str
    file: str
    active: bool
    parent: str | None
    description: str | None
    error: str | None


class ConfigList(Value):
    configs: list[ConfigRow]
    active: str | None


class ConfigShown(Value):
    name: str
    file: str
    hash: str
    active: bool
    config: dict[str, Any]


class Checked(Value):
    ok: bool
    diagnostics: list[DiagnosticShape]


class MeasureConfig(Body):
    config: ConfigRef = "active"
    split: Annotated[Split, AnyCase] | None = None


class MeasuredConfig(Value):
    """As `hive evaluate --json`, without the holdout's queries: the queries, labels, documents and figures are those
    that there would be without the documents that the caller may not view."""

    config: str
    k: int
    n: int
    split: str | None
    metrics: dict[str, float | None]
    tags: dict[str, dict[str, float | None]]
    abstention: dict[str, float | None]
    index_hash: str
    golden_hash: str
    queries: list[dict[str, Any]]


class Compare(Body):
    """Measured is what the caller may view, whichever `within` is: the workspace's owner measures everything."""

    a: ConfigRef = "active"
    b: ConfigRef
    split: Annotated[Split, AnyCase] | None = None
    within: Annotated[Literal["everything", "mine"], AnyCase] = "everything"


class Compared(Value):
    """Differences are B minus A; each query lists the hits of both configs, with labels, and its `relevant` documents.

    Queries, labels, documents and figures are those that there would be without the documents that the caller may not
    view.
    """

    a: dict[str, Any]
    b: dict[str, Any]
    difference: dict[str, Any]
    queries: list[dict[str, Any]]
    changes: list[dict[str, Any]]


class Since(Query):
    since: ConfigRef = "active"


class Changes(Value):
    """Each change has `a`, the value before, and `b`, the value after; null where it is left out."""

    changes: list[dict[str, Any]]


class Deploy(Body):
    """`override` asks another person to deploy in spite of the gate; it needs a `reason`.

    With `accept_tags` a person with the role approver accepts the losses shown for these tags, and with `accept` those
    of readers (answered, recall, first, reach, hidden), for a `reason`. `hash`
    is that of the config as it was read, `of` the id in the history of the one active then, 0 for none: where either
    has changed meanwhile, nothing is deployed.
    """

    config: ConfigRef
    hash: ShortName | None = None
    of: Annotated[int, Field(ge=0, le=MOST)] | None = None
    allow_inconclusive: bool = False
    override: bool = False
    accept_tags: Annotated[list[ShortName], FewEntries] = []
    accept: Annotated[list[ShortName], FewEntries] = []
    reason: LongText | None = None


class Deployed(Value):
    """As `hive deploy --json`: the gate's decision on everything, and in `evaluation`, `reasons` and `certificate` the
    figures of what the caller may view."""

    decision: str
    reasons: list[dict[str, Any]]
    watch: list[dict[str, Any]]
    deployed: str | None
    previous: str | None
    evaluation: dict[str, Any]
    certificate: dict[str, Any]
    approval_id: str | None
    override: dict[str, Any] | None


class Rollback(Body):
    """`of` is the id in the history of the active config: where another one is active, nothing is rolled back."""

    reason: LongText | None = None
    of: Annotated[int, Field(ge=0, le=MOST)] | None = None


class RolledBack(Value):
    deployed: str
    previous: str


class ConfigVersionRow(Value):
    id: int
    config: str
    config_hash: str
    at: str
    by: str
    authn: str
    decision: str
    via: str
    reason: str | None
    evaluation: dict[str, Any] | None
    active: bool


class VersionHistory(Value):
    """`proof` is what the held-out questions can still prove, for the workspace's owner."""

    versions: list[ConfigVersionRow]
    proof: dict[str, float | None] | None
    next_cursor: str | None


@api.get("/api/configs", OPERATOR, tagged=True)
def list_configs(call: CallContext) -> ConfigList:
    """Every config of the workspace, and which one is active."""
    active = find_active(call.workspace)
    name = active.stored.name if active else None
    return ConfigList(configs=[_row(call, one, name) for one in config_files(call.workspace)], active=name)


@api.get("/api/configs/{name}", OPERATOR, tagged=True)
def show_config(call: CallContext, name: str) -> ConfigShown:
    """A config as stored in its file; the name `active` means the active one."""
    stored = _config(call, name)
    active = find_active(call.workspace)
    return ConfigShown(
        name=stored.name,
        file=stored.file,
        hash=stored.hash,
        active=active is not None and active.stored.hash == stored.hash,
        config=stored.config.model_dump(mode="json", exclude_unset=True),
    )


@api.post("/api/configs/{name}/validate", OPERATOR)
def validate(call: CallContext, name: str) -> Checked:
    """Check a config: syntax and semantics."""
    try:
        findings = check_config(call.workspace, _config(call, name), viewer=call.reaches())
    except NotFound:
        raise
    except HiveError as error:
        if error.exit_code != 1:
            raise
        findings = error.diagnostics
    return Checked(ok=not has_errors(findings), diagnostics=[DiagnosticShape(**one.to_json()) for one in findings])


@api.post("/api/evaluate", OPERATOR)
def measure(call: CallContext, body: MeasureConfig) -> MeasuredConfig:
    """Measure a config against the golden set. The split `holdout` spends a use of it."""
    call.freshness.refresh(now=True)
    stored, viewer = _config(call, body.config), call.reaches()
    part = visible_part(call.workspace, None, body.split, viewer)
    require_sound(call.workspace, stored, judged=part.golden.collection, viewer=viewer)
    part.look(call.engine, [stored.config], "evaluate")
    evaluation = evaluate(call.workspace, stored.config, golden=part.golden, reader=viewer)
    results.record(call.workspace, stored.config, evaluation)
    value = evaluation.to_json(split=body.split, hide=part.hidden)
    call.require_still()  # measuring takes minutes
    gate = ViewGate.of(call.workspace, call.principal)
    allowed = gate.allowed([hit["doc_id"] for query in value["queries"] for hit in query["hits"]])
    for query in value["queries"]:
        query["hits"] = [hit for hit in query["hits"] if hit["doc_id"] in allowed]
    return MeasuredConfig(**value)


@api.post("/api/compare", OPERATOR)
def compare_configs(call: CallContext, body: Compare) -> Compared:
    """Measure two configs side by side."""
    call.freshness.refresh(now=True)
    first, second, viewer = _config(call, body.a), _config(call, body.b), call.reaches()
    part = visible_part(call.workspace, None, body.split, viewer)
    for stored in (first, second):
        require_sound(call.workspace, stored, judged=part.golden.collection, viewer=viewer)
    part.look(call.engine, [first.config, second.config], "compare")
    comparison = compare(call.engine, first.config, second.config, part.golden, reader=viewer)
    value = comparison.to_json(hide=part.hidden)
    sides = {"a": comparison.a, "b": comparison.b}
    hits = {side: {one.query.id: [vars(hit) for hit in one.hits] for one in run.queries} for side, run in sides.items()}
    call.require_still()
    gate = ViewGate.of(call.workspace, call.principal)
    relevant = {one.query.id: one.query.relevant for one in comparison.a.queries}
    allowed = gate.allowed([
        *(hit["doc_id"] for side in hits.values() for shown in side.values() for hit in shown),
        *(doc_id for ids in relevant.values() for doc_id in ids),
    ])  # fmt: skip
    for query in value["queries"]:
        query["relevant"] = [doc_id for doc_id in relevant[query["id"]] if doc_id in allowed]
        query["hits"] = {side: [hit for hit in hits[side][query["id"]] if hit["doc_id"] in allowed] for side in sides}
    return Compared(**value)


@api.get("/api/configs/{name}/changes", OPERATOR, tagged=True)
def config_changes(call: CallContext, name: str, query: Since) -> Changes:
    """The values in which a config differs from another one, by JSON path."""
    return Changes(changes=changed(_config(call, query.since).config, _config(call, name).config))


@api.post("/api/deploy", OPERATOR)
def deploy_config(call: CallContext, body: Deploy) -> Deployed:
    """Run a config through the gate, and activate it if it passes. Each run may spend a use of the holdout."""
    if body.override and not (body.reason and body.reason.strip()):
        raise HiveError.of("HIVE-409", "an override needs a reason", fix='add "reason"', exit_code=2)
    accepts = bool(body.accept_tags or body.accept)
    if body.override and accepts:
        why = "an override asks another person, accepted losses are answered for by oneself"
        raise HiveError.of("HIVE-409", why, fix="use one of the two", exit_code=2)
    by = call.asker.reviewer().by if accepts else call.by
    call.freshness.refresh(now=True)  # labels follow renamed documents
    stored = _config(call, body.config)
    _require_as_seen(call, stored, body)
    outcome = deploy(
        call.workspace,
        stored,
        load_golden(call.workspace),
        allow_inconclusive=body.allow_inconclusive,
        accept_tags=body.accept_tags,
        accept=body.accept,
        reason=body.reason,
        by=by,
        authn=call.asker.authn,
        viewer=call.reaches(),
        require=call.require_still,
    )
    value = outcome.to_json()
    if body.override and not outcome.deployed:
        approval = decisions.ask_for_override(call.workspace, stored, outcome, str(body.reason), by, call.principal)
        value |= {"approval_id": approval, "override": {"reason": body.reason}}
    return Deployed(**value)


def _require_as_seen(call: CallContext, stored: StoredConfig, body: Deploy) -> None:
    """Raises: HIVE-307 where the config, or the active one, changed since the caller read it."""
    fix = "look at both again, then deploy"
    if body.hash is not None and body.hash != stored.hash:
        raise Stale.of("HIVE-307", f"{stored.name} was changed since it was looked at", file=stored.file, fix=fix)
    newest = next(iter(versions(call.workspace)), None)
    if newest is not None and body.of is not None and body.of != newest.id:
        why = f"{newest.by.removeprefix('user:')} made {newest.name} serve since {stored.name} was looked at"
        raise Stale.of("HIVE-307", why, file="configs/active.json", fix=fix)


@api.post("/api/rollback", OPERATOR)
def roll_back(call: CallContext, body: Rollback) -> RolledBack:
    """Activate the config that was active before; each call goes one further back."""
    version, before = rollback(
        call.workspace,
        reason=body.reason,
        by=call.by,
        authn=call.asker.authn,
        of=body.of,
        require=call.require_still,
    )
    return RolledBack(deployed=version.name, previous=before)


@api.get("/api/history", OPERATOR)
def history(call: CallContext, query: PageQuery) -> VersionHistory:
    """Every deployment, newest first; for the workspace's owner with its evaluation, which is one of everything."""
    viewer = call.reaches()
    every = [
        ConfigVersionRow(
            id=one.id,
            config=one.name,
            config_hash=one.config_hash,
            at=one.at,
            by=one.by,
            authn=one.authn,
            decision=one.decision,
            via=one.via,
            reason=one.reason,
            evaluation=one.evaluation if viewer is None else None,
            active=place == 0,
        )
        for place, one in enumerate(versions(call.workspace))
    ]
    shown, cursor = paged(every, query, lambda one: str(one.id))
    left = holdout.proof_of(call.workspace) if viewer is None else None
    return VersionHistory(versions=shown, proof=left.to_json() if left else None, next_cursor=cursor)


def _config(call: CallContext, name: str) -> StoredConfig:
    """Return a config by its name, never by a path. Raises: HIVE-107 (404) for an unknown one."""
    if re.fullmatch(NAME_PATTERN, name) is None or name.endswith(".json"):
        raise NotFound.of("HIVE-107", f"there is no config {name[:80]!a}", fix="GET /api/configs lists them")
    return named_config(call.workspace, name)


def _row(call: CallContext, path: Path, active: str | None) -> ConfigRow:
    file = call.workspace.relative(path)
    try:
        config = read_config(call.workspace, path).config
    except HiveError as error:
        why = error.diagnostics[0].message
        return ConfigRow(name=path.stem, file=file, active=False, parent=None, description=None, error=why)
    is_active = config.name == active
    described = {"parent": config.parent, "description": config.description}
    return ConfigRow(name=config.name, file=file, active=is_active, error=None, **described)
