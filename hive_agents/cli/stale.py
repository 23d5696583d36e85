from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from hive_agents.base import one_line, safe_line
from hive_agents.cli.surface import WHO_READS, GoldenOption, Surface, count, figure, with_surface

if TYPE_CHECKING:
    from hive_agents.optimizer import stale

CHATS = 500
"""The number of latest chat questions that are searched for."""


@with_surface(as_user=WHO_READS)
def command(
    surface: Surface,
    config: Annotated[str | None, typer.Option("--config", "-c", help="Config (default: the active one).")] = None,
    most: Annotated[int, typer.Option("--most", min=1, help="Pairs to show; --json has all.")] = 10,
    golden: GoldenOption = None,
) -> None:
    """Find documents that contradict or supersede each other, the most often returned first."""
    from hive_agents.access import ViewGate
    from hive_agents.cli.configs import chosen_config
    from hive_agents.copilot import asked_questions
    from hive_agents.evaluation import FILE, held_out, viewable_golden
    from hive_agents.optimizer import stale

    place = surface.workspace
    viewer = surface.asker.operating_viewer("compare documents with each other")
    surface.keep_fresh()
    program = chosen_config(place, config, surface, viewer=viewer)
    labels = None
    if golden is not None or (place.root / FILE).is_file():
        golden_set = viewable_golden(place, viewer, golden)
        labels = golden_set if golden_set.collection == program.collection else None
    held = {query.id for query in held_out(labels) or ()} if labels else set()
    open_queries = [query.query for query in labels or () if query.id not in held]
    queries = list(dict.fromkeys([*open_queries, *asked_questions(place, viewer)[-CHATS:]]))
    pairs = stale.stale_pairs(place.engine(), program, queries, labels, reader=viewer)
    if viewer is not None:
        viewable = ViewGate.of(place, viewer).allowed([name for pair in pairs for name in pair.documents])
        pairs = [pair for pair in pairs if viewable.issuperset(pair.documents)]
    value = {"pairs": [pair.to_json() for pair in pairs], "queries": len(queries), "config": program.name}
    surface.show(value, *_parts(pairs[:most], len(pairs), len(queries)))


def _parts(shown: list[stale.StalePair], total: int, queries: int) -> list[Any]:
    if not total:
        return ["no two documents say the same with other figures"]
    parts: list[Any] = []
    for pair in shown:
        a, b = pair.documents
        newer = f"; {pair.newer} is newer, by {pair.by}" if pair.newer else "; nothing tells which is newer"
        parts.append(safe_line(f"{a} and {b}{newer}"))
        parts.append(f"  {'versions of one page' if pair.kind == 'version' else 'contradiction'}, {_returned(pair)}")
        for disagreement in pair.disagreements[:2]:
            first, second = (one_line(text, 110) for text in disagreement.texts)
            parts += [f"    {first}", f"  ≠ {second}"]
        if len(pair.disagreements) > 2:
            parts.append(f"    and {count(len(pair.disagreements) - 2, 'more statement')}")
        for advice in pair.advice:
            cost = advice.cost
            price = (
                f"; {cost.lose} lose, {cost.win} win, mean {figure(cost.difference, 4, signed=True)}" if cost else ""
            )
            parts.append(safe_line(f"  → {advice.kind}: {advice.told}{price}"))
    parts.append(f"{count(total, 'pair')}, by {count(queries, 'query')} of the golden set and of chats")
    return parts


def _returned(pair: stale.StalePair) -> str:
    if not pair.returned:
        return "no query returns it"
    which = "the older one" if pair.newer else "one of them"
    return f"{count(pair.returned, 'query')} return{'s' if pair.returned == 1 else ''} {which}"
