from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hive_agents.base import safe_line
from hive_agents.cli.surface import Surface, count, figure, with_surface

if TYPE_CHECKING:
    from hive_agents.gate import CanaryStatus


class CanaryVerb(StrEnum):
    status = "status"


VerbArgument = Annotated[CanaryVerb, typer.Argument(help="Only `status`, the default.")]


@with_surface()
def command(surface: Surface, verb: VerbArgument = CanaryVerb.status) -> None:  # noqa: ARG001
    """Compare the config that serves with the previous one by readers' clicks and feedback."""
    from hive_agents.gate import canary_status

    surface.asker.operator("see the canary")
    status = canary_status(surface.workspace)
    surface.show(status.to_json(), *_parts(status))


def _parts(status: CanaryStatus) -> list[Any]:
    if status.config is None:
        why = "[canary] share in hive.toml is 0" if status.state == "off" else "no deployed config has one before it"
        return [f"no canary: {why}"]
    tally, states = status.tally, {"rolled_back": "rolled back", "running": "undecided"}
    settled = tally.won + tally.lost + tally.tied + tally.silent
    head = safe_line(f"{status.config} against {status.previous}: {states.get(status.state, status.state)}")
    uninformative = f"{tally.alike} alike under both, {tally.one_sided} found by one alone"
    credit = f"{status.config} {tally.credit_new}, {status.previous} {tally.credit_previous}"
    worse, better = f"E worse {figure(tally.e_worse, 2)}", f"E better {figure(tally.e_better, 2)}"
    parts = [
        head,
        f"  {count(tally.drafted, 'list')} drafted of {status.share:.0%} of searches; {uninformative}",
        f"  {settled} settled: {tally.won} won, {tally.lost} lost, {tally.tied} tied, {tally.silent} without a word",
        safe_line(f"  credit: {credit}; by {count(tally.readers, 'reader')}"),
        f"  {worse}, {better}, without any one reader; 20 decides",
    ]
    if status.state == "running":
        lost, won = (status.to_json()[name] for name in ("losses_missing", "wins_missing"))
        missing = (
            f"{lost} more lost in a row roll it back, {won} more won confirm it; {tally.open} not settled yet"
            if lost and won
            else "nothing; the host, or the next search or click, carries it out"
        )
        parts.append(f"  missing: {missing}")
    return parts
