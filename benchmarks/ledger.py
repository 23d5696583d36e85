"""What a rule for the levels of repeated looks at one holdout deploys, in fifty steps of a proposer that adapts.

    python benchmarks/ledger.py [--runs N] [--json FILE]

Each step asks the gate about one change of what serves. A share of the changes is better in truth, by as much as one
look at the first level proves in four cases of five; the others change nothing. Proposers: `honest` asks about a new
change each time; `again` remembers what was refused and asks again once the level allows it; `sum` adds up whatever was
refused, by the figures that the gate printed, and asks once the sum would pass. Printed are how many true changes were
deployed, the expected share of false ones among all deployed (FDR), and the chance of any false one.

Rules: `series` gives the j-th look α·6/(π²j²); `kept` is the product's, where a look whose gain is deployed costs
nothing; `restart` begins the series anew after each pass; `lord` is LORD++ (Ramdas et al. 2017) with half of α to begin
with. All but `lord`, which has no end, stop after ten looks.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import NormalDist

import numpy as np

from hive_agents.evaluation.statistics import spent_alpha
from hive_agents.gate.ledger import MAX_USES

ALPHA, STEPS = 0.05, 50
_NORMAL = NormalDist()
TRUE = _NORMAL.inv_cdf(1 - spent_alpha(1)) + _NORMAL.inv_cdf(0.8)
"""A true gain, in standard errors of its measured mean."""


def _level(j: int) -> float:
    return spent_alpha(j, ALPHA) if j <= MAX_USES else 0.0


def _since(passes: Sequence[bool]) -> int:
    return next((place for place, passed in enumerate(reversed(passes)) if passed), len(passes))


def _lord(passes: Sequence[bool]) -> float:
    now, at = len(passes) + 1, [place for place, passed in enumerate(passes, 1) if passed]
    level = spent_alpha(now, ALPHA / 2) + sum(spent_alpha(now - place, ALPHA / 2) for place in at[:1])
    return level + sum(spent_alpha(now - place, ALPHA) for place in at[1:])


RULES: dict[str, Callable[[Sequence[bool]], float]] = {
    "series": lambda passes: _level(len(passes) + 1),
    "kept": lambda passes: _level(1 + passes.count(False)),
    "restart": lambda passes: _level(1 + _since(passes)),
    "lord": _lord,
}
PROPOSERS = ("honest", "again", "sum")


def deployed(rule: str, proposer: str, share: float, rng: np.random.Generator) -> tuple[int, int]:
    """Return how many true and false changes `STEPS` steps deploy; `share` of the changes are better in truth.

    A change is (its measured gain in standard errors, its true one); of changes that are added up the gains add up,
    and the standard error grows with the root of their number.
    """
    passes: list[bool] = []
    refused: list[tuple[float, float]] = []
    true = false = 0
    for _ in range(STEPS):
        if not (level := RULES[rule](passes)):
            break
        wanted = _NORMAL.inv_cdf(1 - level)
        refused.sort(reverse=True)
        sums = np.cumsum([gain for gain, _ in refused]) / np.sqrt(np.arange(1, len(refused) + 1))
        most = 0 if proposer == "honest" else 1 if proposer == "again" else len(refused)
        asked = int(sums[:most].argmax()) + 1 if most and refused else 0
        if asked and sums[asked - 1] >= wanted:
            change, refused = refused[:asked], refused[asked:]
        else:
            truth = TRUE if rng.random() < share else 0.0
            change = [(truth + rng.standard_normal(), truth)]
        passed = sum(gain for gain, _ in change) / len(change) ** 0.5 >= wanted
        passes.append(passed)
        if not passed:
            refused += change
        elif any(truth for _, truth in change):
            true += 1
        else:
            false += 1
    return true, false


def measured(rule: str, proposer: str, share: float, runs: int) -> dict[str, float]:
    """Return {true, fdr, any}: the means over `runs` with fixed seeds."""
    rng = np.random.default_rng([17, int(100 * share)])
    true, false = np.array([deployed(rule, proposer, share, rng) for _ in range(runs)]).T
    return {
        "true": float(true.mean()),
        "fdr": float((false / np.maximum(true + false, 1)).mean()),
        "any": float((false > 0).mean()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = []
    print(f"{'rule':9}{'proposer':10}{'true share':>11}{'deployed':>10}{'FDR':>8}{'any false':>11}")
    for share in (0.0, 0.1, 0.3, 0.6):
        for proposer in PROPOSERS:
            for rule in RULES:
                found = measured(rule, proposer, share, options.runs)
                rows.append({"rule": rule, "proposer": proposer, "share": share} | found)
                print(f"{rule:9}{proposer:10}{share:11.1f}{found['true']:10.2f}{found['fdr']:8.3f}{found['any']:11.3f}")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
