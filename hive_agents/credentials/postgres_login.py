"""Which PostgreSQL servers may have a password: a false one asks for it in clear text, and libpq would tell it."""

from __future__ import annotations

import os
from ipaddress import ip_address
from typing import Any

_FIXES = {
    "authentication method requirement": (
        "add sslmode=verify-full to the url, or say there which login the server may ask for, such as require_auth=md5"
    ),
    "does not match host name": "name the server in the url as its certificate does, or give it one for that name",
    "root certificate": "let sslrootcert=FILE in the url name the authority that signed the server's certificate",
    "certificate verify failed": (
        "let sslrootcert=FILE in the url name the authority that signed the server's certificate, or renew that one "
        "where it has expired"
    ),
    "certificate has expired": "renew the server's certificate",
    "does not support SSL": "switch on TLS at the server (ssl = on), or take sslmode out of the url",
}
"""What libpq says where it doesn't take a server for the one that the URL names, and what helps."""
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


def login_fix(said: str) -> str | None:
    """Return what helps where libpq doesn't take a server for the one that was meant; None where that isn't it.

    >>> login_fix('server certificate for "db" does not match host name "db.example"')
    'name the server in the url as its certificate does, or give it one for that name'
    """
    return next((fix for words, fix in _FIXES.items() if words in said), None)


def _is_here(place: str) -> bool:
    if place in ("", "localhost") or place.startswith(("/", "@")):
        return True
    try:
        return ip_address(place).is_loopback
    except ValueError:
        return False
