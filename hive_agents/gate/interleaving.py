"""Team-draft interleaving of two rankings, and the anytime-valid evidence of which one wins."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

NEW, PREVIOUS, NEITHER = "n", "p", "-"
ALARM = 20.0
"""1/alpha for alpha = .05: by Ville's inequality E reaches it with a probability of 1/20 at most, over any length."""


@dataclass(frozen=True)
class Draft:
    """A list drafted from two; `teams` has a letter for the side that placed each document."""

    order: tuple[str, ...]
    teams: str


def team_draft(new: Sequence[str], previous: Sequence[str], seed: str) -> Draft:
    """Return a list as long as `new`, drafted in rounds: a coin says who picks first, each picks its best that is left.

    The coins are the bits of a hash of `seed`, so that the same seed drafts the same list. The common
    beginning, and documents beyond the end of `previous`, belong to neither side: they show no preference.

    Source: Radlinski, Kurup and Joachims 2008, without credit for the common beginning.

    >>> team_draft(["a", "b", "c"], ["a", "c", "d"], "3")
    Draft(order=('a', 'b', 'c'), teams='-np')
    >>> team_draft(["a", "b", "c"], ["a", "c", "d"], "1")
    Draft(order=('a', 'c', 'b'), teams='-pn')
    """
    order: list[str] = []
    for document, other in zip(new, previous, strict=False):
        if document != other:
            break
        order.append(document)
    teams = [NEITHER] * len(order)
    coins = _coins(seed)
    while len(order) < len(new):
        remaining = {
            team: [doc for doc in docs if doc not in order] for team, docs in ((NEW, new), (PREVIOUS, previous))
        }
        # A round that only one side could finish would give that side a place more.
        if not remaining[PREVIOUS] or (
            remaining[NEW][0] == remaining[PREVIOUS][0] and min(map(len, remaining.values())) < 2
        ):
            break
        first = NEW if next(coins) else PREVIOUS
        for team in (first, NEW if first == PREVIOUS else PREVIOUS):
            if len(order) < len(new):
                order.append(next(doc for doc in remaining[team] if doc not in order))
                teams.append(team)
    rest = [doc for doc in new if doc not in order][: len(new) - len(order)]
    return Draft((*order, *rest), "".join(teams) + NEITHER * len(rest))


def _coins(seed: str) -> Iterator[int]:
    block = 0
    while True:
        digest = hashlib.sha256(f"{seed}\0{block}".encode()).digest()
        yield from ((byte >> bit) & 1 for byte in digest for bit in range(8))
        block += 1


def e_value(losses: int, wins: int) -> float:
    """Return the evidence against "an impression that is decided is won at least every second time"; 1 is none.

    A gambler who stakes a share s of their money on a loss has (1 + s) times as much after one, and (1 - s) times after
    a win; this is the mean over all s from 0 to 1, in closed form. It falls or stays in expectation where the claim
    holds, whatever came before, so that its supremum reaches `ALARM` with a probability of .05 at most.

    Source: Robbins' mixture over the bets of Waudby-Smith and Ramdas 2024.

    >>> [round(e_value(lost, 0), 1) for lost in (0, 1, 6, 7)], round(e_value(7, 7), 2)
    ([1.0, 1.5, 18.1, 31.9], 0.32)
    """
    decided = losses + wins
    ways = term = math.comb(decided + 1, wins + 1)
    for k in range(wins + 1, decided + 1):
        term = term * (decided + 1 - k) // (k + 1)
        ways += term
    try:
        return ways / ((decided + 1) * math.comb(decided, wins))
    except OverflowError:
        return math.inf


def still_missing(losses: int, wins: int) -> int:
    """Return how many more losses in a row would reach `ALARM`; 0 where it is reached.

    >>> still_missing(0, 0), still_missing(3, 2), still_missing(7, 0)
    (7, 9, 0)
    """
    more = 0
    while e_value(losses + more, wins) < ALARM:
        more += 1
    return more
