"""Acceptance of a loss of readers, or of a tag's, which needs a person, a reason and existing names."""

from __future__ import annotations

from collections.abc import Collection

from hive_agents.approvals import refused
from hive_agents.base import Diagnostic, HiveError, did_you_mean
from hive_agents.evaluation import GoldenSet, readers
from hive_agents.gate.tags import TagChange


def only_people(who: str) -> HiveError:
    fix = "a person who answers for it runs `hive deploy CONFIG --accept-tag TAG --reason …`"
    return refused("HIVE-415", f"{who} can't accept a loss of readers", fix)


def require_acceptable(
    golden: GoldenSet, tags: Collection[str], losses: Collection[str] = (), *, by: str, reason: str | None
) -> None:
    """Check an acceptance of the loss of tags, or of `losses` of readers, before the measurement.

    Raises: HIVE-409 without a reason, for a tag that no golden query has or for an unknown figure, HIVE-415 where `by`
    is no person.
    """
    if not tags and not losses:
        return
    if not by.startswith("user:"):
        raise only_people(by)
    if not (reason and reason.strip()):
        raise HiveError.of("HIVE-409", "to accept a loss needs a reason", fix='add --reason "…"')
    for name in losses:
        if name not in readers.READERS:
            fix = f"the figures are: {', '.join(readers.READERS)}"
            raise HiveError.of("HIVE-409", f'there is no figure of the readers named "{name}"', fix=fix)
    existing = sorted({tag for query in golden for tag in query.tags})
    unknown = [_unknown(tag, existing, golden) for tag in tags if tag not in existing]
    if unknown:
        raise HiveError(unknown)


def nothing_to_accept(golden: GoldenSet, tags: Collection[str], accepted: Collection[TagChange]) -> list[Diagnostic]:
    """Return notices about accepted tags that don't block."""
    lost = {change.tag for change in accepted}
    return [
        Diagnostic(
            "HIVE-303",
            f'there is nothing to accept: tag "{tag}" is not shown to lose',
            golden.file,
            "queries",
            "leave --accept-tag out for it",
            severity="info",
        )
        for tag in dict.fromkeys(tags)
        if tag not in lost
    ]


def _unknown(tag: str, existing: Collection[str], golden: GoldenSet) -> Diagnostic:
    others = f"the golden set has: {', '.join(existing)}" if existing else 'give queries "tags" in the golden set'
    message = f'there is no tag "{tag}" in the golden set'
    return Diagnostic("HIVE-409", message, golden.file, "queries", did_you_mean(tag, existing, others))
