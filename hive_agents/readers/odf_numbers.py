"""Numbers of headings and list items in OpenDocument texts, as their styles print them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from xml.etree.ElementTree import Element

from hive_agents.readers.docx_numbers import LONGEST_LABEL, formatted
from hive_agents.readers.odf import OdfFile, number_of

_FORMS = {"a": "lowerLetter", "A": "upperLetter", "i": "lowerRoman", "I": "upperRoman"}


class ListNumbers:
    """Counters of the lists of a text, by their styles and levels."""

    def __init__(self, file: OdfFile) -> None:
        trees = [tree for tree in (file.styles, file.content) if tree is not None]
        self._styles = {
            style.get("style:name", ""): _levels(style) for tree in trees for style in tree.iter("text:list-style")
        }
        self._outline = next((_levels(style) for tree in trees for style in tree.iter("text:outline-style")), {})
        self._headings: dict[int, int] = {}
        self._counts: dict[str, dict[int, int]] = {}
        self._open: list[str] = []

    def of_heading(self, heading: Element) -> str:
        """Return the number of a heading that is in no list, "" for none."""
        level = number_of(heading, "text:outline-level")
        if heading.get("text:is-list-header") == "true" or level not in self._outline:
            return ""
        return _label(self._outline, level, self._headings, heading)

    @contextmanager
    def of_list(self, element: Element) -> Iterator[Callable[[Element], str]]:
        """Enter a list; give what returns the label of each of its items, "" for a bullet."""
        style = element.get("text:style-name") or (self._open[-1] if self._open else "")
        self._open.append(style)
        level = len(self._open)
        goes_on = element.get("text:continue-numbering") == "true" or "text:continue-list" in element.attrib
        counts = self._counts.setdefault(self._open[0], {})  # lists within it have other levels, and perhaps styles
        if level == 1 and not goes_on:
            counts.clear()
        levels = self._styles.get(style, {})

        def numbered(item: Element) -> str:
            if item.tag != "text:list-item" or not len(item) or item[0].tag == "text:list" or level not in levels:
                return ""
            return _label(levels, level, counts, item)

        yield numbered
        self._open.pop()


def _levels(style: Element) -> dict[int, Element]:
    return {number_of(level, "text:level"): level for level in style if level.get("style:num-format")}


def _label(levels: dict[int, Element], level: int, counts: dict[int, int], item: Element) -> str:
    """Return the number of an item, and count it; levels below begin anew."""
    style = levels[level]
    start = number_of(style, "text:start-value")
    counts[level] = number_of(item, "text:start-value", counts.get(level, start - 1) + 1)
    for deeper in [each for each in counts if each > level]:
        del counts[deeper]
    shown = range(max(1, level - number_of(style, "text:display-levels") + 1), level + 1)
    parts = []
    for each in [each for each in shown if each in levels]:
        number = counts.get(each, number_of(levels[each], "text:start-value"))
        parts.append(formatted(number, _FORMS.get(levels[each].get("style:num-format", ""), "decimal")))
    around = (style.get(f"style:num-{where}", "")[:LONGEST_LABEL] for where in ("prefix", "suffix"))
    return ".".join(parts).join(around).strip()
