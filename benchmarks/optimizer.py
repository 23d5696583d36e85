"""The optimizer beside random search and TPE at the same number of evaluations, and in a null world.

    python benchmarks/optimizer.py [--worlds sample,django,… | --workspace DIR] [--seeds N] [--short] [--json FILE]
    python benchmarks/optimizer.py --redraw N [--worlds …] [--methods …] [--json FILE]
    python benchmarks/optimizer.py --whole N [--worlds … | --workspace DIR] [--json FILE]

Every method searches the same open queries and chooses by the same rule; the holdout is read once, here, to report and
not to choose. One holdout of 20 to 70 queries says little about a method: `--redraw` draws train, validation and
holdout anew N times and prints the mean over them: what the unseen queries gain over the baseline, with the standard
error of the paired difference, what readers of theirs lose, and in how many draws a method is worse than the baseline.
In the null world no candidate is better than the baseline in truth: whatever is deployed there is a mistake. `--whole`
times a process that measures N random configs, chooses one and lets the gate read the holdout, from its start to its
end; the questions were embedded before. The worlds are those of benchmarks/worlds.py; they are kept in `--cache`.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.worlds import CACHE, WORLDS, copied, golden, rewrite, workspace_of
from hive_agents import RetrievalConfig, Workspace
from hive_agents.evaluation import evaluate, load_golden
from hive_agents.evaluation.splits import HASHED, split
from hive_agents.evaluation.statistics import paired_difference, spent_alpha
from hive_agents.index import HALF_LIFE, AnyIndex
from hive_agents.optimizer.certify import certify_on_holdout
from hive_agents.optimizer.lane_cache import LaneCache
from hive_agents.optimizer.run import OptimizeRun
from hive_agents.optimizer.selection import Candidate, step
from hive_agents.optimizer.session import OptimizerSession
from hive_agents.optimizer.space import (
    BOOSTED,
    HALF_LIVES,
    LEVERS,
    Edit,
    apply,
    changes_from,
    date_fields,
    filterable_values,
    in_words,
    needs_model,
    parsed,
)
from hive_agents.ranking.check import stored_from
from hive_agents.ranking.semantics import check_semantics


@dataclass(frozen=True)
class Outcome:
    world: str
    method: str
    train: float
    validation: float | None
    holdout: float
    distractors: float
    answered: float
    recall: float
    first: float
    reach: float
    changes: int
    words: str
    seconds: float


def random_edit(rng: random.Random, index: AnyIndex) -> Edit:
    """Return a random point of the space, uniform over the values of each lever; half of the levers stay unchanged.

    Without an embedding model, the point needs none.
    """
    values: list[tuple[str, Any]] = [(path, rng.choice(grid)) for path, grid in LEVERS.items() if rng.random() < 0.5]
    if index.embedding_model is None:
        values = [(path, value) for path, value in values if not needs_model(path, value)]
    if dict(values).get("retrieval.method", "hybrid") == "hybrid":
        values.append(("dynamic_k.enabled", rng.random() < 0.5))
    for field, categories in filterable_values(index).items():
        if rng.random() < 0.25:
            some = sorted(rng.sample(categories, rng.randint(1, len(categories) - 1)))
            values.append((f"filters.{field}", {"not": some} if rng.random() < 0.5 else some))
        if rng.random() < 0.15:
            values.append((f"boosts.{field}", {rng.choice(categories): rng.choice(BOOSTED)}))
    for field in date_fields(index):
        if rng.random() < 0.15:
            values.append((f"boosts.{field}", {HALF_LIFE: rng.choice(HALF_LIVES)}))
    return Edit(tuple(values), "random", "random search")


def outcome(
    session: OptimizerSession, holdout: LaneCache, world: str, method: str, config: RetrievalConfig, seconds: float
) -> Outcome:
    found = session.remeasure(config)
    unseen = holdout.evaluate(config)
    changed = changes_from(session.baseline, config)
    reached = session.reached(config)
    return Outcome(
        world,
        method,
        found.train_nudcg,
        found.validation_nudcg,
        float(unseen.nudcg.mean()),
        float(unseen.distractors.mean()),
        float(np.nanmean(unseen.answered)),
        float(np.nanmean(unseen.recall)),
        float(np.nanmean(unseen.first)),
        reached.reach[1] if reached and reached.reach else math.nan,
        len(changed),
        in_words(changed),
        seconds,
    )


def sound(session: OptimizerSession, config: RetrievalConfig) -> bool:
    return not check_semantics(session.workspace, stored_from(config, "configs/trial.json"))


def chosen(session: OptimizerSession, tried: Sequence[RetrievalConfig]) -> RetrievalConfig:
    """What the optimizer's own rule chooses of everything that a method measured."""
    kept: dict[int, Candidate] = {}
    for number, config in enumerate(tried):
        data = config.model_dump(exclude_unset=True)
        trial = session.trial(data)
        if session.refusal(trial) is None:
            kept[number] = session.candidate(data, trial.measured)
    best = step(list(kept.values()))
    return next((tried[number] for number, candidate in kept.items() if candidate is best), session.baseline)


