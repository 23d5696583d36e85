"""`hive chat`: one question to the copilot, or a conversation with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from hive_agents.base import safe_text
from hive_agents.cli.surface import WHO_READS, FilterOption, Surface, console, count, with_surface

if TYPE_CHECKING:
    from hive_agents.copilot import Chat


@with_surface(as_user=WHO_READS, before="thread")
def command(
    surface: Surface,
    text: Annotated[str | None, typer.Argument(help="A question; without one the chat is interactive.")] = None,
    thread: Annotated[str | None, typer.Option("--thread", metavar="ID", help="Continue this thread.")] = None,
    doc: Annotated[str | None, typer.Option("--doc", metavar="DOC", help="Ask about this document only.")] = None,
    filters: FilterOption = None,
    cursor: Annotated[str | None, typer.Option("--cursor", help="The next_cursor of a list's last page.")] = None,
    unfold: Annotated[bool, typer.Option("--unfold", help="Show more of each passage.")] = False,
    threads: Annotated[bool, typer.Option("--threads", help="List your threads.")] = False,
    export: Annotated[bool, typer.Option("--export", help="Print the whole --thread.")] = False,
    rename: Annotated[str | None, typer.Option("--rename", metavar="TITLE", help="Rename the --thread.")] = None,
    delete: Annotated[bool, typer.Option("--delete", help="Delete the --thread.")] = False,
    trace: Annotated[
        str | None, typer.Option("--trace", metavar="RUN", help="Show how a turn was answered (operators only).")
    ] = None,
) -> None:
    """Ask the copilot: it answers from the documents that you may see."""
    import asyncio
    from functools import partial

    from hive_agents.access import is_open
    from hive_agents.base import HiveError
    from hive_agents.cli.replies import one_shot, pinned_filters
    from hive_agents.copilot import Chat, Request

    place = surface.workspace
    for argument in filter(None, (text, doc, thread, cursor, rename, trace, *(filters or []))):
        argument.encode()  # HIVE-112: a shell passes on any bytes
    if doc is not None and not doc.strip():
        raise HiveError.of("HIVE-409", "--doc names no document", fix="name it, or leave --doc out", exit_code=2)
    chat = Chat(place, surface.asker.reader, thread)
    if trace is not None:
        _show_trace(chat, trace, surface)
        return
    if threads:
        _show_threads(chat, surface)
        return
    if export or delete or rename is not None:
        _act_on_thread(chat, surface, export=export, rename=rename, delete=delete)
        return
    if text is None and (surface.as_json or surface.quiet):
        raise HiveError.of("HIVE-409", "there is no question", fix='hive chat "…" --json', exit_code=2)
    # A reader may not know what documents there are; the owner of an open workspace reads them all.
    surface.keep_fresh(warnings=is_open(place) and not surface.asker.is_named)
    if text is None:
        from hive_agents.cli.conversation import Conversation

        refresh = partial(surface.keep_fresh, warnings=False)
        Conversation(chat, console(), list(filters or []), doc, refresh).run()
        return
    request = Request(text=text, doc_id=doc, pinned=pinned_filters(chat, filters or []), cursor=cursor, unfold=unfold)
    reply = asyncio.run(chat.ask(request))
    surface.show(reply, *one_shot(reply))
    if not reply["results"] and surface.asker.token_holder() is None:
        _explain_missing(surface)


def _explain_missing(surface: Surface) -> None:
    """Warn the workspace's owner, who alone may know it, that nobody may view any document."""
    from hive_agents.base import Diagnostic
    from hive_agents.host import nobody_sees

    if nobody_sees(surface.workspace):
        message = "none of the documents has a tenant and readers, so that nobody may see any of them"
        fix = "`hive import --tenant T --view tenant`, without --view where grants say who; `hive doctor` says more"
        surface.warn([Diagnostic("HIVE-409", message, "documents", fix=fix, severity="warning")])


def _show_threads(chat: Chat, surface: Surface) -> None:
    from rich.table import Table

    rows = chat.threads.threads()
    table = Table(box=None, pad_edge=False)
    for heading in ("thread", "questions", "last used", "title"):
        table.add_column(heading, overflow="fold")
    for row in rows:
        last = row["updated_at"][:16].replace("T", " ")
        table.add_row(row["thread_id"], str(row["turns"]), last, safe_text(row["title"]))
    surface.show({"threads": rows}, *([table] if rows else []), count(len(rows), "thread"))


def _act_on_thread(chat: Chat, surface: Surface, *, export: bool, rename: str | None, delete: bool) -> None:
    from hive_agents.base import HiveError
    from hive_agents.cli.replies import rendered

    if chat.thread_id is None or export + delete + (rename is not None) != 1:
        fix = "name it with --thread ID, and one of --export, --rename and --delete"
        raise HiveError.of("HIVE-409", "exactly one action on one thread is possible", fix=fix, exit_code=2)
    if export:
        turns = chat.transcript()
        parts = [part for turn in turns for part in (safe_text(f"> {turn['text']}"), *rendered(turn), "")]
        surface.show({"thread_id": chat.thread_id, "turns": turns}, *parts)
    elif rename is not None:
        chat.threads.rename(chat.thread_id, rename)
        surface.show({"thread_id": chat.thread_id, "title": rename}, f"{chat.thread_id} is renamed")
    else:
        chat.threads.delete(chat.thread_id)
        surface.show({"thread_id": chat.thread_id, "deleted": True}, f"{chat.thread_id} is deleted")


def _show_trace(chat: Chat, run_id: str, surface: Surface) -> None:
    trace = chat.trace(run_id)
    lines = [f"{node['node']:<16} {node['ms']:>9.2f} ms" for node in trace["nodes"]]
    for name, value in trace.items():
        if name != "nodes" and value:
            lines.append(f"{name}: {_listed(value)}")
    surface.show(trace, *map(safe_text, lines))


def _listed(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {item}" for name, item in value.items())
    return "; ".join(map(str, value)) if isinstance(value, list) else str(value)
