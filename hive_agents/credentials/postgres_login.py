"""Which PostgreSQL servers may have a password: a false one asks for it in clear text, and libpq would tell it."""

from __future__ import annotations

import os
from ipaddress import ip_address
from typing import Any

UNPROVED = "authentication method requirement"
"""What libpq says where a server asks in a way that `login_options` doesn't allow."""
PROVE = "add sslmode=verify-full to the url, or say there which login the server may ask for, such as require_auth=md5"
_DEFAULTS = {
    "host": "PGHOST",
    "hostaddr": "PGHOSTADDR",
    "sslmode": "PGSSLMODE",
    "require_auth": "PGREQUIREAUTH",
    "service": "PGSERVICE",
}


def login_options(url: str) -> dict[str, Any]:
    """Return libpq's options by which nobody but the server that the URL names learns a password.

    A server on this machine, or one whose certificate was verified, may ask as it likes, and so may any where the URL
    says by `require_auth` how; all others only in ways that prove the password without telling it (SCRAM, GSS).

    >>> login_options("postgresql://hive@db.example/hive")
    {'require_auth': '!password,!md5'}
    >>> login_options("postgresql://hive@db.example/hive?sslmode=verify-full"), login_options("postgresql:///hive")
    ({}, {})
    """
    from psycopg.conninfo import conninfo_to_dict

    named = {name: os.environ.get(variable) for name, variable in _DEFAULTS.items()} | conninfo_to_dict(url)
    proved = named["sslmode"] in ("verify-ca", "verify-full") or named["require_auth"]
    places = str(named["hostaddr"] or named["host"] or "").split(",")
    if proved or (not named["service"] and all(map(_is_here, places))):
        return {}
    return {"require_auth": "!password,!md5"}


def _is_here(place: str) -> bool:
    if place in ("", "localhost") or place.startswith(("/", "@")):
        return True
    try:
        return ip_address(place).is_loopback
    except ValueError:
        return False
