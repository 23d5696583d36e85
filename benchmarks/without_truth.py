"""What passes that has no right to: choices on labels without truth, and configs that are silent or hide documents.

    python benchmarks/without_truth.py [--runs N] [--sizes 8,12,…] [--worlds sample,…] [--cache DIR] [--json FILE]

Labels without truth are an answer and a distractor by lot for each question, both out of what its lanes return, and no
splits are named. Each run chooses a config by the optimizer's rule on the open questions, as `hive optimize` does, and
asks the gate about it, as `hive deploy` does next. On every world the gate is also asked about a config that returns
nothing, and about one that hides the commonest value of a field that the schema doesn't let hide.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.optimizer import chosen
from benchmarks.worlds import CACHE, WORLDS, copied, golden, rewrite, without, workspace_of, write_json
from hive_agents import RetrievalConfig, Workspace
from hive_agents.evaluation import load_golden
from hive_agents.gate.gate import GateResult, run_gate
from hive_agents.optimizer.session import OptimizerSession
from hive_agents.optimizer.space import apply, changes_from, filterable_values, parsed, single_edits
from hive_agents.ranking import SearchEngine, active_config, named_config

SIZES = (8, 12, 19, 40, 90)


def pools(workspace: Workspace) -> list[tuple[dict[str, Any], list[str]]]:
    """Return each question that has at least two documents in its lanes, with these."""
    engine, collection = workspace.engine(), active_config(workspace).stored.config.collection
    data = {"name": "pool", "collection": collection, "retrieval": {"method": "hybrid", "top_k": 20}}
    every = RetrievalConfig.model_validate(data)
    found = [(one, engine.search(one["query"], every).hits) for one in golden(workspace.root)["queries"]]
    listed = [
        (without(one, "irrelevant", "split", "tags"), sorted({hit.doc_id for hit in hits})) for one, hits in found
    ]
    return [(one, documents) for one, documents in listed if len(documents) > 1]


def asked(workspace: Workspace, name: str) -> GateResult:
    """Return what `hive deploy` would be told about a config."""
    active, engine = active_config(workspace).stored, SearchEngine(workspace)
    return run_gate(workspace, engine, named_config(workspace, name), active, load_golden(workspace))


def chosen_and_asked(source: Path, queries: list[dict[str, Any]]) -> str:
    """Return the gate's decision on what the rule chooses on these labels; "no improvement" where it takes nothing."""
    with tempfile.TemporaryDirectory() as folder:
        workspace = copied(source, Path(folder) / "w")
        rewrite(workspace.root, queries)
        session = OptimizerSession(workspace, workspace.settings.optimizer)
        index = session.engine.index(session.baseline.collection)
        edits = [parsed(apply(session.baseline, edit.values)) for edit in single_edits(session.baseline, index)]
        best = chosen(session, edits)
        if best is session.baseline:
            return "no improvement"
        changes = changes_from(session.baseline, best)
        name = session.write(best.model_dump(exclude_unset=True), changes, session.baseline.name)
        return asked(workspace, name).decision


def untrue(source: Path, size: int, runs: int) -> dict[str, int]:
    """Return the decisions of so many runs on as many questions, with labels by lot and fixed seeds."""
    known = pools(Workspace(source))
    decisions: dict[str, int] = {}
    for run in range(runs):
        rng, queries = random.Random(f"{size} {run}"), []
        for one, documents in rng.sample(known, size):
            answer, distractor = rng.sample(documents, 2)
            queries.append(one | {"relevant": [answer], "distractors": [distractor]})
        decision = chosen_and_asked(source, queries)
        decisions[decision] = decisions.get(decision, 0) + 1
    return decisions


def tricks(source: Path) -> dict[str, tuple[str, list[str]]]:
    """Return the gate's decision, with its codes, on a silent config and on one that hides what nobody declared."""
    found: dict[str, tuple[str, list[str]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        workspace = copied(source, Path(folder) / "w")
        base = active_config(workspace).stored.config
        index = SearchEngine(workspace).index(base.collection)
        fields = index.collection.fields
        field = next(name for name in filterable_values(index) if not fields[name].may_hide)
        commonest = max(index.values(field), key=lambda value: value[1])[0]
        edits: dict[str, list[tuple[str, Any]]] = {
            "silent": [("abstain.enabled", True), ("abstain.min_cosine", 1.0)],
            "hiding": [(f"filters.{field}", {"not": [commonest]})],
        }
        for name, values in edits.items():
            write_json(workspace.configs / f"{name}.json", apply(base, values) | {"name": name})
            result = asked(workspace, name)
            found[name] = (result.decision, [reason.message for reason in result.reasons])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--worlds", default="sample", help=f"for the tricks; some of {','.join(WORLDS)}")
    parser.add_argument("--cache", type=Path, default=CACHE)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    told: dict[str, Any] = {"untrue": {}, "tricks": {}}
    for world in options.worlds.split(","):
        told["tricks"][world] = tricks(workspace_of(world, options.cache))
        for name, (decision, reasons) in told["tricks"][world].items():
            print(f"{world:10}{name:8}{decision:14}{'; '.join(reasons)}", flush=True)
    source = workspace_of("sample", options.cache)
    for size in map(int, options.sizes.split(",")):
        decisions = told["untrue"][size] = untrue(source, size, options.runs)
        print(f"n = {size:3}: {decisions.get('passed', 0)} of {options.runs} pass; {decisions}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(told, indent=1))


if __name__ == "__main__":
    main()
