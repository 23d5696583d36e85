"""Signal weights: how well each kind of signal predicts people's decisions, per goal type.

They order and weigh signals; they never overrule a rule or a person. People's verdicts are the training labels, so
they have no weight.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hive_agents.goals import goal_type_of
from hive_agents.judging.decisions import JudgedCase
from hive_agents.judging.verdict import EVALUATORS
from hive_agents.workspace import Workspace

SOURCES = ("rule", *EVALUATORS)
PENALTY = 1.0
PRIOR = 50
OWN_FROM = 50
ANY_FROM = 30
_HOLDOUT = 0.3
_STEPS = 50
_CLIP = 0.01

_Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SignalWeights:
    """Weights of one goal type, with how well they predict the newest 30 % of the labels.

    `brier`, `ece` and `auc` are None below `ANY_FROM` labels; `kept` is whether the stack beat the best single
    signal there; otherwise the weights are equal.

    >>> learned = SignalWeights({"rule": 3.0, "llm": 1.0, "evidence": 0.0}, 80, 0.09, 0.12, 0.04, 0.93, kept=True)
    >>> learned.shown()
    {'rule': 0.75, 'llm': 0.25, 'evidence': 0.0, 'human': 'overrides'}
    """

    weights: dict[str, float]
    n: int
    brier: float | None
    best_single: float | None
    ece: float | None
    auc: float | None
    kept: bool

    def shown(self) -> dict[str, float | str]:
        """Return the weights as shares that sum to 1; a person overrides them all."""
        positive = {source: max(0.0, weight) for source, weight in self.weights.items()}
        total = sum(positive.values())
        return {
            **{source: round(value / total if total else 0.0, 3) for source, value in positive.items()},
            "human": "overrides",
        }


def learn(rows: Sequence[JudgedCase]) -> dict[str, SignalWeights]:
    """Return the weights by goal type, and under `*` those of all types together."""
    labelled = [row for row in rows if row.human_action() is not None and _signals(row)]
    pooled = _fit(labelled)
    weights = {"*": pooled}
    for name in sorted({row.goal_type for row in labelled}):
        typed = [row for row in labelled if row.goal_type == name]
        if len(typed) < OWN_FROM or not pooled.kept:
            weights[name] = SignalWeights(pooled.weights, len(typed), None, None, None, None, pooled.kept)
            continue
        fitted = _fit(typed, shrink_to=pooled.weights)
        weights[name] = fitted if fitted.kept else replace(fitted, weights=pooled.weights)
    return weights


def chosen(workspace: Workspace) -> dict[str, SignalWeights]:
    """Return the weights that the settings give goal types, in place of learned ones; a source that they don't name
    weighs nothing."""
    chosen = {}
    for name, given in (workspace.settings.judge.weights or {}).items():
        of: dict[str, float] = dict.fromkeys(SOURCES, 0.0) | {str(source): value for source, value in given.items()}
        chosen[name if name == "*" else goal_type_of(name)] = SignalWeights(of, 0, None, None, None, None, kept=True)
    return chosen


def in_order(signals: Sequence[Mapping[str, Any]], weights: SignalWeights | None) -> list[dict[str, Any]]:
    """Return the signals, those that weigh most first."""
    of = {} if weights is None else weights.weights
    return [dict(signal) for signal in sorted(signals, key=lambda signal: -of.get(signal.get("source", ""), 0.0))]


def shrunk(specific: Mapping[str, float], pooled: Mapping[str, float], n: int) -> dict[str, float]:
    """Return (n · specific + 50 · pooled) / (n + 50): few labels of a type move its weights little.

    >>> shrunk({"llm": 2.0}, {"llm": 1.0}, 50)
    {'llm': 1.5}
    """
    return {source: (n * specific[source] + PRIOR * pooled[source]) / (n + PRIOR) for source in pooled}


def fit_logistic(features: _Floats, labels: _Floats, penalty: float = PENALTY) -> _Floats:
    """Return the weights (intercept first, not penalised) of an L2 logistic regression, by Newton's method."""
    x = np.hstack([np.ones((len(features), 1)), features])
    ridge = np.diag([1e-6, *[penalty] * features.shape[1]])
    weights = np.zeros(x.shape[1])
    for _ in range(_STEPS):
        p = _sigmoid(x @ weights)
        gradient = x.T @ (p - labels) + ridge @ weights
        hessian = (x * (p * (1 - p) + 1e-9)[:, None]).T @ x + ridge
        step = np.linalg.solve(hessian, gradient)
        # A damped step: a full one from far away can leave the region where the curvature means anything.
        weights = weights - step * min(1.0, 5.0 / (float(np.abs(step).max()) + 1e-12))
        if float(np.abs(step).max()) < 1e-9:
            break
    return weights


