"""Mining: short conditions under which people always made the same decision."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from hive_agents.base import count
from hive_agents.judging.binomial import binomial_cdf, lower_bound
from hive_agents.judging.decisions import JudgedCase, people
from hive_agents.judging.learning.predicates import Predicate, candidates
from hive_agents.judging.learning.proposals import RuleProposal, proposed_rule

SUPPORT = 10
REVIEWERS = 2
NEWEST = 0.3
CONFIRMING = 3
"""Matches that the newest 30 % must hold; none of them may contradict."""
LIFT = 1.5
"""How much more often a pattern must occur among escalations than in other traffic."""

_BEAM = 50
_SIMILAR = 0.9
_EXAMPLES = 5
_Bits = NDArray[np.bool_]


@dataclass(frozen=True)
class _Pattern:
    predicates: tuple[Predicate, ...]
    goal_type: str
    action: str
    old: _Bits
    new: _Bits
    p_value: float


def mine(rows: Sequence[JudgedCase], *, support: int = SUPPORT, reviewers: int = REVIEWERS) -> list[RuleProposal]:
    """Return proposals from labelled escalations, best first.

    Patterns are looked for in the older 70 % and must hold without contradiction in the newest 30 %.
    Audited automatic decisions count as contradictions when people decided otherwise there.
    """
    proposals: list[RuleProposal] = []
    for goal_type in sorted({row.goal_type for row in rows}):
        proposals += _mine_type([row for row in rows if row.goal_type == goal_type], goal_type, support, reviewers)
    return sorted(proposals, key=lambda proposal: (-proposal.confidence * proposal.coverage, proposal.id))


def nothing_because(rows: Sequence[JudgedCase], *, support: int = SUPPORT, reviewers: int = REVIEWERS) -> list[str]:
    """Return, for each goal type without a proposal, the nearest pattern and which demand it fails."""
    reasons = []
    for goal_type in sorted({row.goal_type for row in rows}):
        typed = [row for row in rows if row.goal_type == goal_type]
        if not _mine_type(typed, goal_type, support, reviewers):
            reasons.append(f"{goal_type}: {_lacking(typed, goal_type, support, reviewers)}")
    return reasons


def _mine_type(rows: Sequence[JudgedCase], goal_type: str, support: int, reviewers: int) -> list[RuleProposal]:
    traffic = _Traffic.of(rows)
    if len(traffic.escalated) < support:
        return []
    patterns = [pattern for pattern, lacks in _patterns(traffic, goal_type, support, reviewers) if lacks is None]
    return _decision_list(_holm(patterns), traffic.older, traffic.newer, traffic.others, support, reviewers)


def _lacking(rows: Sequence[JudgedCase], goal_type: str, support: int, reviewers: int) -> str:
    traffic = _Traffic.of(rows)
    n = len(traffic.escalated)
    if n < support:
        return f"{count(n, 'labelled escalation')}; {support} are the least"
    # A pattern that fails a later demand met the earlier ones.
    failed = [
        (lacks, pattern) for pattern, lacks in _patterns(traffic, goal_type, support, reviewers) if lacks is not None
    ]
    if not failed:
        return f"no condition holds for {support} of the {n} labelled escalations that people decided alike"
    lacks, nearest = max(
        failed,
        key=lambda pair: (pair[0].demand, int(pair[1].old.sum() + pair[1].new.sum()), -len(pair[1].predicates)),
    )
    text = " and ".join(predicate.text for predicate in nearest.predicates)
    return f'nearest is "{text}" -> {nearest.action}: {lacks.why}'


@dataclass(frozen=True)
class _Traffic:
    """The decisions of one goal type: older and newer labelled escalations, and automatic decisions."""

    older: Sequence[JudgedCase]
    newer: Sequence[JudgedCase]
    others: Sequence[JudgedCase]

    @classmethod
    def of(cls, rows: Sequence[JudgedCase]) -> _Traffic:
        escalated = [row for row in rows if not row.automatic and row.human_action() is not None]
        cut = round(len(escalated) * (1 - NEWEST))
        return cls(escalated[:cut], escalated[cut:], [row for row in rows if row.automatic])

    @property
    def escalated(self) -> list[JudgedCase]:
        return [*self.older, *self.newer]


@dataclass(frozen=True)
class _Lack:
    """The number of the first demand that a pattern fails, and why."""

    demand: int
    why: str


def _patterns(
    traffic: _Traffic, goal_type: str, support: int, reviewers: int
) -> Iterator[tuple[_Pattern, _Lack | None]]:
    """Yield each pattern that the older part doesn't contradict, with the demand that it fails, if any."""
    older, newer, others = traffic.older, traffic.newer, traffic.others
    least = max(1, support - len(newer))
    predicates = candidates([row.result for row in older], least)
    before, after, beside = (_table(predicates, part) for part in (older, newer, others))
    blind = [row.human_action(blind=True) if row.audit else None for row in others]
    for action in sorted({str(row.human_action()) for row in older}):
        same_old = np.array([row.human_action() == action for row in older])
        same_new = np.array([row.human_action() == action for row in newer])
        against = np.array([human is not None and human != action for human in blind], dtype=bool)
        base = float(same_new.mean()) if len(newer) else 1.0
        for chosen in _beam(before, same_old, least):
            old, new, other = (np.all(bits[list(chosen)], axis=0) for bits in (before, after, beside))
            n = int(new.sum())
            p_value = 1.0 - binomial_cdf(n - 1, n, base)
            pattern = _Pattern(tuple(predicates[i] for i in chosen), goal_type, action, old, new, p_value)
            otherwise = [row.id for row, no in zip(newer, new & ~same_new, strict=True) if no]
            otherwise += [row.id for row, no in zip(others, other & against, strict=True) if no]
            yield pattern, _lack(traffic, old, new, other, otherwise, support, reviewers)


