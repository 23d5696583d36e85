"""The version of an agent that serves: the text that was deployed, not the file."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from hive_agents.agents.evolution import inlined
from hive_agents.agents.evolution.texts import agent_hash, agent_text, outlined
from hive_agents.agents.spec import AgentSpec, agent_ids, load_agent
from hive_agents.base import Diagnostic, HiveError, NotFound, did_you_mean
from hive_agents.base.files import atomic_write_text, load
from hive_agents.events import Event, EventLog, EventType
from hive_agents.store import RecordsConnection, audit, exclusive, ledger
from hive_agents.workspace import Workspace


@dataclass(frozen=True)
class VersionRow:
    """One deployment of an agent, as `agent_versions` and the audit log keep it.

    `text` is the agent's JSON with every prompt in it, `hash` its identity; `evaluation` holds the figures, and the
    hash of the goal that it was measured by.
    """

    id: int
    agent: str
    version: int
    hash: str
    text: str
    at: str
    by: str
    authn: str
    decision: str
    via: str
    reason: str | None
    evaluation: dict[str, Any]

    @property
    def spec(self) -> AgentSpec:
        return load(AgentSpec, self.text.encode(), f"agents/{self.agent}.json")

    def to_json(self, *, active: bool) -> dict[str, Any]:
        """Return the row of a history."""
        return {name: value for name, value in asdict(self).items() if name != "text"} | {"active": active}


VERSIONS = ledger.Ledger(
    VersionRow,
    table="agent_versions",
    kind="agent_version",
    name=lambda row: f"version {row.version} of {row.agent}",
    logged_as={"id": "row", "at": "deployed_at"},
    subject="agent",
)


def versions(workspace: Workspace, id: str) -> list[VersionRow]:
    """Return the deployments of an agent, newest first; without those whose audit line is not intact.

    Raises: HIVE-413 where the database has deployments and the log vouches for none, or where the log is broken.
    """
    return VERSIONS.history(workspace, id).rows


def serving_agent(workspace: Workspace, id: str) -> tuple[AgentSpec, VersionRow | None]:
    """Return the agent that serves and its newest deployment; without one the agent of the file, and None.

    Raises: HIVE-107 for an unknown id, HIVE-413 as `versions`, the faults of the file where it serves.
    """
    rows = versions(workspace, id)
    return (rows[0].spec, rows[0]) if rows else (load_agent(workspace, id), None)


def deployed_text(workspace: Workspace, agent: str) -> str | None:
    """Return the JSON of the version that serves, None where none was deployed. Raises: HIVE-413 as `versions`."""
    rows = versions(workspace, agent)
    return rows[0].text if rows else None


def served_text(workspace: Workspace, id: str) -> AgentSpec:
    """Return the agent that serves, with every prompt in it.

    Raises: as `serving_agent`, and for a prompt that can't be read.
    """
    return inlined(serving_agent(workspace, id)[0], workspace)


def deployment_warnings(workspace: Workspace, id: str) -> list[Diagnostic]:
    """Return HIVE-404 for an edited file and HIVE-413 for a version that the log doesn't vouch for, as warnings."""
    history = VERSIONS.history(workspace, id)
    if not history.rows:
        return []
    serving, warnings = history.rows[0], []
    if history.unlogged or history.doubt:
        why = f"the audit log can't be relied on: {history.doubt}"
        if history.unlogged:
            forged = VERSIONS.name(history.unlogged[0])
            why = f"the database names {forged} as deployed, and the audit log doesn't vouch for it"
        fix = "restore audit/log.jsonl, or deploy what shall serve"
        warnings.append(Diagnostic("HIVE-413", why, audit.FILE, "$", fix, severity="warning"))
    if _file_hash(workspace, id) not in (None, serving.hash):
        why = f"the file differs from what serves, which is version {serving.version} as deployed"
        fix = f"run `hive agents deploy {id}` to put the file through the gate"
        warnings.append(Diagnostic("HIVE-404", why, f"agents/{id}.json", "$", fix, severity="warning"))
    return warnings


def record(
    workspace: Workspace,
    agent: AgentSpec,
    *,
    decision: str,
    via: str,
    by: str,
    evaluation: dict[str, Any],
    reason: str | None = None,
    authn: str = "local",
    baseline: bool = False,
) -> VersionRow:
    """Deploy an inlined agent: write the audit line, which decides, and the row; then update the file.

    A `baseline` served already, so that no event is recorded. To be called under `workspace.exclusive`. A process
    killed at any moment leaves the previous version serving, or this one.
    """
    before = versions(workspace, agent.id)
    values = (agent.version, agent_hash(agent), agent_text(agent), audit.now(), by, authn, decision, via, reason)
    row = VERSIONS.append(
        workspace,
        lambda number: VersionRow(number, agent.id, *values, evaluation),
        None if baseline else _tell,
    )
    follow(workspace, row, before[0].hash if before else None)
    return row


