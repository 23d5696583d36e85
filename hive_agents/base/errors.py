"""Diagnostics: what is wrong, where, and how to fix it.

Every failure that a user can cause is a `Diagnostic`; a `HiveError` has one or more of them. Codes are stable and never
reused; `docs/diagnostics.md` documents each.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self, cast

Severity = Literal["error", "warning", "info"]

_ENVIRONMENT = {
    *("HIVE-401", "HIVE-402", "HIVE-403", "HIVE-407", "HIVE-411", "HIVE-430", "HIVE-431", "HIVE-432", "HIVE-434"),
}
_USAGE = {"HIVE-408", "HIVE-409", "HIVE-410"}


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding, printed in the style of a compiler.

    `file` is relative to the workspace, with `/`; `path` is a JSON path such as `retrieval.top_k`, `$` for the whole
    file.

    >>> print(Diagnostic("HIVE-105", "top_k is 0", file="configs/a.json", path="retrieval.top_k", fix="use 1 to 1000"))
    error[HIVE-105]: top_k is 0
      --> configs/a.json: retrieval.top_k
      fix: use 1 to 1000
    """

    code: str
    message: str
    file: str | None = None
    path: str | None = None
    fix: str | None = None
    line: int | None = None
    severity: Severity = "error"

    @property
    def level(self) -> int:
        """1 syntax, 2 semantics, 3 behaviour, 4 runtime."""
        return int(self.code[5])

    def to_json(self) -> dict[str, Any]:
        return {
            "code": self.code,
            "level": self.level,
            "severity": self.severity,
            "message": self.message,
            "file": self.file,
            "path": self.path,
            "line": self.line,
            "fix": self.fix,
        }

    def __str__(self) -> str:
        lines = [f"{self.severity}[{self.code}]: {self.message}"]
        if self.file and self.path:
            lines.append(f"  --> {self.file}: {self.path}" + (f" (line {self.line})" if self.line else ""))
        elif self.file:
            lines.append(f"  --> {self.file}" + (f":{self.line}" if self.line else ""))
        if self.fix:
            lines.append(f"  fix: {self.fix}")
        return "\n".join(lines)


class HiveError(Exception):
    """A failure with diagnostics and the exit code of the command.

    `exit_code` is 1 for a failed check, 2 for wrong usage, 3 for the environment; by default the first diagnostic's
    code decides. That code also selects the subclass, where there is one: callers catch failures by class, not by code.

    >>> type(HiveError.of("HIVE-402", "the database is locked")).__name__
    'Busy'
    """

    _classes: ClassVar[dict[str, type[HiveError]]] = {}

    def __init_subclass__(cls, code: str | None = None) -> None:
        super().__init_subclass__()
        if code is not None:
            HiveError._classes[code] = cls

    def __new__(cls, diagnostics: Sequence[Diagnostic] = (), *_: object, **__: object) -> Self:
        chosen = HiveError._classes.get(diagnostics[0].code, cls) if cls is HiveError and diagnostics else cls
        return super().__new__(cast("type[Self]", chosen))

    def __init__(self, diagnostics: Sequence[Diagnostic], exit_code: int | None = None) -> None:
        self.diagnostics = list(diagnostics)
        first = self.diagnostics[0].code
        self.exit_code = exit_code or (3 if first in _ENVIRONMENT else 2 if first in _USAGE else 1)
        super().__init__("\n".join(str(diagnostic) for diagnostic in self.diagnostics))

    @classmethod
    def of(
        cls,
        code: str,
        message: str,
        *,
        file: str | None = None,
        path: str | None = None,
        fix: str | None = None,
        line: int | None = None,
        exit_code: int | None = None,
    ) -> Self:
        return cls([Diagnostic(code, message, file, path, fix, line)], exit_code)


class Stale(HiveError, code="HIVE-307"):
    """The subject of a measurement or proposal has changed since."""


class NoModel(HiveError, code="HIVE-401"):
    """There is no usable model."""


class Busy(HiveError, code="HIVE-402"):
    """Another process holds a resource; a retry may succeed."""


class Unwritable(HiveError, code="HIVE-403"):
    """A file or folder can't be read or written, or the disk is full."""


class Unindexed(HiveError, code="HIVE-406"):
    """There is no index, or none of a collection, as long as nobody makes it."""


class Damaged(HiveError, code="HIVE-407"):
    """A database, or a record in it, can't be read."""


class NewerRelease(Damaged):
    """The database was written by a newer release, and isn't damaged."""


class WrongUsage(HiveError, code="HIVE-409"):
    """A request can't be done now, or with these arguments."""


class NotFound(WrongUsage):
    """There is nothing with that id or name."""


class Taken(WrongUsage):
    """A key or name is used for something else already."""


class RefusedInput(HiveError):
    """An agent refuses an input for good: a retry can't succeed."""


class AuditFault(HiveError, code="HIVE-413"):
    """The audit log is damaged, or contradicts other records."""


class RightsWithdrawn(HiveError):
    """A principal has lost a right that it had when the work began."""


class NoSecret(HiveError, code="HIVE-421"):
    """A credential doesn't exist or can't be read."""


class WorkerFault(HiveError, code="HIVE-422"):
    """A run, or a node of it, was aborted."""


class TooMany(HiveError, code="HIVE-433"):
    """A caller exceeds its limit; a retry may succeed after `retry_after` seconds."""

    retry_after: int = 1


class EngineFault(HiveError, code="HIVE-434"):
    """A search engine of the settings is unreachable, incomplete, or has another state of the index.

    A retry may succeed after `retry_after` seconds.
    """

    retry_after: int = 5


class Outage(HiveError):
    """A model is unreachable for now; the run retries after `pause` seconds."""

    pause: float = 0.0


def has_errors(diagnostics: Iterable[Diagnostic]) -> bool:
    return any(diagnostic.severity == "error" for diagnostic in diagnostics)


def closest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that is most similar, or None.

    >>> closest("retreival", ["retrieval", "filters"])
    'retrieval'
    """
    from difflib import get_close_matches

    return next(iter(get_close_matches(word, sorted(known), n=1, cutoff=0.6)), None)


def did_you_mean(word: str, known: Iterable[str], otherwise: str) -> str:
    """Return the fix for an unknown word: the most similar known one, or else `otherwise`.

    >>> [did_you_mean(word, ["retrieval"], "use one of: retrieval") for word in ("retreival", "zzz")]
    ['did you mean "retrieval"?', 'use one of: retrieval']
    """
    guess = closest(word, known)
    return f'did you mean "{guess}"?' if guess else otherwise
