"""`hive agents`: the agents of a workspace, and what is wrong with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from hive_agents.cli.surface import JsonOption, QuietOption, Surface, WorkspaceOption, count, open_workspace

if TYPE_CHECKING:
    from hive_agents.agents import AgentSpec
    from hive_agents.errors import Diagnostic
    from hive_agents.workspace import Workspace

app = typer.Typer(help="Agents: list, show and check them.", no_args_is_help=True)
AgentArgument = Annotated[str, typer.Argument(help="An agent of agents/*.json.")]


@app.command("list")
def list_(workspace: WorkspaceOption = None, json: JsonOption = False, quiet: QuietOption = False) -> None:
    """The agents of the workspace."""
    from hive_agents.agents import agent_ids
    from hive_agents.agents.topology import sub_agent_nodes

    place = open_workspace(workspace)
    rows, lines = [], []
    for id in agent_ids(place):
        agent, found = _checked(place, id)
        ok = not any(one.severity == "error" for one in found)
        row: dict[str, Any] = {"id": id, "ok": ok}
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
        if agent is not None and ok:
            aside = sub_agent_nodes(agent)
            lines.append(f"{id}: {' → '.join(node.id for node in agent.nodes if node.id not in aside)}")
        else:
            lines.append(f"{id}: {count(len(found), 'fault')}, see hive agents validate {id}")
    Surface(json, quiet).show({"agents": rows}, *(lines or ["no agents yet: write agents/ID.json"]))


@app.command("show")
def show(
    agent: AgentArgument, workspace: WorkspaceOption = None, json: JsonOption = False, quiet: QuietOption = False
) -> None:
    """An agent: its nodes, what they take and make, and where the work goes."""
    from hive_agents.agents import load_agent

    place = open_workspace(workspace)
    _require_known(place, agent)
    spec = load_agent(place, agent)
    lines = [f"{spec.id}, version {spec.version}, for the goal {spec.goal}; begins with {spec.entry}"]
    for node in spec.nodes:
        lines.append(f"  {node.id}: {', '.join(node.input_keys) or '()'} → {', '.join(node.output_keys) or '()'}")
        if node.sub_agents:
            lines.append(f"    delegates to {', '.join(node.sub_agents)}")
        for edge in spec.edges_from(node.id):
            lines.append(f"    {f'if {edge.condition}' if edge.condition else edge.on} → {edge.target}")
    Surface(json, quiet).show({"agent": spec.to_json()}, *lines)


@app.command("validate")
def validate(
    agent: AgentArgument, workspace: WorkspaceOption = None, json: JsonOption = False, quiet: QuietOption = False
) -> None:
    """Check an agent: syntax, and whether every name leads somewhere and every input has a source."""
    from hive_agents.errors import has_errors

    surface = Surface(json, quiet)
    place = open_workspace(workspace)
    _require_known(place, agent)
    _, found = _checked(place, agent)
    ok = not has_errors(found)
    if not json:
        surface.warn(found)
    value = {"ok": ok, "diagnostics": [one.to_json() for one in found]}
    surface.show(value, f"{agent}: {'no errors' if ok else 'not valid'}")
    raise typer.Exit(0 if ok else 1)


def _checked(place: Workspace, id: str) -> tuple[AgentSpec | None, list[Diagnostic]]:
    """The agent, None where level 1 can't read it, and what both levels say."""
    from hive_agents.agents import check_agent
    from hive_agents.agents.spec import read_agent
    from hive_agents.errors import HiveError

    try:
        agent, text = read_agent(place, id)
    except HiveError as error:
        return None, error.diagnostics
    return agent, check_agent(agent, place, file=f"agents/{id}.json", text=text)


def _require_known(place: Workspace, id: str) -> None:
    """Raises: HIVE-107 with exit code 2."""
    from hive_agents.agents import agent_ids
    from hive_agents.errors import HiveError, closest

    known = agent_ids(place)
    if id not in known:
        guess = closest(id, known)
        fix = f'did you mean "{guess}"?' if guess else "`hive agents list` names those there are"
        raise HiveError.of("HIVE-107", f'there is no agent "{id}"', file=f"agents/{id}.json", fix=fix, exit_code=2)