def random_search(session: OptimizerSession, budget: int, seed: int) -> list[RetrievalConfig]:
    index, rng = session.engine.index(session.baseline.collection), random.Random(seed)
    tried: list[RetrievalConfig] = []
    while len(tried) < budget:
        config = parsed(apply(session.baseline, random_edit(rng, index).values))
        if sound(session, config):
            tried.append(config)
    return tried


def tpe(session: OptimizerSession, budget: int, seed: int) -> list[RetrievalConfig]:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    values = filterable_values(session.engine.index(session.baseline.collection))
    tried: list[RetrievalConfig] = []

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
        tried.append(config)
        return session.remeasure(config).mean

    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))
    study.optimize(objective, n_trials=budget)
    return tried


METHODS: dict[str, Callable[[OptimizerSession, int, int], list[RetrievalConfig]]] = {
    "random": random_search,
    "TPE": tpe,
}


def redrawn(workspace: Workspace, number: int) -> None:
    """Give every query a split by lot, in the shares of the golden set, else in those that the optimizer would take."""
    everything = golden(workspace.root)["queries"]
    names = [query.get("split") for query in everything]
    if None in names:
        train, open_share = (0.5, 0.7) if len(everything) >= HASHED else (0.6, 0.6)
        shares = [place / len(everything) for place in range(len(everything))]
        names = ["train" if share < train else "validation" if share < open_share else "holdout" for share in shares]
    order = np.random.default_rng([11, number]).permutation(len(everything))
    for row, name in zip(order, names, strict=True):
        everything[row]["split"] = name
    rewrite(workspace.root, everything)


def compare_methods(
    world: str, source: Path, seeds: int, methods: Sequence[str], redraw: bool = False
) -> tuple[list[Outcome], int]:
    """Outcomes of the baseline, of `hive optimize` and of the methods; the most evaluations that a run used.

    With `redraw` each seed also has splits of its own.
    """
    outcomes: list[Outcome] = []
    most = 0
    for seed in range(seeds):
        with tempfile.TemporaryDirectory() as folder:
            workspace = copied(source, Path(folder) / "w")
            if redraw:
                redrawn(workspace, seed)
            workspace.index()
            session = OptimizerSession(workspace, workspace.settings.optimizer.model_copy(update={"seed": seed}))
            unseen = split(load_golden(workspace)).holdout
            assert unseen is not None, "the golden set is too small to hold anything out"
            holdout = LaneCache(session.engine, unseen)
            if seed == 0 or redraw:
                outcomes.append(outcome(session, holdout, world, "baseline", session.baseline, 0.0))
            started = time.perf_counter()
            run = OptimizeRun.start(workspace, golden=None, deploy=False, settings={"seed": seed, "seconds": 600.0})
            result = run.go()
            seconds, used = time.perf_counter() - started, result["evaluations"]
            best = result["best"]["config"]
            config = session.baseline if best == session.baseline.name else session.stored(best).config
            outcomes.append(outcome(session, holdout, world, "hive optimize", config, seconds))
            for name in methods:
                started = time.perf_counter()
                config = chosen(session, METHODS[name](session, used, seed))
                outcomes.append(outcome(session, holdout, world, name, config, time.perf_counter() - started))
            most = max(most, used)
    return outcomes, most


