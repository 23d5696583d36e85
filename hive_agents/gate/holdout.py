"""The part of a golden set that a command may measure, and the cost of a look at the holdout."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hive_agents.access import Principal
from hive_agents.base import Diagnostic, HiveError
from hive_agents.evaluation import (
    GoldenSet,
    concealed,
    held_out,
    load_golden,
    spent_alpha,
    split as splits_of,
    viewable_golden,
)
from hive_agents.gate.certificate import log_verdict
from hive_agents.gate.ledger import MAX_USES, looks, spend_of
from hive_agents.ranking import RetrievalConfig, SearchEngine
from hive_agents.store import audit
from hive_agents.workspace import Workspace


@dataclass(frozen=True)
class Proof:
    """What a holdout can still prove: the next look is number `j`, and a gain has to be proved at `alpha` in it.

    `left` is what remains of the settings' error `whole`, `later` the level of the look after one that costs; None
    where there is none.
    """

    j: int
    alpha: float
    later: float | None
    left: float
    whole: float

    def __str__(self) -> str:
        if self.j > MAX_USES:
            return f"{MAX_USES} looks led to no deployment: these held-out questions prove nothing any more (HIVE-308)"
        lost = f"leaves {self.later:.4f} to the look after it" if self.later else "is the last"
        return (
            f"the next look at the holdout is number {self.j} of {MAX_USES}, also where the same comparison was made"
            f" before: a gain has to be proved at {self.alpha:.4f}; a look that proves nothing {lost}, one whose gain"
            f" is deployed costs nothing; {self.left:.4f} of {self.whole:g} is left"
        )

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "looks_left": max(0, MAX_USES + 1 - self.j)}


def proof_left(workspace: Workspace, golden: GoldenSet) -> Proof | None:
    """Return what a golden set's holdout can still prove; None where nothing is or was held out."""
    before = looks(workspace, golden)
    if held_out(golden) is None and not before:
        return None
    j, whole = len(before) + 1, workspace.settings.gate.alpha
    if j > MAX_USES:
        return Proof(j, 0.0, None, 0.0, whole)
    spent = sum(spent_alpha(number, whole) for number in range(1, j))
    later = spent_alpha(j + 1, whole) if j < MAX_USES else None
    return Proof(j, spent_alpha(j, whole), later, whole - spent, whole)


def proof_of(workspace: Workspace) -> Proof | None:
    """As `proof_left` for the workspace's own golden set; None also where labels or log can't be read."""
    with suppress(HiveError):
        return proof_left(workspace, load_golden(workspace))
    return None


@dataclass(frozen=True)
class VisiblePart:
    """The queries that a command may measure; those with the ids `hidden` may not be listed.

    `held_out` is the whole golden set with its holdout, where that is what is measured.
    """

    golden: GoldenSet
    hidden: frozenset[str] = frozenset()
    held_out: tuple[GoldenSet, GoldenSet] | None = None

    def look(self, engine: SearchEngine, configs: Sequence[RetrievalConfig], purpose: str) -> list[Diagnostic]:
        """Record a use of the holdout, before `configs` are measured with it, and return what it cost.

        Raises: as a search by these configs, before a use is spent; HIVE-413 where a broken log can't count the uses.
        """
        if self.held_out is None:
            return []
        if not (verdict := log_verdict(engine.workspace)).ok:
            raise audit.broken(verdict)
        require_searchable(engine, configs)
        use = spend_of(engine.workspace, *self.held_out, purpose)
        assert use is not None
        if use.exhausted:
            message = f"{MAX_USES} looks at this holdout led to no deployment: it can't prove anything any more"
            fix = "write new queries"
            return [Diagnostic("HIVE-308", message, self.golden.file, "queries", fix, severity="warning")]
        message = f"use {use.j} of {MAX_USES} of this holdout; the gate's next test of it must reach a stricter level"
        fix = "look at train and validation while you work, and leave the holdout to the gate"
        return [Diagnostic("HIVE-308", message, self.golden.file, "queries", fix, severity="info")]


def visible_part(
    workspace: Workspace, path: Path | None, split: str | None, viewer: Principal | None = None
) -> VisiblePart:
    """Return what may be measured of a golden set: the queries that `viewer` may know, as for `viewable_golden`.

    Without a split all of them count, and the holdout's stay unlisted. Raises: HIVE-409 for an unknown or empty split.
    """
    golden = viewable_golden(workspace, viewer, path)
    whole = _whole(workspace, path, golden, viewer)
    if split is None:
        return VisiblePart(golden, frozenset(query.id for query in held_out(whole) or ()))
    members = _part(whole, split.lower())
    chosen = golden.only(query.id for query in members)
    if not len(chosen):
        named = sorted({query.split for query in golden if query.split})
        fix = f"the golden set has: {', '.join(named)}" if named else 'give queries a "split" in the golden set'
        raise HiveError.of("HIVE-409", f'there is no split "{split}"', file=golden.file, path="queries", fix=fix)
    # Whoever looks at a part of the holdout has looked at it.
    return VisiblePart(chosen, held_out=(whole, members) if split.lower() == "holdout" else None)


def require_searchable(engine: SearchEngine, configs: Iterable[RetrievalConfig]) -> None:
    """Raise what a search by one of these configs raises, such as HIVE-401 without a model.

    It comes before a look at the holdout: otherwise looks are spent by commands that can't measure anything.
    """
    for config in configs:
        engine.run(["a"], config)


def _whole(workspace: Workspace, path: Path | None, golden: GoldenSet, viewer: Principal | None) -> GoldenSet:
    """Return the golden set whose part `golden` is the viewer's: the part alone would be divided into other splits.

    Raises: as `viewable_golden`.
    """
    if viewer is None:
        return golden
    try:
        return load_golden(workspace, path)
    except HiveError as error:
        raise concealed(error) from None


def _part(golden: GoldenSet, name: str) -> GoldenSet:
    """Return the queries of a split: those that name it, else those that the gate puts into it."""
    parts = splits_of(golden)
    if parts.regime in ("named", "uncertified"):
        return golden.only(query.id for query in golden if query.split == name)
    hashed = {"train": parts.train, "validation": parts.validation, "holdout": parts.holdout}
    return hashed.get(name) or golden.only([])
