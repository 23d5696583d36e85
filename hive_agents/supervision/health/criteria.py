"""The criteria of an agent: derived from its goal, its prompts and the colony's principles, stored as a file."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from hive_agents.base import Diagnostic, HiveError, did_you_mean, sha256
from hive_agents.base.files import NAME_PATTERN, FileFormat, Format, atomic_write_text, jsontext, load, read_bytes
from hive_agents.goals import load_goal
from hive_agents.models import prompts

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hive_agents.workspace import Workspace

    Deployed = Callable[[Workspace, str], str | None]
    """The JSON of the version of an agent that was deployed; None where its file serves."""

FOLDER = "agents/criteria"
PRINCIPLES = "prompts/queen.md"
_PROMPT = re.compile(r"prompts/(?P<name>[a-z0-9][a-z0-9._-]{0,63})\.md")
_SHOWN = 4_000


class Criterion(Format):
    """A success criterion, a hard constraint, or a node's criterion."""

    id: str
    description: str


class NodeCriteria(Format):
    node: str
    prompt: str
    success_criteria: str | None = None


class Criteria(FileFormat):
    """The health judge's criteria of an agent. `sources` has the SHA-256 of each file they were derived from."""

    agent: str
    goal: Criterion
    success_criteria: list[Criterion] = []
    hard_constraints: list[Criterion] = []
    phases: list[NodeCriteria] = []
    principles: list[str] = []
    sources: dict[str, str] = {}

    def for_model(self) -> dict[str, Any]:
        """Return the criteria for a prompt; long texts are cut."""
        phases = [one.model_copy(update={"prompt": one.prompt[:_SHOWN]}) for one in self.phases]
        return self.model_copy(update={"phases": phases}).model_dump(exclude={"principles", "sources"})


def align(workspace: Workspace, agent: str, deployed: Deployed = lambda *_: None) -> Criteria:
    """Derive the criteria of the agent that serves, and write them to `agents/criteria/<id>.json`.

    Raises: HIVE-107 (exit code 2) for an unknown agent; HIVE-107 for a missing goal or prompt, and all faults of
    these files; HIVE-403 where it can't be written.
    """
    criteria = derive(workspace, agent, deployed)
    text = json.dumps(criteria.model_dump(mode="json"), ensure_ascii=False, indent=2)
    atomic_write_text(_file(workspace, agent), text + "\n")
    return criteria


def derive(workspace: Workspace, agent: str, deployed: Deployed = lambda *_: None) -> Criteria:
    """Return the criteria as `align` does, and write nothing."""
    file = f"agents/{agent}.json"
    spec, text = _agent(workspace, agent, deployed)
    goal = load_goal(workspace, spec["goal"])
    goal_file = f"goals/{goal.id}.json"
    sources = {file: sha256(text), goal_file: sha256(read_bytes(workspace.root / goal_file).decode())}
    phases = []
    for node in spec["nodes"]:
        prompt = _text(workspace, str(node["system_prompt"]), sources)
        phases.append(NodeCriteria(node=str(node["id"]), prompt=prompt, success_criteria=node.get("success_criteria")))
    _text(workspace, str(spec.get("identity") or ""), sources)
    principles = _principles(workspace)
    sources[PRINCIPLES] = sha256("\n".join(principles))
    return Criteria(
        agent=agent,
        goal=Criterion(id=goal.id, description=goal.description or goal.name),
        success_criteria=[Criterion(id=one.id, description=one.description) for one in goal.success_criteria],
        hard_constraints=[
            Criterion(id=one.id, description=one.description or one.check or "")
            for one in goal.constraints
            if one.constraint_type == "hard"
        ],
        phases=phases,
        principles=principles,
        sources=sources,
    )