def brier(p: _Floats, labels: _Floats) -> float:
    """Return the mean squared error of probabilities; 0 is perfect.

    >>> brier(np.array([1.0, 0.5]), np.array([1.0, 0.0]))
    0.125
    """
    return float(((p - labels) ** 2).mean())


def calibration_error(p: _Floats, labels: _Floats, bins: int = 10) -> float:
    """Return the expected calibration error over equal bins."""
    at = np.minimum((p * bins).astype(int), bins - 1)
    gaps = [abs(float((p[at == b] - labels[at == b]).mean())) * float((at == b).mean()) for b in np.unique(at)]
    return float(sum(gaps))


def auc(p: _Floats, labels: _Floats) -> float | None:
    """Return the probability that an accepted result scores above one that wasn't; ties count half. None for one
    class."""
    positive, negative = p[labels > 0.5], p[labels <= 0.5]
    if not len(positive) or not len(negative):
        return None
    difference = positive[:, None] - negative[None, :]
    return float((difference > 0).mean() + 0.5 * (difference == 0).mean())


def _fit(rows: Sequence[JudgedCase], shrink_to: Mapping[str, float] | None = None) -> SignalWeights:
    equal = dict.fromkeys(SOURCES, 1.0)
    if len(rows) < ANY_FROM:
        return SignalWeights(equal, len(rows), None, None, None, None, False)
    x = np.array([_features(row) for row in rows])
    y = np.array([float(row.human_action() == "accept") for row in rows])
    cut = round(len(rows) * (1 - _HOLDOUT))  # newest last: weights must predict later labels
    intercept, weights = _weights(x[:cut], y[:cut], shrink_to)
    vector = np.array([weights[source] for source in SOURCES])
    p = _sigmoid(intercept + x[cut:] @ vector)
    score, best = brier(p, y[cut:]), min(_single(x, y, cut, column) for column in range(len(SOURCES)))
    kept = score < best - 1e-9 or int((np.abs(x).sum(axis=0) > 0).sum()) == 1
    final = _weights(x, y, shrink_to)[1] if kept else equal
    return SignalWeights(final, len(rows), score, best, calibration_error(p, y[cut:]), auc(p, y[cut:]), kept)


def _weights(x: _Floats, y: _Floats, shrink_to: Mapping[str, float] | None) -> tuple[float, dict[str, float]]:
    fitted = fit_logistic(x, y)
    specific = {source: float(weight) for source, weight in zip(SOURCES, fitted[1:], strict=True)}
    return float(fitted[0]), shrunk(specific, shrink_to, len(y)) if shrink_to is not None else specific


def _single(x: _Floats, y: _Floats, cut: int, column: int) -> float:
    fitted = fit_logistic(x[:cut, [column]], y[:cut])
    return brier(_sigmoid(fitted[0] + x[cut:, column] * fitted[1]), y[cut:])


def _signals(row: JudgedCase) -> list[Mapping[str, Any]]:
    return [signal for signal in row.judgment.get("signals") or [] if signal.get("source") in SOURCES]


def _features(row: JudgedCase) -> list[float]:
    """Return per source the log-odds that the result is good; 0 where the source gave no signal."""
    values = dict.fromkeys(SOURCES, 0.0)
    for signal in _signals(row):
        confidence = signal.get("confidence")
        if not isinstance(confidence, int | float) or not 0 <= confidence <= 1:
            continue
        p = min(1 - _CLIP, max(_CLIP, float(confidence)))
        odds = float(np.log(p / (1 - p)))
        values[signal["source"]] = odds if signal.get("action") == "accept" else -odds
    return [values[source] for source in SOURCES]


def _sigmoid(z: _Floats) -> _Floats:
    result: _Floats = 1.0 / (1.0 + np.exp(-np.clip(z, -30, 30)))
    return result
