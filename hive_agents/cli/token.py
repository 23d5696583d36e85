from __future__ import annotations

from typing import Annotated

import typer

from hive_agents.cli.surface import Surface, with_surface
from hive_agents.cli.terminal import write


@with_surface()
def command(
    surface: Surface,
    user: Annotated[str | None, typer.Option("--user", help="The user that the token names.")] = None,
    tenant: Annotated[
        str | None, typer.Option("--tenant", help="The user's tenant (default: from access/*.json).")
    ] = None,
    groups: Annotated[str | None, typer.Option("--groups", help="The user's groups, separated by commas.")] = None,
    roles: Annotated[
        str | None, typer.Option("--roles", help="reader, approver, operator, admin; separated by commas.")
    ] = None,
    ttl: Annotated[int, typer.Option("--ttl", help="Seconds until it expires.")] = 3600,
    revoke: Annotated[str | None, typer.Option("--revoke", metavar="JTI", help="Revoke a token by its id.")] = None,
) -> None:
    """Sign a token that authenticates a user; or revoke one with --revoke."""
    from hive_agents.access import Principal, known_principal, mint, revoke as revoke_token
    from hive_agents.errors import HiveError

    place = surface.workspace
    if revoke is not None:
        revoke_token(place, revoke)
        surface.show({"revoked": revoke}, f"revoked {revoke}: it is refused from now on")
        return
    if not user:
        raise HiveError.of("HIVE-409", "a token needs a user", fix="name one with --user")
    if tenant is None:
        default = known_principal(place, user)
    else:
        default = Principal(tenant, user, frozenset(), frozenset({"reader"}))
    principal = Principal(
        default.tenant,
        user,
        default.groups if groups is None else _listed(groups),
        default.roles if roles is None else _listed(roles),
    )
    token = mint(place, principal, ttl)
    summary = f"{principal.user} of {principal.tenant}, roles {', '.join(sorted(principal.roles))}"
    if principal.groups:
        summary += f", groups {', '.join(sorted(principal.groups))}"
    surface.show(
        token.to_json(),
        summary,
        f"end it before: hive token --revoke {token.jti}",
        f"expires at {token.expires_at}",
    )
    if not surface.as_json:
        write(token.token)  # not wrapped: scripts read the last line


def _listed(text: str) -> frozenset[str]:
    return frozenset(part.strip() for part in text.split(",") if part.strip())
