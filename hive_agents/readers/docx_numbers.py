"""Numbers that Word prints before paragraphs and headings: `1.1`, `(a)`, `§ 3`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from xml.etree.ElementTree import Element

W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_LEVELS = 9
LONGEST_LABEL = 200
"""Signs around the number of a level: they stand before each of its items."""
_ROMAN = {"m": 1000, "cm": 900, "d": 500, "cd": 400, "c": 100, "xc": 90, "l": 50, "xl": 40, "x": 10, "ix": 9, "v": 5}
_ROMAN |= {"iv": 4, "i": 1}


def value(element: Element | None, name: str, default: str = "") -> str:
    """Return the `w:val` of a child, its default where there is none."""
    child = element.find(W + name) if element is not None else None
    return default if child is None else child.get(W + "val", default)


@dataclass
class _Level:
    form: str = "decimal"
    text: str = ""
    start: int = 1
    legal: bool = False


@dataclass
class _List:
    """A list's levels, and the numbers that were printed last."""

    levels: dict[int, _Level] = field(default_factory=dict)
    styles: dict[str, int] = field(default_factory=dict)
    counted: list[int | None] = field(default_factory=lambda: [None] * _LEVELS)


class Numbers:
    """The lists of a document. Called for its paragraphs in order, it tells the number of each."""

    def __init__(self, numbering: Element | None, styles: Element | None) -> None:
        self._lists: dict[str, _List] = {}
        self._restarts: dict[tuple[str, int], int] = {}
        self._of: dict[str, str] = {}
        self._styles: dict[str, tuple[str, str, str]] = {}  # style -> (numId, level, the style that it is based on)
        self._run: dict[tuple[str, int], int] = {}
        for abstract in numbering.iter(W + "abstractNum") if numbering is not None else ():
            self._lists[abstract.get(W + "abstractNumId", "")] = _read_list(abstract)
        for number in numbering.iter(W + "num") if numbering is not None else ():
            self._read_number(number)
        for style in styles.iter(W + "style") if styles is not None else ():
            numbered = style.find(f"{W}pPr/{W}numPr")
            self._styles[style.get(W + "styleId", "")] = (
                value(numbered, "numId"),
                value(numbered, "ilvl"),
                value(style, "basedOn"),
            )

    def _read_number(self, number: Element) -> None:
        name = number.get(W + "numId", "")
        self._of[name] = value(number, "abstractNumId")
        for changed in number.iter(W + "lvlOverride"):
            start = value(changed, "startOverride")
            if start.isdecimal():
                self._restarts[name, int(changed.get(W + "ilvl", "0"))] = int(start)

    def label(self, paragraph: Element, *, heading: bool) -> str | None:
        """Return what is printed before a paragraph, "" where a Markdown list says the same, None for no item."""
        name, depth = self._place(paragraph)
        numbered = self._lists.get(self._of.get(name, ""))
        level = numbered.levels.get(depth) if numbered is not None else None
        if numbered is None or level is None:
            self._run.clear()
            return None
        if level.form == "bullet":
            return ""
        number = self._count(numbered, name, depth)
        self._run = {key: last for key, last in self._run.items() if key[1] <= depth}
        follows = self._run.get((name, depth), 0) + 1 == number
        if not heading and follows and re.fullmatch(rf"%{depth + 1}[.)]", level.text) and level.form == "decimal":
            self._run[name, depth] = number
            return ""
        return re.sub(r"%([1-9])", lambda found: self._printed(numbered, int(found[1]) - 1, level.legal), level.text)

    def _place(self, paragraph: Element) -> tuple[str, int]:
        """Return the list and the level of a paragraph, by itself or by its style."""
        own = paragraph.find(f"{W}pPr/{W}numPr")
        name, depth = value(own, "numId"), value(own, "ilvl")
        style = first = value(paragraph.find(W + "pPr"), "pStyle")
        for _ in range(_LEVELS):
            if name or style not in self._styles:
                break
            name, its_depth, style = self._styles[style]
            depth = depth or its_depth
        numbered = self._lists.get(self._of.get(name, ""))
        if not depth and numbered is not None and first in numbered.styles:
            return name, numbered.styles[first]
        return name, min(int(depth), _LEVELS - 1) if depth.isdecimal() else 0

    def _count(self, numbered: _List, name: str, depth: int) -> int:
        counted = numbered.counted
        restart = self._restarts.pop((name, depth), None)
        before = counted[depth]
        number = restart if restart is not None else numbered.levels[depth].start if before is None else before + 1
        counted[depth:] = [number, *[None] * (_LEVELS - depth - 1)]
        return number

    def _printed(self, numbered: _List, depth: int, legal: bool) -> str:
        level = numbered.levels.get(depth, _Level())
        number = numbered.counted[depth]
        return formatted(level.start if number is None else number, "decimal" if legal else level.form)


def _read_list(abstract: Element) -> _List:
    found = _List()
    for level in abstract.iter(W + "lvl"):
        depth, start = int(level.get(W + "ilvl", "0")), value(level, "start", "0")
        if depth >= _LEVELS:
            continue
        legal = level.find(W + "isLgl") is not None
        form, text = value(level, "numFmt", "decimal"), value(level, "lvlText")[:LONGEST_LABEL]
        found.levels[depth] = _Level(form, text, int(start) if start.isdecimal() else 0, legal)
        if style := value(level, "pStyle"):
            found.styles[style] = depth
    return found


def formatted(number: int, form: str) -> str:
    """Return a number in a form of lists, by its name in Word.

    >>> [formatted(4, form) for form in ("decimal", "lowerRoman", "upperLetter", "decimalZero", "ordinal", "none")]
    ['4', 'iv', 'D', '04', '4th', '']
    """
    if form.endswith("Roman"):
        text = ""
        for sign, worth in _ROMAN.items():
            text += sign * (min(number, 5000) // worth)
            number %= worth
    elif form.endswith("Letter"):
        text = chr(ord("a") + (number - 1) % 26) * min((number - 1) // 26 + 1, 10)
    elif form == "ordinal":
        teen = number % 100 // 10 == 1
        text = f"{number}{'th' if teen else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"
    else:
        return "" if form == "none" else f"{number:02d}" if form == "decimalZero" else str(number)
    return text.upper() if form.startswith("upper") else text