def _lack(
    traffic: _Traffic, old: _Bits, new: _Bits, other: _Bits, otherwise: Sequence[int], support: int, reviewers: int
) -> _Lack | None:
    matched = _matched(old, new, traffic.older, traffic.newer)
    runs = len({_run(row) for row in matched})
    n_people = len(people(label for row in matched for label in row.labels))
    if runs < support:
        return _Lack(1, f"{count(runs, 'run')}; {support} are the least")
    if n_people < reviewers:
        return _Lack(2, f"{count(n_people, 'reviewer')}; {reviewers} are the least")
    if otherwise:
        return _Lack(3, f"people decided otherwise on {_named(otherwise)}")
    if int(new.sum()) < CONFIRMING:
        seen = f"{int(new.sum())} of the newest {len(new)} labelled escalations"
        return _Lack(4, f"it holds for {seen}; {CONFIRMING} are the least")
    rate = (int(old.sum()) + int(new.sum())) / (len(old) + len(new))
    other_rate = float(other.mean()) if len(other) else 0.0
    if other_rate * LIFT > rate:
        shares = f"{rate:.0%} of the labelled escalations and {other_rate:.0%} of what no person decided"
        return _Lack(5, f"it holds for {shares}, {rate / other_rate:.2g} times as often; {LIFT:g} times is the least")
    return None


def _table(predicates: Sequence[Predicate], rows: Sequence[JudgedCase]) -> _Bits:
    """Return the matrix of which predicate (row) holds for which decision (column)."""
    cells = [[predicate.test(row.result) for row in rows] for predicate in predicates]
    return np.array(cells, dtype=bool).reshape(len(predicates), len(rows))


def _beam(bits: _Bits, same: _Bits, least: int) -> list[tuple[int, ...]]:
    """Return single predicates, and pairs of promising ones, that no label of the older part contradicts."""
    hits, right = bits.sum(axis=1), (bits & same).sum(axis=1)
    ranked = sorted(range(len(bits)), key=lambda i: (-lower_bound(int(right[i]), int(hits[i])), -int(hits[i]), i))
    singles: list[tuple[int, ...]] = [(i,) for i in ranked if hits[i] >= least and hits[i] == right[i]]
    impure = [i for i in ranked if hits[i] != right[i]][:_BEAM]
    pairs: list[tuple[int, ...]] = []
    for i, j in combinations(impure, 2):
        both = bits[i] & bits[j]
        if int(both.sum()) >= least and not bool((both & ~same).any()):
            pairs.append((i, j))
    return [*singles, *pairs]


def _holm(patterns: Sequence[_Pattern]) -> list[_Pattern]:
    """Return the patterns with p-values adjusted for multiple tests by Holm's method."""
    ranked = sorted(patterns, key=lambda pattern: pattern.p_value)
    adjusted, highest = [], 0.0
    for place, pattern in enumerate(ranked):
        highest = max(highest, min(1.0, pattern.p_value * (len(ranked) - place)))
        adjusted.append(
            _Pattern(pattern.predicates, pattern.goal_type, pattern.action, pattern.old, pattern.new, highest)
        )
    return adjusted


