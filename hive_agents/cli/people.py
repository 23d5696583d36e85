"""`hive people`: people who leave."""

from __future__ import annotations

from typing import Annotated

import typer

from hive_agents.cli.surface import Surface, count, with_surface

app = typer.Typer(help="People: end all that somebody holds and does here.", no_args_is_help=True)


@app.command("end")
@with_surface()
def end(
    surface: Surface,
    user: Annotated[str, typer.Argument(metavar="USER", help="Whom a token or access/*.json names.")],
    tenant: Annotated[
        str | None, typer.Option("--tenant", help="Their tenant (default: as access/*.json says).")
    ] = None,
) -> None:
    """End a person's tokens and sessions on all hosts, their open streams, and the runs that act as them; delete the
    files that they dropped into conversations. Tokens that they made for others end, too, since they may have kept one.

    Whoever access/*.json still names can sign in again.
    """
    from hive_agents import copilot
    from hive_agents.access import AccessRules, asked_by, local_user
    from hive_agents.base import HiveError, safe_line

    place, asker = surface.workspace, surface.asker
    asker.require_role("end what others hold", "admin")
    holder = asker.token_holder()
    if tenant is None:
        tenant = holder.tenant if holder is not None else AccessRules.load(place).tenant_of(user)
    if holder is not None and tenant != holder.tenant:
        raise HiveError.of("HIVE-415", f"{holder.user} administers {holder.tenant} alone", fix="leave --tenant out")
    by = local_user() if holder is None else asked_by(holder.user)
    ended = copilot.end_person(place, user, tenant, by)
    shown = ", ".join(count(ended[what], what.removesuffix("s")) for what in ("tokens", "sessions", "streams", "runs"))
    surface.show(ended, safe_line(f"ended of {user} of {tenant}: {shown}"))
    if ended["made_for"]:
        who = safe_line(", ".join(ended["made_for"]))
        surface.say(f"they had made tokens for {who}: `hive token --user NAME` makes new ones")
