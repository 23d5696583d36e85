"""What a run may be started with, and as what its row keeps that."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any, Self

from pydantic import ValidationError

from hive_agents.access import Standing
from hive_agents.agents import AgentSpec, ToolRegistry, check_agent, require_agent, serving_agent, sound_agent, versions
from hive_agents.agents.guards import Limits
from hive_agents.errors import Diagnostic, HiveError, RefusedInput, did_you_mean, has_errors
from hive_agents.files import Format
from hive_agents.goals import Goal
from hive_agents.memory import to_json
from hive_agents.runs import AGENT_GRAPH, RunRow
from hive_agents.workspace import Workspace


def read_agent(workspace: Workspace, agent: AgentSpec | str, tools: ToolRegistry, goal: Goal | None) -> AgentSpec:
    """Return the agent, or the one of that id that serves: its deployed version, before its first deployment the file.

    Raises: HIVE-107 (exit code 2) for an unknown id, every diagnostic of levels 1 and 2 for a faulty agent, HIVE-413
    where nobody vouches for what was deployed.
    """
    named: dict[str, Any] = {"tools": tools.all_names, "sub_agent_tools": tools.sub_agents_only}
    if isinstance(agent, str):
        require_agent(workspace, agent)
        if not versions(workspace, agent):
            return sound_agent(workspace, agent, **named)
        agent, goal = serving_agent(workspace, agent)[0], None
    found = check_agent(agent, workspace, **named)
    if goal is not None:
        found = [one for one in found if one.path != "goal"]
    if has_errors(found):
        raise HiveError(found)
    return agent


def require_agent_run(row: RunRow, statuses: Collection[str], fix: str) -> None:
    """Raises: HIVE-409 (exit code 2) for a run that is of no agent, or in none of these statuses."""
    if row.graph != AGENT_GRAPH:
        raise HiveError.of("HIVE-409", f"{row.run_id} is a run of {row.graph}", fix=fix, exit_code=2)
    if row.status not in statuses:
        raise HiveError.of("HIVE-409", f"run {row.run_id} is {row.status}", fix=fix, exit_code=2)


def accepted_input(agent: AgentSpec, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the input as it is stored, with a value for every input key of the entry and no other.

    Raises: HIVE-106 for a key without a value, HIVE-103 for an unknown one, HIVE-104, HIVE-105; exit code 2.
    """
    keys = agent.node(agent.entry).input_keys
    told = f"the inputs are: {', '.join(keys) or 'none'}"
    wrong = []
    for key in given:
        if key not in keys:
            fix = did_you_mean(key, keys, told)
            wrong.append(Diagnostic("HIVE-103", f'"{key}" is no input of {agent.id}', "input", key, fix))
    wrong += [
        Diagnostic("HIVE-106", f'{agent.id} needs the input "{key}"', "input", key, told)
        for key in keys
        if key not in given
    ]
    stored = {}
    for key, value in given.items():
        try:
            stored[key] = json.loads(to_json(key, value))
        except HiveError as error:
            wrong += error.diagnostics
    if wrong:
        raise RefusedInput(wrong, exit_code=2)
    return stored


class RunValue(Format):
    """What a run was started with. `brought` says that its tools or models are somebody's own, who has to bring them
    again; a judge that is an object isn't stored."""

    agent: AgentSpec
    goal: Goal | None
    input: dict[str, Any]
    principal: Standing | None
    limits: Limits
    brought: bool

    @classmethod
    def of(
        cls,
        agent: AgentSpec,
        goal: Goal | None,
        input: dict[str, Any],
        principal: Standing | None,
        limits: Limits,
        brought: bool,
    ) -> Self:
        nodes = [
            node if isinstance(node.judge, str) else node.model_copy(update={"judge": None}) for node in agent.nodes
        ]
        stored = agent.model_copy(update={"nodes": nodes})
        return cls(agent=stored, goal=goal, input=input, principal=principal, limits=limits, brought=brought)

    @classmethod
    def read(cls, value: dict[str, Any]) -> Self:
        """Raises: HIVE-407 for what is no run's input."""
        try:
            return cls.model_validate_json(json.dumps(value))
        except ValidationError:
            message = "the run's input is damaged"
            fix = "start the agent anew with `hive run AGENT`"
            raise HiveError.of(
                "HIVE-407", message, file=".hive/hive.db", path="runs.input", fix=fix, exit_code=3
            ) from None
