"""Proposals of new versions of an agent: one file each, whose hash is in the audit log."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from hive_agents.access import asked_by
from hive_agents.agents.deployed import served_text, versions
from hive_agents.agents.evolution.texts import agent_hash, difference, inlined
from hive_agents.agents.spec import AgentSpec
from hive_agents.agents.tools import ToolRegistry
from hive_agents.agents.verify import check_agent
from hive_agents.approvals import PatchError, patched
from hive_agents.base import HiveError, has_errors
from hive_agents.base.files import FileFormat, Name, atomic_write_text, load, load_value, read_bytes
from hive_agents.store import audit
from hive_agents.workspace import Workspace

KIND = "agent_proposal"
FOLDER = "agents/proposals"
AgentChange = list[dict[str, Any]] | Mapping[str, Any] | AgentSpec
"""RFC 6902 operations, an object to merge, or the whole new agent."""


class Proposal(FileFormat):
    """`patch` turns the version that served at the time, whose hash is `base_hash`, into version `version`.

    `on_behalf_of` is the person for whom a proposing agent works.
    """

    agent: Name
    version: Annotated[int, Field(ge=1)]
    base_hash: str
    patch: list[dict[str, Any]]
    reason: str
    by: str
    on_behalf_of: str | None = None
    at: str

    @property
    def file(self) -> str:
        return f"{FOLDER}/{self.agent}-v{self.version}.json"

    @property
    def hash(self) -> str:
        return hashlib.sha256(_text(self).encode()).hexdigest()

    def same_as(self, other: Proposal) -> bool:
        """Return whether two proposals differ in nothing but their version number and time."""
        return self.model_copy(update={"version": other.version, "at": other.at}) == other


def propose(
    workspace: Workspace,
    id: str,
    change: AgentChange,
    *,
    by: str,
    reason: str,
    on_behalf_of: str | None = None,
    tools: ToolRegistry | None = None,
) -> Proposal:
    """Write a proposal to change what serves, without deploying it; return an equal one that exists.

    A patch is applied to the agent with every prompt in it, as `hive agents show --json` has it under "serving".
    `tools` are what the agent may use, the bundled ones by default. `by` is a person or "agent:…".

    Raises: HIVE-107 for an unknown agent; every diagnostic of levels 1 and 2, HIVE-105 for a patch that doesn't fit,
    HIVE-409 for one that changes nothing, or the agent's id or goal. Nothing is written then.
    """
    if not reason.strip():
        raise HiveError.of("HIVE-409", "a proposal needs a reason", fix='add --reason "…"')
    with workspace.exclusive("proposing a version of an agent"):
        base = served_text(workspace, id)
        number = _next_version(workspace, id, base)
        candidate = _sound(workspace, base, _changed(base, change, number), tools)
        proposal = Proposal(
            agent=id,
            version=number,
            base_hash=agent_hash(base),
            patch=difference(base, candidate),
            reason=reason,
            by=_named(by),
            on_behalf_of=_named(on_behalf_of) if on_behalf_of is not None else None,
            at=audit.now(),
        )
        for earlier in _proposals(workspace, id):
            if proposal.same_as(earlier):
                return _vouched_for(workspace, earlier)
        path = workspace.root / proposal.file
        atomic_write_text(path, _text(proposal))
        return _vouched_for(workspace, proposal)


def find_proposal(workspace: Workspace, id: str, version: int) -> Proposal:
    """Return the proposal of that version.

    Raises: HIVE-409 where there is none (exit code 2), or its file was edited; level 1 for a damaged file.
    """
    path = _files(workspace, id).get(version)
    if path is None or not path.is_file():
        existing = ", ".join(map(str, _files(workspace, id))) or "none"
        fix, message = f"the proposed versions are: {existing}", f"nobody proposed version {version} of {id}"
        raise HiveError.of("HIVE-409", message, fix=fix, exit_code=2)
    proposal = load(Proposal, read_bytes(path), workspace.relative(path))
    if proposal.hash not in _hashes(workspace) or (proposal.agent, proposal.version) != (id, version):
        file, fix = workspace.relative(path), "propose the change again, so that it is known whose it is"
        message = f"{file} is not what was proposed: somebody edited it"
        raise HiveError.of("HIVE-409", message, file=file, path="$", fix=fix, exit_code=1)
    return proposal


def candidate_of(base: AgentSpec, proposal: Proposal) -> AgentSpec:
    """Return the agent that a proposal makes of the serving one. Raises: HIVE-307 where another one serves now."""
    if agent_hash(base) != proposal.base_hash:
        raise HiveError.of(
            "HIVE-307",
            f"another version of {proposal.agent} was deployed since version {proposal.version} was proposed",
            file=proposal.file,
            path="$",
            fix="propose the change again: it is applied to what serves now",
            exit_code=1,
        )
    return _loaded(patched(base.to_json(), proposal.patch) | {"version": proposal.version}, proposal.file)


def changed(base: AgentSpec, change: AgentChange) -> AgentSpec:
    """Return the changed agent. Raises: HIVE-105 for a patch that doesn't fit, level 1 for its result."""
    return _loaded(_changed(base, change, base.version), "patch")


