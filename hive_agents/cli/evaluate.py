from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from hive_agents.cli.surface import WHO_READS, GoldenOption, Surface, count, figure, with_surface

if TYPE_CHECKING:
    from collections.abc import Collection

    from hive_agents.evaluation import Evaluation

SplitOption = Annotated[str | None, typer.Option("--split", help="train, validation or holdout (spends a use).")]


@with_surface(as_user=WHO_READS)
def command(
    surface: Surface,
    config: Annotated[str | None, typer.Argument(help="Config (default: the active one).")] = None,
    split: SplitOption = None,
    accept_golden: Annotated[
        bool,
        typer.Option("--accept-golden", help="Accept the golden set as it is; agents may rely on it again."),
    ] = False,
    golden: GoldenOption = None,
) -> None:
    """Measure a config against the golden set."""
    from hive_agents.access import ViewGate, local_user
    from hive_agents.cli.configs import chosen_config
    from hive_agents.evaluation import evaluate, load_golden, results
    from hive_agents.gate import accept, visible_part

    place = surface.workspace
    viewer = surface.asker.operating_viewer("measure configs")
    surface.refresh_index()
    if accept_golden:
        by = local_user() if viewer is None else surface.asker.decider().by
        accept(place, load_golden(place, golden), by, "hive evaluate --accept-golden")
    part = visible_part(place, golden, split, viewer)
    program = chosen_config(place, config, surface, part.golden, viewer)
    surface.warn(part.look(place.engine(), [program], "evaluate"))
    evaluation = evaluate(place, program, golden=part.golden, reader=viewer)
    results.record(place, program, evaluation)
    value = evaluation.to_json(split=split and split.lower(), hide=part.hidden)
    doc_ids = {hit.doc_id for query in evaluation.queries for hit in query.hits}
    visible = doc_ids if viewer is None else ViewGate.of(place, viewer).allowed(sorted(doc_ids))
    for query in value["queries"]:
        query["hits"] = [hit for hit in query["hits"] if hit["doc_id"] in visible]
    surface.show(value, *_parts(evaluation, part.hidden, visible))


def _parts(evaluation: Evaluation, hidden: Collection[str], visible: Collection[str]) -> list[Any]:
    """Return the tables; queries with the ids `hidden` aren't listed, nor hits outside `visible` documents."""
    from rich.table import Table

    metrics = evaluation.metrics
    title = f"{evaluation.config}: {count(len(evaluation.queries), 'query')}, k = {evaluation.k}"
    figures = Table(title=title, title_justify="left")
    for name in ("nUDCG", "nDCG", "recall", "MRR", "distr.", "returned", "p95 ms"):
        figures.add_column(name, justify="right", no_wrap=True)
    figures.add_row(
        *(figure(metrics[name]) for name in ("nudcg", "ndcg", "recall", "mrr")),
        *(figure(metrics[name], 2) for name in ("distractors", "results")),
        figure(metrics["latency_ms_p95"], 1),
    )
    tags = Table(title="by tag", title_justify="left")
    for name in ("tag", "n", "nUDCG", "distractors"):
        tags.add_column(name, justify="left" if name == "tag" else "right")
    for tag, values in evaluation.tags.items():
        tags.add_row(tag, str(values["n"]), figure(values["nudcg"]), figure(values["distractors"], 2))
    parts: list[Any] = [figures, tags] if evaluation.tags else [figures]
    abstention = evaluation.abstention
    if abstention["n"]:
        unanswerable = count(int(abstention["n"]), "query")
        parts.append(f"{unanswerable} without an answer here: nUDCG {figure(abstention['nudcg'])} on them")
    listed = [query for query in evaluation.queries if query.query.id not in hidden]
    worst = sorted(listed, key=lambda query: (query.nudcg, query.query.id))[:5]
    if worst:
        table = Table(title="the worst queries" + (" (holdout not shown)" if hidden else ""), title_justify="left")
        for name in ("id", "query", "nUDCG", "returned, best first"):
            table.add_column(name, ratio=4 if name.startswith("returned") else None)
        marks = {"relevant": "+", "distractor": "−", "irrelevant": "·", "unjudged": "?", "repeat": "="}
        for query in worst:
            viewed = [hit for hit in query.hits if hit.doc_id in visible]
            hits = "  ".join(f"{marks[hit.label]}{hit.doc_id}" for hit in viewed[:5])
            table.add_row(query.query.id, query.query.query, figure(query.nudcg), hits)
        parts += [table, "+ relevant   − distractor   · irrelevant   ? unjudged   = repeated"]
    return parts
