"""The receipt of a comparison by `hive gate`: which files were compared on which labels, and what came out."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hive_agents.errors import HiveError
from hive_agents.evaluation import Evaluation, GoldenSet, evaluate_found, load_measured, paired_difference
from hive_agents.files import read_bytes
from hive_agents.rankings import Source, open_source
from hive_agents.receipts.statement import Receipt, Rederived
from hive_agents.verification import RankingsFinding, distinct
from hive_agents.workspace import Workspace

_TIMED = "latency"
"""What is measured in time is never the same twice."""
_SIDES = ("before", "after")


def gate_receipt(finding: RankingsFinding, given: Mapping[str, str], k: int | None, relevant_from: int) -> Receipt:
    """Return the receipt of a finding; `given` are the sources and files by the options that named them.

    What is a file is a subject; an endpoint, a retriever or a config is a name and nothing more.
    """
    told = finding.report()
    evaluation = told["evaluation"]
    for side in ("candidate", "active"):
        evaluation[side] = {name: value for name, value in evaluation[side].items() if _TIMED not in name}
    facts = {
        "decision": told["decision"],
        "reasons": [reason["code"] for reason in told["reasons"]],
        "evaluation": evaluation,
        "given": dict(sorted(given.items())),
        "k": k,
        "relevant_from": relevant_from,
    }
    files = {name: Path(name) for name in given.values() if Path(name).is_file()}
    return Receipt("gate", {name: _digest(path) for name, path in files.items()}, facts)


def checks_of(receipt: Receipt) -> Iterator[Rederived]:
    """Yield what can be derived again: the hash of each file, and the figures where all of them are the same.

    Files are looked for where the receipt names them, from the present folder. No look at a holdout is spent: nothing
    is told but whether the figures are those of the receipt.
    """
    whole = True
    for name, digest in sorted(receipt.subjects.items()):
        if not Path(name).is_file():
            yield Rederived(f"file {name}", "unknown", "it isn't here")
            whole = False
            continue
        check = Rederived.of(f"file {name}", _digest(Path(name)) == digest, "it was changed since")
        whole = whole and check.outcome == "same"
        yield check
    given = receipt.facts.get("given")
    evaluation = receipt.facts.get("evaluation")
    if not isinstance(given, dict) or not isinstance(evaluation, dict):
        yield Rederived("measurement", "differs", "the receipt doesn't say what was compared")
    elif not whole:
        yield Rederived("measurement", "unknown", "it can be measured on the same files alone")
    elif any(given.get(side) not in receipt.subjects for side in _SIDES):
        yield Rederived("measurement", "unknown", "a side is no file: what it returned then can't be asked again")
    else:
        yield _measured(receipt, given, evaluation)


def _measured(receipt: Receipt, given: Mapping[str, Any], told: Mapping[str, Any]) -> Rederived:
    name, facts = "measurement", receipt.facts
    files = {option: Path(str(given[option])) for option in ("queries", "holdout") if given.get(option)}
    try:
        sources = [open_source(str(given[side]), _no_workspace) for side in _SIDES]
        qrels, k, relevant_from = Path(str(given["qrels"])), facts["k"], facts["relevant_from"]
        _, labels, _ = load_measured(qrels, k=k, relevant_from=relevant_from, **files)
    except (HiveError, KeyError) as error:
        return Rederived(name, "unknown", f"the files can't be read as runs and labels: {error}")
    if any(source.live for source in sources):
        return Rederived(name, "unknown", "a side is asked anew each time: what it returned then can't be asked again")
    golden, _ = distinct(labels)
    old, new = (_evaluated(source, golden) for source in sources)
    difference = paired_difference(old.scores(), new.scores(), alpha=float(told.get("alpha", 0.05))).to_json()
    same = _agree(told.get("active"), old) and _agree(told.get("candidate"), new)
    same = same and told.get("difference") == difference
    return Rederived.of(name, same, "measured again on the same files, the figures are others")


def _evaluated(source: Source, golden: GoldenSet) -> Evaluation:
    return evaluate_found(source.name, golden, [source.rank(query, golden.k) for query in golden])


def _agree(told: Any, again: Evaluation) -> bool:
    metrics = {name: value for name, value in again.metrics.items() if _TIMED not in name}
    return isinstance(told, dict) and all(told.get(name) == value for name, value in metrics.items())


def _digest(path: Path) -> str:
    return hashlib.sha256(read_bytes(path)).hexdigest()


def _no_workspace() -> Workspace:
    raise HiveError.of("HIVE-410", "a config of a workspace isn't measured again")
