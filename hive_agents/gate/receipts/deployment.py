"""The receipt of a deployment: the config, its evidence, and its place in the audit log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hive_agents.base import HiveError, sha256
from hive_agents.evaluation import FILE, GoldenSet, evaluate_interleaved, held_out, load_golden
from hive_agents.gate.certificate import changed_since, log_verdict
from hive_agents.gate.ledger import distinct
from hive_agents.gate.receipts.statement import Receipt, Rederived, compared
from hive_agents.ranking import SearchEngine, Version, versions
from hive_agents.store import audit
from hive_agents.workspace import Workspace

_TIMED = "latency"
"""Measures of time, which differ in every run."""


def receipt_of(workspace: Workspace, number: int | None = None) -> Receipt:
    """Return the receipt of a deployment by its number in `hive history`; of the last one without it.

    Raises: HIVE-409 for an unknown one, HIVE-413 where the audit log contradicts it.
    """
    version, entry = _version(workspace, number)
    facts = {
        "version": version.id,
        "config": version.name,
        "config_hash": version.config_hash,
        "at": version.at,
        "by": version.by,
        "authn": version.authn,
        "decision": version.decision,
        "via": version.via,
        "previous": version.previous,
        "evaluation": version.evaluation,
        "audit": {"line": entry["seq"], "digest": entry["digest"]},
    }
    return Receipt("deployment", {version.file: sha256(version.text)}, facts)


def checks_of(workspace: Workspace, receipt: Receipt) -> Iterator[Rederived]:
    """Yield what can be derived again of a deployment: its record, the log's chain, and the measurement itself.

    A repeated measurement spends no look at a holdout: only whether its figures equal the record's is reported.
    """
    number = receipt.facts.get("version")
    yield from compared(receipt, receipt_of(workspace, number if isinstance(number, int) else -1))
    verdict = log_verdict(workspace)
    yield Rederived.of("audit log: chain", verdict.ok, verdict.reason)
    version, _ = _version(workspace, number)
    yield _measured(workspace, version)


def _measured(workspace: Workspace, version: Version) -> Rederived:
    name, record = "measurement", version.evaluation
    if record is None or "certificate" not in record:
        return Rederived(name, "unknown", "nothing was measured: it was active before the first deployment")
    known = {other.config_hash: other for other in versions(workspace)}
    active = record["certificate"]["active_hash"]
    if active is not None and active not in known:
        return Rederived(name, "unknown", "the config that served before is in no deployment's record")
    changed = changed_since(workspace, version.stored, active, record)
    if changed:
        return Rederived(name, "unknown", f"{changed} since it was measured")
    golden = _measured_part(workspace, record)
    if golden is None:
        return Rederived(name, "unknown", "the golden set can't be read, or its held-out questions are open ones")
    configs = [version.stored.config, *([known[active].stored.config] if active is not None else [])]
    evaluations = evaluate_interleaved(SearchEngine(workspace), configs, golden)
    sides = zip(("candidate", "active"), evaluations, strict=False)
    same = all(_agree(record[side], evaluation.metrics) for side, evaluation in sides)
    return Rederived.of(name, same, "measured again on the same golden set and index, the figures are others")


def _measured_part(workspace: Workspace, record: Mapping[str, Any]) -> GoldenSet | None:
    try:
        golden = load_golden(workspace, workspace.root / record.get("golden", FILE))
        holdout = held_out(golden) if record["split"] else None
        return distinct(holdout or golden.asked, golden if holdout else None)[0]
    except HiveError:
        return None


def _agree(told: Mapping[str, Any] | None, metrics: Mapping[str, Any]) -> bool:
    """Return whether the metrics equal those of the record, except times."""
    return told is not None and all(told.get(name) == value for name, value in metrics.items() if _TIMED not in name)


def _version(workspace: Workspace, number: Any) -> tuple[Version, Mapping[str, Any]]:
    found = versions(workspace)
    version = next((one for one in found if number in (None, one.id)), None)
    if version is None:
        message = f"there is no deployment {number}" if found else "nothing was deployed yet"
        raise HiveError.of("HIVE-409", message, fix="`hive history` lists them by number", exit_code=2)
    for entry in audit.vouched(workspace, "deployment"):
        if entry["version"] == version.id:
            return version, entry
    message = f"the audit log doesn't know deployment {version.id}"
    raise HiveError.of("HIVE-413", message, file=audit.FILE, path="$", fix="restore the log from a backup", exit_code=1)
