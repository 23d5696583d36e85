"""The input of a run: validation, and the form in which its row stores it."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any, Self

from pydantic import ValidationError

from hive_agents.access import Standing
from hive_agents.agents.deployed import require_agent, serving_agent, versions
from hive_agents.agents.guards.budget import Limits
from hive_agents.agents.spec import AgentSpec, NodeSpec
from hive_agents.agents.tools import ToolRegistry
from hive_agents.agents.verify import check_agent, sound_agent
from hive_agents.base import Diagnostic, HiveError, RefusedInput, did_you_mean, has_errors, schemas
from hive_agents.base.files import Format
from hive_agents.goals import Goal
from hive_agents.memory import to_json
from hive_agents.runs import AGENT_GRAPH, RunRow
from hive_agents.workspace import Workspace


def read_agent(workspace: Workspace, agent: AgentSpec | str, tools: ToolRegistry, goal: Goal | None) -> AgentSpec:
    """Return the agent, or the serving version of that id: the deployed one, or the file before the first deployment.

    Raises: HIVE-107 (exit code 2) for an unknown id, every diagnostic of levels 1 and 2 for a faulty agent, HIVE-413
    where the audit log doesn't confirm the deployment.
    """
    if isinstance(agent, str):
        require_agent(workspace, agent)
        if not versions(workspace, agent):
            return sound_agent(workspace, agent, tools=tools)
        agent, goal = serving_agent(workspace, agent)[0], None
    diagnostics = check_agent(agent, workspace, tools=tools)
    if goal is not None:
        diagnostics = [one for one in diagnostics if one.path != "goal"]
    if has_errors(diagnostics):
        raise HiveError(diagnostics)
    return agent


def require_agent_run(row: RunRow, statuses: Collection[str], fix: str) -> None:
    """Raises: HIVE-409 (exit code 2) for a run of another kind, or in another status."""
    if row.graph != AGENT_GRAPH:
        raise HiveError.of("HIVE-409", f"{row.run_id} is a run of {row.graph}", fix=fix, exit_code=2)
    if row.status not in statuses:
        raise HiveError.of("HIVE-409", f"run {row.run_id} is {row.status}", fix=fix, exit_code=2)


def accepted_input(agent: AgentSpec, input: Mapping[str, Any]) -> dict[str, Any]:
    """Return the input as it is stored, with a value for every input key of the entry and no other; one that the
    agent's `input_schema` doesn't require has its default, or null.

    Raises: HIVE-106 for a key without a value, HIVE-103 for an unknown one, HIVE-104, HIVE-105 for one that doesn't fit
    the schema; exit code 2.
    """
    keys = agent.node(agent.entry).input_keys
    schema = agent.input_schema
    if schema is not None:
        properties = schema.get("properties") or {}
        optional = (key for key in keys if key not in input and key not in schema.get("required", ()))
        absent = {key: (properties.get(key) or {}).get("default") for key in optional if key in properties}
    else:
        absent = {}
    fix = f"the inputs are: {', '.join(keys) or 'none'}"
    faults = []
    for key in input:
        if key not in keys:
            message = f'"{key}" is no input of {agent.id}'
            faults.append(Diagnostic("HIVE-103", message, "input", key, did_you_mean(key, keys, fix)))
    faults += [
        Diagnostic("HIVE-106", f'{agent.id} needs the input "{key}"', "input", key, fix)
        for key in keys
        if key not in input and key not in absent
    ]
    stored = dict(absent)
    for key, value in input.items():
        try:
            stored[key] = json.loads(to_json(key, value))
        except HiveError as error:
            faults += error.diagnostics
    if schema is not None and not faults:
        faults = [
            Diagnostic("HIVE-105", sentence, "input", sentence.split(maxsplit=1)[0].rstrip(":"), fix)
            for sentence in schemas.faults({key: stored[key] for key in input}, schema)
        ]
    if faults:
        raise RefusedInput(faults, exit_code=2)
    return stored


def _storable(node: NodeSpec) -> dict[str, Any]:
    """Return the judge and the code of a node as they are stored: by name; a judge that is an object isn't."""
    code = node.code if isinstance(node.code, str | None) else getattr(node.code, "name", node.id)
    return {"judge": node.judge if isinstance(node.judge, str) else None, "code": code}


class RunValue(Format):
    """What a run was started with. `brought` says that the caller passed its tools or models, and has to do so again;
    judges that are objects aren't stored, and of code its name is."""

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
        nodes = [node.model_copy(update=_storable(node)) for node in agent.nodes]
        stored = agent.model_copy(update={"nodes": nodes})
        return cls(agent=stored, goal=goal, input=input, principal=principal, limits=limits, brought=brought)

    @classmethod
    def read(cls, value: dict[str, Any]) -> Self:
        """Return the stored value. Raises: HIVE-407 where it is damaged."""
        try:
            return cls.model_validate_json(json.dumps(value))
        except ValidationError:
            message = "the run's input is damaged"
            fix = "start the agent anew with `hive run AGENT`"
            raise HiveError.of(
                "HIVE-407", message, file=".hive/hive.db", path="runs.input", fix=fix, exit_code=3
            ) from None
