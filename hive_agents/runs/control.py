"""Control of runs by people, pages and the queen: pause, resume, stop, and messages to an agent."""

from __future__ import annotations

import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from hive_agents.access import proofs
from hive_agents.base import HiveError
from hive_agents.memory import ConversationStore
from hive_agents.models import Message
from hive_agents.runs.leases import Leases
from hive_agents.runs.store import ACTIVE, AGENT_GRAPH, ENDED, RunRow, RunStore

if TYPE_CHECKING:
    from hive_agents.workspace import Workspace

TRIES = 20
AT_ONCE = 1000
RESTS = {"pause": "paused", "stop": "stopped"}
"""The status that follows each control."""


def pause(workspace: Workspace, run_id: str, by: str) -> RunRow:
    """Pause a run: after its current step if a worker executes it, else at once; return its row.

    A paused run stays paused, and one that was asked to stop still stops.

    Raises: HIVE-409 (exit code 2) for a run that is unknown, over or stopped.
    """
    return _moved(workspace, run_id, by, "paused", ("queued", "waiting"), "pause", ("paused",))


def stop(workspace: Workspace, run_id: str, by: str) -> RunRow:
    """Stop a run, at once or as soon as its worker reacts; return its row. It can be resumed.

    Raises: HIVE-409 (exit code 2) for a run that is unknown or over.
    """
    return _moved(workspace, run_id, by, "stopped", ("queued", "waiting", "paused"), "stop", ("stopped",))


def resume(workspace: Workspace, run_id: str, by: str) -> RunRow:
    """Put a run that is paused or stopped, or whose worker died, back into the queue; return its row.

    Raises: HIVE-409 (exit code 2) for a run that is unknown or over; HIVE-402 for one that was asked to pause
    or stop and is still running.
    """
    store = RunStore(workspace)
    row = store.get(run_id)
    if row.status == "running" and row.control is None and not Leases(workspace).is_held(row.thread_id):
        row, done = store.move(run_id, "running", by, to="queued")
        if done:
            return row
    return _moved(workspace, run_id, by, "queued", ("paused", "stopped"), None, ("queued", "running", "waiting"))


def say(workspace: Workspace, run_id: str, text: str, *, key: str | None = None) -> None:
    """Send a message to a running agent, which reads it before its next turn; a `key` makes that idempotent.

    Raises: HIVE-409 (exit code 2) for a run that is unknown or over, and for an empty text.
    """
    row = RunStore(workspace).get(run_id)
    if row.graph != AGENT_GRAPH or row.status in ENDED or not text.strip():
        why = "there is nothing to say" if not text.strip() else f"run {run_id} doesn't listen: it is {row.status}"
        raise HiveError.of("HIVE-409", why, fix="speak to a run of an agent that isn't over", exit_code=2)
    store = ConversationStore(workspace, tenant=row.tenant)
    conversation = store.create(row.agent or "", run_id, key="agent")
    store.append(conversation, Message(role="user", content=text), key=f"person:{key or uuid.uuid4().hex}")


def end_person(workspace: Workspace, user: str, tenant: str, by: str) -> dict[str, Any]:
    """End all that a user of a tenant holds and does, on all hosts; return {tokens, sessions, streams, runs, made_for}.

    Streams end within a heartbeat. Also tokens that were not made here count no more, if they were made before now; the
    stopped runs can't be resumed, since they act as this person.
    """
    tokens, sessions, streams, made_for = proofs.end_all(workspace, user, tenant, by)
    stopped = 0
    while under_way := RunStore(workspace).list(status=ACTIVE, tenant=tenant, user=user, limit=AT_ONCE):
        changed = 0
        for row in under_way:
            with suppress(HiveError):  # it ended meanwhile
                changed += row.control != "stop"
                stop(workspace, row.run_id, by)
        stopped += changed
        if not changed:  # the rest stops as soon as their workers react
            break
    return {"tokens": tokens, "sessions": sessions, "streams": streams, "runs": stopped, "made_for": made_for}


def _moved(
    workspace: Workspace,
    run_id: str,
    by: str,
    to: str,
    resting: tuple[str, ...],
    control: str | None,
    reached: tuple[str, ...],
) -> RunRow:
    store = RunStore(workspace)
    for _ in range(TRIES):  # the worker may change the status meanwhile
        row = store.get(run_id)
        if row.status == "running" and control is None and row.control is not None:
            fix = "try again when it is"
            raise HiveError.of("HIVE-402", f"run {run_id} is not at rest yet", fix=fix, exit_code=3)
        if row.status in reached:
            return row
        if row.status in resting:
            row, done = store.move(run_id, row.status, by, to=to)
        elif row.status == "running" and control is not None:
            row, done = store.move(run_id, row.status, by, control=control)
            row = _settled(store, row) if done else row
        else:
            message = f"run {run_id} is {row.status} and can't be {to}"
            raise HiveError.of("HIVE-409", message, fix=f"see `hive runs show {run_id}`", exit_code=2)
        if done:
            return row
    raise HiveError.of("HIVE-402", f"run {run_id} changes all the time", fix="try again", exit_code=3)


def _settled(store: RunStore, row: RunRow) -> RunRow:
    """Return the run, with its control applied at once if its worker is dead."""
    lease = Leases(store.workspace).acquire(row.thread_id, row.run_id)
    if lease is None:
        return row
    try:
        return store.move(row.run_id, "running", str(row.control_by), to=RESTS[str(row.control)])[0]
    finally:
        with suppress(HiveError):  # it expires
            lease.release()
