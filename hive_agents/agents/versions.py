"""Which version of an agent serves: the text that was deployed, not the file it came from."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from itertools import islice
from typing import Any

from hive_agents.agents.evolution.texts import agent_hash, agent_text, inlined, outlined
from hive_agents.agents.spec import AgentSpec, agent_ids, load_agent
from hive_agents.errors import Diagnostic, HiveError
from hive_agents.events import Event, EventLog, EventType
from hive_agents.files import atomic_write_text, load
from hive_agents.store import audit, connected, transaction
from hive_agents.workspace import Workspace

KIND = "agent_version"
"""The kind of an audit entry that holds a version, text and all."""


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
        """The row of a history."""
        return {name: value for name, value in asdict(self).items() if name != "text"} | {"active": active}


_COLUMNS = [column.name for column in fields(VersionRow)]
_LOGGED = {name: {"id": "row", "at": "deployed_at"}.get(name, name) for name in _COLUMNS}
"""The columns, and what the audit log calls them: an entry has an `at` of its own."""


def versions(workspace: Workspace, id: str) -> list[VersionRow]:
    """The deployments of an agent, newest first; without those whose audit line is not intact.

    The audit log is the authority: what the database lost, or tells otherwise, is restored from it.
    Raises: HIVE-413 where it vouches for none, and the database has some, or the log is broken: it may have lost one.
    """
    return _history(workspace, id)[0]


def serving_agent(workspace: Workspace, id: str) -> tuple[AgentSpec, VersionRow | None]:
    """The agent that serves, and its version: the newest that was deployed; without any it is the file, sound.

    Raises: HIVE-107 for an unknown id, HIVE-413 as `versions`, the faults of a file that was never deployed.
    """
    found = versions(workspace, id)
    return (found[0].spec, found[0]) if found else (load_agent(workspace, id), None)


def deployed_text(workspace: Workspace, agent: str) -> str | None:
    """The JSON of the version that serves; None where none was deployed. Raises: HIVE-413 as `versions`."""
    found = versions(workspace, agent)
    return found[0].text if found else None


def served_text(workspace: Workspace, id: str) -> AgentSpec:
    """As `serving_agent`, with every prompt in it. Raises: as `serving_agent`, and for a prompt that can't be read."""
    return inlined(serving_agent(workspace, id)[0], workspace)


def warnings(workspace: Workspace, id: str) -> list[Diagnostic]:
    """What differs from what serves: HIVE-404 for an edited file, HIVE-413 for a version that nobody vouches for."""
    found, unlogged = _history(workspace, id)
    if not found:
        return []
    told = []
    if unlogged:
        why = f"the database names version {unlogged} of {id} as deployed, and the audit log doesn't vouch for it"
        fix = "restore audit/log.jsonl, or deploy what shall serve"
        told.append(Diagnostic("HIVE-413", why, audit.FILE, "$", fix, severity="warning"))
    if _file_hash(workspace, id) not in (None, found[0].hash):
        why = f"the file differs from what serves, which is version {found[0].version} as deployed"
        fix = f"run `hive agents deploy {id}` to put the file through the gate"
        told.append(Diagnostic("HIVE-404", why, f"agents/{id}.json", "$", fix, severity="warning"))
    return told


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
    """Make an inlined agent serve: audit line and row, of which the line decides; then the file follows.

    A `baseline` is what served already, so that no event tells of it. To be called under `workspace.exclusive`. Killed
    at any moment it leaves the version before or this one.
    """
    before = versions(workspace, agent.id)
    with connected(workspace.database) as connection, transaction(connection):
        number = _next_row(workspace, connection)
        values = (agent.version, agent_hash(agent), agent_text(agent), audit.now(), by, authn, decision, via, reason)
        row = VersionRow(number, agent.id, *values, evaluation)
        _write(connection, row)
        audit.append(workspace, KIND, **{_LOGGED[name]: value for name, value in asdict(row).items()})
        if not baseline:
            EventLog.record(connection, [_told(row)])
    follow(workspace, row, before[0].hash if before else None)
    return row


def rollback(
    workspace: Workspace, id: str, by: str, *, reason: str | None = None, authn: str = "local"
) -> tuple[VersionRow, VersionRow]:
    """Serve the version before again, from its stored text; called again it goes further back.

    Returns (the new row, the one that served until now).
    Raises: HIVE-412 (exit code 1) where there is nothing to go back to, HIVE-413 where a broken log may have lost it.
    """
    with workspace.exclusive("rolling back an agent"):
        found = versions(workspace, id)
        standing: list[VersionRow] = []
        for row in reversed(found):
            standing = standing[:-1] if row.via == "rollback" else [*standing, row]
        if len(standing) < 2:
            verdict = audit.verify(workspace)
            if not verdict.ok:  # the version before may be in what it lacks
                raise audit.broken(verdict)
            why, fix = f"{id} has no earlier version to go back to", f"`hive agents history {id}` shows what there was"
            raise HiveError.of("HIVE-412", why, file=f"agents/{id}.json", path="$", fix=fix, exit_code=1)
        target = standing[-2]
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
        return row, found[0]


