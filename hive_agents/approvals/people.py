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


def same_person(a: str, b: str) -> bool:
    """Names that differ only in case or in their form of Unicode are one person: four eyes take no chances."""
    return unicodedata.normalize("NFKC", a).casefold() == unicodedata.normalize("NFKC", b).casefold()
