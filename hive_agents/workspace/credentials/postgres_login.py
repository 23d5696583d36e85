"""Login options that keep PostgreSQL passwords from impostors: libpq would send them in clear text on request."""

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
"""Parts of libpq's messages when a server's identity isn't proved, and their fixes."""
_DEFAULTS = {
    "host": "PGHOST",
    "hostaddr": "PGHOSTADDR",
    "sslmode": "PGSSLMODE",
    "require_auth": "PGREQUIREAUTH",
    "service": "PGSERVICE",
}


def login_options(url: str) -> dict[str, Any]:
    """Return options of libpq that reveal a password only to the server that the URL names.

    A server on this machine, one whose certificate is verified, and any if the URL sets `require_auth`, may use every
    method; others only those that prove the password without sending it (SCRAM, GSS).

    >>> login_options("postgresql://hive@db.example/hive")
    {'require_auth': '!password,!md5'}
    >>> login_options("postgresql://hive@db.example/hive?sslmode=verify-full"), login_options("postgresql:///hive")
    ({}, {})
    """
    from psycopg.conninfo import conninfo_to_dict

    settings = {name: os.environ.get(variable) for name, variable in _DEFAULTS.items()} | conninfo_to_dict(url)
    proved = settings["sslmode"] in ("verify-ca", "verify-full") or settings["require_auth"]
    hosts = str(settings["hostaddr"] or settings["host"] or "").split(",")
    if proved or (not settings["service"] and all(map(_is_local, hosts))):
        return {}
    return {"require_auth": "!password,!md5"}


def login_fix(message: str) -> str | None:
    """Return the fix where libpq's message says that a server's identity isn't proved, else None.

    >>> login_fix('server certificate for "db" does not match host name "db.example"')
    'name the server in the url as its certificate does, or give it one for that name'
    """
    return next((fix for words, fix in _FIXES.items() if words in message), None)


def _is_local(host: str) -> bool:
    if host in ("", "localhost") or host.startswith(("/", "@")):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
