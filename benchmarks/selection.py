"""Which of the measured configs should go to the gate? Rules, compared on random splits of one archive of configs.

Everything is measured once, as a matrix of configs by queries; a split is then a choice of columns. Every rule chooses
by the open queries of a split alone, among the configs that gain there without more distractors.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.worlds import copied
from hive_agents import RetrievalConfig
from hive_agents.evaluation import load_golden
from hive_agents.evaluation.splits import split
from hive_agents.optimizer.lane_cache import LaneCache
from hive_agents.optimizer.run import OptimizeRun
from hive_agents.optimizer.selection import (
    Candidate,
    ConfigChange,
    ablated,
    by_mean_rank,
    close_to,
    fewest_distractors,
    standard_error,
)
from hive_agents.optimizer.session import OptimizerSession
from hive_agents.optimizer.space import apply, changes_from, identity, parsed, random_edit
from hive_agents.ranking.check import stored_from
from hive_agents.ranking.semantics import check_semantics

RANDOM, AROUND = 300, 200
FOLDS, RESAMPLES = 5, 300
EQUAL = 1e-9

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Archive:
    """Configs and their scores on every query, the baseline first; `configs` grows as an ablation asks for more."""

    def __init__(self, session: OptimizerSession, configs: Sequence[RetrievalConfig]) -> None:
        self.session = session
        self.golden = load_golden(session.workspace)
        self.configs: list[RetrievalConfig] = []
        self.changes: list[list[ConfigChange]] = []
        self._cache = LaneCache(session.engine, self.golden)
        self._rows: dict[str, int] = {}
        self._nudcg: list[Floats] = []
        self._distractors: list[Floats] = []
        for config in (session.baseline, *configs):
            self.row(config)
        self.size = len(self.configs)

    def row(self, config: RetrievalConfig) -> int:
        mark = identity(config.model_dump(exclude_unset=True))
        if mark not in self._rows:
            scores = self._cache.evaluate(config)
            self._rows[mark] = len(self.configs)
            self.configs.append(config)
            self.changes.append(changes_from(self.session.baseline, config))
            self._nudcg.append(scores.nudcg)
            self._distractors.append(scores.distractors)
        return self._rows[mark]

    def row_of(self, changes: Sequence[ConfigChange]) -> int:
        """The row of the baseline with these changes, which is measured where it wasn't."""
        base = self.session.baseline
        return self.row(parsed(apply(base, [(change["path"], change["b"]) for change in changes])))

    def gains(self, rows: Sequence[int] | Ints, queries: Ints) -> Floats:
        """Over the baseline, shape `(rows, queries)`."""
        return np.stack([self._nudcg[row] for row in rows])[:, queries] - self._nudcg[0][queries]

    def distractors(self, row: int, queries: Ints) -> float:
        return float(self._distractors[row][queries].mean())


@dataclass(frozen=True)
class View:
    """What a rule may know of one split; candidates are rows of the archive that gain and do no harm."""

    archive: Archive
    open: Ints
    validation: Ints
    seed: int

    @cached_property
    def candidates(self) -> Ints:
        return np.array([row for row in range(1, self.archive.size) if self.allowed(row)], dtype=np.int64)

    @cached_property
    def gains(self) -> Floats:
        return self.archive.gains(self.candidates, self.open)

    @cached_property
    def counts(self) -> Ints:
        return np.array([len(self.archive.changes[row]) for row in self.candidates], dtype=np.int64)

    def allowed(self, row: int) -> bool:
        more = self.archive.distractors(row, self.open) > self.archive.distractors(0, self.open) + EQUAL
        return not more and float(self.archive.gains([row], self.open).mean()) > EQUAL

    def highest(self, values: Floats) -> int:
        """The candidate with the highest value; ties go to fewer changes, then to the earlier one."""
        return int(self.candidates[np.lexsort((self.counts, -np.round(values, 12)))[0]])


def simplest_on_validation(view: View) -> int:
    """The fewest changes within one standard error of the best on the validation queries: the rule until now."""
    gains = view.archive.gains(view.candidates, view.validation)
    short = gains[int(gains.mean(axis=1).argmax())] - gains
    errors = short.std(axis=1, ddof=1) / np.sqrt(short.shape[1])
    within = short.mean(axis=1) <= errors + 1e-12
    return view.highest(np.where(within, -view.counts.astype(np.float64) + gains.mean(axis=1) / 100, -np.inf))


def best_on_validation(view: View) -> int:
    return view.highest(view.archive.gains(view.candidates, view.validation).mean(axis=1))


def best_mean(view: View) -> int:
    return view.highest(view.gains.mean(axis=1))


def lower_bound(view: View, errors: float = 1.0) -> int:
    return view.highest(np.array([gain.mean() - errors * standard_error(gain) for gain in view.gains]))


def bootstrap_votes(view: View) -> int:
    """The config that wins most resamples of the queries."""
    return view.highest(np.bincount(_resampled(view).argmax(axis=0), minlength=len(view.gains)).astype(np.float64))


