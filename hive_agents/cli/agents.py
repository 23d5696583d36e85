"""`hive agents`: list, show, check, evaluate and create the agents of a workspace."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hive_agents.base import safe_line
from hive_agents.cli import agents_memory, agents_versions
from hive_agents.cli.agents_versions import AgentArgument
from hive_agents.cli.surface import WHO_ASKS, Surface, count, with_surface

if TYPE_CHECKING:
    from rich.table import Table

    from hive_agents.agents import AgentSpec
    from hive_agents.base import Diagnostic
    from hive_agents.workspace import Workspace

app = typer.Typer(help="Agents: list, show and check them, and deploy new versions.", no_args_is_help=True)
for _command in (
    agents_versions.propose,
    agents_versions.deploy,
    agents_versions.rollback,
    agents_versions.history,
    agents_versions.align,
):
    app.command()(_command)
app.add_typer(agents_memory.app, name="memory")


@app.command("list")
@with_surface()
def list_(surface: Surface) -> None:
    """List the agents of the workspace."""
    from hive_agents.agents import deployment_warnings, known_agents, spec
    from hive_agents.base import has_errors

    place = surface.workspace
    rows, lines = [], []
    for id in known_agents(place):
        agent, deployed, findings = _serving(place, id)
        ok = not has_errors(findings)
        warnings = deployment_warnings(place, id) if deployed else []
        row: dict[str, Any] = {"id": id, "ok": ok, "deployed": deployed, "edited": _edited(warnings)}
        if agent is not None:
            row |= {
                "version": agent.version,
                "mode": agent.mode,
                "goal": agent.goal,
                "entry": agent.entry,
                "inputs": agent.node(agent.entry).input_keys if ok else [],
                "nodes": [node.id for node in agent.nodes],
                "capability": str(agent.capability),
            }
        rows.append(row)
        surface.warn(warnings)
        if agent is not None and ok:
            sub_agents = spec.sub_agent_nodes(agent)
            version = f" (version {agent.version})" if deployed else ""
            lines.append(f"{id}{version}: {' → '.join(node.id for node in agent.nodes if node.id not in sub_agents)}")
        else:
            lines.append(f"{id}: {count(len(findings), 'fault')}, see hive agents validate {id}")
    surface.show({"agents": rows}, *(lines or ["no agents yet: write agents/ID.json"]))


@app.command("show")
@with_surface()
def show(surface: Surface, agent: AgentArgument) -> None:
    """Show an agent as it serves: its nodes with their inputs and outputs, and the edges between them."""
    from hive_agents.agents import deployment_warnings, require_agent, serving_agent

    place = surface.workspace
    require_agent(place, agent)
    spec, row = serving_agent(place, agent)
    warnings = deployment_warnings(place, agent)
    surface.warn(warnings)
    lines = [f"{spec.id}, version {spec.version}, for the goal {spec.goal}; begins with {spec.entry}"]
    lines.append(f"  deployed {row.at[:16]} by {row.by}" if row is not None else "  its file serves: never deployed")
    for node in spec.nodes:
        lines.append(f"  {node.id}: {', '.join(node.input_keys) or '()'} → {', '.join(node.output_keys) or '()'}")
        if node.sub_agents:
            lines.append(f"    delegates to {', '.join(node.sub_agents)}")
        for edge in spec.edges_from(node.id):
            lines.append(f"    {f'if {edge.condition}' if edge.condition else edge.on} → {edge.target}")
    deployed = row.to_json(active=True) if row is not None else None
    surface.show({"agent": spec.to_json(), "deployed": deployed, "edited": _edited(warnings)}, *lines)


@app.command("validate")
@with_surface()
def validate(surface: Surface, agent: AgentArgument) -> None:
    """Check an agent's file: its syntax, that every name in it exists, and that every input has a source."""
    from hive_agents.agents import require_agent
    from hive_agents.base import has_errors

    place = surface.workspace
    require_agent(place, agent)
    _, findings = _checked(place, agent)
    ok = not has_errors(findings)
    if not surface.as_json:
        surface.warn(findings)
    value = {"ok": ok, "diagnostics": [finding.to_json() for finding in findings]}
    surface.show(value, f"{agent}: {'no errors' if ok else 'not valid'}")
    raise typer.Exit(0 if ok else 1)


