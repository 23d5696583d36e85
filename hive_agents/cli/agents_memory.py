"""`hive agents memory`: the notes that an agent keeps between runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from hive_agents.base import safe_line
from hive_agents.cli.agents_versions import AgentArgument
from hive_agents.cli.surface import WHO_ASKS, Surface, with_surface

if TYPE_CHECKING:
    from hive_agents.memory import AcceptedNotes

app = typer.Typer(help="Notes that an agent keeps between runs, for a user or a thread.", no_args_is_help=True)

UserOption = Annotated[str | None, typer.Option("--user", help="The notes of this user (default: yours).")]
ThreadOption = Annotated[str | None, typer.Option("--thread", help="The notes of this thread in place of a user's.")]
TenantOption = Annotated[str | None, typer.Option("--tenant", help="The user's tenant (default: yours).")]
NumberArgument = Annotated[int | None, typer.Argument(metavar="N", help="A note's number, as `show` lists them.")]


@app.command()
@with_surface(as_user=WHO_ASKS)
def show(
    surface: Surface,
    agent: AgentArgument,
    user: UserOption = None,
    thread: ThreadOption = None,
    tenant: TenantOption = None,
) -> None:
    """Show the notes that later runs begin with, and notes of runs that nobody has accepted yet."""
    notes, of = _notes(surface, agent, user, thread, tenant)
    texts = {note.text for note in notes.all()}
    proposals = [proposal for proposal in _proposals(surface, agent, of) if proposal["text"] not in texts]
    rows = _shown(surface, notes, of)
    lines = [
        f"{row['n']}  {row['text']}  ({row['run_id'] or 'written'}, by {row['by']}, {row['at'][:16]})" for row in rows
    ]
    lines += [
        f"?  {row['text']}  (noted in {row['run_id']}: hive agents memory accept {agent} {row['run_id']})"
        for row in proposals
    ]
    value = {"agent": agent, **of, "notes": rows, "proposals": proposals}
    surface.show(value, *(map(safe_line, lines) if lines else [f"{agent} remembers nothing from run to run"]))


@app.command()
@with_surface(as_user=WHO_ASKS)
def accept(
    surface: Surface,
    agent: AgentArgument,
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run whose notes are accepted.")],
    thread: ThreadOption = None,
    user: UserOption = None,
    tenant: TenantOption = None,
) -> None:
    """Accept the notes of a run: later runs of its user, or of its thread, begin with them."""
    from hive_agents.base import HiveError
    from hive_agents.memory import AcceptedNote
    from hive_agents.store import audit

    thread = _thread_of_notes(surface, agent, thread, run)
    notes, of = _notes(surface, agent, user, thread, tenant)
    texts = [proposal["text"] for proposal in _proposals(surface, agent, of) if proposal["run_id"] == run]
    if not texts:
        fix = f"`hive agents memory show {agent}` lists what runs noted"
        raise HiveError.of("HIVE-409", f"{safe_line(run)} has noted nothing for {agent}", fix=fix, exit_code=2)
    by = surface.asker.caller().by
    notes.add(AcceptedNote(text=text, run_id=run, by=by, at=audit.now()) for text in texts)
    surface.show({"agent": agent, **of, "accepted": texts}, *(f"accepted: {safe_line(text)}" for text in texts))


@app.command()
@with_surface(as_user=WHO_ASKS)
def edit(
    surface: Surface,
    agent: AgentArgument,
    number: NumberArgument = None,
    text: Annotated[str, typer.Option("--text", help="The note's text.")] = "",
    user: UserOption = None,
    thread: ThreadOption = None,
    tenant: TenantOption = None,
) -> None:
    """Change a note; without a number, add one."""
    from hive_agents.base import HiveError
    from hive_agents.memory import AcceptedNote
    from hive_agents.store import audit

    notes, of = _notes(surface, agent, user, _thread_of_notes(surface, agent, thread), tenant)
    if not text.strip():
        raise HiveError.of("HIVE-409", "the note is empty", fix='add --text "…"', exit_code=2)
    note = AcceptedNote(text=" ".join(text.split()), run_id=None, by=surface.asker.caller().by, at=audit.now())
    if number is None:
        notes.add([note])
    else:
        notes.replace(number, note)
    surface.show({"agent": agent, **of, "notes": _shown(surface, notes, of)}, "noted")


@app.command()
@with_surface(as_user=WHO_ASKS)
def clear(
    surface: Surface,
    agent: AgentArgument,
    number: NumberArgument = None,
    user: UserOption = None,
    thread: ThreadOption = None,
    tenant: TenantOption = None,
) -> None:
    """Delete a note; without a number, all of them."""
    notes, of = _notes(surface, agent, user, thread, tenant)
    removed = notes.remove(number=number)
    surface.show({"agent": agent, **of, "removed": removed}, f"{removed} forgotten")


def _shown(surface: Surface, notes: AcceptedNotes, of: dict[str, str | None]) -> list[dict[str, Any]]:
    from hive_agents.agents import RunView

    reader = surface.asker.caller().principal
    shown = RunView.of_notes(surface.workspace, str(of["tenant"]), reader, notes.all())
    return [{"n": n, **note.model_dump()} for n, note in shown.items()]


def _notes(
    surface: Surface, agent: str, user: str | None, thread: str | None, tenant: str | None
) -> tuple[AcceptedNotes, dict[str, str | None]]:
    """Return the notes that the options choose, and the tenant, user and thread whose notes they are.

    Raises: HIVE-415 for somebody else's notes, unless the owner or an admin asks.
    """
    from hive_agents.agents import require_agent
    from hive_agents.base import HiveError
    from hive_agents.memory import AcceptedNotes
    from hive_agents.runs import Scope

    place = surface.workspace
    require_agent(place, agent)
    principal = surface.asker.caller().principal
    asker = ("local", "local") if principal is None else (principal.tenant, principal.user)
    tenant, user = owner = (tenant or asker[0], user or asker[1])
    if (
        principal is not None
        and not (Scope(principal).administers and tenant == principal.tenant)
        and (thread or owner != asker)
    ):
        why = "these are somebody else's notes"
        raise HiveError.of("HIVE-415", why, fix="an admin of the tenant may read and change them", exit_code=1)
    notes = AcceptedNotes(place, tenant=tenant, agent_id=agent, of=f"thread:{thread}" if thread else user)
    return notes, {"tenant": tenant, "user": None if thread else user, "thread": thread}


def _thread_of_notes(surface: Surface, agent: str, thread: str | None, run: str | None = None) -> str | None:
    """Return the thread whose later runs begin with the notes, by default that of `run`; None if they are a user's.

    Raises: HIVE-409 for options by which no later run would begin with the notes.
    """
    from hive_agents.agents import require_agent, serving_agent
    from hive_agents.base import HiveError
    from hive_agents.runs import RunStore

    require_agent(surface.workspace, agent)
    memory = serving_agent(surface.workspace, agent)[0].memory
    adapt = memory.adapt if memory is not None else "run"
    if adapt == "thread" and thread is None and run is not None:
        thread = RunStore(surface.workspace).get(run).thread_id
    if adapt == "run":
        why, fix = f"what {agent} notes ends with its run", f'set "memory": {{"adapt": "user"}} in agents/{agent}.json'
    elif adapt == "thread" and thread is None:
        why, fix = f"the notes of {agent} are a thread's", "name it by --thread"
    elif adapt == "user" and thread is not None:
        why, fix = f"the notes of {agent} are a user's", "leave out --thread"
    else:
        return thread
    raise HiveError.of("HIVE-409", why, fix=fix, exit_code=2)


def _proposals(surface: Surface, agent: str, of: dict[str, str | None]) -> list[dict[str, str]]:
    """Return the notes of the last 100 runs, in their adapt.md, each with its run_id, of those that read nothing that
    the asker may not view."""
    from hive_agents.agents import RunView
    from hive_agents.memory import noted_in
    from hive_agents.runs import RunStore

    place, reader = surface.workspace, surface.asker.caller().principal
    rows = RunStore(place).list(tenant=of["tenant"], user=of["user"], limit=100)
    rows = [row for row in rows if row.agent == agent and (of["thread"] is None or row.thread_id == of["thread"])]
    rows = [row for row in rows if not RunView(place, row.run_id, row.tenant, reader).hidden]
    return [{"run_id": row.run_id, "text": text} for row in rows for text in noted_in(place, row.run_id)]
