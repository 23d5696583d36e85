"""Tags whose quality falls, and the evidence: a fall warns, a proved loss blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hive_agents.evaluation import statistics
from hive_agents.workspace.settings import Gate

EPSILON = 1e-9
"""Means that differ by less are equal."""

LEVEL = 0.05
"""Not the settings' `alpha`: a stricter proof of gains must not ask for a stricter proof of losses."""


@dataclass(frozen=True)
class TagChange:
    """A tag whose mean nUDCG falls over its `n` queries; `p_value` is the loss's, adjusted for all tags of the set."""

    tag: str
    n: int
    before: float
    after: float
    p_value: float
    blocks: bool

    def __str__(self) -> str:
        return f"{self.tag} {self.figures}"

    @property
    def figures(self) -> str:
        """
        >>> TagChange("older", 6, -0.5, -1.0, 0.375, blocks=False).figures
        '-0.50 -> -1.00 (n = 6, p = 0.38)'
        """
        return f"{self.before:.2f} -> {self.after:.2f} (n = {self.n}, p = {self.p_value:.2g})"

    def to_json(self) -> dict[str, Any]:
        return {
            "tag": self.tag,
            "n": self.n,
            "before": self.before,
            "after": self.after,
            "p_value": self.p_value,
        }


def falling_tags(
    tags: Sequence[Sequence[str]], before: Sequence[float], after: Sequence[float], gate: Gate
) -> list[TagChange]:
    """Return the tags whose mean nUDCG falls by more than `gate.tag_drop`, worst first.

    `tags[i]`, `before[i]` and `after[i]` are those of one query. A tag blocks where a one-sided paired sign-flip test
    over its own queries shows a loss at 0.05, Holm-corrected over all tags of the set; with `gate.tag_evidence` "any"
    each of them does. No p-value is computed where no tag falls that far.

    Raises: ValueError when the lengths differ or a score isn't finite.
    """
    scores: dict[str, tuple[list[float], list[float]]] = {}
    for names, was, now in zip(tags, before, after, strict=True):
        for tag in dict.fromkeys(names):
            olds, news = scores.setdefault(tag, ([], []))
            olds.append(was)
            news.append(now)
    means = {tag: (sum(olds) / len(olds), sum(news) / len(news)) for tag, (olds, news) in scores.items()}
    falling = [tag for tag, (was, now) in means.items() if now < was - gate.tag_drop - EPSILON]
    if not falling:
        return []
    # A tag without a mean loss has p >= 0.5, after all that have one: it counts in the family and changes nothing else.
    losing = [tag for tag, (was, now) in means.items() if now < was]
    raw = [statistics.one_sided_p_value(scores[tag][1], scores[tag][0]) for tag in losing]
    shown = dict(zip(losing, statistics.holm_adjusted(raw, len(scores)), strict=True))
    changes = [
        TagChange(tag, len(scores[tag][0]), *means[tag], shown[tag], gate.tag_evidence == "any" or shown[tag] <= LEVEL)
        for tag in falling
    ]
    return sorted(changes, key=lambda change: (change.after - change.before, change.tag))
