"""Principals, people or services of a tenant with groups and roles, and documents' access labels."""

from __future__ import annotations

import getpass
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Literal, get_args

from hive_agents.base import HiveError

PrincipalRole = Literal["reader", "approver", "operator", "admin"]
ROLES: frozenset[str] = frozenset(get_args(PrincipalRole))
LOCAL_TENANT = "local"
"""The tenant of the owner of a workspace in open mode; no file and no token can name it."""


OWNER = "owner:"
"""The prefix of the workspace's owner among the makers of a token."""


def named(hand: str) -> str:
    """Return a maker's name in the form of `local_user`."""
    return f"user:{hand.removeprefix(OWNER)}" if hand.startswith(OWNER) else hand


def is_name(value: object) -> bool:
    """Return whether `value` can name a tenant, a user or a group: printable, 1 to 256 characters, no comma, no outer
    space.

    >>> [is_name(value) for value in ("dana", "service:nightly", "", " dana", "a,b", None)]
    [True, True, False, False, False, False]
    """
    return (
        isinstance(value, str)
        and 0 < len(value) <= 256
        and value.isprintable()
        and value == value.strip()
        and "," not in value
    )


def is_subject(value: object) -> bool:
    """Return whether `value` can stand in a `view`: `user:ID`, `group:ID` or `tenant`.

    >>> [is_subject(value) for value in ("tenant", "group:qa", "user:service:nightly", "qa", "user:", "role:admin")]
    [True, True, True, False, False, False]
    """
    if not isinstance(value, str):
        return False
    kind, _, name = value.partition(":")
    return value == "tenant" or (kind in ("user", "group") and is_name(name))


@dataclass(frozen=True)
class Principal:
    """An authenticated user. `service:nightly` is a user's name like any other.

    `token_id` is the id of the token, by which it can be revoked, and `makers` are the people who made it: the maker,
    whoever made the maker's token, and so on; the workspace's owner is `owner:NAME`. Equality ignores both.

    Raises: HIVE-409 for an empty or unprintable name and for an unknown role.

    >>> sorted(Principal("acme", "dana", frozenset({"qa"})).subjects)
    ['group:qa', 'tenant', 'user:dana']
    """

    tenant: str
    user: str
    groups: frozenset[str] = frozenset()
    roles: frozenset[str] = frozenset({"reader"})
    token_id: str | None = field(default=None, compare=False, repr=False)
    makers: tuple[str, ...] = field(default=(), compare=False, repr=False)

    def __post_init__(self) -> None:
        for what in ("tenant", "user"):
            if not is_name(getattr(self, what)):
                raise _unfit(f"a principal needs a {what} with a printable name", f"name the {what}")
        for what in ("groups", "roles"):
            object.__setattr__(self, what, _names(getattr(self, what), what))
        object.__setattr__(self, "roles", frozenset(role.lower() for role in self.roles))
        unknown = sorted(self.roles - ROLES)
        if unknown:
            raise _unfit(f"{unknown[0]} is no role", f"use {', '.join(get_args(PrincipalRole))}")

    @cached_property
    def subjects(self) -> frozenset[str]:
        """The names of this principal in a `view`."""
        return frozenset({"tenant", f"user:{self.user}", *(f"group:{group}" for group in self.groups)})

    @property
    def hands(self) -> tuple[str, ...]:
        """The people who can act by this principal's name: the principal, then the makers of the token."""
        if self.tenant == LOCAL_TENANT:
            return (f"{OWNER}{self.user}",)
        is_kind = ":" in self.user and not self.user.startswith(OWNER)
        return (self.user if is_kind else f"user:{self.user}", *self.makers)

    @property
    def maker(self) -> str | None:
        """Who made the token, in the form of `local_user`; None for an identity provider."""
        return named(self.makers[0]) if self.makers else None

    def to_json(self) -> dict[str, Any]:
        return {
            "tenant": self.tenant,
            "user": self.user,
            "groups": sorted(self.groups),
            "roles": sorted(self.roles),
        }


def owner() -> Principal:
    """Return the owner of a workspace in open mode: the operating system's user, with every role, in no real tenant."""
    user = login()
    return Principal(LOCAL_TENANT, user if is_name(user) else "owner", frozenset(), ROLES)


def local_user() -> str:
    """Return the local user's name in rows and events."""
    return f"user:{login() or 'local'}"


def login() -> str:
    """Return the operating system's name of the user, "" where it has none."""
    with suppress(Exception):  # a container's user may have no name
        return getpass.getuser()
    return ""


def asked_by(name: str) -> str:
    """Return an asker's name in the form of `person`; an agent or a service keeps its kind.

    >>> asked_by(" Dana "), asked_by("user: dana "), asked_by("agent:worker")
    ('user:Dana', 'user:dana', 'agent:worker')
    """
    shown = "".join(sign for sign in unicodedata.normalize("NFKC", name) if unicodedata.category(sign) != "Cf")
    kind, colon, rest = shown.partition(":")
    return f"{kind.strip()}:{rest.strip()}" if colon else f"user:{kind.strip()}"


RESERVED = frozenset({"tenant", "view"})
"""Keys of front matter for permissions: never shown, and never used as filters."""


@dataclass(frozen=True, slots=True)
class AccessLabels:
    """A document's tenants, and the subjects among them who may view it.

    `fault` is why the labels can't be read; then `view` is empty, and grants don't add to it.

    >>> AccessLabels.of({"tenant": "acme", "view": ["group:qa"]}).view
    frozenset({'group:qa'})
    >>> AccessLabels.of({"tenant": "acme", "view": ["qa"]}).fault
    'view: "qa" is neither user:ID, group:ID nor tenant'
    """

    tenants: frozenset[str] = frozenset()
    view: frozenset[str] = frozenset()
    fault: str | None = None

    @classmethod
    def of(cls, front_matter: Mapping[str, Any]) -> AccessLabels:
        """Return the labels in a front matter; a text counts as a list of one. Malformed labels are a fault."""
        tenants = _listed(front_matter, "tenant", is_name, "is no tenant's name")
        view = _listed(front_matter, "view", is_subject, "is neither user:ID, group:ID nor tenant")
        if isinstance(tenants, str):
            return _shared(frozenset(), frozenset(), tenants)
        if isinstance(view, str):
            return _shared(tenants, frozenset(), view)
        return _shared(tenants, view, None)


# Thousands of documents have the same few labels, and share the objects.
_shared = lru_cache(maxsize=4096)(AccessLabels)


def _listed(
    front_matter: Mapping[str, Any], key: str, fits: Callable[[object], bool], why_not: str
) -> frozenset[str] | str:
    """Return the values under `key`, or what is wrong with them."""
    value = front_matter.get(key)
    if value is None:
        return frozenset()
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list):
        return f"{key} is neither a text nor a list of texts"
    for item in values:
        if not fits(item):
            shown = f'"{item}"' if isinstance(item, str) else str(item)
            return f"{key}: {shown[:60]} {why_not}"
    return frozenset(values)


Documents = Sequence[tuple[str, AccessLabels]]


def _names(values: Iterable[str], what: str) -> frozenset[str]:
    # A text is an iterable of texts too: groups="qa" must not become the groups q and a.
    if not isinstance(values, (frozenset, set, list, tuple)) or not all(is_name(value) for value in values):
        raise _unfit(f"the {what} of a principal are a list of printable names", f"name the {what} one by one")
    return frozenset(values)


def _unfit(message: str, fix: str) -> HiveError:
    return HiveError.of("HIVE-409", message, fix=fix, exit_code=2)
