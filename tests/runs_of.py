"""Run files and qrels for tests of the gate for anybody's search, and a gate of its own to compare with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import fsum
from pathlib import Path


def write_run(path: Path, rankings: Mapping[str, Sequence[str]]) -> Path:
    """A TREC run; a ranking's first document gets the highest score."""
    lines = [
        f"{query} Q0 {document} {rank} {1 / rank:.6f} test"
        for query, documents in rankings.items()
        for rank, document in enumerate(documents, start=1)
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


def write_qrels(path: Path, grades: Mapping[str, Mapping[str, int]]) -> Path:
    path.write_text("".join(f"{q} 0 {d} {g}\n" for q, of in grades.items() for d, g in of.items()))
    return path


def ten_queries(folder: Path, won: int = 8) -> list[str]:
    """Arguments of a comparison of ten queries, of which B wins the first `won` and A none."""
    names = [f"t{number}" for number in range(10)]
    write_qrels(folder / "qrels.txt", {name: {f"{name}-good": 1, f"{name}-trap": -1} for name in names})
    trapped = {name: [f"{name}-trap", f"{name}-good"] for name in names}
    write_run(folder / "a.run", trapped)
    write_run(folder / "b.run", {n: [f"{n}-good"] if place < won else trapped[n] for place, n in enumerate(names)})
    return ["--before", f"{folder}/a.run", "--after", f"{folder}/b.run", "--qrels", f"{folder}/qrels.txt"]


def exact_p_value(before: Sequence[float], after: Sequence[float]) -> float:
    """The one-sided paired sign-flip test by its definition, over every assignment of signs.

    Sums that differ by less than 1e-9 are equal on paper: scores are sums of a few discounts.
    """
    differences = [b - a for a, b in zip(before, after, strict=True) if abs(b - a) > 1e-9]
    observed = fsum(differences)
    flipped = [
        fsum(sign * one for sign, one in zip(signs, differences, strict=True))
        for signs in product((1, -1), repeat=len(differences))
    ]
    return sum(one > observed - 1e-9 for one in flipped) / len(flipped)
