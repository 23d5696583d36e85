"""adapt.md: an agent's notes during a run, which survive every compaction."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hive_agents.base import HiveError, cut, encodable
from hive_agents.base.files import atomic_write, disk_errors, jsontext, locked, read_bytes
from hive_agents.memory.data_files import replace_once
from hive_agents.memory.names import run_folder
from hive_agents.memory.values import value_line

if TYPE_CHECKING:
    from pathlib import Path

    from hive_agents.workspace import Workspace

FILE = "adapt.md"
CAP = 16 * 1024
WORDS_CAP = 12 * 1024
OUTPUT_CHARS = 500
_HEADING = "## Outputs"
_IDENTITY = re.compile(r"^## Identity[ \t]*\n.*?(?=^#{1,2} |\Z)", re.MULTILINE | re.DOTALL)
_SECTION = re.compile(r"^## Outputs[ \t]*\n(?P<body>.*?)(?=^#{1,2} |\Z)", re.MULTILINE | re.DOTALL)


class AgentMemory:
    """The adapt.md in a folder: an agent's notes during one run.

    It has at most 16 KB, 12 KB of them outside `## Outputs`. The oldest outputs are removed first; an output that is
    set again is the newest. Safe to use from several threads and processes.

    >>> import tempfile, pathlib
    >>> from hive_agents import Workspace
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> (folder / "collections").mkdir()
    >>> memory = AgentMemory(Workspace(folder), folder / "memory")
    >>> memory.seed("You write the weekly digest.", {"mail": "dana@example.org"})
    >>> memory.add_output("topic", "bees")
    >>> print(memory.read())
    ## Identity
    You write the weekly digest.
    <BLANKLINE>
    ## Accounts
    - mail: dana@example.org
    <BLANKLINE>
    ## Outputs
    - topic: bees
    <BLANKLINE>
    """

    def __init__(self, workspace: Workspace, folder: Path) -> None:
        self.path = folder / FILE
        self._file = workspace.relative(self.path)

    def seed(self, identity: str, accounts: Mapping[str, str] | None = None, notes: str = "") -> None:
        """Write the first version, shortened if it is too long; an existing file stays.

        `notes` are those accepted for all runs.
        """
        lines = "\n".join(f"- {value_line(name, 100)}: {value_line(of, 200)}" for name, of in (accounts or {}).items())
        accounts_part = _cut_bytes(lines, WORDS_CAP // 4) or "none"
        identity_part = _cut_bytes(encodable(identity).strip(), WORDS_CAP // 4)
        kept = _cut_bytes(encodable(notes).strip(), WORDS_CAP // 4)
        notes_part = f"\n\n## Notes\n{kept.replace(_HEADING, '## Noted outputs')}" if kept else ""
        with locked(self.path.with_name(".lock"), "writing adapt.md"):
            if not self.path.exists():
                self._write(f"## Identity\n{identity_part}\n\n## Accounts\n{accounts_part}{notes_part}\n\n{_HEADING}\n")

    def read(self) -> str:
        """Return the text, "" before `seed`. Raises: HIVE-112 where it is no text."""
        with disk_errors(self.path):
            return jsontext.decode(read_bytes(self.path), self._file) if self.path.exists() else ""

    def add_output(self, key: str, value: Any) -> None:
        """Add the entry of an output or replace it: one line, the value cut at 500 characters."""
        label = f"- {value_line(key, 100)}: "
        with locked(self.path.with_name(".lock"), "writing adapt.md"):
            before, entries, after = _split(self.read())
            kept = [entry for entry in entries if not entry.startswith(label)]
            self._write(_capped(before, [*kept, label + value_line(value, OUTPUT_CHARS)], after))

    def save(self, text: str) -> None:
        """Replace the text. Raises: HIVE-105 for more than 12 KB outside of the outputs."""
        with locked(self.path.with_name(".lock"), "writing adapt.md"):
            self._save(text)

    def edit(self, old: str, new: str) -> None:
        """Replace the only occurrence of `old`.

        Raises: HIVE-105 as `save`; HIVE-409 where it doesn't occur exactly once.
        """
        with locked(self.path.with_name(".lock"), "writing adapt.md"):
            self._save(replace_once(self.read(), old, new, FILE))

    def _save(self, text: str) -> None:
        before, entries, after = _split(encodable(text))
        words = _bytes(before) + _bytes(after)
        if words > WORDS_CAP:
            why = f"adapt.md would take {words:,} bytes outside of its outputs; {WORDS_CAP:,} are allowed"
            raise HiveError.of("HIVE-105", why, file=self._file, fix="keep what matters, save the rest as a data file")
        self._write(_capped(before, entries, after))

    def _write(self, text: str) -> None:
        atomic_write(self.path, text.encode(), mode=0o600)


def noted_in(workspace: Workspace, run_id: str) -> list[str]:
    """Return a run's own notes: its outputs and the lines that it wrote. They don't hold for other runs."""
    memory = AgentMemory(workspace, run_folder(workspace, run_id) / "memory")
    before, entries, after = _split(memory.read())
    # Without the identity, which each run gets anew; but an agent may have rewritten the whole file.
    identity, accounts, rest = before.partition("## Accounts\n")
    own = rest.partition("\n\n")[2] if accounts else _IDENTITY.sub("", identity)
    lines = [line.removeprefix("- ").strip() for line in [*own.splitlines(), *entries, *after.splitlines()]]
    return [line for line in lines if line and not line.startswith("#") and "(accepted by " not in line]


def _split(text: str) -> tuple[str, list[str], str]:
    """Return the text before the entries of `## Outputs`, those entries by line, and the text after them."""
    found = _SECTION.search(text if text.endswith("\n") else text + "\n")
    if found is None:
        gap = "\n\n" if text.strip() else ""
        return f"{text.rstrip()}{gap}{_HEADING}\n", [], ""
    entries = [line for line in found["body"].split("\n") if line.strip()]
    return text[: found.start()] + _HEADING + "\n", entries, text[found.end() :]


def _capped(before: str, entries: list[str], after: str) -> str:
    gap = "\n" if after else ""
    room = CAP - _bytes(before) - _bytes(after) - len(gap)
    sizes = [_bytes(entry) + 1 for entry in entries]
    first = 0
    while first < len(sizes) and sum(sizes[first:]) > room:
        first += 1
    return before + "".join(f"{entry}\n" for entry in entries[first:]) + gap + after


def _bytes(text: str) -> int:
    return len(text.encode())


def _cut_bytes(text: str, limit: int) -> str:
    return text if _bytes(text) <= limit else cut(text, limit).encode()[: limit - 3].decode(errors="ignore") + "…"