def roll_back(
    workspace: Workspace, id: str, by: str, *, reason: str | None = None, authn: str = "local"
) -> tuple[VersionRow, VersionRow]:
    """Serve the previous version again, from its stored text; a second rollback goes one version further back.

    Returns (the new row, the one that served until now).
    Raises: HIVE-412 (exit code 1) where there is nothing to go back to, HIVE-413 where a broken log may have lost it.
    """
    with exclusive(workspace, "rolling back an agent"):
        rows = versions(workspace, id)
        active: list[VersionRow] = []
        for row in reversed(rows):
            active = active[:-1] if row.via == "rollback" else [*active, row]
        if len(active) < 2:
            verdict = audit.verify(workspace)
            if not verdict.ok:  # the previous version may be in what the log has lost
                raise audit.broken(verdict)
            why, fix = f"{id} has no earlier version to go back to", f"`hive agents history {id}` shows what there was"
            raise HiveError.of("HIVE-412", why, file=f"agents/{id}.json", path="$", fix=fix, exit_code=1)
        target = active[-2]
        row = record(
            workspace,
            target.spec,
            decision="rollback",
            via="rollback",
            by=by,
            authn=authn,
            reason=reason,
            evaluation={name: value for name, value in target.evaluation.items() if name != "approval_id"},
        )
        return row, rows[0]


def follow(workspace: Workspace, row: VersionRow, before: str | None) -> None:
    """Write what serves to the agent's file where that is gone or has the hash `before`; an edited file stays."""
    path = workspace.root / "agents" / f"{row.agent}.json"
    if not path.exists():
        atomic_write_text(path, row.text)
    elif before is not None and before != row.hash and _file_hash(workspace, row.agent) == before:
        named = outlined(row.spec, load_agent(workspace, row.agent), workspace)
        atomic_write_text(path, agent_text(named))


def follow_history(workspace: Workspace) -> None:
    """Update this host's files to what another host has deployed; files that were edited here stay.

    Raises: HIVE-402 while a deployment goes on here, HIVE-413 as `versions`.
    """
    with workspace.exclusive("following a deployment", timeout=0):
        for id in known_agents(workspace):
            rows, now = versions(workspace, id), _file_hash(workspace, id)
            if rows:
                follow(workspace, rows[0], now if now in {row.hash for row in rows[1:]} else None)


def known_agents(workspace: Workspace) -> list[str]:
    """Return the ids of all agents, also of those whose file is gone and that serve from their stored text."""
    try:
        logged = audit.recorded(workspace, VERSIONS.kind)
    except HiveError:
        logged = audit.intact(workspace, VERSIONS.kind)[0]
    return sorted({*agent_ids(workspace), *(str(entry["agent"]) for entry in logged if "agent" in entry)})


def require_agent(workspace: Workspace, id: str) -> None:
    """Raise HIVE-107 (exit code 2) where there is no agent of this id."""
    if id not in agent_ids(workspace) and id not in (known := known_agents(workspace)):
        fix = did_you_mean(id, known, "`hive agents list` names those there are")
        raise NotFound.of("HIVE-107", f'there is no agent "{id}"', file=f"agents/{id}.json", fix=fix, exit_code=2)


def find_sub_agent(workspace: Workspace | None, agent: AgentSpec, name: str) -> AgentSpec:
    """Return the agent that a node's `sub_agents` name: one of the workspace, or a node of `agent` as an agent.

    Raises: HIVE-107, and what `serving_agent` raises.
    """
    nodes = {node.id: node for node in agent.nodes}
    if name in nodes:
        changes = {"id": name, "entry": name, "nodes": [nodes[name]], "edges": [], "pause_nodes": []}
        return agent.model_copy(update=changes)
    known: list[str] = []
    if workspace is not None:
        known = known_agents(workspace)
        if name in known:
            return serving_agent(workspace, name)[0]
    fix = did_you_mean(name, [*nodes, *known], "name a node of this agent, or a file of agents/")
    raise HiveError.of("HIVE-107", f'there is no sub-agent "{name}"', file=f"agents/{agent.id}.json", fix=fix)


def _tell(connection: RecordsConnection, row: VersionRow) -> None:
    type = EventType.CONFIG_ROLLED_BACK if row.via == "rollback" else EventType.CONFIG_DEPLOYED
    payload = {name: getattr(row, name) for name in ("agent", "version", "by", "decision", "via")}
    EventLog.record(connection, [Event(type, payload=payload)])


def _file_hash(workspace: Workspace, id: str) -> str | None:
    """Return the identity of the agent in the file; "" for one with faults, None for one that is gone."""
    if id not in agent_ids(workspace):
        return None
    try:
        return agent_hash(inlined(load_agent(workspace, id), workspace))
    except HiveError:
        return ""
