"""`hive token`: sign, list and revoke tokens."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from hive_agents.base import safe_line
from hive_agents.cli.surface import Surface, count, with_surface
from hive_agents.cli.terminal import write

if TYPE_CHECKING:
    from hive_agents.access import Principal, tokens
    from hive_agents.workspace import Workspace

app = typer.Typer(help="Tokens: sign one that authenticates a user, list and revoke them.", invoke_without_command=True)


@app.callback()
@with_surface()
def token(
    surface: Surface,
    context: typer.Context,
    user: Annotated[
        str | None, typer.Option("--user", help="The user that the token names (default: in open mode the owner).")
    ] = None,
    tenant: Annotated[
        str | None, typer.Option("--tenant", help="The user's tenant (default: from access/*.json).")
    ] = None,
    groups: Annotated[str | None, typer.Option("--groups", help="The user's groups, separated by commas.")] = None,
    roles: Annotated[
        str | None, typer.Option("--roles", help="reader, approver, operator, admin; separated by commas.")
    ] = None,
    ttl: Annotated[int, typer.Option("--ttl", help="Seconds until it expires.")] = 3600,
    revoke: Annotated[str | None, typer.Option("--revoke", metavar="JTI", hidden=True)] = None,
) -> None:
    """Sign a token that authenticates a user, with no more than access/*.json grants them. The holder of HIVE_TOKEN
    needs the role admin, and makes tokens for their own tenant."""
    if context.invoked_subcommand is not None:
        return
    if revoke is not None:
        _revoke(surface, revoke)
        return
    from hive_agents.access import logins, mint

    require = partial(surface.asker.require_role, "make tokens", "admin")
    require()
    holder = surface.asker.token_holder()
    if holder is None and (user, tenant, groups, roles) == (None, None, None, None):
        made = logins.owner_token(surface.workspace, ttl)
    else:
        wanted = _wanted(surface.workspace, user, tenant, groups, roles)
        made = mint(surface.workspace, wanted, ttl, maker=holder, require=require)
        _warn(surface, wanted, made)
    principal = made.principal
    summary = f"{principal.user} of {principal.tenant}, roles {', '.join(sorted(principal.roles))}"
    if principal.groups:
        summary += f", groups {', '.join(sorted(principal.groups))}"
    if surface.as_json:
        surface.show(made.to_json())
        return
    # Beside the output: `TOKEN=$(hive token …)` is the token.
    for line in (summary, f"end it before: hive token revoke {made.jti}", f"expires at {made.expires_at}"):
        surface.say(line)
    write(made.token)  # not wrapped


@app.command("list")
@with_surface()
def list_(surface: Surface) -> None:
    """List the tokens that were made here and haven't expired, newest first; the tokens themselves aren't kept."""
    from hive_agents.access import issued_tokens

    rows = issued_tokens(surface.workspace, _tenant(surface))
    lines = [
        f"{row['jti']}  {row['user']} of {row['tenant']}, {', '.join(row['roles'])}; made by {row['made_by']}, "
        + (f"revoked at {row['revoked_at']}" if row["revoked_at"] else f"expires at {row['expires_at']}")
        for row in rows
    ]
    surface.show({"tokens": rows}, *map(safe_line, lines), count(len(rows), "token"))


@app.command("revoke")
@with_surface()
def revoke_(
    surface: Surface, jti: Annotated[str, typer.Argument(metavar="JTI", help="The id that `hive token list` shows.")]
) -> None:
    """Revoke a token, on all hosts."""
    _revoke(surface, jti)


def _revoke(surface: Surface, jti: str) -> None:
    from hive_agents.access import revoke

    revoke(surface.workspace, jti, by=_by(surface), tenant=_tenant(surface))
    surface.show({"revoked": jti}, f"revoked {jti}: it is refused from now on")


def _tenant(surface: Surface) -> str | None:
    """Return the tenant that the caller administers, None for the owner, who administers all."""
    surface.asker.require_role("administer tokens", "admin")
    holder = surface.asker.token_holder()
    return holder.tenant if holder is not None else None


def _by(surface: Surface) -> str:
    from hive_agents.access import asked_by, local_user

    holder = surface.asker.token_holder()
    return local_user() if holder is None else asked_by(holder.user)


def _wanted(place: Workspace, user: str | None, tenant: str | None, groups: str | None, roles: str | None) -> Principal:
    from hive_agents.access import Principal, known_principal
    from hive_agents.base import HiveError

    if not user:
        raise HiveError.of("HIVE-409", "a token needs a user", fix="name one with --user")
    if tenant is None:
        default = known_principal(place, user)
    else:
        default = Principal(tenant, user, frozenset(), frozenset({"reader"}))
    return Principal(
        default.tenant,
        user,
        default.groups if groups is None else _listed(groups),
        default.roles if roles is None else _listed(roles),
    )


def _warn(surface: Surface, wanted: Principal, made: tokens.Token) -> None:
    """Warn of what was asked for and isn't in the token."""
    from hive_agents.base import Diagnostic

    parts = (("group", wanted.groups - made.principal.groups), ("role", wanted.roles - made.principal.roles))
    withheld = [f"the {what} {name}" for what, names in parts for name in sorted(names)]
    if withheld:
        message = f"access/*.json doesn't give {wanted.user} {' and '.join(withheld)}: the token is without"
        fix = "add it to their entry in access/*.json, and get a new token"
        surface.warn([Diagnostic("HIVE-415", message, "access", fix=fix, severity="warning")])


def _listed(text: str) -> frozenset[str]:
    return frozenset(part.strip() for part in text.split(",") if part.strip())
