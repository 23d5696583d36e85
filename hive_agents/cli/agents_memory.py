"""`hive agents memory`: what an agent remembers from run to run, and who may change it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from hive_agents.cli.agents_versions import AgentArgument
from hive_agents.cli.surface import WHO_ASKS, Surface, with_surface
from hive_agents.text import safe_line

if TYPE_CHECKING:
    from hive_agents.memory import AcceptedNotes

app = typer.Typer(help="What an agent remembers of a user or a thread.", no_args_is_help=True)

UserOption = Annotated[str | None, typer.Option("--user", help="Of whom (default: who asks).")]
ThreadOption = Annotated[str | None, typer.Option("--thread", help="A thread in place of a user.")]
TenantOption = Annotated[str | None, typer.Option("--tenant", help="Whose (default: that of who asks).")]
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
    """The notes that hold for all later runs, and those of runs that nobody has accepted yet."""
    notes, of = _notes(surface, agent, user, thread, tenant)
    found = notes.all()
    proposed = [one for one in _proposals(surface, agent, of) if one["text"] not in {note.text for note in found}]
    rows: list[dict[str, Any]] = [{"n": n, **note.model_dump()} for n, note in enumerate(found, start=1)]
    lines = [
        f"{row['n']}  {row['text']}  ({row['run_id'] or 'written'}, by {row['by']}, {row['at'][:16]})" for row in rows
    ]
    lines += [
        f"?  {one['text']}  (noted in {one['run_id']}: hive agents memory accept {agent} {one['run_id']})"
        for one in proposed
    ]
    value = {"agent": agent, **of, "notes": rows, "proposals": proposed}
    surface.show(value, *(map(safe_line, lines) if lines else [f"{agent} remembers nothing from run to run"]))


@app.command()
@with_surface(as_user=WHO_ASKS)
def accept(
    surface: Surface,
    agent: AgentArgument,
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run whose notes later runs begin with.")],
    thread: ThreadOption = None,
    user: UserOption = None,
    tenant: TenantOption = None,
) -> None:
    """Let what a run noted into all later runs of its user, or of its thread."""
    from hive_agents.errors import HiveError
    from hive_agents.memory import AcceptedNote
    from hive_agents.store import audit

    thread = _kept_for(surface, agent, thread, run)
    notes, of = _notes(surface, agent, user, thread, tenant)
    found = [one["text"] for one in _proposals(surface, agent, of) if one["run_id"] == run]
    if not found:
        fix = f"`hive agents memory show {agent}` lists what runs noted"
        raise HiveError.of("HIVE-409", f"{safe_line(run)} has noted nothing for {agent}", fix=fix, exit_code=2)
    by = surface.asker.caller().by
    notes.add(AcceptedNote(text=text, run_id=run, by=by, at=audit.now()) for text in found)
    surface.show({"agent": agent, **of, "accepted": found}, *(f"accepted: {safe_line(text)}" for text in found))


@app.command()
@with_surface(as_user=WHO_ASKS)
def edit(
    surface: Surface,
    agent: AgentArgument,
    number: NumberArgument = None,
    text: Annotated[str, typer.Option("--text", help="What the note says.")] = "",
    user: UserOption = None,
    thread: ThreadOption = None,
    tenant: TenantOption = None,
) -> None:
    """Change a note, or without a number add one."""
    from hive_agents.errors import HiveError
    from hive_agents.memory import AcceptedNote
    from hive_agents.store import audit

    notes, of = _notes(surface, agent, user, _kept_for(surface, agent, thread), tenant)
    if not text.strip():
        raise HiveError.of("HIVE-409", "a note needs words", fix='add --text "…"', exit_code=2)
    note = AcceptedNote(text=" ".join(text.split()), run_id=None, by=surface.asker.caller().by, at=audit.now())
    if number is None:
        notes.add([note])
    else:
        notes.replace(number, note)
    surface.show({"agent": agent, **of, "notes": [one.model_dump() for one in notes.all()]}, "noted")


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
    """Forget a note, or without a number all of them."""
    notes, of = _notes(surface, agent, user, thread, tenant)
    gone = notes.remove(number=number)
    surface.show({"agent": agent, **of, "removed": gone}, f"{gone} forgotten")


def _notes(
    surface: Surface, agent: str, user: str | None, thread: str | None, tenant: str | None
) -> tuple[AcceptedNotes, dict[str, str | None]]:
    """Return the notes that are meant. Raises: HIVE-415 for somebody else's, unless the owner or an admin asks."""
    from hive_agents.agents import require_agent
    from hive_agents.errors import HiveError
    from hive_agents.memory import AcceptedNotes
    from hive_agents.runs import Scope

    place = surface.workspace
    require_agent(place, agent)
    asking = surface.asker.caller().principal
    mine = ("local", "local") if asking is None else (asking.tenant, asking.user)
    whose = (tenant or mine[0], user or mine[1])
    if (
        asking is not None
        and not (Scope(asking).administers and whose[0] == asking.tenant)
        and (thread or whose != mine)
    ):
        why = "these are another's notes"
        raise HiveError.of("HIVE-415", why, fix="an admin of the tenant may read and change them", exit_code=1)
    of = f"thread:{thread}" if thread else whose[1]
    named = {"tenant": whose[0], "user": None if thread else whose[1], "thread": thread}
    return AcceptedNotes(place, tenant=whose[0], agent_id=agent, of=of), named


def _kept_for(surface: Surface, agent: str, thread: str | None, run: str | None = None) -> str | None:
    """Return the thread whose later runs begin with a note, by default that of `run`; None where a user's do.

    Raises: HIVE-409 for notes that no later run would begin with.
    """
    from hive_agents.agents import require_agent, serving_agent
    from hive_agents.errors import HiveError
    from hive_agents.runs import RunStore

    require_agent(surface.workspace, agent)
    memory = serving_agent(surface.workspace, agent)[0].memory
    kept = memory.adapt if memory is not None else "run"
    if kept == "thread" and thread is None and run is not None:
        thread = RunStore(surface.workspace).get(run).thread_id
    if kept == "run":
        why, fix = f"what {agent} notes ends with its run", f'set "memory": {{"adapt": "user"}} in agents/{agent}.json'
    elif kept == "thread" and thread is None:
        why, fix = f"the notes of {agent} are a thread's", "name it by --thread"
    elif kept == "user" and thread is not None:
        why, fix = f"the notes of {agent} are a user's", "leave out --thread"
    else:
        return thread
    raise HiveError.of("HIVE-409", why, fix=fix, exit_code=2)


def _proposals(surface: Surface, agent: str, of: dict[str, str | None]) -> list[dict[str, str]]:
    """Return what the last runs noted in their own adapt.md."""
    from hive_agents.memory import noted_in
    from hive_agents.runs import RunStore

    rows = RunStore(surface.workspace).list(tenant=of["tenant"], user=of["user"], limit=100)
    rows = [row for row in rows if row.agent == agent and (of["thread"] is None or row.thread_id == of["thread"])]
    return [{"run_id": row.run_id, "text": text} for row in rows for text in noted_in(surface.workspace, row.run_id)]
