from __future__ import annotations

import json as jsonlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hive_agents.cli.evaluate import SplitOption
from hive_agents.cli.surface import (
    GoldenOption,
    Surface,
    figure,
    with_surface,
)
from hive_agents.text import count

if TYPE_CHECKING:
    from hive_agents.evaluation import Comparison, EngineComparison


@with_surface()
def command(
    surface: Surface,
    a: Annotated[str | None, typer.Argument(help="Config: a name, a file name or a path.")] = None,
    b: Annotated[str | None, typer.Argument(help="The config to compare it with.")] = None,
    split: SplitOption = None,
    golden: GoldenOption = None,
    engine: Annotated[
        bool,
        typer.Option("--engine", help="Compare one config (or the active one) over the settings' engines and here."),
    ] = False,
) -> None:
    """Measure two configs side by side; every difference is B minus A."""
    from hive_agents.cli.configs import chosen_config
    from hive_agents.errors import HiveError
    from hive_agents.evaluation import compare
    from hive_agents.verification import visible_part

    surface.asker.operator("measure configs")
    if engine:
        if b is not None:
            raise HiveError.of("HIVE-409", "--engine compares one config with itself", fix="name one config, or none")
        _engines(surface, a, split, golden)
        return
    if a is None or b is None:
        raise HiveError.of("HIVE-409", "two configs are needed", fix="hive compare A B, or hive compare [A] --engine")
    place = surface.workspace
    surface.refresh_index()
    queries, hidden, warnings = visible_part(place, golden, split, purpose="compare")
    surface.warn(warnings)
    first, second = (chosen_config(place, name, surface, queries) for name in (a, b))
    comparison = compare(place.engine(), first, second, queries)
    surface.show(comparison.to_json(hide=hidden), *parts(comparison, hidden))


def _engines(surface: Surface, name: str | None, split: str | None, golden: Path | None) -> None:
    from hive_agents.cli.configs import chosen_config
    from hive_agents.evaluation import compare_engines
    from hive_agents.verification import visible_part

    place = surface.workspace
    surface.refresh_index()
    queries, hidden, warnings = visible_part(place, golden, split, purpose="compare")
    surface.warn(warnings)
    found = compare_engines(place, chosen_config(place, name, surface, queries), queries)
    surface.show(found.to_json(hide=hidden), *engine_parts(found, hidden))


def engine_parts(found: EngineComparison, hidden: str | None) -> list[Any]:
    from rich.table import Table

    metrics = Table(title=f"{found.config}, {count(len(found.queries), 'query')}", title_justify="left")
    metrics.add_column("")
    for name in ("embedded", " and ".join(found.engines), "difference"):
        metrics.add_column(name, justify="right")
    for name in ("nudcg", "ndcg", "recall", "mrr", "distractors", "results", "latency_ms_p95"):
        x, y = found.embedded.metrics[name], found.engine.metrics[name]
        delta = None if x is None or y is None else y - x
        metrics.add_row(name, figure(x), figure(y), figure(delta, signed=True))
    lanes = ", ".join(f"{name} {figure(share)}" for name, share in found.lanes.items())
    lines: list[Any] = [
        metrics,
        f"overlap at 10: {figure(found.overlap)} (lanes: {lanes}); {found.identical:.0%} of the lists are identical",
    ]
    lines += [f"  {count(n, 'query')}: {reason}" for reason, n in found.reasons.items()]
    listed = [one for one in found.queries if one.overlap < 1 and (hidden is None or one.query.split != hidden)]
    if listed:
        table = Table(title="lists that differ most" + (" (holdout not shown)" if hidden else ""), title_justify="left")
        for name in ("id", "query", "overlap"):
            table.add_column(name, justify="right" if name == "overlap" else "left")
        for one in sorted(listed, key=lambda one: one.overlap)[:8]:
            table.add_row(one.query.id, one.query.query, figure(one.overlap))
        lines.append(table)
    return lines


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
    if d.mde:
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
