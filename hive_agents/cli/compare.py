from __future__ import annotations

import json as jsonlib
from typing import TYPE_CHECKING, Any

from hive_agents.cli.evaluate import SplitOption
from hive_agents.cli.surface import (
    ConfigArgument,
    GoldenOption,
    Surface,
    figure,
    with_surface,
)
from hive_agents.text import count

if TYPE_CHECKING:
    from hive_agents.evaluation import Comparison


@with_surface()
def command(
    surface: Surface, a: ConfigArgument, b: ConfigArgument, split: SplitOption = None, golden: GoldenOption = None
) -> None:
    """Measure two configs side by side; every difference is B minus A."""
    from hive_agents.cli.configs import chosen_config, refresh_index
    from hive_agents.evaluation import compare
    from hive_agents.verification import visible_part

    place = surface.workspace
    refresh_index(place, surface)
    queries, hidden, warnings = visible_part(place, golden, split, purpose="compare")
    surface.warn(warnings)
    first, second = (chosen_config(place, name, surface, queries) for name in (a, b))
    comparison = compare(place.engine(), first, second, queries)
    surface.show(comparison.to_json(hide=hidden), *parts(comparison, hidden))


def parts(comparison: Comparison, hidden: str | None) -> list[Any]:
    from rich.table import Table

    a, b, d = comparison.a, comparison.b, comparison.difference
    metrics = Table(title=f"{count(len(a.queries), 'query')}, k = {a.k}", title_justify="left")
    metrics.add_column("")
    for name in (f"A: {a.config}", f"B: {b.config}", "B − A"):
        metrics.add_column(name, justify="right")
    for name in ("nudcg", "ndcg", "recall", "mrr", "distractors", "results", "latency_ms_p95"):
        x, y = a.metrics[name], b.metrics[name]
        delta = None if x is None or y is None else y - x
        metrics.add_row(name, figure(x), figure(y), figure(delta, signed=True))
    lines: list[Any] = [metrics]
    low, high = d.ci95
    lines.append(
        f"nUDCG {d.difference:+.3f}, 95 % interval {low:+.3f} to {high:+.3f}, p = {d.p_value:.4f} that B isn't better;"
        f" {d.wins} won, {d.losses} lost, {d.ties} tied"
    )
    if d.mde is not None:
        lines.append(f"{d.n} queries can show gains from {d.mde:.3f} on")
    for change in comparison.changes:
        before, after = (jsonlib.dumps(change[side], ensure_ascii=False) for side in ("a", "b"))
        lines.append(f"  {change['path']}: {before} → {after}")
    listed = [
        (y.nudcg - x.nudcg, x.query.id, x.query.query, x.nudcg, y.nudcg)
        for x, y in zip(a.queries, b.queries, strict=True)
        if x.nudcg != y.nudcg and (hidden is None or x.query.split != hidden)
    ]
    if listed:
        table = Table(
            title="queries that change most" + (" (holdout not shown)" if hidden else ""), title_justify="left"
        )
        for name in ("id", "query", "A", "B", "B − A"):
            table.add_column(name, justify="left" if name in ("id", "query") else "right")
        for delta, query_id, text, x, y in sorted(listed, key=lambda row: -abs(row[0]))[:8]:
            table.add_row(query_id, text, figure(x), figure(y), figure(delta, signed=True))
        lines.append(table)
    return lines