def follow(workspace: Workspace, row: VersionRow, before: str | None) -> None:
    """The file becomes what serves, where it was what served `before`, or is gone; one that people edited stays."""
    path = workspace.root / "agents" / f"{row.agent}.json"
    if not path.exists():
        atomic_write_text(path, row.text)
    elif before is not None and before != row.hash and _file_hash(workspace, row.agent) == before:
        named = outlined(row.spec, load_agent(workspace, row.agent), workspace)
        atomic_write_text(path, agent_text(named))


def known_agents(workspace: Workspace) -> list[str]:
    """The ids of all agents, also of those whose file is gone and that serve from their stored text."""
    try:
        logged = audit.recorded(workspace, KIND)
    except HiveError:
        logged = _before_break(workspace, audit.verify(workspace))
    return sorted({*agent_ids(workspace), *(str(entry["agent"]) for entry in logged if "agent" in entry)})


def _history(workspace: Workspace, id: str) -> tuple[list[VersionRow], int | None]:
    """The versions, newest first, and the number of a newer one that the log doesn't vouch for."""
    # Rows before the log: a version is logged before its row is seen, so no such row looks like a forgery.
    rows = _rows(workspace, id)
    verdict = audit.verify(workspace)
    logged = list(_vouched(workspace, id, verdict))
    lost = [row for row in logged if rows.get(row.id) != row]
    if lost and verdict.ok:
        with connected(workspace.database) as connection, transaction(connection):
            for row in lost:
                _write(connection, row)
    unlogged = [row for number, row in rows.items() if number > max((one.id for one in logged), default=0)]
    if not logged and not verdict.ok:
        # Nobody can say that it was never deployed: the line that said so may be the one that was cut or edited.
        raise audit.broken(verdict)
    if not logged and unlogged:
        raise _forged(unlogged[-1])
    return logged[::-1], unlogged[-1].version if unlogged else None


def _rows(workspace: Workspace, id: str) -> dict[int, VersionRow]:
    if not workspace.database.exists():
        return {}
    select = f"SELECT {', '.join(_COLUMNS)} FROM agent_versions WHERE agent = ? ORDER BY id"
    with connected(workspace.database) as connection:
        return {row[0]: _of_row(row) for row in connection.execute(select, (id,))}


def _vouched(workspace: Workspace, id: str, verdict: audit.Verdict) -> Iterator[VersionRow]:
    """The log's versions, oldest first, as far as its chain holds."""
    for entry in audit.recorded(workspace, KIND) if verdict.ok else _before_break(workspace, verdict):
        if entry.get("agent") == id:
            yield VersionRow(**{name: entry[key] for name, key in _LOGGED.items()})


def _before_break(workspace: Workspace, verdict: audit.Verdict) -> Sequence[dict[str, Any]]:
    """By where the lines stand: the numbers in those after the break say what somebody wanted them to."""
    found: list[dict[str, Any]] = []
    with suppress(HiveError):  # a damaged line, which is the end
        for entry in islice(audit.entries(workspace), (verdict.first_bad or 1) - 1):
            found.append(entry)
    return [entry for entry in found if entry["kind"] == KIND]


def _next_row(workspace: Workspace, connection: Any) -> int:
    """A number that neither the database nor the log has: what was logged may not be a row yet."""
    top = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'agent_versions'").fetchone()
    logged = max((entry["row"] for entry in audit.recorded(workspace, KIND)), default=0)
    return int(max(top[0] if top else 0, logged)) + 1


def _of_row(row: Sequence[Any]) -> VersionRow:
    values = dict(zip(_COLUMNS, row, strict=True))
    return VersionRow(**values | {"evaluation": json.loads(values["evaluation"] or "{}")})


def _write(connection: Any, row: VersionRow) -> None:
    values = asdict(row) | {"evaluation": json.dumps(row.evaluation)}
    marks = ", ".join("?" * len(values))
    insert = f"INSERT OR REPLACE INTO agent_versions ({', '.join(values)}) VALUES ({marks})"
    connection.execute(insert, tuple(values.values()))


def _told(row: VersionRow) -> Event:
    kind = EventType.CONFIG_ROLLED_BACK if row.via == "rollback" else EventType.CONFIG_DEPLOYED
    return Event(kind, payload={name: getattr(row, name) for name in ("agent", "version", "by", "decision", "via")})


def _forged(row: VersionRow) -> HiveError:
    why = f"the database has version {row.version} of {row.agent}, and the audit log knows of none"
    fix = "restore audit/log.jsonl from version control or a backup"
    return HiveError.of("HIVE-413", why, file=audit.FILE, path="$", fix=fix, exit_code=1)


def _file_hash(workspace: Workspace, id: str) -> str | None:
    """The identity of the agent in the file; "" for one with faults, None for one that is gone."""
    if id not in agent_ids(workspace):
        return None
    try:
        return agent_hash(inlined(load_agent(workspace, id), workspace))
    except HiveError:
        return ""