def _resampled(view: View) -> Floats:
    n = view.gains.shape[1]
    weights = np.random.default_rng([11, view.seed]).multinomial(n, np.full(n, 1 / n), RESAMPLES) / n
    return view.gains @ weights.T


def cross_validated(view: View) -> int:
    """The best mean among configs of as many changes as cross-validation finds to be worth it."""
    folds = np.arange(view.gains.shape[1]) % FOLDS
    worth = {}
    for most in sorted(set(view.counts.tolist())):
        mine = view.gains[view.counts <= most]
        kept = [mine[int(mine[:, folds != fold].mean(axis=1).argmax())][folds == fold].sum() for fold in range(FOLDS)]
        worth[most] = float(sum(kept))
    allowed = view.counts <= max(worth, key=lambda most: (round(worth[most], 12), -most))
    return view.highest(np.where(allowed, view.gains.mean(axis=1), -np.inf))


def mean_rank(view: View) -> int:
    return view.archive.row_of(_ranked(view)[0].changes)


def fewest_distractors_near(view: View) -> int:
    """The optimizer's own, before ablation, but for the single steps that it tries from the highest."""
    ranked = _ranked(view)
    leader, *others = close_to(max(ranked, key=lambda candidate: candidate.mean), ranked)
    return view.archive.row_of(fewest_distractors(leader, others)[0].changes)


def _ranked(view: View) -> list[Candidate]:
    rows = zip(view.candidates.tolist(), view.gains, strict=True)
    archive = view.archive
    return by_mean_rank(
        [Candidate(archive.changes[row], gain, archive.distractors(row, view.open)) for row, gain in rows]
    )


def ablated_by_mean(view: View, row: int) -> int:
    """Without the changes whose removal neither lowers the mean nor brings distractors, as the optimizer does it."""
    archive, most = view.archive, view.archive.distractors(row, view.open) + EQUAL

    def mean_of(changes: Sequence[ConfigChange]) -> float | None:
        left = archive.row_of(changes)
        allowed = view.allowed(left) and archive.distractors(left, view.open) <= most
        return float(archive.gains([left], view.open).mean()) if allowed else None

    return archive.row_of(ablated(archive.changes[row], mean_of))


RULES: dict[str, Callable[[View], int]] = {
    "simplest in 1 SE, validation": simplest_on_validation,
    "best on validation": best_on_validation,
    "best mean": best_mean,
    "lower bound, 1 SE": lower_bound,
    "lower bound, 2 SE": lambda view: lower_bound(view, 2.0),
    "votes of resamples": bootstrap_votes,
    "mean rank in resamples": mean_rank,
    "cross-validated size": cross_validated,
    "best mean, ablated": lambda view: ablated_by_mean(view, best_mean(view)),
    "lower bound, ablated": lambda view: ablated_by_mean(view, lower_bound(view)),
    "mean rank, ablated": lambda view: ablated_by_mean(view, mean_rank(view)),
    "fewest distractors near (ours)": lambda view: ablated_by_mean(view, fewest_distractors_near(view)),
}


def archive_of(source: Path, scratch: Path) -> Archive:
    """Random configs, those that a run of the optimizer measured, and random edits of these."""
    workspace = copied(source, scratch)
    session = OptimizerSession(workspace, workspace.settings.optimizer)
    run = OptimizeRun.start(workspace, golden=None, deploy=False, settings={"seconds": 600.0})
    rows = [row for row in run.go()["iterations"] if row["train"] is not None]
    tried = [parsed(session.restored(row["changes"])) for row in rows]
    rng, index = random.Random(1), session.engine.index(session.baseline.collection)
    configs = list(tried)
    while len(configs) < len(tried) + RANDOM + AROUND:
        values = random_edit(rng, index).values
        if len(configs) < len(tried) + RANDOM:
            config = parsed(apply(session.baseline, values))
        else:
            config = parsed(apply(rng.choice(tried), rng.sample(values, min(len(values), rng.randint(1, 2)))))
        if not check_semantics(workspace, stored_from(config, "configs/random.json")):
            configs.append(config)
    return Archive(session, configs)


def regrets(archive: Archive, splits: int) -> dict[str, list[float]]:
    """What each rule's choice lacks, on the queries held out, to the best of the archive there; a value a split."""
    named = split(archive.golden)
    n, held_out = len(archive.golden), len(named.holdout or [])
    share = len(named.validation) / (n - held_out) or 0.3
    found: dict[str, list[float]] = {name: [] for name in RULES}
    for number in range(splits):
        order = np.random.default_rng([5, number]).permutation(n)
        open_, unseen = order[: n - held_out], order[n - held_out :]
        view = View(archive, open_, open_[: max(2, round(len(open_) * share))], number)
        best = float(archive.gains(range(archive.size), unseen).mean(axis=1).max())
        for name, rule in RULES.items():
            row = rule(view) if len(view.candidates) else 0
            found[name].append(best - float(archive.gains([row], unseen).mean()))
    return found
