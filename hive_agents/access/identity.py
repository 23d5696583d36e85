"""Who is speaking on the command line."""

from __future__ import annotations

from collections.abc import Mapping

from hive_agents.access.keys import own_key
from hive_agents.access.principal import LOCAL_TENANT, ROLES, Principal, is_name
from hive_agents.access.rules import AccessRules
from hive_agents.access.tokens import mint, verify
from hive_agents.errors import HiveError, NotFound
from hive_agents.workspace import Workspace

AS_SECONDS = 600


class Identity:
    """Who speaks for as long as a conversation lasts; nothing that was verified before counts."""

    def __init__(self, workspace: Workspace, as_user: str | None, environ: Mapping[str, str]) -> None:
        self._workspace, self._as_user, self._environ = workspace, as_user, environ

    def principal(self) -> Principal:
        """The speaker as they are now: the token is verified, or the user looked up, again.

        Raises: as `principal_for`.
        """
        return principal_for(self._workspace, self._as_user, self._environ)


def principal_for(workspace: Workspace, as_user: str | None, environ: Mapping[str, str]) -> Principal:
    """The speaker: `as_user` of `access/*.json`, else the token in `HIVE_TOKEN`, else in open mode the owner.

    `as_user` becomes a ten-minute token of the local key, which only the workspace's owner can sign.

    Raises: HIVE-409 (exit code 2, naming the principals) for an unknown user or nobody at all; HIVE-417 for a token
    that is refused; the diagnostics of `access/*.json` where a file is faulty.
    """
    if as_user is not None:
        key = own_key(workspace)
        token = mint(workspace, known_principal(workspace, as_user), AS_SECONDS, key=key)
        return verify(workspace, token.token, key=key)
    token_text = environ.get("HIVE_TOKEN", "").strip()
    if token_text:
        return verify(workspace, token_text)
    if workspace.settings.access.mode == "open":
        return owner()
    fix = f"say who asks: --as USER, or set HIVE_TOKEN. {_principals(workspace)}"
    raise HiveError.of("HIVE-409", "nobody asks: permissions are enforced here", fix=fix, exit_code=2)


def known_principal(workspace: Workspace, user: str) -> Principal:
    """The principal of that name in `access/*.json`. Raises: HIVE-409, or the faults of the files; exit code 2."""
    rules = AccessRules.load(workspace)
    if rules.faults:
        raise HiveError(rules.faults, exit_code=2)
    found = rules.principal(user)
    if found is None:
        fix = _principals(workspace)
        raise NotFound.of("HIVE-409", f'there is no principal "{user}"', file="access", fix=fix)
    return found


def owner() -> Principal:
    """The owner of a workspace in open mode: the operating system's user, with every role, in no real tenant."""
    import getpass

    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        user = ""
    return Principal(LOCAL_TENANT, user if is_name(user) else "owner", frozenset(), ROLES)


def _principals(workspace: Workspace) -> str:
    names = sorted(AccessRules.load(workspace).principals)
    if not names:
        return "access/*.json names no principals: add some"
    shown = ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
    return f"The principals are {shown}"
