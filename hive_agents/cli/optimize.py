from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from hive_agents.base import safe_line
from hive_agents.cli.surface import GoldenOption, Surface, console, figure, with_surface

if TYPE_CHECKING:
    from rich.table import Table

    from hive_agents.access import Principal
    from hive_agents.optimizer import OptimizeRun

CODES = {"deployed": 0, "no_improvement": 0, "stopped": 0, "escalated": 1, "blocked": 1}
CODES |= {"interrupted": 130, "unavailable": 3}
NOTHING_MEASURED: dict[str, Any] = {
    "status": "stopped",
    "baseline": None,
    "best": None,
    "certificate": None,
    "rejected": [],
    "iterations": [],
    "evaluations": 0,
    "evaluations_per_second": None,
    "stopped_by": "interrupted",
}
"""The result of a run that Ctrl-C ended before it measured anything."""


@with_surface()
def command(
    surface: Surface,
    iterations: Annotated[int | None, typer.Option("--iterations", min=1, help="Most rounds.")] = None,
    patience: Annotated[int | None, typer.Option("--patience", min=1, help="Most rounds without gain.")] = None,
    seconds: Annotated[float | None, typer.Option("--seconds", min=0.001, help="Most seconds of search.")] = None,
    evaluations: Annotated[int | None, typer.Option("--evaluations", min=1, help="Most configs to measure.")] = None,
    llm_calls: Annotated[int | None, typer.Option("--llm-calls", min=0, help="Most model calls.")] = None,
    max_usd: Annotated[float | None, typer.Option("--max-usd", min=0, help="Most dollars; 0 is no limit.")] = None,
    seed: Annotated[int | None, typer.Option("--seed", min=0, help="Same seed, same inputs, same result.")] = None,
    no_deploy: Annotated[
        bool, typer.Option("--no-deploy", help="Stop before the deployment; the certificate uses the holdout.")
    ] = False,
    resume: Annotated[str | None, typer.Option("--resume", metavar="RUN", help="Continue a run.")] = None,
    runs: Annotated[
        int, typer.Option("--runs", min=1, help="Most runs: while one deploys, the next searches on from there.")
    ] = 1,
    golden: GoldenOption = None,
) -> None:
    """Search for a better config, and deploy one that is proved better on queries that the search never used."""
    from hive_agents.cli.configs import tell_cost_of_look
    from hive_agents.evaluation import load_golden
    from hive_agents.gate import canary_status
    from hive_agents.optimizer import OptimizeRun
    from hive_agents.runs import Scope

    place = surface.workspace
    viewer = surface.asker.operating_viewer("optimize configs")
    flags = {
        "iterations": iterations,
        "patience": patience,
        "seconds": seconds,
        "evaluations": evaluations,
        "llm_calls": llm_calls,
        "max_usd": max_usd,
        "seed": seed,
    }
    settings = {name: value for name, value in flags.items() if value is not None}
    surface.refresh_index()
    path: list[dict[str, Any]] = []
    while True:
        if resume and not path:
            run = OptimizeRun.resume(place, Scope(viewer).run(place, resume).run_id)
        else:
            tell_cost_of_look(surface, load_golden(place, golden))
            run = OptimizeRun.start(place, golden=golden, deploy=not no_deploy, settings=settings, owner=viewer)
        result = _result_of(surface, run, path if runs > 1 else None, viewer)
        path.append(_step(result))
        if result["status"] != "deployed" or len(path) == runs:
            break
        surface.say(f"{_told(path[-1])}\n")
        if canary_status(place).state == "running":
            surface.say("the readers' canary decides on it first: `hive canary`, then hive optimize")
            break
    steps = [f"  {_told(step)}" for step in path] if runs > 1 else []
    surface.show(result | ({"path": path} if runs > 1 else {}), *parts(result), *steps)
    raise typer.Exit(CODES.get(result["stopped_by"], CODES[result["status"]]))


def _result_of(
    surface: Surface, run: OptimizeRun, path: list[dict[str, Any]] | None, viewer: Principal | None
) -> dict[str, Any]:
    """Return the result of a run, of which each iteration is shown as soon as it is judged.

    Raises: typer.Exit where it was interrupted before anything was measured, with `path`, what the runs before brought.
    """
    if not surface.as_json and not surface.quiet:
        live = Live()
        live.console.print(f"run {run.run_id}; if it dies: hive optimize --resume {run.run_id}")
        run.on_update = live.update
    try:
        result: dict[str, Any] = run.shown_to(viewer, run.go())
        return result
    except KeyboardInterrupt:
        message = f"interrupted before anything was measured; go on: hive optimize --resume {run.run_id}"
        before = {} if path is None else {"path": path}
        surface.show(NOTHING_MEASURED | {"run_id": run.run_id} | before, message)
        raise typer.Exit(CODES["interrupted"]) from None


