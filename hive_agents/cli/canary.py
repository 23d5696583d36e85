from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hive_agents.cli.surface import Surface, count, figure, with_surface
from hive_agents.text import safe_line

if TYPE_CHECKING:
    from hive_agents.verification import CanaryStatus


class What(StrEnum):
    status = "status"


WhatArgument = Annotated[What, typer.Argument(help="Only `status`, which is the default.")]


@with_surface()
def command(surface: Surface, what: WhatArgument = What.status) -> None:  # noqa: ARG001
    """Show what readers' clicks and opinions say of the config that serves, against the one before."""
    from hive_agents.verification import canary_status

    surface.asker.operator("see the canary")
    found = canary_status(surface.workspace)
    surface.show(found.to_json(), *_parts(found))


def _parts(found: CanaryStatus) -> list[Any]:
    if found.config is None:
        why = "[canary] share in hive.toml is 0" if found.state == "off" else "no deployed config has one before it"
        return [f"no canary: {why}"]
    tally, states = found.tally, {"rolled_back": "rolled back", "running": "undecided"}
    settled = tally.won + tally.lost + tally.tied + tally.silent
    told = safe_line(f"{found.config} against {found.previous}: {states.get(found.state, found.state)}")
    beside = f"{tally.alike} alike under both, {tally.one_sided} found by one alone"
    readers = f"by {count(tally.readers, 'reader')}"
    worse, better = f"E worse {figure(tally.e_worse, 2)}", f"E better {figure(tally.e_better, 2)}"
    parts = [
        told,
        f"  {count(tally.drafted, 'list')} drafted of {found.share:.0%} of searches; {beside}",
        f"  {settled} settled: {tally.won} won, {tally.lost} lost, {tally.tied} tied, {tally.silent} without a word",
        safe_line(f"  credit: {found.config} {tally.credit_new}, {found.previous} {tally.credit_previous}; {readers}"),
        f"  {worse}, {better}, without any one reader; 20 decides",
    ]
    if found.state == "running":
        lost, won = (found.to_json()[name] for name in ("losses_missing", "wins_missing"))
        missing = (
            f"{lost} more lost in a row roll it back, {won} more won confirm it; {tally.open} not settled yet"
            if lost and won
            else "nothing; the host, or the next search or click, carries it out"
        )
        parts.append(f"  missing: {missing}")
    return parts
