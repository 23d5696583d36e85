"""How often the gate's test shows a true gain, and how often it sees one where there is none, beside other tests.

    python benchmarks/power.py [--worlds sample,…] [--boost FIELD=VALUE] [--runs N] [--json FILE]

The population is what a boost changes in the questions of a world: the differences between the nUDCG with it and
without it. A run draws so many of them, with replacement, and asks each test at the level of a first look. In `scaled`
every difference is multiplied until the mean is .04; in `wider` more questions change instead, each by as much as
before. Nothing is better in truth in the other three: in `lots` the sign of each difference is drawn by lot; in
`few gain` what changes is shifted until its mean is 0, so that few gains are big and many losses small; in `many gain`
the signs of that are turned.

A sign-flip test of a studentized mean is no other test: flips leave the sum of squares as it is.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from benchmarks.worlds import CACHE, WORLDS, workspace_of
from hive_agents import Workspace
from hive_agents.evaluation import load_golden
from hive_agents.evaluation.statistics import one_sided_p_value, spent_alpha
from hive_agents.optimizer.lane_cache import LaneCache
from hive_agents.optimizer.space import apply, parsed
from hive_agents.ranking import active_config

Floats = NDArray[np.float64]

GAIN = 0.04
SIZES = (30, 72, 200, 236)


def sign_flip(differences: Floats) -> float:
    return one_sided_p_value(np.zeros(len(differences)).tolist(), differences.tolist())


def student(differences: Floats) -> float:
    return float(stats.ttest_1samp(differences, 0.0, alternative="greater").pvalue)


def wilcoxon(differences: Floats) -> float:
    return float(stats.wilcoxon(differences, alternative="greater", method="approx").pvalue)


def signs(differences: Floats) -> float:
    wins, losses = int((differences > 0).sum()), int((differences < 0).sum())
    return float(stats.binomtest(wins, wins + losses, alternative="greater").pvalue)


TESTS: dict[str, Callable[[Floats], float]] = {
    "sign-flip": sign_flip,
    "t": student,
    "Wilcoxon": wilcoxon,
    "signs": signs,
}


def differences(workspace: Workspace, boost: str) -> Floats:
    """Return what the boost × 0.3 changes in each question of the golden set."""
    field, value = boost.split("=")
    cache = LaneCache(workspace.engine(), load_golden(workspace))
    base = active_config(workspace).stored.config
    changed = parsed(apply(base, [(f"boosts.{field}", {value: 0.3})]))
    found = cache.evaluate(changed).nudcg - cache.evaluate(base).nudcg
    return np.where(np.abs(found) < 1e-12, 0.0, found)


def populations(found: Floats, rng: np.random.Generator) -> dict[str, Callable[[int], Floats]]:
    """Return, for each world, what draws a sample of so many differences."""
    changed, share = found[found != 0], float((found != 0).mean())
    centred = changed - changed.mean()

    def drawn(values: Floats, often: float) -> Callable[[int], Floats]:
        return lambda n: np.where(rng.random(n) < often, rng.choice(values, n), 0.0)

    return {
        "scaled": drawn(changed * GAIN / found.mean(), share),
        "wider": drawn(changed, min(1.0, share * GAIN / found.mean())),
        "lots": drawn(np.concatenate([changed, -changed]), share),
        "few gain": drawn(centred, share),
        "many gain": drawn(-centred, share),
    }


def shares(draw: Callable[[int], Floats], n: int, runs: int) -> dict[str, float]:
    """Return the share of samples that each test shows a gain in, at the level of a first look."""
    alpha, shown = spent_alpha(1), dict.fromkeys(TESTS, 0)
    for _ in range(runs):
        sample = draw(n)
        if sample.any():
            for name, test in TESTS.items():
                shown[name] += test(sample) <= alpha
    return {name: count / runs for name, count in shown.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", default="sample", help=f"some of {','.join(WORLDS)}")
    parser.add_argument("--boost", default="status=retired")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--cache", type=Path, default=CACHE)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    told: dict[str, Any] = {}
    for world in options.worlds.split(","):
        found = differences(Workspace(workspace_of(world, options.cache)), options.boost)
        wins, losses = int((found > 0).sum()), int((found < 0).sum())
        print(f"{world}, {options.boost} × 0.3: {found.mean():+.3f}; of {len(found)} {wins} better, {losses} worse")
        told[world] = {}
        for name, draw in populations(found, np.random.default_rng(3)).items():
            for n in SIZES:
                row = told[world][f"{name} {n}"] = shares(draw, n, options.runs)
                print(f"{name:10}{n:5}" + "".join(f"{key:>12} {share:.3f}" for key, share in row.items()), flush=True)
    if options.json:
        options.json.write_text(json.dumps(told, indent=1))


if __name__ == "__main__":
    main()
