"""Which paragraphs of a DOCX are headings: what its styles say, whatever a publisher calls them."""

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
    """Return what mammoth is to make of the document's own styles, a line for each that is a heading, or code.

    A style is a heading as deep as its outline level says, or that of the style that it is based on. Where no
    paragraph has such a style, those are headings that are called so: `HeadA` and `HeadB` below `ChapterTitle`.
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
            *(f"{_of(styles[style])} => h{min(level, _DEEPEST)}:fresh" for style, level in sorted(levels.items())),
            *(f"{_of(styles[style])} => pre:separator('\\n')" for style in sorted(code)),
        ]
    )


def _styles(xml: str) -> dict[str, _Style]:
    """Return the styles of paragraphs by id."""
    found: dict[str, _Style] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that another library reads XML better
        soup = BeautifulSoup(xml, "html.parser")
    for style in soup.find_all("w:style", attrs={"w:type": "paragraph"}):
        name, level = _value(style, "w:name") or "", _value(style, "w:outlinelvl")
        outline = int(level) if level is not None and level.isdecimal() else None
        found.setdefault(str(style.get("w:styleid")), _Style(name, _value(style, "w:basedon"), outline))
    return found


def _value(style: Tag, name: str) -> str | None:
    part = style.find(name)
    return str(part["w:val"]) if part is not None and part.get("w:val") is not None else None


def _level(styles: Mapping[str, _Style], style: str | None) -> int | None:
    """Return the level that a style says, or the nearest that it is based on; None of a text's."""
    for _ in range(_LONGEST_CHAIN):
        found = styles.get(style) if style is not None else None
        if found is None:
            return None
        if found.outline is not None:
            return None if found.outline >= _BODY else found.outline + 1
        if built_in := _BUILT_IN.fullmatch(found.name):
            return int(built_in[1])
        style = found.based_on
    return None


def _named(styles: Mapping[str, _Style], used: Set[str]) -> Iterator[tuple[str, int]]:
    """Yield the styles whose names say a level, below one that is a title if there is one."""
    tops = {style for style in used if _TOP.fullmatch(_words(styles[style].name))}
    for style in used:
        if style in tops:
            yield style, 1
        elif called := _LEVEL.fullmatch(_words(styles[style].name)):
            sign = (called["after"] or called["before"]).lower()
            yield style, (int(sign) if sign.isdecimal() else ord(sign) - ord("a") + 1) + bool(tops)


def _words(name: str) -> str:
    """Return a name in words.

    >>> _words("HeadA"), _words("Chapter_Title"), _words("A-Head")
    ('Head A', 'Chapter Title', 'A Head')
    """
    return " ".join(re.sub(r"(?<=[a-zß-ÿ])(?=[A-Z0-9])|[\s_-]+", " ", name).split())


def _of(style: _Style) -> str:
    name = style.name.replace("\\", "\\\\").replace("'", "\\'")
    return f"p[style-name='{name}']"