def criteria_of(workspace: Workspace, agent: str, deployed: Deployed = lambda *_: None) -> Criteria:
    """Return the aligned criteria, also stale ones; derived ones for an agent that was never aligned.

    Raises: as `derive`, and every diagnostic of level 1 for a damaged file.
    """
    path = _file(workspace, agent)
    if not path.is_file():
        return derive(workspace, agent, deployed)
    return load(Criteria, read_bytes(path), workspace.relative(path))


def stale(workspace: Workspace, agent: str, deployed: Deployed = lambda *_: None) -> Diagnostic | None:
    """Return HIVE-424 (a warning) where the agent was aligned and its goal, prompts or principles changed since.

    An agent that was never aligned isn't stale: its criteria are derived on demand.
    """
    path = _file(workspace, agent)
    if not path.is_file():
        return None
    file, fix = workspace.relative(path), f"hive agents align {agent}"
    try:
        then, now = criteria_of(workspace, agent).sources, derive(workspace, agent, deployed).sources
    except HiveError as error:
        why = f"the criteria of {agent} can't be compared: {error.diagnostics[0].message}"
        return Diagnostic("HIVE-424", why, file, "$", fix, severity="warning")
    changed = sorted(name for name in {*then, *now} if then.get(name) != now.get(name))
    if not changed:
        return None
    why = f"the criteria of {agent} are older than {', '.join(changed)}"
    return Diagnostic("HIVE-424", why, file, "sources", fix, severity="warning")


def stale_criteria(workspace: Workspace, deployed: Deployed = lambda *_: None) -> list[Diagnostic]:
    """Return HIVE-424 for each agent whose criteria are stale; a check of `hive doctor`."""
    aligned = sorted(path.stem for path in (workspace.root / FOLDER).glob("*.json"))
    return [found for agent in aligned if (found := stale(workspace, agent, deployed)) is not None]


def _file(workspace: Workspace, agent: str) -> Path:
    return workspace.root / FOLDER / f"{agent}.json"


def _agent(workspace: Workspace, agent: str, deployed: Deployed) -> tuple[dict[str, Any], str]:
    """Return the serving agent and its JSON, with only the checks that are needed here."""
    file = f"agents/{agent}.json"
    text = deployed(workspace, agent) or _file_text(workspace, agent, file)
    spec = jsontext.parse(text, file)
    nodes = spec.get("nodes") if isinstance(spec, dict) else None
    sound = isinstance(nodes, list) and all(
        isinstance(one, dict) and {"id", "system_prompt"} <= one.keys() for one in nodes
    )
    if not sound or not isinstance(spec.get("goal"), str):
        raise HiveError.of("HIVE-104", f"{file} holds no agent", file=file, path="$", fix=f"hive validate {file}")
    return spec, text


def _file_text(workspace: Workspace, agent: str, file: str) -> str:
    known = sorted(path.stem for path in (workspace.root / "agents").glob("*.json"))
    if agent not in known or not re.match(NAME_PATTERN, agent):
        fix = did_you_mean(agent, known, "`hive agents list` names those there are")
        raise HiveError.of("HIVE-107", f'there is no agent "{agent}"', file=file, fix=fix, exit_code=2)
    return jsontext.decode(read_bytes(workspace.root / file), file)


def _text(workspace: Workspace, prompt: str, sources: dict[str, str]) -> str:
    """Return the prompt's text; if it is in a file, that is a source, too."""
    found = _PROMPT.fullmatch(prompt)
    if found is None:
        return prompt
    text = prompts.template(found["name"], workspace)
    sources[prompt] = sha256(text)
    return text


def _principles(workspace: Workspace) -> list[str]:
    """Return the points under `## Principles` of the queen's prompt, the workspace's own before the bundled one."""
    text = prompts.template("queen", workspace)
    found = re.search(r"^## Principles[ \t]*\n(?P<body>.*?)(?=^#{1,2} |\Z)", text, re.MULTILINE | re.DOTALL)
    points = re.split(r"^(?:[-*]|\d+\.)[ \t]+", found["body"] if found else "", flags=re.MULTILINE)
    return [" ".join(point.split()) for point in points if point.strip()]