def _changed(base: AgentSpec, change: AgentChange, number: int) -> dict[str, Any]:
    """Return the new agent's JSON. Raises: HIVE-105."""
    if isinstance(change, AgentSpec):
        return change.to_json() | {"version": number}
    patch = dict(change) if isinstance(change, Mapping) else change
    try:
        value = patched(base.to_json(), patch)
        json.dumps(value, ensure_ascii=False).encode()
    except (PatchError, LookupError, TypeError, ValueError) as error:
        why, fix = f"the patch can't be applied: {error}", "patch the agent as `hive agents show ID --json` has it"
        raise HiveError.of("HIVE-105", why, file="patch", path="$", fix=fix, exit_code=1) from None
    if not isinstance(value, dict):
        raise HiveError.of("HIVE-104", "the patch leaves no agent", file="patch", path="$", fix="patch a part of it")
    return value | {"version": number}


def _named(by: str) -> str:
    """Return who proposes, in the form that approvals use. Raises: HIVE-409 for an empty name."""
    proposer = asked_by(by)
    if proposer.endswith(":"):
        raise HiveError.of("HIVE-409", "nobody proposes this", fix='say by whom: "user:dana", "agent:queen"')
    return proposer


def _sound(workspace: Workspace, base: AgentSpec, value: dict[str, Any], tools: ToolRegistry | None) -> AgentSpec:
    """Return the candidate with every prompt in it. Raises: the diagnostics of levels 1 and 2, HIVE-409."""
    agent = _loaded(value, f"agents/{base.id}.json")
    for name, current in (("id", base.id), ("goal", base.goal)):
        if getattr(agent, name) != current:
            # With another goal it would choose the eval cases that it is measured by.
            fix = f'keep "{name}": "{current}"; an agent with another one is another agent, with a file of its own'
            message = f"a proposal can't change the {name} of an agent"
            raise HiveError.of("HIVE-409", message, file=f"agents/{base.id}.json", path=name, fix=fix, exit_code=1)
    findings = check_agent(agent, workspace, tools=tools)
    if has_errors(findings):
        raise HiveError(findings, exit_code=1)
    agent = inlined(agent, workspace)
    if agent_hash(agent) == agent_hash(base):
        fix = "propose a difference"
        raise HiveError.of("HIVE-409", f"this is the {base.id} that serves: nothing changes", fix=fix, exit_code=1)
    return agent


def _loaded(value: dict[str, Any], file: str) -> AgentSpec:
    try:
        return load_value(AgentSpec, value, file)
    except HiveError as error:
        raise HiveError(error.diagnostics, exit_code=1) from None


def _next_version(workspace: Workspace, id: str, base: AgentSpec) -> int:
    """Return one more than any version that serves, was deployed or was proposed, also where the file is gone: a
    request for approval may still name its number."""
    numbers = [row.version for row in versions(workspace, id)]
    proposed = [int(entry["version"]) for entry in audit.vouched(workspace, KIND) if entry["agent"] == id]
    return max([base.version, *numbers, *proposed, *_files(workspace, id)]) + 1


def _proposals(workspace: Workspace, id: str) -> list[Proposal]:
    """Return the proposals that can be read, in order; damaged ones are skipped."""
    proposals = []
    for path in _files(workspace, id).values():
        with suppress(HiveError, OSError):
            proposals.append(load(Proposal, read_bytes(path), workspace.relative(path)))
    return proposals


def _files(workspace: Workspace, id: str) -> dict[int, Path]:
    """Return the files of an agent's proposals by their versions, in order."""
    name = re.compile(re.escape(id) + r"-v([1-9][0-9]{0,8})\.json")
    matches = ((name.fullmatch(path.name), path) for path in (workspace.root / FOLDER).glob("*.json"))
    return dict(sorted((int(match[1]), path) for match, path in matches if match is not None))


def _vouched_for(workspace: Workspace, proposal: Proposal) -> Proposal:
    """Return the proposal once it is in the audit log: a process may have died after writing its file."""
    if proposal.hash not in _hashes(workspace):
        facts = proposal.model_dump(mode="json", include={"agent", "version", "by", "on_behalf_of", "reason"})
        audit.append(workspace, KIND, **facts, file=proposal.file, hash=proposal.hash)
    return proposal


def _hashes(workspace: Workspace) -> set[str]:
    return {str(entry["hash"]) for entry in audit.vouched(workspace, KIND)}


def _text(proposal: Proposal) -> str:
    return json.dumps(proposal.model_dump(mode="json"), ensure_ascii=False, indent=2) + "\n"
