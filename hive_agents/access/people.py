"""Who decides: people by name, and what tells two of them apart."""

from __future__ import annotations

import re
import unicodedata

from hive_agents.errors import HiveError

_NAME = re.compile(r"user:[\w][\w.@+-]{0,63}")


def person(name: str) -> str:
    """`user:NAME` for a plain name. Raises: HIVE-409 for what is no person's name, such as an agent's."""
    given = unicodedata.normalize("NFKC", name).strip()
    found = given if ":" in given else f"user:{given}"
    if not _NAME.fullmatch(found):
        fix = "name a person with letters, digits, '.', '_', '-', '+' and '@': --as dana"
        raise HiveError.of("HIVE-409", f'"{name}" is no person who can decide', fix=fix)
    return found


def asked_by(name: str) -> str:
    """Who asks, in the form in which `person` knows who decides; an agent or a service keeps its kind.

    >>> asked_by(" Dana "), asked_by("user: dana "), asked_by("agent:worker")
    ('user:Dana', 'user:dana', 'agent:worker')
    """
    shown = "".join(sign for sign in unicodedata.normalize("NFKC", name) if unicodedata.category(sign) != "Cf")
    kind, colon, rest = shown.partition(":")
    return f"{kind.strip()}:{rest.strip()}" if colon else f"user:{kind.strip()}"


def same_person(a: str, b: str) -> bool:
    """Names that differ only in case or in their form of Unicode are one person: four eyes take no chances."""
    return unicodedata.normalize("NFKC", a).casefold() == unicodedata.normalize("NFKC", b).casefold()
