"""mdBook's includes: calls are replaced by lines of other files of the same source."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from hive_agents.readers import ImportFailure, decode, kind_of
from hive_agents.sync.sources import SourceFile

_CALL = re.compile(
    r"(?P<escape>\\)?\{\{\s*#(?:include|rustdoc_include|playground|playpen)\s+(?P<target>[^\s{}]++)[^{}\n]*\}\}"
)
_ANCHOR = re.compile(r"\bANCHOR(?P<end>_END)?:\s*(?P<name>[\w-]+)")
_MARKDOWN = ("markdown", "mdx")
_DEEPEST, _MOST_CALLS, _MOST_SIGNS = 10, 10_000, 5_000_000


def with_includes(data: bytes, file: PurePosixPath, files: Mapping[PurePosixPath, SourceFile]) -> tuple[bytes, int]:
    """Return a Markdown file with its includes expanded, and the number of calls that were dropped.

    Only `files`, those of its source by path, are read. A call is dropped, and its line if nothing else is on it, where
    its file is missing or can't be read, or has no such lines or anchor.
    """
    if kind_of(file.name) not in _MARKDOWN or b"{{" not in data:
        return data, 0
    try:
        text = decode(data)
    except ImportFailure:
        return data, 0  # reported by the conversion
    if not _CALL.search(text):
        return data, 0
    including = _Including(files)
    return including.expanded(text, (file,)).encode("utf-8", "surrogateescape"), including.dropped


@dataclass
class _Including:
    files: Mapping[PurePosixPath, SourceFile]
    dropped: int = 0
    calls: int = 0
    signs: int = 0

    def expanded(self, text: str, chain: tuple[PurePosixPath, ...]) -> str:
        """Return a text with its includes expanded; each file of `chain` includes the next, the last has the text."""
        return "".join(self._line(line, chain) for line in text.splitlines(keepends=True))

    def _line(self, line: str, chain: tuple[PurePosixPath, ...]) -> str:
        if "{{" not in line:
            return line
        alone = _CALL.fullmatch(line.strip())
        if alone is not None and not alone["escape"]:
            included = self._included(alone["target"], chain)
            margin = line[: len(line) - len(line.lstrip())]
            return "" if included is None else "".join(f"{margin}{each}\n" for each in included)
        return _CALL.sub(
            lambda call: call[0] if call["escape"] else "\n".join(self._included(call["target"], chain) or ()), line
        )

    def _included(self, target: str, chain: tuple[PurePosixPath, ...]) -> list[str] | None:
        """Return the lines that a call includes; None where it is dropped, which is counted."""
        name, _, part = target.partition(":")
        path = PurePosixPath(posixpath.normpath(posixpath.join(str(chain[-1].parent), name)))
        self.calls += 1
        lines = None
        if path in self.files and path not in chain and len(chain) <= _DEEPEST and self.calls <= _MOST_CALLS:
            lines = self._lines(path, part, chain)
        if lines is None or self.signs > _MOST_SIGNS:
            self.dropped += 1
            return None
        return lines

    def _lines(self, path: PurePosixPath, part: str, chain: tuple[PurePosixPath, ...]) -> list[str] | None:
        try:
            text = decode(self.files[path].read())
        except ImportFailure:
            return None
        lines = _part(text.splitlines(), part)
        if not lines:
            return None
        if kind_of(path.name) in _MARKDOWN:
            lines = self.expanded("\n".join(lines), (*chain, path)).splitlines()
        self.signs += sum(map(len, lines))
        return lines


def _part(lines: list[str], part: str) -> list[str]:
    """Return the lines of a target's part: all, one, a range, or those of an anchor.

    >>> [_part(["a", "b", "c"], part) for part in ("", "2", "2:", ":2", "2:3")]
    [['a', 'b', 'c'], ['b'], ['b', 'c'], ['a', 'b'], ['b', 'c']]
    >>> _part(["a", "// ANCHOR: x", "b", "// ANCHOR_END: x", "c"], "x")
    ['b']
    """
    first, colon, last = part.partition(":")
    if first and not first.isdecimal():
        return _anchored(lines, first)
    if part and all(not each or each.isdecimal() for each in (first, last)):
        begin = int(first or 1) - 1
        lines = lines[max(begin, 0) : (int(last) if last else None) if colon else begin + 1]
    return [line for line in lines if not _ANCHOR.search(line)]


def _anchored(lines: list[str], name: str) -> list[str]:
    anchored, inside = [], False
    for line in lines:
        mark = _ANCHOR.search(line)
        if mark is None:
            anchored += [line] if inside else []
        elif mark["name"] == name:
            inside = not mark["end"]
    return anchored
