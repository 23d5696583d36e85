"""The optimizer beside random search and TPE at the same number of evaluations, and in a null world.

    python benchmarks/optimizer.py [--workspace DIR] [--seeds N] [--short] [--json FILE]

Every method searches the same space on the same training queries and chooses by the same rule on the same
validation queries; the holdout is read once, here, to report and not to choose. In the null world no candidate is
better than the baseline in truth: whatever is deployed there is a mistake.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hive_agents import RetrievalConfig, Workspace
from hive_agents.evaluation import load_golden
from hive_agents.evaluation.statistics import paired_difference, spent_alpha
from hive_agents.optimizer.lane_cache import LaneCache
from hive_agents.optimizer.session import OptimizerSession
from hive_agents.optimizer.space import LEVERS, apply, changes_from, filterable_values, parsed, random_edit
from hive_agents.optimizer.splits import split
from hive_agents.optimizer.trial import judge_trial, simplest
from hive_agents.resources import bundled
from hive_agents.runtime.optimize import OptimizeRun
from hive_agents.sample import init_workspace
from hive_agents.verification.check import stored_from
from hive_agents.verification.semantics import check_semantics


@dataclass(frozen=True)
class Outcome:
    method: str
    train: float
    validation: float
    holdout: float
    distractors: float
    changes: int
    seconds: float


def measured(
    session: OptimizerSession, holdout: LaneCache, method: str, config: RetrievalConfig, seconds: float
) -> Outcome:
    found = session.remeasure(config)
    unseen = holdout.evaluate(config)
    return Outcome(
        method,
        found.train_nudcg,
        found.validation_nudcg or 0.0,
        float(unseen.nudcg.mean()),
        float(unseen.distractors.mean()),
        len(changes_from(session.baseline, config)),
        seconds,
    )


def chosen(session: OptimizerSession, tried: list[RetrievalConfig]) -> RetrievalConfig:
    """The rule that the optimizer chooses by, over everything a method accepted."""
    base = session.baseline_measured
    accepted = []
    for config in tried:
        found = session.remeasure(config)
        verdict, _ = judge_trial(found, base, base, session.tuning.queries, session.workspace.settings.gate)
        if verdict == "accept" and (found.validation_nudcg or 0) > (base.validation_nudcg or 0):
            accepted.append((len(changes_from(session.baseline, config)), found.validation.nudcg, config))
    if not accepted:
        return session.baseline
    winner: RetrievalConfig = simplest(accepted)
    return winner


def sound(session: OptimizerSession, config: RetrievalConfig) -> bool:
    return not check_semantics(session.workspace, stored_from(config, "configs/trial.json"))


def random_search(session: OptimizerSession, budget: int, seed: int) -> RetrievalConfig:
    index, rng = session.engine.index(session.baseline.collection), random.Random(seed)
    tried: list[tuple[float, RetrievalConfig]] = []
    while len(tried) < budget:
        config = parsed(apply(session.baseline, random_edit(rng, index).values))
        if sound(session, config):
            tried.append((float(session.remeasure(config).train.nudcg.mean()), config))
    tried.sort(key=lambda pair: -pair[0])
    return chosen(session, [config for _, config in tried[:100]])


def tpe(session: OptimizerSession, budget: int, seed: int) -> RetrievalConfig:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    values = filterable_values(session.engine.index(session.baseline.collection))
    tried: list[tuple[float, RetrievalConfig]] = []

    def objective(trial: optuna.Trial) -> float:
        edit: list[tuple[str, Any]] = [
            (path, grid[trial.suggest_categorical(path, list(range(len(grid))))]) for path, grid in LEVERS.items()
        ]
        if dict(edit)["retrieval.method"] == "hybrid":
            edit.append(("dynamic_k.enabled", trial.suggest_categorical("dynamic_k", [False, True])))
        for field, known in values.items():
            dropped = [value for value in known if trial.suggest_categorical(f"{field}={value}", [False, False, True])]
            if dropped and len(dropped) < len(known):
                edit.append((f"filters.{field}", {"not": dropped}))
        config = parsed(apply(session.baseline, edit))
        if not sound(session, config):
            return -10.0
        score = float(session.remeasure(config).train.nudcg.mean())
        tried.append((score, config))
        return score

    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))
    study.optimize(objective, n_trials=budget)
    tried.sort(key=lambda pair: -pair[0])
    return chosen(session, [config for _, config in tried[:100]])


def compare_methods(source: Path, seeds: int, short: bool) -> tuple[list[Outcome], int]:
    outcomes: list[Outcome] = []
    used = 0
    for seed in range(seeds):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(source, Path(folder) / "w", symlinks=True, ignore=shutil.ignore_patterns("audit", "*.db*"))
            workspace = Workspace(Path(folder) / "w")
            workspace.index()
            session = OptimizerSession(workspace, workspace.settings.optimizer.model_copy(update={"seed": seed}))
            unseen = split(load_golden(workspace)).holdout
            assert unseen is not None, "the golden set is too small to hold anything out"
            holdout = LaneCache(session.engine, unseen)
            if seed == 0:
                outcomes.append(measured(session, holdout, "baseline", session.baseline, 0.0))
            started = time.perf_counter()
            run = OptimizeRun.start(workspace, golden=None, deploy=False, settings={"seed": seed, "seconds": 600.0})
            result = run.go()
            used = result["evaluations"]
            config = session.stored(result["best"]["config"]).config
            outcomes.append(measured(session, holdout, "hive optimize", config, time.perf_counter() - started))
            methods: dict[str, Callable[[OptimizerSession, int, int], RetrievalConfig]] = {
                "random search": random_search
            }
            if not short:
                methods["TPE (Optuna)"] = tpe
            for name, method in methods.items():
                started = time.perf_counter()
                config = method(session, used, seed)
                outcomes.append(measured(session, holdout, name, config, time.perf_counter() - started))
    return outcomes, used


def speed(source: Path, seconds: float) -> dict[str, float]:
    """Configs a second on cached lanes, and through the engine as a search would run them."""
    workspace = Workspace(source)
    workspace.index()
    golden = load_golden(workspace).only([query.id for query in load_golden(workspace)][:100])
    engine = workspace.engine()
    cache, rng = LaneCache(engine, golden), random.Random(1)
    base = OptimizerSession(workspace, workspace.settings.optimizer).baseline
    index = engine.index(base.collection)
    configs = [parsed(apply(base, random_edit(rng, index).values)) for _ in range(60)]
    session = OptimizerSession(workspace, workspace.settings.optimizer)
    configs = [config for config in configs if sound(session, config)]
    for config in configs:
        cache.evaluate(config)
    rates = {}
    for name, work in (("cached", cache.evaluate), ("engine", lambda config: engine.run(golden.texts, config))):
        count, started = 0, time.perf_counter()
        while time.perf_counter() - started < seconds:
            work(configs[count % len(configs)])
            count += 1
        rates[name] = count / (time.perf_counter() - started)
    return rates


def null_world(runs: int, trials: int = 50, holdout: int = 60, tuning: int = 80, sd: float = 0.35) -> dict[str, float]:
    """Nothing is better in truth: how often does each gate deploy all the same?

    A candidate's scores are the baseline's plus noise of mean 0. The naive gate deploys the best of `trials` when its
    mean on the tuning queries is higher; ours chooses there, then asks `holdout` unseen queries at level α_1.
    """
    alpha = spent_alpha(1)
    naive = certified = 0
    for run in range(runs):
        rng = np.random.default_rng([7, run])
        noise = rng.normal(0.0, sd, (trials, tuning + holdout))
        base = rng.normal(0.5, sd, tuning + holdout)
        means = noise[:, :tuning].mean(axis=1)
        best = int(means.argmax())
        naive += means[best] > 0
        result = paired_difference(base[tuning:].tolist(), (base + noise[best])[tuning:].tolist(), alpha=alpha)
        certified += result.p_value <= alpha
    error = (alpha * (1 - alpha) / runs) ** 0.5
    return {
        "runs": runs,
        "naive": naive / runs,
        "certified": certified / runs,
        "alpha_1": alpha,
        "bound": alpha + 2.33 * error,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workspace", type=Path, default=None, help="default: the sample")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        source = options.workspace
        if source is None:
            source = init_workspace(Path(folder) / "sample") if bundled("workspace").exists() else None
        seeds = 1 if options.short else options.seeds
        outcomes, used = compare_methods(source, seeds, options.short)
        rates = speed(source, 2.0 if options.short else 5.0)
        null = null_world(200)
    print(f"{used} evaluations each, medians over {seeds} seeds")
    print(f"{'method':16}{'train':>8}{'valid.':>8}{'holdout':>9}{'distr.':>8}{'changes':>9}{'seconds':>9}")
    for method in dict.fromkeys(outcome.method for outcome in outcomes):
        mine = [outcome for outcome in outcomes if outcome.method == method]
        row = [
            statistics.median(getattr(o, key) for o in mine)
            for key in ("train", "validation", "holdout", "distractors", "changes", "seconds")
        ]
        print(f"{method:16}{row[0]:8.3f}{row[1]:8.3f}{row[2]:9.3f}{row[3]:8.2f}{row[4]:9.0f}{row[5]:9.1f}")
    print(
        f"\nconfigs a second over 100 queries: {rates['cached']:.0f} cached, {rates['engine']:.1f} through the engine"
    )
    print(
        f"null world, {null['runs']} runs of 50 trials: the naive gate deploys {null['naive']:.0%},"
        f" ours {null['certified']:.1%} (bound {null['bound']:.1%})"
    )
    if options.json:
        options.json.write_text(
            json.dumps({"outcomes": [vars(o) for o in outcomes], "rates": rates, "null": null}, indent=1)
        )


if __name__ == "__main__":
    main()
