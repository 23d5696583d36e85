"""A run's files: results of tools, and files that the agent writes."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from hive_agents.base import HiveError, did_you_mean, encodable
from hive_agents.base.files import atomic_write, disk_errors, locked, opened
from hive_agents.memory.names import file_name

LINE = 2000
_SEALED = 0o400
_OWNERS = 0o600


@dataclass(frozen=True, slots=True)
class DataFile:
    """`sealed` files were written by the runtime: a pointer in the conversation relies on them."""

    name: str
    size: int
    sealed: bool


@dataclass(frozen=True, slots=True)
class Page:
    """Lines of a file from `offset` on; `next_offset` is None where the file ends."""

    text: str
    offset: int
    lines: int
    total_lines: int

    @property
    def next_offset(self) -> int | None:
        end = self.offset + self.lines
        return end if end < self.total_lines else None


class TextFile(Protocol):
    """A file that lives elsewhere and still answers to a name, such as adapt.md."""

    def read(self) -> str: ...

    def save(self, text: str) -> None: ...

    def edit(self, old: str, new: str) -> None: ...


class DataFiles:
    """The files in one folder, flat; `elsewhere` adds files that are kept in another place.

    >>> import tempfile, pathlib
    >>> files = DataFiles(pathlib.Path(tempfile.mkdtemp()) / "r1")
    >>> files.save("plan.md", "one\\ntwo\\n")
    >>> files.edit("plan.md", "two", "three")
    >>> files.load("plan.md", offset=1).text, [file.name for file in files.list()]
    ('three\\n', ['plan.md'])
    """

    def __init__(self, folder: Path, elsewhere: dict[str, TextFile] | None = None) -> None:
        self.folder = folder
        self.elsewhere = elsewhere or {}

    def load(self, filename: str, offset: int = 0, limit: int | None = None) -> Page:
        """Return `limit` lines after the first `offset` ones, including line ends.

        A line over 2,000 characters counts as several: paging reaches every character.

        Raises: HIVE-105 for a negative number, HIVE-107 for no such file, HIVE-112 for no text, HIVE-113 for its name.
        """
        if offset < 0 or (limit is not None and limit < 0):
            raise _refused("HIVE-105", "offset and limit can't be negative", "count lines from 0")
        lines = _lines(self.read(filename))
        shown = lines[offset:] if limit is None else lines[offset : offset + limit]
        return Page("".join(shown), offset, len(shown), len(lines))

    def read(self, filename: str) -> str:
        """Return the whole text. Raises: HIVE-107, HIVE-112, HIVE-113."""
        if filename in self.elsewhere:
            return self.elsewhere[filename].read()
        path = self._path(filename)
        if not path.is_file():
            fix = did_you_mean(filename, [file.name for file in self.list()], "list the data files to see their names")
            raise _refused("HIVE-107", f"there is no file {filename}", fix)
        return _read(path)

    def save(self, filename: str, text: str) -> None:
        """Write a file, or replace it. Raises: HIVE-113; HIVE-409 for a sealed file; HIVE-403."""
        if filename in self.elsewhere:
            self.elsewhere[filename].save(text)
            return
        with self.lock():
            atomic_write(self._writable(filename), encodable(text).encode(), mode=_OWNERS)

    def edit(self, filename: str, old: str, new: str) -> None:
        """Replace the only occurrence of `old`.

        Raises: HIVE-409 where it doesn't occur exactly once, or the file is sealed; HIVE-107, HIVE-112, HIVE-113.
        """
        if filename in self.elsewhere:
            self.elsewhere[filename].edit(old, new)
            return
        with self.lock():
            path = self._writable(filename)
            text = replace_once(self.read(filename), old, new, filename)
            atomic_write(path, encodable(text).encode(), mode=_OWNERS)

    def list(self) -> list[DataFile]:
        """Return the files by name, digits sorted as numbers; sizes in bytes."""
        found = []
        if self.folder.is_dir() and not self.folder.is_symlink():
            with os.scandir(self.folder) as entries:
                for entry in entries:
                    if entry.is_file(follow_symlinks=False) and not entry.name.startswith("."):
                        found.append(DataFile(entry.name, entry.stat().st_size, _sealed(entry.stat())))
        return sorted(found, key=lambda file: _natural(file.name))

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the writers' lock, of all threads and processes."""
        self._require_real_folder()
        with locked(self.folder / ".lock", "writing the files of this run"):
            yield

    def seal(self, filename: str, text: str) -> None:
        """Write a file that neither `save` nor `edit` changes afterwards; under `lock`."""
        path = self._writable(filename)
        atomic_write(path, encodable(text).encode(), mode=_SEALED)

    def next_number(self, pattern: re.Pattern[str]) -> int:
        """Return one more than the highest number that `pattern`'s group finds in the name of a sealed file; under
        `lock`.

        Files that agents save under such names don't count: they could use up the numbers.
        """
        sealed = [file.name for file in self.list() if file.sealed]
        return max((int(found[1]) for name in sealed if (found := pattern.fullmatch(name))), default=0) + 1

    def _writable(self, filename: str) -> Path:
        path = self._path(filename)
        if path.exists() and _sealed(path.stat()):
            why = f"{filename} is a saved result, which stays as it is"
            raise _refused("HIVE-409", why, "save the new text under another name")
        return path

    def _path(self, filename: str) -> Path:
        path = self.folder / file_name(filename)
        self._require_real_folder()
        if path.is_symlink():
            raise _refused("HIVE-113", f"{filename} is a link, which may lead out of the folder", "name a plain file")
        return path

    def _require_real_folder(self) -> None:
        if self.folder.is_symlink():
            raise _refused("HIVE-113", f"the folder {self.folder.name} is a link", "remove the link from .hive/")


def replace_once(text: str, old: str, new: str, filename: str) -> str:
    """Return the text with `old` replaced. Raises: HIVE-409 where it doesn't occur exactly once."""
    count = text.count(old) if old else 0
    if count != 1:
        where = "is empty" if not old else "doesn't occur" if not count else f"occurs {count} times"
        raise _refused("HIVE-409", f"the text to replace {where} in {filename}", "quote enough to name one place")
    return text.replace(old, new)


def _read(path: Path) -> str:
    # Opened without following links and without waiting for a pipe: the name was checked, the file may have changed.
    with disk_errors(path):
        handle = opened(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(handle, "rb") as file:
            data = file.read()
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise _refused("HIVE-112", f"{path.name} is not UTF-8 text", "save it as text") from None


def _lines(text: str) -> list[str]:
    # Only \n ends a line: the other separators of str.splitlines stand inside lines of tool results.
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)
    return [line[at : at + LINE] for line in lines for at in range(0, len(line), LINE)]


def _natural(name: str) -> list[tuple[str, int]]:
    return [(text, int(digits or 0)) for text, digits in re.findall(r"([^0-9]*)([0-9]*)", name)]


def _sealed(status: os.stat_result) -> bool:
    return not status.st_mode & stat.S_IWUSR


def _refused(code: str, message: str, fix: str) -> HiveError:
    return HiveError.of(code, message, fix=fix)