@app.command("eval")
@with_surface(as_user=WHO_ASKS)
def eval_(
    surface: Surface,
    agent: AgentArgument,
    repeats: Annotated[int, typer.Option("--repeats", min=1, max=100, help="Runs of each case.")] = 1,
) -> None:
    """Run an agent on the eval cases of its goal; their stubs replace tools that have effects."""
    from hive_agents.agents import evaluate_agent, rehearsal, require_agent, workspace_tools

    place = surface.workspace
    require_agent(place, agent)
    with surface.progress() as progress:
        stage = rehearsal.Stage(
            place, workspace_tools(place), agents_versions.reader_of(surface.asker), progress=progress
        )
        cases = evaluate_agent(stage, agent, repeats=repeats)
    rows = [case.to_json() for case in cases]
    passed = sum(case.passed == repeats for case in cases)
    totals = {"tokens": sum(row["tokens"] for row in rows), "usd": sum(row["usd"] for row in rows)}
    flaky = [case.id for case in cases if case.flaky]
    value = {"agent": agent, "repeats": repeats, "passed": passed, "of": len(cases), "flaky": flaky, **totals}
    summary = f"{passed} of {count(len(cases), 'case')} passed"
    summary += f", {len(flaky)} only sometimes" if flaky else ""
    summary += f"; {totals['tokens']:,} tokens, ${totals['usd']:.4f}"
    surface.show(value | {"cases": rows}, _case_table(rows), summary if cases else "its goal has no eval_cases")
    raise typer.Exit(0 if passed == len(cases) else 1)


def _case_table(rows: list[dict[str, Any]]) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for name in ("case", "passed", "tokens", "usd"):
        table.add_column(name, no_wrap=True)
    table.add_column("why not", overflow="fold")
    for row in rows:
        style = "green" if row["passed"] == row["runs"] else "yellow" if row["flaky"] else "red"
        cells = (
            row["id"],
            f"{row['passed']}/{row['runs']}",
            f"{row['tokens']:,}",
            f"{row['usd']:.4f}",
            row["why"] or "",
        )
        table.add_row(*map(safe_line, cells), style=style)
    return table


@app.command("new")
@with_surface()
def new(surface: Surface, name: Annotated[str, typer.Argument(help="Its name: a-z, 0-9, . _ -")]) -> None:
    """Write a new agent with tools, a goal, eval cases with stubs, and a script that replaces a model."""
    from hive_agents.agents import new_agent

    files, trusted, input = new_agent(surface.workspace, name)
    steps = [] if trusted else ["hive trust --diff", "hive trust"]
    steps += [f"hive agents validate {name}", f"hive agents eval {name}"]
    steps.append(f"hive run {name} --input '{json.dumps(input)}'")
    hint = f'then remove "model" from agents/{name}.json, to use the models of hive.toml'
    value = {"agent": name, "files": files, "trusted": trusted, "next": steps}
    surface.show(value, *(f"wrote {file}" for file in files), *(f"try: {step}" for step in steps), hint)


@app.command("graph")
@with_surface()
def graph(surface: Surface, agent: AgentArgument) -> None:
    """Draw an agent as a Mermaid flowchart, which most Markdown viewers show."""
    from hive_agents.agents import require_agent, serving_agent, verify

    require_agent(surface.workspace, agent)
    spec, _ = serving_agent(surface.workspace, agent)
    chart = verify.flowchart(spec)
    surface.show({"agent": agent, "mermaid": chart}, *chart.splitlines())


def _serving(place: Workspace, id: str) -> tuple[AgentSpec | None, bool, list[Diagnostic]]:
    """Return the agent that serves, None if it can't be read; whether it was deployed; and what checks found."""
    from hive_agents.agents import serving_agent, verify
    from hive_agents.base import HiveError

    try:
        agent, row = serving_agent(place, id)
    except HiveError as error:
        return None, False, error.diagnostics
    if row is not None:
        return agent, True, verify.check_agent(agent, place)
    agent_in_file, findings = _checked(place, id)
    return agent_in_file, False, findings


def _checked(place: Workspace, id: str) -> tuple[AgentSpec | None, list[Diagnostic]]:
    """Return the agent of the file, None if it can't be read, and what checks found."""
    from hive_agents.agents import spec, verify
    from hive_agents.base import HiveError

    try:
        agent, text = spec.read_agent(place, id)
    except HiveError as error:
        return None, error.diagnostics
    return agent, verify.check_agent(agent, place, file=f"agents/{id}.json", text=text)


def _edited(warnings: list[Diagnostic]) -> bool:
    """Return whether the file differs from the version that serves."""
    return any(warning.code == "HIVE-404" for warning in warnings)
