"""Output of `man` and `pydoc` as ordinary plain text: sections, gutters and hyphenation."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_SECTION = re.compile(r"^[A-Z][A-Z0-9 ,/&'()-]{2,58}$")
_SUBSECTION = re.compile(r"^ {3}[A-Z]\S*(?: \S+){0,9}$")
_GUTTER = re.compile(r"^ *\|(?:  (?P<words>.*)|\s*)$")
_LEAST_GUTTER, _FIRST_LINES = 3, 12
_DIVIDED = "\u2010"
_HYPHEN = re.compile(rf"(?<=\w){_DIVIDED}$")


def plainer(lines: Sequence[str]) -> list[str]:
    """Return the lines with underlined sections, without the bars beside a class's text, with divided words joined.

    Sections are recognized only in a text that begins with one called NAME, as every manual page does; elsewhere a line
    of capitals may be anything.

    >>> plainer(["LS(1)", "", "NAME", "    ls - list files", "    of a direc\u2010", "    tory"])
    ['LS(1)', '', '', 'NAME', '====', '', '    ls - list files', '    of a directory']
    """
    plain = list(lines)
    if any(line.endswith(_DIVIDED) for line in plain):
        plain = list(_joined(plain))
    if any(line.lstrip().startswith("|") for line in plain):
        plain = list(_without_gutters(plain))
    first = [number for number, line in enumerate(plain) if line.strip()][:_FIRST_LINES]
    if not any(plain[number] == "NAME" and _is_section(plain, number) for number in first):
        return plain
    return list(_underlined(plain))


def _underlined(lines: Sequence[str]) -> Iterator[str]:
    for number, line in enumerate(lines):
        section, subsection = _is_section(lines, number), _is_subsection(lines, number)
        if section or subsection:
            yield from ("", line.strip(), ("=" if section else "-") * len(line.strip()), "")
        else:
            yield line


def _is_section(lines: Sequence[str], number: int) -> bool:
    """Return whether a line of capitals begins at the margin, and the text below it is indented."""
    return _SECTION.match(lines[number]) is not None and _below(lines, number).startswith("   ")


def _is_subsection(lines: Sequence[str], number: int) -> bool:
    alone = number == 0 or not lines[number - 1].strip()
    return (
        alone
        and _SUBSECTION.match(lines[number]) is not None
        and lines[number][-1] not in ".,;:"
        and _below(lines, number).startswith(" " * 7)
    )


def _below(lines: Sequence[str], number: int) -> str:
    return next((line for line in lines[number + 1 : number + 3] if line.strip()), "")


def _without_gutters(lines: Sequence[str]) -> Iterator[str]:
    run: list[str] = []
    for line in [*lines, None]:
        if line is not None and _GUTTER.match(line):
            run.append(line)
            continue
        if len(run) >= _LEAST_GUTTER:
            yield ""
            yield from (
                "    " + match["words"] if (match := _GUTTER.match(gutter)) and match["words"] else "" for gutter in run
            )
        else:
            yield from run
        run = []
        if line is not None:
            yield line


def _joined(lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines; words divided by a typographic hyphen are joined on the first of their lines."""
    rest = ""
    for number, line in enumerate(lines):
        if rest:
            line, rest = line.replace(rest, "", 1), ""
            if not line.strip():
                continue
        below = lines[number + 1].split() if number + 1 < len(lines) else []
        if below and _HYPHEN.search(line):
            line, rest = line[:-1] + below[0], below[0]
        yield line
