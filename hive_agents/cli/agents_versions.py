"""`hive agents propose|deploy|rollback|history|align`: versions of agents."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hive_agents.base import safe_line
from hive_agents.cli.deploy import decision_line
from hive_agents.cli.surface import WHO_ASKS, HistoryReasonOption, Surface, count, with_surface

if TYPE_CHECKING:
    from hive_agents.access import Asker, Principal
    from hive_agents.agents import deployment

AgentArgument = Annotated[str, typer.Argument(help="An agent of agents/*.json.")]


@with_surface(as_user=WHO_ASKS)
def propose(
    surface: Surface,
    agent: AgentArgument,
    patch: Annotated[
        str | None,
        typer.Option(
            "--patch", metavar="FILE", help="JSON patch of the agent that serves, or an object to merge; - reads stdin."
        ),
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", metavar="NEW.json", help="The whole new agent in place of a patch.")
    ] = None,
    reason: HistoryReasonOption = None,
) -> None:
    """Propose a new version: it is checked and stored, and serves only after it is deployed."""
    from hive_agents.agents import require_agent
    from hive_agents.agents.evolution import proposals
    from hive_agents.base import HiveError
    from hive_agents.cli.answering import read_patch

    if (patch is None) == (file is None):
        fix = "give --patch FILE, or --file NEW.json"
        raise HiveError.of("HIVE-409", "one change is needed", fix=fix, exit_code=2)
    if not (reason and reason.strip()):
        raise HiveError.of("HIVE-409", "a proposal needs a reason", fix='add --reason "…"', exit_code=2)
    place = surface.workspace
    require_agent(place, agent)
    change = read_patch(patch) if patch is not None else _agent_in(file)
    proposal = proposals.propose(place, agent, change, by=_operator(surface.asker), reason=reason)
    version = proposal.version
    value = {"agent": agent, "version": version, "file": proposal.file, "diagnostics": [], "diff": proposal.patch}
    lines = [f"version {version} of {agent} is proposed: {proposal.file}"]
    lines += [safe_line(f"  {step['op']} {step['path']}") for step in proposal.patch]
    surface.show(value, *lines, f"hive agents deploy {agent} --version {version} measures it")


@with_surface(as_user=WHO_ASKS)
def deploy(
    surface: Surface,
    agent: AgentArgument,
    version: Annotated[
        int | None, typer.Option("--version", min=1, help="A proposed version (default: the agent's file).")
    ] = None,
    reason: HistoryReasonOption = None,
) -> None:
    """Compare a version with the one that serves on the goal's eval cases; unless blocked, ask another person."""
    from hive_agents.agents import deployment as agent_deploy, require_agent

    place = surface.workspace
    require_agent(place, agent)
    by = _operator(surface.asker)
    with surface.progress() as progress:
        outcome = agent_deploy.deploy(
            place,
            agent,
            by=by,
            version=version,
            reason=reason,
            principal=reader_of(surface.asker),
            progress=progress,
        )
    surface.show(outcome.to_json(), *_parts(agent, outcome))
    raise typer.Exit(1 if outcome.verdict.decision == "blocked" else 0)


@with_surface(as_user=WHO_ASKS)
def rollback(surface: Surface, agent: AgentArgument, reason: HistoryReasonOption = None) -> None:
    """Serve the previous version again; repeat to go further back."""
    from hive_agents.agents import require_agent, roll_back

    place = surface.workspace
    require_agent(place, agent)
    asker = surface.asker
    row, before = roll_back(place, agent, _operator(asker), reason=reason, authn=asker.authn)
    value = {"agent": agent, "deployed": row.version, "previous": before.version}
    surface.show(value, f"version {row.version} of {agent} serves again (before: {before.version})")