def _decision_list(
    patterns: Sequence[_Pattern],
    older: Sequence[JudgedCase],
    newer: Sequence[JudgedCase],
    others: Sequence[JudgedCase],
    support: int,
    reviewers: int,
) -> list[RuleProposal]:
    """Return proposals by greedy cover: the best pattern, then the best on what is left, without near copies."""
    open_old, open_new = np.ones(len(older), dtype=bool), np.ones(len(newer), dtype=bool)
    rest = list(patterns)
    taken: list[_Bits] = []
    proposals: list[RuleProposal] = []
    while rest:
        best = max(rest, key=lambda p: (_score(p, open_old, open_new), -len(p.predicates), -p.p_value, _condition(p)))
        rest.remove(best)
        matches = np.concatenate([best.old, best.new])
        if any(_jaccard(matches, other) > _SIMILAR for other in taken):
            continue
        if not _enough(best.old & open_old, best.new & open_new, older, newer, support, reviewers):
            continue
        taken.append(matches)
        open_old &= ~best.old
        open_new &= ~best.new
        proposals.append(_proposal(best, older, newer, others))
    return proposals


def _proposal(
    pattern: _Pattern, older: Sequence[JudgedCase], newer: Sequence[JudgedCase], others: Sequence[JudgedCase]
) -> RuleProposal:
    matched = _matched(pattern.old, pattern.new, older, newer)
    text = " and ".join(predicate.text for predicate in pattern.predicates)
    examples = [row.id for row in matched[-_EXAMPLES:]]
    rule = proposed_rule(_condition(pattern), pattern.action, [pattern.goal_type], text, examples)
    runs = len({_run(row) for row in matched})
    return RuleProposal(
        trigger_pattern=text,
        human_action=pattern.action,
        confidence=lower_bound(runs, runs),
        coverage=len(matched) / (len(older) + len(newer)),
        support=runs,
        agreements=runs,
        reviewers=sorted(people(label for row in matched for label in row.labels)),
        examples=examples,
        edge_cases=_edge_cases(pattern, matched, older, newer, others),
        p_value=pattern.p_value,
        proposed_rule=rule,
    )


def _edge_cases(
    pattern: _Pattern,
    matched: Sequence[JudgedCase],
    older: Sequence[JudgedCase],
    newer: Sequence[JudgedCase],
    others: Sequence[JudgedCase],
) -> list[str]:
    cases = []
    if split := [row.id for row in matched if len({label.action for label in row.labels}) > 1]:
        cases.append(f"reviewers differed on {_named(split)}")
    if len(pattern.predicates) > 1:
        near = [
            row.id
            for row in (*older, *newer)
            if sum(p.test(row.result) for p in pattern.predicates) == len(pattern.predicates) - 1
            and row.human_action() != pattern.action
        ]
        if near:
            cases.append(f"one condition short of matching, and decided otherwise: {_named(near)}")
    if also := [row.id for row in others if all(p.test(row.result) for p in pattern.predicates)]:
        cases.append(f"would also have decided {len(also)} results that nobody was asked about: {_named(also)}")
    if pattern.p_value > 0.05:
        cases.append(f"few confirming matches: chance alone explains them with p = {pattern.p_value:.2f}")
    return cases


def _enough(
    old: _Bits, new: _Bits, older: Sequence[JudgedCase], newer: Sequence[JudgedCase], support: int, reviewers: int
) -> bool:
    matched = _matched(old, new, older, newer)
    enough = len({_run(row) for row in matched}) >= support
    return enough and len(people(label for row in matched for label in row.labels)) >= reviewers


def _matched(old: _Bits, new: _Bits, older: Sequence[JudgedCase], newer: Sequence[JudgedCase]) -> list[JudgedCase]:
    return [row for row, hit in zip((*older, *newer), (*old, *new), strict=True) if hit]


def _condition(pattern: _Pattern) -> str:
    return " and ".join(sorted(predicate.condition for predicate in pattern.predicates))


def _score(pattern: _Pattern, open_old: _Bits, open_new: _Bits) -> float:
    n = int((pattern.old & open_old).sum() + (pattern.new & open_new).sum())
    return lower_bound(n, n) * n


def _jaccard(a: _Bits, b: _Bits) -> float:
    either = int((a | b).sum())
    return int((a & b).sum()) / either if either else 1.0


def _run(row: JudgedCase) -> str:
    return row.run_id or f"decision {row.id}"


def _named(ids: Sequence[int]) -> str:
    return ", ".join(map(str, ids[:_EXAMPLES])) + (" …" if len(ids) > _EXAMPLES else "")
