"""Changes of a workspace's files that somebody reads before they are written."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from hive_agents.base import sha256
from hive_agents.base.files import atomic_write_text, disk_errors, locked, remove
from hive_agents.store import audit
from hive_agents.workspace import Workspace

KIND = "file_changed"
"""The kind of these entries of the audit log."""


@dataclass(frozen=True)
class FileChange:
    """A file's text `before` and `after`; "" before for a file that isn't there yet, None after for one that goes.

    >>> FileChange("access/people.json", "a\\nb\\n", "a\\nc\\n").lines
    [' a', '-b', '+c']
    """

    file: str
    before: str
    after: str | None

    @property
    def lines(self) -> list[str]:
        """The lines that change, with a line around them; each begins with `-`, `+` or a space, or is `…`."""
        before, after = self.before.splitlines(), (self.after or "").splitlines()
        found = list(difflib.unified_diff(before, after, n=1, lineterm=""))[2:]
        return ["…" if line.startswith("@@") else line for line in found[1:]]


def digest_of(changes: Iterable[FileChange]) -> str:
    return sha256(json.dumps([[one.file, one.before, one.after] for one in changes]))


def write_changes(workspace: Workspace, made: Callable[[], list[FileChange]], read: str, by: str) -> bool:
    """Write the changes that are made now and log them, if they are those that were `read`, by their digest; return
    whether.

    Raises: HIVE-402, HIVE-403 or HIVE-413 where file or log can't be written.
    """
    with locked(workspace.state / "edits.lock", "writes a file that a page changes"):
        changes = made()
        if digest_of(changes) != read:
            return False
        for change in changes:
            _write(workspace, change, by)
        return True


def _write(workspace: Workspace, change: FileChange, by: str) -> None:
    # First the log: a change that it doesn't know would be worse than an entry whose change a crash prevented.
    audit.append(workspace, KIND, file=change.file, by=by, lines=change.lines, digest_before=sha256(change.before))
    if change.after is None:
        with disk_errors(workspace.root / change.file):
            remove(workspace.root / change.file)
    else:
        atomic_write_text(workspace.root / change.file, change.after)
