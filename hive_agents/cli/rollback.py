from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hive_agents.cli.surface import HistoryReasonOption, Surface, count, figure, with_surface

if TYPE_CHECKING:
    from hive_agents.workspace import Workspace


@with_surface()
def command(surface: Surface, reason: HistoryReasonOption = None) -> None:
    """Activate the previous config again; repeat to go further back."""
    from hive_agents.gate import rollback

    place = surface.workspace
    by = surface.asker.operator("roll configs back")
    version, before = rollback(place, reason=reason, by=by, authn=surface.asker.authn)
    value: dict[str, Any] = {"deployed": version.name, "previous": before, **_measured(place)}
    lines = [f"{version.name} is active again (before: {before})"]
    if value["metrics"]:
        figures = ", ".join(f"{name} {figure(value['metrics'][name])}" for name in ("nudcg", "ndcg", "distractors"))
        queries, held_out = count(value["queries"], "query"), value["held_out"]
        difference = f", and not the {held_out} held out alone as in a deployment" if held_out else ""
        lines.append(f"  as measured now, over all {queries} of the golden set{difference}: {figures}")
    surface.show(value, *lines)


def _measured(workspace: Workspace) -> dict[str, Any]:
    """Return the restored config's metrics as measured now, and the number of queries and of held-out ones.

    A rollback isn't gated: when nothing can be measured, the metrics are None.
    """
    from contextlib import suppress

    from hive_agents.base import HiveError
    from hive_agents.evaluation import evaluate

    with suppress(HiveError):
        evaluation = evaluate(workspace)
        held_out = sum(scored.query.split == "holdout" for scored in evaluation.queries)
        return {"metrics": evaluation.metrics, "queries": len(evaluation.queries), "held_out": held_out}
    return {"metrics": None, "queries": 0, "held_out": 0}