def speed(workspace: Workspace, seconds: float) -> dict[str, float]:
    """Configs a second on cached lanes, and through the engine as a search would run them."""
    workspace.index()
    golden = load_golden(workspace).only([query.id for query in load_golden(workspace)][:100])
    engine = workspace.engine()
    cache, rng = LaneCache(engine, golden), random.Random(1)
    base = OptimizerSession(workspace, workspace.settings.optimizer).baseline
    index = engine.index(base.collection)
    configs = [parsed(apply(base, random_edit(rng, index).values)) for _ in range(60)]
    session = OptimizerSession(workspace, workspace.settings.optimizer)
    # More than the cache remembers the scores of, over the same lanes: each is measured, none is looked up.
    lengths = [[("retrieval.top_k", length), ("retrieval.candidates", 200)] for length in range(1, 41)]
    configs = [parsed(apply(config, length)) for config in configs if sound(session, config) for length in lengths]
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


def whole_search(workspace: Workspace, number: int) -> str:
    """Measure so many random configs, choose one and read the holdout; return the gate's decision."""
    session = OptimizerSession(workspace, workspace.settings.optimizer.model_copy(update={"seconds": 600.0}))
    index, rng = session.engine.index(session.baseline.collection), random.Random(1)
    tried = [parsed(apply(session.baseline, random_edit(rng, index).values)) for _ in range(number)]
    best = chosen(session, tried)
    if best is session.baseline:
        return "nothing gained"
    changes = changes_from(session.baseline, best)
    name = session.write(best.model_dump(exclude_unset=True), changes, session.baseline.name)
    return str(certify_on_holdout(session, name, "benchmark")[0]["decision"])


def whole(source: Path, number: int) -> dict[str, float]:
    """Seconds of a process of its own that does a whole search, and configs a second."""
    seconds = []
    for _ in range(3):
        with tempfile.TemporaryDirectory() as folder:
            workspace = copied(source, Path(folder) / "w")
            evaluate(workspace)  # who optimizes has looked at the figures before
            command = [sys.executable, __file__, "--search", str(number), "--workspace", str(workspace.root)]
            started = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            seconds.append(time.perf_counter() - started)
    median = statistics.median(seconds)
    return {"configs": number, "seconds": median, "configs_per_second": number / median}


def null_world(runs: int, trials: int = 50, holdout: int = 60, tuning: int = 80, sd: float = 0.35) -> dict[str, float]:
    """Nothing is better in truth: how often does each gate deploy all the same?

    A candidate's scores are the baseline's plus noise of mean 0. The naive gate deploys the best of `trials` when its
    mean on the tuning queries is higher; ours chooses there by its own rule, then asks `holdout` unseen queries at
    level α_1.
    """
    alpha = spent_alpha(1)
    naive = certified = 0
    for run in range(runs):
        rng = np.random.default_rng([7, run])
        noise = rng.normal(0.0, sd, (trials, tuning + holdout))
        base = rng.normal(0.5, sd, tuning + holdout)
        means = noise[:, :tuning].mean(axis=1)
        naive += means.max() > 0
        leader = step([Candidate([{"path": str(n)}], gain[:tuning]) for n, gain in enumerate(noise)])
        if leader is not None:
            best = noise[int(leader.changes[0]["path"])]
            result = paired_difference(base[tuning:].tolist(), (base + best)[tuning:].tolist(), alpha=alpha)
            certified += result.p_value <= alpha
    error = (alpha * (1 - alpha) / runs) ** 0.5
    return {
        "runs": runs,
        "naive": naive / runs,
        "certified": certified / runs,
        "alpha_1": alpha,
        "bound": alpha + 2.33 * error,
    }


def table(outcomes: list[Outcome]) -> None:
    print(f"{'method':16}{'train':>8}{'valid.':>8}{'holdout':>9}{'distr.':>8}{'changes':>9}{'seconds':>9}")
    for method in dict.fromkeys(outcome.method for outcome in outcomes):
        mine = [outcome for outcome in outcomes if outcome.method == method]
        validation = [o.validation for o in mine if o.validation is not None]
        middle = f"{statistics.median(validation):8.3f}" if validation else f"{'–':>8}"
        row = [
            statistics.median(getattr(o, key) for o in mine)
            for key in ("train", "holdout", "distractors", "changes", "seconds")
        ]
        print(f"{method:16}{row[0]:8.3f}{middle}{row[1]:9.3f}{row[2]:8.2f}{row[3]:9.0f}{row[4]:9.1f}")


