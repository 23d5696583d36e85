"""The inputs of a gate's decision; where any of them has changed since, the decision is stale."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from hive_agents.access import AccessRules
from hive_agents.base import AuditFault, HiveError
from hive_agents.documents import load_collection
from hive_agents.evaluation import GoldenSet, load_golden
from hive_agents.index import SqliteIndex
from hive_agents.ranking import StoredConfig, deployed, versions
from hive_agents.store import audit
from hive_agents.workspace import Workspace


@dataclass(frozen=True)
class Certificate:
    """Identities of what was measured, the release that measured, and the head of the audit log at that time.

    `model` is null without one; `access` is null where no golden query names a principal; `audit` is {entries, head}:
    a log that is shorter, or has another line there, was cut or rewritten.
    """

    config_hash: str
    active_hash: str | None
    golden_hash: str
    index_hash: str
    model: str | None
    access: str | None
    code: str
    audit: dict[str, Any]
    at: str


def certify(
    workspace: Workspace, candidate: StoredConfig, active: StoredConfig | None, golden: GoldenSet, index: SqliteIndex
) -> Certificate:
    """Return the certificate of a decision that is about to be made."""
    verdict = audit.verify(workspace)
    return Certificate(
        config_hash=candidate.hash,
        active_hash=active.hash if active else None,
        golden_hash=golden.hash,
        index_hash=index.index_hash,
        model=index.embedding_model,
        access=AccessRules.load(workspace).digest if any(query.principal for query in golden) else None,
        code=version("hive-agents"),
        audit={"entries": verdict.entries, "head": verdict.head},
        at=audit.now(),
    )


def log_verdict(workspace: Workspace) -> audit.AuditVerdict:
    """Return `audit.verify`'s verdict, which also fails without the head in the last deployment's certificate."""
    verdict = audit.verify(workspace)
    if not verdict.ok or not workspace.records.exists():
        return verdict
    try:
        rows = (*deployed.unlogged_versions(workspace), *versions(workspace))
    except AuditFault as error:  # it lacks all that the database has
        return replace(verdict, ok=False, reason=error.diagnostics[0].message)
    # A rollback repeats the certificate of its target.
    records = (version.evaluation or {} for version in rows if version.via != "rollback")
    seen = next((record["certificate"]["audit"] for record in records if "certificate" in record), None)
    if seen is None or audit.reaches(workspace, seen["entries"], seen["head"]):
        return verdict
    return audit.lacking(verdict, (seen["entries"], seen["head"]))


def log_fault(workspace: Workspace) -> str:
    """Return why the audit log can't vouch for the number of holdout uses; "" where it can."""
    verdict = log_verdict(workspace)
    return "" if verdict.ok else f"the audit log is broken: {verdict.reason}"


def changed_since(workspace: Workspace, candidate: StoredConfig, active: str | None, record: dict[str, Any]) -> str:
    """Return which input of a gate's `record()` has changed; "" for none. `active` is a config's hash."""
    certificate = record["certificate"]
    if active != certificate["active_hash"]:
        return "another config was deployed"
    if candidate.hash != certificate["config_hash"]:
        return "the config was edited"
    if _golden_hash(workspace, record["golden"]) != certificate["golden_hash"]:
        return "the golden set was changed"
    if certificate["access"] not in (None, AccessRules.load(workspace).digest):
        return "the access files were changed"
    if version("hive-agents") != certificate["code"]:
        return "hive-agents was upgraded"
    index = SqliteIndex(workspace, load_collection(workspace, candidate.config.collection))
    try:
        return "" if index.index_hash == certificate["index_hash"] else "the index was changed"
    finally:
        index.close()


def _golden_hash(workspace: Workspace, file: str) -> str | None:
    """Return the golden set's hash, None where it is gone or broken."""
    inside = workspace.root / file
    with suppress(HiveError):
        return load_golden(workspace, inside if inside.exists() else Path(file)).hash
    return None
