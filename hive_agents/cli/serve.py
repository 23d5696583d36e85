"""`hive serve`: one process that works on runs, looks after them, fires triggers and receives webhooks."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from hive_agents.cli.surface import Surface, with_surface
from hive_agents.cli.terminal import console, write

if TYPE_CHECKING:
    from hive_agents.events import Event
    from hive_agents.runtime import Host
    from hive_agents.server import Listener


@with_surface()
def command(
    surface: Surface,
    headless: Annotated[bool, typer.Option("--headless", help="Without pages.")] = False,
    port: Annotated[int | None, typer.Option("--port", min=0, max=65535, help="0 takes a free one.")] = None,
    host: Annotated[str | None, typer.Option("--host", help="Address to listen at.")] = None,
    roles: Annotated[
        str | None, typer.Option("--roles", help="Parts to host, with commas: runs, judge, queen, triggers, http.")
    ] = None,
) -> None:
    """Host the workspace until SIGTERM or Ctrl-C, which let the runs rest; a second one ends it at once."""
    import asyncio

    from hive_agents.errors import HiveError

    if not headless:
        raise HiveError.of("HIVE-409", "there are no pages yet", fix="add --headless")
    place = surface.workspace
    from hive_agents.runtime import ROLES, Host

    chosen = [name.strip() for name in roles.split(",")] if roles is not None else list(ROLES)
    listener: Listener | None = None
    if "http" in chosen:
        from hive_agents.server import Listener

        listener = Listener(place, host, port)
    hosted = Host(place, roles=chosen, serve=listener.serve if listener is not None else None)
    asyncio.run(_serve(hosted, listener, surface.as_json, surface.quiet))


async def _serve(host: Host, listener: Listener | None, json: bool, quiet: bool) -> None:
    import asyncio
    import os

    from hive_agents.events import EventLog
    from hive_agents.runtime import tail

    _announce(host, listener, json, quiet)
    log = EventLog(host.workspace)

    async def show() -> None:
        async for event in tail(log, await asyncio.to_thread(log.last_seq), host.bus):
            _show(event, json)

    showing = asyncio.ensure_future(show()) if json or not quiet else None
    try:
        await host.run()
    finally:
        if showing is not None:
            showing.cancel()
            await asyncio.gather(showing, return_exceptions=True)
        if listener is not None:
            listener.close()
    if not host.drained:
        # A tool that doesn't come back has a thread, for which the interpreter would wait.
        sys.stdout.flush()
        os._exit(0)


def _announce(host: Host, listener: Listener | None, json: bool, quiet: bool) -> None:
    from json import dumps

    url = f"{listener.url}/webhooks/TRIGGER" if listener is not None else None
    if json:
        told = {"serving": str(host.workspace.root), "roles": list(host.roles), "webhooks": url}
        write(dumps(told))
    elif not quiet:
        line = f"hosting {', '.join(host.roles)} of {host.workspace.root}"
        console().print(line + (f"; webhooks at {url}" if url is not None else ""), soft_wrap=True)
    sys.stdout.flush()


def _show(event: Event, json: bool) -> None:
    from json import dumps

    from hive_agents.cli.timeline import line_of

    if json:
        write(dumps(event.to_json()))
    elif (line := line_of(event)) is not None:
        console().print(f"{event.time[11:19]}  {event.run_id}  {line}", soft_wrap=True)
    sys.stdout.flush()
