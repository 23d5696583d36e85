"""Titles for references between files: a converter sees one file, Sphinx knows them all."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_LABEL = re.compile(r"^\.\. _`?(?P<label>[^:`]+)`?:\s*$")
_RULE = re.compile(r"^([=\-~^\"'`#*+.])\1{2,}\s*$")
_REFERENCE = re.compile(r":(?:std:)?(?P<role>ref|doc):`(?P<target>[^`<>]+)`")
_TOCTREE = re.compile(r"^(?P<head>\.\. toctree::\n(?:[ \t]+:.*\n)*)(?P<body>(?:[ \t]+\S.*\n|[ \t]*\n)*)", re.M)
_ENTRY = re.compile(r"^(?P<indent>[ \t]+)(?P<target>[^\s:<][^<\n]*?)[ \t]*$", re.M)


@dataclass(frozen=True)
class Titles:
    """`labels`: section title by label; `files`: title by path below docs/, without suffix."""

    labels: Mapping[str, str]
    files: Mapping[str, str]

    @classmethod
    def of(cls, sources: Mapping[str, str]) -> Titles:
        labels: dict[str, str] = {}
        files: dict[str, str] = {}
        for relative, text in sources.items():
            lines = text.splitlines()
            first = next(_titles(lines, 0), None)
            if first:
                files[relative.removesuffix(".txt")] = first
            for number, line in enumerate(lines):
                if found := _LABEL.match(line):
                    title = _title_below(lines, number + 1)
                    if title:
                        labels[found["label"].lower()] = title
        return cls(labels, files)


def with_titles(text: str, relative: str, titles: Titles) -> str:
    """The text, each reference without words of its own given its target's title."""
    folder = posixpath.dirname(relative)

    def title_of(target: str) -> str | None:
        path = posixpath.normpath(posixpath.join("/", folder, target)).lstrip("/")
        return titles.files.get(path.removesuffix(".txt"))

    def reference(found: re.Match[str]) -> str:
        target = " ".join(found["target"].split())
        title = titles.labels.get(target.lower()) if found["role"] == "ref" else title_of(target)
        return f":{found['role']}:`{title} <{target}>`" if title else found[0]

    def entry(found: re.Match[str]) -> str:
        title = title_of(found["target"])
        return f"{found['indent']}{title} <{found['target']}>" if title else found[0]

    def toctree(found: re.Match[str]) -> str:
        return found["head"] + _ENTRY.sub(entry, found["body"])

    return _REFERENCE.sub(reference, _TOCTREE.sub(toctree, text))


def _titles(lines: list[str], start: int) -> Iterator[str]:
    """Section titles from line `start` on, without markup."""
    for number in range(start, len(lines) - 1):
        line = lines[number]
        if line.strip() and line[0] not in " ." and not _RULE.match(line) and _RULE.match(lines[number + 1]):
            yield re.sub(r":[\w:-]+:`([^`<]+)(?: <[^`]*>)?`", r"\1", line).replace("`", "").replace("\\", "").strip()


def _title_below(lines: list[str], start: int) -> str | None:
    """The title of the section that a label stands above, if it stands above one."""
    for number in range(start, min(start + 12, len(lines))):
        line = lines[number]
        if not line.strip() or line.startswith(("..", "  ")) or _RULE.match(line):
            continue
        below = lines[number + 1] if number + 1 < len(lines) else ""
        return next(_titles(lines, number)) if _RULE.match(below) else None
    return None
