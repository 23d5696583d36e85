"""Paragraph styles of a DOCX that are headings or code, by outline level or name."""

from __future__ import annotations

import io
import re
import warnings
import zipfile
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass

from bs4 import BeautifulSoup, Tag

_STYLES, _TEXT = "word/styles.xml", "word/document.xml"
_USED = re.compile(r"<w:pStyle\s+w:val=[\"']([^\"']*)")
_BUILT_IN = re.compile(r"heading ([1-9])", re.I)
_BODY, _DEEPEST, _LONGEST_CHAIN = 9, 6, 20
_HEAD = r"(?:head(?:ing)?|hd|h|überschrift|titre|titolo|título|kop)"
_LEVEL = re.compile(rf"(?:{_HEAD} ?(?P<after>[1-6a-f])|(?P<before>[a-f]) ?(?:head(?:ing)?|hd))", re.I)
_TOP = re.compile(
    r"(?:(?:document|doc|book|chapter|part|section|appendix|article|front ?matter|back ?matter|kapitel)"
    r" ?(?:title|head(?:ing)?)|title)",
    re.I,
)
_CODE = re.compile(r"(?:box |source |program )?code(?: (?:wide|annotated|block|text|listing))?", re.I)


@dataclass(frozen=True)
class _Style:
    name: str
    based_on: str | None
    outline: int | None


def style_map(package: io.BytesIO) -> str:
    """Return mammoth's style map for the document's heading and code styles, a line each.

    A heading's level is the outline level of its style, or of the style that this is based on. Where no paragraph has
    such a style, headings are recognized by their styles' names: `HeadA` and `HeadB` below `ChapterTitle`.
    """
    with zipfile.ZipFile(package) as archive:
        if not {_STYLES, _TEXT} <= set(archive.namelist()):
            return ""
        styles = _styles(archive.read(_STYLES).decode("utf-8", "replace"))
        used = {*_USED.findall(archive.read(_TEXT).decode("utf-8", "replace"))} & styles.keys()
    levels = {style: level for style in styles if (level := _level(styles, style)) is not None}
    if levels.keys().isdisjoint(used):
        levels = dict(_named(styles, used))
    code = [style for style in used - levels.keys() if _CODE.fullmatch(_words(styles[style].name))]
    return "\n".join(
        [
            *(
                f"{_selector(styles[style])} => h{min(level, _DEEPEST)}:fresh"
                for style, level in sorted(levels.items())
            ),
            *(f"{_selector(styles[style])} => pre:separator('\\n')" for style in sorted(code)),
        ]
    )


def heading_styles(package: io.BytesIO) -> Set[str]:
    """Return the ids of the styles of headings."""
    with zipfile.ZipFile(package) as archive:
        if _STYLES not in archive.namelist():
            return frozenset()
        styles = _styles(archive.read(_STYLES).decode("utf-8", "replace"))
    return {style for style in styles if _level(styles, style) is not None}


def _styles(xml: str) -> dict[str, _Style]:
    """Return the paragraph styles by id."""
    styles: dict[str, _Style] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # bs4 warns of XML in an HTML parser
        soup = BeautifulSoup(xml, "html.parser")
    for style in soup.find_all("w:style", attrs={"w:type": "paragraph"}):
        name, level = _value(style, "w:name") or "", _value(style, "w:outlinelvl")
        outline = int(level) if level is not None and level.isdecimal() else None
        styles.setdefault(str(style.get("w:styleid")), _Style(name, _value(style, "w:basedon"), outline))
    return styles


def _value(style: Tag, name: str) -> str | None:
    part = style.find(name)
    return str(part["w:val"]) if part is not None and part.get("w:val") is not None else None


def _level(styles: Mapping[str, _Style], style: str | None) -> int | None:
    """Return the heading level of a style, or of the nearest one that it is based on; None for body text."""
    for _ in range(_LONGEST_CHAIN):
        current = styles.get(style) if style is not None else None
        if current is None:
            return None
        if current.outline is not None:
            return None if current.outline >= _BODY else current.outline + 1
        if built_in := _BUILT_IN.fullmatch(current.name):
            return int(built_in[1])
        style = current.based_on
    return None


def _named(styles: Mapping[str, _Style], used: Set[str]) -> Iterator[tuple[str, int]]:
    """Yield the styles whose names tell a level, with that level; titles are 1, the others then one deeper."""
    tops = {style for style in used if _TOP.fullmatch(_words(styles[style].name))}
    for style in used:
        if style in tops:
            yield style, 1
        elif named_level := _LEVEL.fullmatch(_words(styles[style].name)):
            sign = (named_level["after"] or named_level["before"]).lower()
            yield style, (int(sign) if sign.isdecimal() else ord(sign) - ord("a") + 1) + bool(tops)


def _words(name: str) -> str:
    """Return a style's name with spaces between its words.

    >>> _words("HeadA"), _words("Chapter_Title"), _words("A-Head")
    ('Head A', 'Chapter Title', 'A Head')
    """
    return " ".join(re.sub(r"(?<=[a-zß-ÿ])(?=[A-Z0-9])|[\s_-]+", " ", name).split())


def _selector(style: _Style) -> str:
    name = style.name.replace("\\", "\\\\").replace("'", "\\'")
    return f"p[style-name='{name}']"