def _step(result: dict[str, Any]) -> dict[str, Any]:
    """Return what a run brought: its config, and the figures of its certificate."""
    certificate = result["certificate"] or {}
    figures = {name: certificate.get(name) for name in ("n", "difference", "p_value", "alpha", "readers")}
    return {"run_id": result["run_id"], "status": result["status"], "config": result["best"]["config"], **figures}


def _told(step: dict[str, Any]) -> str:
    """Return a step in one line: what it brought, and what it costs readers."""
    from hive_agents.evaluation import readers

    if step["status"] == "no_improvement":
        return f"{step['config']}: no improvement"
    return f"{step['config']}: {step['status'].replace('_', ' ')}, {readers.step_line(step)}"


class Live:
    """Prints a table of each iteration as soon as it is judged: the accepted trial, or the two that came closest."""

    def __init__(self) -> None:
        self.console = console()
        self.judged = 0
        self.fallbacks = 0
        self.diagnosed = False

    def update(self, state: dict[str, Any]) -> None:
        if not self.diagnosed and state.get("diagnosis"):
            self.diagnosed = True
            self.console.print(f"diagnosis: {state['diagnosis']['summary']}", soft_wrap=True)
        rows, fallbacks = state.get("rows", []), state.get("fallbacks", [])
        for fallback in fallbacks[self.fallbacks :]:
            line = f"iteration {fallback['iteration']}: heuristic instead of the model: {fallback['reason']}"
            self.console.print(line, style="yellow", soft_wrap=True)
        self.fallbacks = len(fallbacks)
        for n in sorted({row["n"] for row in rows if row["n"] > self.judged}):
            trials = _best([row for row in rows if row["n"] == n])
            self.console.print(_trials(trials, header=self.judged == 0))
            self.judged = n


