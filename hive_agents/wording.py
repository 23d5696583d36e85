"""Texts for people: what others wrote on one line, counts and lists in words."""

from __future__ import annotations

from collections.abc import Sequence

LONGEST = 200


def one_line(text: object, limit: int = LONGEST) -> str:
    r"""Return text as one line that no terminal obeys, at most `limit` characters long, cut between words.

    >>> one_line("stop\nall \x1b[2J runs"), one_line("two\nlines of text", 12)
    ('stop all [2J runs', 'two lines…')
    """
    line = " ".join("".join(sign if sign.isprintable() else " " for sign in str(text)).split())
    return line if len(line) <= limit else line[: limit - 1].rsplit(" ", 1)[0] + "…"


def count(number: int, noun: str) -> str:
    """Return a number with its noun.

    >>> count(1, "document"), count(2, "query")
    ('1 document', '2 queries')
    """
    plural = noun[:-1] + "ies" if noun.endswith("y") else noun + "s"
    return f"{number} {noun if number == 1 else plural}"


def listed(names: Sequence[str], last: str = "or") -> str:
    """Return names in words.

    >>> listed(["r1", "r2", "r3"])
    'r1, r2 or r3'
    """
    return f" {last} ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
