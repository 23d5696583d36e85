from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from hive_agents.cli.surface import Surface, count, figure, with_surface

if TYPE_CHECKING:
    from hive_agents.workspace import Workspace


@with_surface()
def command(
    surface: Surface, reason: Annotated[str | None, typer.Option("--reason", help="Why; kept in the history.")] = None
) -> None:
    """Serve the config that was active before; run it again to go further back."""
    from hive_agents.verification import rollback

    place = surface.workspace
    by = surface.asker.operator("roll configs back")
    version, before = rollback(place, reason=reason, by=by, authn=surface.asker.authn)
    value: dict[str, Any] = {"deployed": version.name, "previous": before, **_measured(place)}
    lines = [f"{version.name} is active again (before: {before})"]
    if value["metrics"]:
        shown = (f"{name} {figure(value['metrics'][name])}" for name in ("nudcg", "ndcg", "distractors"))
        n, held = count(value["queries"], "query"), value["held_out"]
        alone = f", and not the {held} held out alone as in a deployment" if held else ""
        lines.append(f"  as measured now, over all {n} of the golden set{alone}: {', '.join(shown)}")
    surface.show(value, *lines)


def _measured(workspace: Workspace) -> dict[str, Any]:
    """Return what serves again, measured today, over how many queries, so many of them held out.

    A rollback isn't gated, and doesn't fail for want of figures.
    """
    from contextlib import suppress

    from hive_agents.errors import HiveError
    from hive_agents.evaluation import evaluate

    with suppress(HiveError):
        found = evaluate(workspace)
        held_out = sum(one.query.split == "holdout" for one in found.queries)
        return {"metrics": found.metrics, "queries": len(found.queries), "held_out": held_out}
    return {"metrics": None, "queries": 0, "held_out": 0}