@with_surface()
def history(surface: Surface, agent: AgentArgument) -> None:
    """List the deployments of an agent, newest first, with their eval results."""
    from rich.table import Table

    from hive_agents.agents import deployment_warnings, require_agent, versions

    place = surface.workspace
    require_agent(place, agent)
    # Each was measured as whoever deployed it.
    hidden: dict[str, Any] = {"evaluation": {}} if surface.asker.viewer() is not None else {}
    rows = [row.to_json(active=n == 0) | hidden for n, row in enumerate(versions(place, agent))]
    surface.warn(deployment_warnings(place, agent))
    table = Table()
    for name in ("", "id", "version", "at", "by", "via", "decision", "cases"):
        table.add_column(name, no_wrap=name != "by", overflow="fold")
    for row in rows:
        side = row["evaluation"].get("candidate")
        cases = f"{side['passed']}/{row['evaluation']['n']}" if side else "–"
        cells = (row["id"], row["version"], row["at"][:16].replace("T", " "), row["by"], row["via"], row["decision"])
        table.add_row("●" if row["active"] else "", *map(safe_line, cells), cases)
    surface.show({"versions": rows}, table if rows else f"{agent} was never deployed: its file serves")


@with_surface()
def align(surface: Surface, agent: AgentArgument) -> None:
    """Renew the health judge's criteria for an agent from its goal, its prompts and the queen's principles."""
    from hive_agents.agents import deployed_text
    from hive_agents.supervision.health import align as aligned

    place = surface.workspace
    criteria = aligned(place, agent, deployed_text)
    value = {"agent": agent, "criteria": criteria.model_dump(mode="json")}
    surface.show(value, f"{agent} is aligned with {count(len(criteria.sources), 'source')}")


def _parts(agent: str, outcome: deployment.AgentDeployment) -> list[Any]:
    """Return the decision with its figures, as lines."""
    verdict, figures = outcome.verdict, outcome.verdict.evaluation
    lines: list[Any] = [decision_line(verdict.decision, agent)]
    lines += [safe_line(f"  {reason['code']}: {reason['message']}") for reason in verdict.reasons]
    new, old = figures.get("candidate"), figures.get("current")
    if new is not None and figures["n"]:
        passed = f"{old['passed']} -> {new['passed']}" if old is not None else str(new["passed"])
        lines.append(f"  {passed} of {count(figures['n'], 'eval case')} passed")
    if new is not None and old is not None and figures["n"]:
        lines.append(
            f"  {figures['wins']} won, {figures['losses']} lost, {figures['ties']} tied;"
            f" p = {figures['p_value']:.4f} against {figures['alpha']:.4f} ({figures['test']})"
        )
        lines.append(f"  tokens {old['tokens']} -> {new['tokens']}")
    if outcome.deployed is not None:
        before = f" (before: {outcome.previous})" if outcome.previous else ""
        lines.append(f"version {outcome.deployed} serves{before}")
    elif outcome.approval_id is not None:
        lines.append(f"it waits for another person: hive approvals show {outcome.approval_id}")
    return lines


def _agent_in(file: Path | None) -> Any:
    """Return the agent in a file as JSON. Raises: as `read_patch`, and every fault of level 1."""
    from hive_agents.agents import AgentSpec
    from hive_agents.base import HiveError
    from hive_agents.base.files import load_value
    from hive_agents.cli.answering import read_patch

    try:
        return load_value(AgentSpec, read_patch(str(file)), str(file))
    except HiveError as error:
        raise HiveError(error.diagnostics, exit_code=error.exit_code if error.exit_code == 2 else 1) from None


def _operator(asker: Asker) -> str:
    """Return the asker's name; a token needs the role operator or admin. Raises: HIVE-415, HIVE-417."""
    from hive_agents.access import who
    from hive_agents.base import HiveError
    from hive_agents.runs import Scope

    by = asker.requester()
    if not Scope(asker.token_holder()).operates:
        fix = f"it takes an operator's token in {who.TOKEN}: `hive token --roles operator` makes one"
        raise HiveError.of("HIVE-415", f"{by} changes no agents: the token lacks that role", fix=fix)
    return by


def reader_of(asker: Asker) -> Principal | None:
    """Return the reader that eval cases run as; None if the asker, who may deploy agents, is no reader of documents."""
    from contextlib import suppress

    from hive_agents.base import HiveError

    with suppress(HiveError):
        return asker.reader_if_named()
    return None
