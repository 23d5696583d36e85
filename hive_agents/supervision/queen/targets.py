"""Which run an asker means: by its id, by its agent, or as the one last spoken of."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hive_agents.runs.row import ACTIVE

if TYPE_CHECKING:
    from hive_agents.runs import RunRow

_AGAIN = re.compile(r"\b(?:it|that|this|that one|this one|the run|the same)\b", re.IGNORECASE)
_PLAIN = frozenset(
    "a again agent at away immediately it job me my now of once one please right run same task thanks that the this"
    " worker".split()
)
_ID = re.compile(r"r[0-9a-f]{6,}")


@dataclass(frozen=True)
class Target:
    """The run; or the `options` among which the asker has to choose; or the name that is `unknown`."""

    run: RunRow | None = None
    options: list[RunRow] = field(default_factory=list)
    unknown: str | None = None


def target(about: str, rows: Sequence[RunRow], last: Sequence[str]) -> Target:
    """The run of `rows`, newest first, that `about` names.

    An agent's name means its active run, else its latest. `last` are the runs last spoken of, which "it" means, and
    also a text that names nothing.
    """
    words = _words(about)
    named = {row.run_id: row for word in words for row in rows if _means(word, row)}
    if named:
        return _one(list(named.values()))
    missing = next((word for word in words if _ID.fullmatch(word)), None)
    if missing is not None:
        return Target(unknown=missing)
    of_agent = [row for row in rows if (row.agent or row.graph) in words]
    if of_agent:
        active = [row for row in of_agent if row.status in ACTIVE]
        return _one(active or of_agent[:1])
    if _AGAIN.search(about) or not words:
        spoken_of = [row for row in rows if row.run_id in last]
        if spoken_of:
            return _one(spoken_of)
    return Target(options=[row for row in rows if row.status in ACTIVE])


def names_one(about: str, rows: Sequence[RunRow]) -> bool:
    """Whether a text names a run, or an agent that has some."""
    return any(_means(word, row) or word == (row.agent or row.graph) for word in _words(about) for row in rows)


def is_plain(about: str, row: RunRow) -> bool:
    """Whether a command's words name the run and say nothing else, such as when or unless.

    >>> [word in _PLAIN for word in ("now", "unless")]
    [True, False]
    """
    return all(
        _means(word, row) or word == (row.agent or row.graph) or word.casefold() in _PLAIN for word in _words(about)
    )


def _words(about: str) -> list[str]:
    return re.findall(r"[\w.-]*\w", about)


def _means(word: str, row: RunRow) -> bool:
    return word == row.run_id or (len(word) >= 5 and row.run_id.startswith(word) and bool(_ID.match(row.run_id)))


def _one(rows: list[RunRow]) -> Target:
    return Target(run=rows[0]) if len(rows) == 1 else Target(options=rows)