def redraws_table(outcomes: list[Outcome]) -> list[dict[str, Any]]:
    """Print, and return by method, what the unseen queries gain over the baseline: the mean over all draws."""
    base = [outcome for outcome in outcomes if outcome.method == "baseline"]
    figures = ("distractors", "answered", "recall", "first", "reach")
    head = f"{'method':16}{'holdout':>9}{'gain':>8}{'± error':>9}{'worse':>7}"
    print(head + "".join(f"{name:>13}" for name in figures))
    rows = []
    for method in dict.fromkeys(outcome.method for outcome in outcomes):
        mine = [outcome for outcome in outcomes if outcome.method == method]
        gain = np.array([one.holdout - before.holdout for one, before in zip(mine, base, strict=True)])
        error = gain.std(ddof=1) / len(gain) ** 0.5 if len(gain) > 1 else math.nan
        mean = statistics.fmean(outcome.holdout for outcome in mine)
        shifts = [
            statistics.fmean(getattr(one, name) - getattr(before, name) for one, before in zip(mine, base, strict=True))
            for name in figures
        ]
        row = f"{method:16}{mean:9.3f}{gain.mean():+8.3f}{error:9.3f}{int((gain < -1e-9).sum()):7d}"
        print(row + "".join(f"{shift:+13.3f}" for shift in shifts))
        worse = int((gain < -1e-9).sum()) / len(gain)
        found = dict(zip(figures, shifts, strict=True))
        rows.append({"world": mine[0].world, "method": method, "gain": float(gain.mean()), "worse": worse, **found})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--workspace", type=Path, default=None, help="instead of a world")
    where.add_argument("--worlds", default="sample", help=f"all, or some of {','.join(WORLDS)}")
    parser.add_argument("--cache", type=Path, default=CACHE, help="where worlds are kept between runs")
    parser.add_argument("--seeds", type=int, default=3)
    everything = f"what to compare with, of {','.join(METHODS)} (TPE needs optuna); with --redraw none, otherwise all"
    parser.add_argument("--methods", help=everything)
    parser.add_argument("--redraw", type=int, default=0, metavar="N", help="compare methods over N redrawn splits")
    parser.add_argument("--whole", type=int, default=0, metavar="N", help="time whole searches of N configs")
    parser.add_argument("--search", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.search:
        print(whole_search(Workspace(options.workspace), options.search))
        return
    names = list(WORLDS) if options.worlds == "all" else options.worlds.split(",")
    compared = list(METHODS) if not options.redraw else []
    compared = options.methods.split(",") if options.methods else compared
    seeds, methods = (1, ["random"]) if options.short else (options.seeds, compared)
    if options.workspace:
        sources = {options.workspace.name: options.workspace}
    else:
        sources = {name: workspace_of(name, options.cache) for name in names}
    if options.whole:
        timed = {world: whole(source, options.whole) for world, source in sources.items()}
        for world, found in timed.items():
            print(
                f"{world}: {found['configs']} configs in {found['seconds']:.2f} s, {found['configs_per_second']:.0f}/s"
            )
        if options.json:
            options.json.write_text(json.dumps({"whole": timed}, indent=1))
        return
    if options.redraw:
        drawn: list[Outcome] = []
        gains: list[dict[str, Any]] = []
        for world, source in sources.items():
            ends, used = compare_methods(world, source, options.redraw, methods, redraw=True)
            drawn += ends
            print(f"{world}: up to {used} evaluations each, means over {options.redraw} redrawn splits")
            gains += redraws_table(ends)
            print(flush=True)
        if options.json:
            options.json.write_text(json.dumps({"gains": gains, "redraws": [vars(o) for o in drawn]}, indent=1))
        return
    outcomes: list[Outcome] = []
    for world, source in sources.items():
        ends, used = compare_methods(world, source, seeds, methods)
        outcomes += ends
        print(f"{world}: {used} evaluations each, medians over {seeds} seeds")
        table(ends)
        print(flush=True)
    with tempfile.TemporaryDirectory() as folder:
        rates = speed(copied(next(iter(sources.values())), Path(folder) / "w"), 2.0 if options.short else 5.0)
    null = null_world(200)
    print(f"configs a second over 100 queries: {rates['cached']:.0f} cached, {rates['engine']:.1f} through the engine")
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
