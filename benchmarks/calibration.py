"""Do certified thresholds keep their promise, and do learned rules move when they should?

    python benchmarks/calibration.py [--runs N] [--short] [--json FILE]

Judges are simulated, so that the true rate of disagreement above a threshold is known: well separated (its
confidence is right, and rises with the truth), over-confident, and flat (always 93 %: no threshold meets a target of
95 %). A run is violated when more than 5 % is truly wrong above the threshold that it recommends. The naive rule takes
the lowest threshold above which the sample agrees in 95 % of cases.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hive_agents.judging.binomial import ALPHA, DELTA, upper_bound
from hive_agents.judging.certify import Certificate, Stratum, certify, empirical_threshold
from hive_agents.judging.sequential import Evidence

Floats = NDArray[np.float64]
Judge = Callable[[Floats], Floats]
SIZES = (100, 200, 500, 1000)
# The truth is an integral over confidences spread like the sample's, fine enough not to matter.
_REFERENCE = np.random.default_rng(7).beta(5, 2, 400_000)
_RULE_RESULTS = 2000


def well_separated(c: Floats) -> Floats:
    """P(people agree) at a confidence."""
    return np.clip(1 / (1 + np.exp(-16 * (c - 0.55))), 0, 1)


def over_confident(c: Floats) -> Floats:
    return 0.55 + 0.42 * c


def flat(c: Floats) -> Floats:
    return np.full_like(c, 0.93)


JUDGES: dict[str, Judge] = {"well separated": well_separated, "over-confident": over_confident, "flat 93 %": flat}


def recommended_threshold(confidence: ArrayLike, agrees: ArrayLike, alpha: float = ALPHA) -> Certificate:
    return Certificate.of(zip(np.asarray(confidence).tolist(), np.asarray(agrees).tolist(), strict=True), alpha)


class Truth:
    """The true share of disagreement, and the coverage, above any threshold."""

    def __init__(self, judge: Judge) -> None:
        self.confidence = np.sort(np.round(_REFERENCE, 3))
        self.errors = np.append(np.cumsum((1 - judge(self.confidence))[::-1])[::-1], 0.0)

    def above(self, threshold: float) -> tuple[float, float]:
        at = int(np.searchsorted(self.confidence, threshold, side="left"))
        left = len(self.confidence) - at
        return (float(self.errors[at]) / left if left else 0.0), left / len(self.confidence)


def thresholds(runs: int, seed: int, sizes: Sequence[int] = SIZES) -> list[dict[str, Any]]:
    """One row per judge, sample size and rule."""
    found = []
    for number, (name, judge) in enumerate(JUDGES.items()):
        truth = Truth(judge)
        for n in sizes:
            rng = np.random.default_rng([seed, number, n])
            certified: list[float | None] = []
            naive: list[float | None] = []
            for _ in range(runs):
                c = np.round(rng.beta(5, 2, n), 3)
                y = rng.random(n) < judge(c)
                certified.append(recommended_threshold(c, y).threshold)
                naive.append(empirical_threshold(c, y))
            for rule, chosen in (("certified", certified), ("naive", naive)):
                found.append({"judge": name, "n": n, "rule": rule, **_rates(chosen, truth)})
    return found


def two_streams(runs: int, seed: int) -> list[dict[str, Any]]:
    """As deployed: escalations below 0.8 all labelled, automatic decisions at 5 %; n counts all decisions."""
    found = []
    for number, (name, judge) in enumerate(JUDGES.items()):
        truth = Truth(judge)
        rng = np.random.default_rng([seed, 99, number])
        chosen = [_mixed(rng, judge, 6000).threshold for _ in range(runs)]
        found.append({"judge": name, "n": 6000, "rule": "certified, 5 % audits", **_rates(chosen, truth)})
    return found


def _mixed(rng: np.random.Generator, judge: Judge, n: int) -> Certificate:
    c = np.round(rng.beta(5, 2, n), 3)
    y = rng.random(n) < judge(c)
    high = c >= 0.8
    drawn = high & (rng.random(n) < 0.05)
    return certify([Stratum(c[high], c[drawn], y[drawn]), Stratum(c[~high], c[~high], y[~high])])


def _rates(chosen: list[float | None], truth: Truth) -> dict[str, Any]:
    measured = [truth.above(threshold) for threshold in chosen if threshold is not None]
    violated = sum(error > ALPHA for error, _ in measured)
    runs = len(chosen)
    return {
        "runs": runs,
        "violations": violated,
        "violation_rate": violated / runs,
        "upper95": upper_bound(violated, runs, 0.05),
        "certified_rate": len(measured) / runs,
        "coverage": sum(coverage for _, coverage in measured) / runs,
    }


def rollbacks(runs: int, results: int, right: float, seed: int, then: float | None = None) -> list[int | None]:
    """After how many results a rule that acts goes back, None where it stays; `then` is its rate from half-way on."""
    rng = np.random.default_rng([seed, int(right * 100), int((then or 0) * 100)])
    found: list[int | None] = []
    for _ in range(runs):
        rates = np.full(results, right)
        if then is not None:
            rates[results // 2 :] = then
        live, at = Evidence(), None
        for number, agrees in enumerate(rng.random(results) < rates, start=1):
            live = live.observed(bool(agrees))
            if live.alarm(None) is not None:
                at = number
                break
        found.append(at)
    return found


def promotions(runs: int, right: float, seed: int) -> list[tuple[bool, int]]:
    """Whether a rule leaves the shadow for runs, and after how many results; undecided ones are left out."""
    rng = np.random.default_rng([seed, int(right * 100)])
    found = []
    for _ in range(runs):
        evidence = Evidence()
        for number, agrees in enumerate(rng.random(_RULE_RESULTS) < right, start=1):
            evidence = evidence.observed(bool(agrees))
            if evidence.passes("retry") or evidence.fails():
                found.append((evidence.passes("retry"), number))
                break
    return found


def rules(runs: int, seed: int) -> list[dict[str, Any]]:
    """What becomes of rules that are right in a known share of cases: promotion from the shadow, then rollback."""
    found = []
    for rate, then in ((0.8, None), (0.85, None), (0.9, None), (0.95, None), (0.98, None), (1.0, None), (0.98, 0.8)):
        decided = promotions(runs, rate, seed)
        at = [one for one in rollbacks(min(runs, 400), _RULE_RESULTS, rate, seed, then) if one is not None]
        start = _RULE_RESULTS // 2 if then is not None else 0
        found.append(
            {
                "right": rate,
                "then": then,
                "runs": runs,
                "promoted": sum(passed for passed, _ in decided) / runs,
                "matches_until_decided": float(np.mean([number for _, number in decided])) if decided else None,
                "rolled_back": len(at) / min(runs, 400),
                "rolled_back_early": sum(one <= start for one in at) / min(runs, 400),
                "median_until_rollback": float(np.median([one - start for one in at])) if at else None,
            }
        )
    return found


def _show(value: dict[str, Any]) -> None:
    print(f"target: at most {ALPHA:.0%} wrong above the threshold, missed in at most {DELTA:.0%} of runs\n")
    print(f"{'judge':<16} {'n':>5} {'rule':<22} {'missed':>7} {'upper95':>8} {'certified':>10} {'coverage':>9}")
    for row in [*value["thresholds"], *value["two_streams"]]:
        print(
            f"{row['judge']:<16} {row['n']:>5} {row['rule']:<22} {row['violation_rate']:>7.3f} {row['upper95']:>8.3f}"
            f" {row['certified_rate']:>10.2f} {row['coverage']:>9.2f}"
        )
    print(f"\nlearned rules, over {_RULE_RESULTS} results that people decided too; the last one goes bad half-way")
    print(f"{'right':>10} {'promoted':>9} {'after':>7} {'rolled back':>12} {'median after':>13}")
    for row in value["rules"]:
        right = f"{row['right']:.2f}" + (f" → {row['then']:.2f}" if row["then"] is not None else "")
        print(
            f"{right:>11} {row['promoted']:>8.3f} {row['matches_until_decided'] or 0:>7.1f}"
            f" {row['rolled_back']:>12.3f} {row['median_until_rollback'] or 0:>13.0f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=4)
    parser.add_argument("--short", action="store_true", help="100 runs")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    options = parser.parse_args()
    runs = 100 if options.short else options.runs
    value = {
        "target": {"alpha": ALPHA, "delta": DELTA},
        "thresholds": thresholds(runs, options.seed),
        "two_streams": two_streams(runs, options.seed),
        "rules": rules(runs, options.seed),
    }
    _show(value)
    if options.json:
        options.json.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