def _best(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return at most three of an iteration's trials, the accepted first; without one, the two with the best nUDCG."""
    measured = sorted((row for row in rows if row["train"] is not None), key=lambda row: -row["train"])
    accepted = [row for row in measured if row["config"]]
    return [*accepted, *(row for row in measured if not row["config"])][: 3 if accepted else 2]


def _trials(rows: list[dict[str, Any]], *, header: bool) -> Table:
    from rich.table import Table

    # Changes, which may be long, come last, so that the tables of all iterations line up.
    table = Table(box=None, show_header=header, padding=(0, 1))
    table.add_column("n", justify="right", width=2)
    table.add_column("config", width=7)
    for name in ("train", "valid.", "distr."):
        table.add_column(name, justify="right", width=6)
    table.add_column("verdict", width=7)
    table.add_column("change")
    for row in rows:
        style = "green" if row["config"] else "red" if row["verdict"] == "invalid" else "dim"
        table.add_row(
            str(row["n"]),
            row["config"] or "",
            figure(row["train"]),
            figure(row["validation"]),
            figure(row["distractors"], 2),
            row["verdict"],
            row["step"],
            style=style,
        )
    return table


_ENDINGS = {
    "iterations": "all iterations used",
    "patience": "nothing else helps",
    "steps": "a run takes two steps at most",
    "seconds": "time is up",
    "evaluations": "all evaluations used",
    "no_deploy": "as asked, before the deployment",
    "blocked": "the gate blocked it on questions that nobody tuned to",
    "too_few_queries": "too few queries to decide by",
    "unavailable": "a model could not be asked",
    "interrupted": "interrupted",
    "rejected": "the deployment was rejected",
    "expired": "nobody decided in time",
    "superseded": "overtaken by a change",
}


_LIMITS = {"evaluations": "--evaluations", "seconds": "--seconds", "max_usd": "--max-usd"}


def parts(result: dict[str, Any]) -> list[Any]:
    from hive_agents.evaluation import readers_lines
    from hive_agents.gate import TagChange
    from hive_agents.optimizer import in_words, report

    best, certificate = result["best"], result["certificate"]
    lines: list[Any] = [_chart(result)] if result["iterations"] else []
    # Runs of earlier releases have no "search_ended_by".
    causes = dict.fromkeys([result.get("search_ended_by"), result["stopped_by"]])
    ending_words = "; ".join(_ENDINGS.get(name, name) for name in causes if name)
    ended = f" ({ending_words})" if ending_words else ""
    speed = figure(result["evaluations_per_second"], 0)
    status = result["status"].replace("_", " ")
    lines.append(f"{status}{ended}: {result['evaluations']} configs measured, {speed} a second")
    lines += [f"  {line}" for line in report.proposed_by(result)]
    pointer = f"  report: {result['report']}"
    if result["status"] == "no_improvement":
        outcome = f"nothing that was measured beats {result['baseline']['config']} on the open queries and does no harm"
        if not result["iterations"] and (option := _LIMITS.get(result["stopped_by"])):
            outcome = f"nothing was tried: looking for what to try took it all; allow more with {option}"
        return [*lines, outcome, *_refused(result), *(f"  {line}" for line in report.declarable(result)), pointer]
    lines.append(f"  {best['config']}: {in_words(best['changes'])}")
    if certificate:
        (low, high), mde = certificate["ci95"] or (None, None), certificate["mde"]
        lines += [
            f"  holdout ({certificate['n']} queries nobody tuned on): nUDCG {figure(certificate['before'])} ->"
            f" {figure(certificate['after'])} ({figure(certificate['difference'], signed=True)},"
            f" 95 % interval {figure(low, signed=True)} to {figure(high, signed=True)})",
            f"  distractors per query {figure(certificate['distractors_before'], 2)} ->"
            f" {figure(certificate['distractors_after'], 2)}{_recall(certificate)}",
            f"  p = {figure(certificate['p_value'], 4)} against {figure(certificate['alpha'], 4)}"
            + (f"; true gains from {figure(mde)} on show in four runs of five" if mde else ""),
        ]
        lines += [f"  {line}" for line in report.reranking(certificate)]
        lines += [f"  {reason['code']}: {reason['message']}" for reason in certificate["reasons"]]
        lines += [f"  watch: {safe_line(TagChange(**change, blocks=False))}" for change in certificate["watch"]]
        lines += [
            safe_line(f"  {warning['code']}: {warning['message']}") for warning in certificate.get("warnings", ())
        ]
    lines += [f"  {line}" for line in readers_lines(result.get("readers"))]
    lines += [f"  for a reader: {line}" for line in report.for_readers(result)]
    if wanted := report.missing(result):
        lines.append(f"  {wanted}")
    if result["status"] == "escalated":
        lines.append(f"  waits for a person: approval request {result['approval_id']}")
    if result.get("decision"):
        lines.append(f"  {report.ending(result)}")
    lines += [f"  on the open queries: {safe_line(TagChange(**change, blocks=False))}" for change in result["watch"]]
    lines += [*_refused(result), *(f"  {line}" for line in report.declarable(result)), pointer]
    if result["status"] == "stopped":
        lines.append(f"  {_what_next(result)}")
    return lines


def _recall(certificate: dict[str, Any]) -> str:
    """Return the change of recall, which fewer distractors may cost; "" for runs of earlier releases without it."""
    if certificate.get("recall_after") is None:
        return ""
    return f"; recall {figure(certificate['recall_before'], 2)} -> {figure(certificate['recall_after'], 2)}"


def _refused(result: dict[str, Any]) -> list[str]:
    from hive_agents.optimizer import in_words

    lines = []
    for row in result["rejected"]:
        figures = (
            f"train {figure(row['train'])}, valid. {figure(row['validation'])}, {figure(row['distractors'], 2)} distr."
        )
        lines += [
            f"  {row['config']} is better on the open queries ({figures}) and was refused: {in_words(row['changes'])}",
            safe_line(f"    {row['why']}"),
        ]
    return lines


def _what_next(result: dict[str, Any]) -> str:
    best, by = result["best"]["config"], result["stopped_by"]
    search_again = "search on: hive optimize"
    if by == "too_few_queries":
        return f"nothing was deployed; {best} stays in configs/; label more (`hive label QUERY`), then: hive optimize"
    if by == "blocked":
        return f"nothing was deployed: it is worse on questions that nobody tuned to; {best} stays in configs/"
    if by == "interrupted":
        return f"go on from here: hive optimize --resume {result['run_id']}"
    if by == "rejected":
        return f"nothing was deployed; {best} stays in configs/; {search_again}"
    if by == "superseded":
        return f"nothing was deployed; its figures are outdated, so measure again: hive optimize, or hive deploy {best}"
    if by == "expired":
        return f"nothing was deployed; ask again: hive deploy {best} --override --reason …; or {search_again}"
    return f"see it again: hive optimize --resume {result['run_id']}"


def _chart(result: dict[str, Any]) -> str:
    """Return a bar chart, one line for each iteration, of the best training nUDCG so far."""
    best = result["baseline"]["train"]
    values = [best]
    for n in range(1, max(row["n"] for row in result["iterations"]) + 1):
        accepted = [row["train"] for row in result["iterations"] if row["n"] == n and row["verdict"] == "accept"]
        best = max([best, *accepted])
        values.append(best)
    low = min(0.0, min(values))
    lines = ["nUDCG on the training queries, by iteration"]
    for n, value in enumerate(values):
        bar = "█" * max(1, round(40 * (value - low) / max(1.0 - low, 1e-9)))
        lines.append(f"  {n:>2} {bar} {value:.3f}")
    return "\n".join(lines)
