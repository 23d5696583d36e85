"""`hive serve`: a process that works on runs, supervises them, fires triggers and receives webhooks; `open`, `mcp`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from hive_agents.cli.surface import Surface, with_surface
from hive_agents.cli.terminal import console, write

if TYPE_CHECKING:
    from hive_agents.events import Event
    from hive_agents.host import Host
    from hive_agents.server import Listener


PAUSE = 1.0
"""Seconds until events are looked for again after the records could not be read."""


@with_surface(as_user="The user of the sign-in link (default: you, the workspace's owner).", before="role")
def command(
    surface: Surface,
    headless: Annotated[bool, typer.Option("--headless", help="Without pages and sign-in link.")] = False,
    open_: Annotated[bool, typer.Option("--open", help="Open the sign-in link in a browser.")] = False,
    port: Annotated[
        int | None,
        typer.Option("--port", min=0, max=65535, help="Port; 0 chooses a free one. Without the role api: for probes."),
    ] = None,
    host: Annotated[str | None, typer.Option("--host", help="Address to listen on.")] = None,
    role: Annotated[
        list[str] | None,
        typer.Option(
            "--role",
            "--roles",
            help="api, worker, judge, queen or all; or parts: runs, judge, queen, triggers, http."
            " Repeatable, or separated by commas.",
        ),
    ] = None,
) -> None:
    """Host the workspace until SIGTERM or Ctrl-C, which queue its runs again; a second one ends it at once."""
    import asyncio

    from hive_agents.base import HiveError
    from hive_agents.host import Host

    place = surface.workspace
    chosen = [name.strip() for option in role or ["all"] for name in option.split(",")]
    listens = bool({"all", "api", "http"} & set(chosen))
    if not listens and (open_ or surface.as_user is not None):
        raise HiveError.of("HIVE-409", "without the role api there is nothing to sign in to", fix="add --role api")
    listener: Listener | None = None
    link: str | None = None
    if listens or port is not None:
        from hive_agents.access import logins
        from hive_agents.server import Listener

        listener = Listener(place, host, port)
        if listens and not headless:
            link = f"{listener.url}/login?code={logins.login_code(place, surface.as_user)}"
    hosted = Host(place, roles=chosen, serve=listener.serve if listener is not None else None)
    if open_ and link is not None:
        import threading
        import webbrowser

        threading.Timer(1.0, webbrowser.open, [link]).start()  # when the server answers; it listens already
    asyncio.run(_serve(hosted, listener, link, surface.as_json, surface.quiet))


@with_surface(as_user="Whom the link signs in (default: you, the workspace's owner).")
def open_(
    surface: Surface,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the link in a browser.")] = True,
) -> None:
    """Sign in to the pages of a running `hive serve`: opens a fresh link, which is good once, for a minute."""
    from hive_agents.access import logins
    from hive_agents.base import Diagnostic, HiveError
    from hive_agents.server import served_at

    place = surface.workspace
    if (holder := surface.asker.token_holder()) is not None:
        why = f"{holder.user} has a token, and only the workspace's owner makes links"
        raise HiveError.of("HIVE-415", why, fix="paste the token into the page that signs in", exit_code=1)
    url, answers = served_at(place)
    link = f"{url}/login?code={logins.login_code(place, surface.as_user)}"
    if not answers:
        why = f"no server of this workspace answers at {url}"
        surface.warn([Diagnostic("HIVE-409", why, fix="start `hive serve` within a minute", severity="warning")])
    if surface.as_json:
        surface.show({"url": link})
        return
    surface.say("sign in within a minute, once:")
    write(link)  # not wrapped: scripts read the last line
    if browser and answers:
        import webbrowser

        if not webbrowser.open(link):
            surface.say("no browser could be opened: open the link yourself")


async def _serve(host: Host, listener: Listener | None, link: str | None, json: bool, quiet: bool) -> None:
    import asyncio
    import os

    from hive_agents.base import HiveError
    from hive_agents.events import EventLog, tail

    log = EventLog(host.workspace)
    shown = await asyncio.to_thread(log.last_seq)  # before anybody is told that they may begin
    working: Host | None = host
    drained = True
    _announce(host, listener, link, json, quiet)

    async def show(host: Host) -> None:
        nonlocal shown
        while True:
            try:
                async for event in tail(log, shown, host.bus):
                    _show(event, json)
                    shown = event.seq or shown
            except HiveError:  # the records are away: what happens meanwhile is shown when they are back
                await asyncio.sleep(PAUSE)

    try:
        while working is not None:
            showing = asyncio.ensure_future(show(working)) if json or not quiet else None
            try:
                await working.run()
            finally:
                if showing is not None:
                    showing.cancel()
                    await asyncio.gather(showing, return_exceptions=True)
            drained, working = drained and working.drained, working.successor
    finally:
        if listener is not None:
            listener.close()
    if not drained:
        # The interpreter would wait for the thread of a tool that hangs.
        sys.stdout.flush()
        os._exit(0)


def _announce(host: Host, listener: Listener | None, link: str | None, json: bool, quiet: bool) -> None:
    from json import dumps

    address = listener.url if listener is not None else None
    url = f"{address}/webhooks/TRIGGER" if address and "http" in host.roles else None
    probes = address if url is None else None
    if json:
        place, roles = str(host.workspace.root), list(host.roles)
        write(dumps({"serving": place, "roles": roles, "webhooks": url, "login": link, "probes": probes}))
    elif not quiet:
        line = f"hosting {', '.join(host.roles)} of {host.workspace.root}"
        line += f"; webhooks at {url}" if url is not None else f"; probes at {probes}" if probes is not None else ""
        console().print(line, soft_wrap=True)
        if link is not None:
            write(f"sign in within a minute, once: {link}")
    sys.stdout.flush()


def _show(event: Event, json: bool) -> None:
    from json import dumps

    from hive_agents.cli.timeline import line_of

    if json:
        write(dumps(event.to_json()))
    elif (line := line_of(event)) is not None:
        console().print(f"{event.time[11:19]}  {event.run_id}  {line}", soft_wrap=True)
    sys.stdout.flush()


@with_surface(as_user="Act as USER of access/*.json (default: HIVE_TOKEN's holder, else you).")
def mcp(surface: Surface) -> None:
    """Serve MCP over stdin and stdout until they are closed; permissions are checked at each call."""
    from hive_agents.server import serve_stdio

    place = surface.workspace
    surface.asker.reader_or_owner()  # raises for a refused token before the server starts
    serve_stdio(place, surface.asker)
