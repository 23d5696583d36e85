"""HTML inside Markdown to Markdown; fences and code spans stay as they are."""

from __future__ import annotations

import html
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Literal

from hive_agents.documents import blocks
from hive_agents.readers.markdown import fence, plain_lines

_FENCE = re.compile(
    r"^(?P<indent> {0,3})(?P<mark>`{3,}+|~{3,}+)[^\n]*\n.*?(?:^ {0,3}(?P=mark)[`~]*[ \t]*$|\Z)", re.S | re.M
)
_CODE = re.compile(rf"{_FENCE.pattern}|(?P<ticks>`+)", re.S | re.M)


def outside_code(text: str, change: Callable[[str], str]) -> str:
    """Return the text with `change` applied to all parts outside of fences and code spans."""
    parts, start = [], 0
    for begin, end in code_spans(text):
        parts += [change(text[start:begin]), text[begin:end]]
        start = end
    return "".join([*parts, change(text[start:])])


def code_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of fences and code spans; a span ends at the next run of as many backticks."""
    runs: dict[int, list[int]] = {}
    for run in re.finditer("`+", text):
        runs.setdefault(len(run[0]), []).append(run.start())
    start = 0
    while (opening := _CODE.search(text, start)) is not None:
        start = opening.end()
        if opening["ticks"] is not None:
            same = runs.get(len(opening["ticks"]), [])
            place = bisect_left(same, start)
            if place == len(same):
                continue
            start = same[place] + len(opening["ticks"])
        yield opening.start(), start


_Kind = Literal["code", "html", "text"]
_KINDS: dict[str, _Kind] = {"fence": "code", "code_block": "code", "html_block": "html"}
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r|\Z)")
_INSIDE_A_TAG = r"(?:[^<>\"']++|\"[^\"]*+\"|'[^']*+')*+"
_ELEMENT = re.compile(rf"<(?P<name>script|style|svg|template|pre)(?=[\s/>]){_INSIDE_A_TAG}>", re.I)
_INLINE = "a abbr acronym b bdi bdo big cite code data del dfn em font i img ins kbd mark nobr picture q s samp small "
_INLINE += "source span strike strong sub sup time tt u var video audio wbr"
_BLOCKS = "address article aside blockquote body br button caption center col colgroup dd details dialog div dl dt "
_BLOCKS += "fieldset figcaption figure footer form h1 h2 h3 h4 h5 h6 head header hr html iframe input label legend li "
_BLOCKS += "link main menu meta nav noscript object ol optgroup option p param picture pre section select summary "
_BLOCKS += "script style svg table tbody td template textarea tfoot th thead title tr ul"
_TAG = re.compile(
    rf"</?(?:(?:{'|'.join(_INLINE.split())})|(?P<block>{'|'.join(_BLOCKS.split())}))(?=[\s/>]){_INSIDE_A_TAG}>", re.I
)
_OWN_TAG = re.compile(rf"<[A-Za-z][\w.-]*\s+[\w:.-]+={_INSIDE_A_TAG}>|</[A-Za-z][\w.-]*\s*>")
"""A site's custom tag, by its attribute or end tag: a placeholder such as <name> has neither."""
_CAPTION = re.compile(r"\b(?:title|caption)=\"([^\"]*)\"")
_ANY_TAG = re.compile(rf"</?[A-Za-z][\w-]*+{_INSIDE_A_TAG}>")
_ENDED = re.compile(r"</[A-Za-z][\w-]*\s*>|<br\s*/?>", re.I)
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_SIGNS = frozenset("\\`*_[]<>#|~")
_INLINE_MARK, _BLOCK_MARK, _MARKS, _AFTER_A_TAG = "\ue001", "\ue002", "\ue001\ue002", "\ue003"


def without_html(text: str) -> str:
    r"""Return Markdown without HTML: text between tags stays, scripts and styles are removed, entities are resolved.

    Unknown tags without attributes are placeholders, and stay.

    >>> without_html("A <b>red</b> lamp &amp; <em>box</em>, `<b>`, &lt;name&gt;.<style>b {}</style>")
    'A red lamp & box, `<b>`, \\<name\\>.'
    """
    if "<" in text:
        text = _without_elements(text)
    elif "&" not in text:
        return text
    parts = []
    for kind, part in _parts(text):
        if kind == "html":
            part = re.sub(r"^[ \t]+", "", part, flags=re.M)  # without its tags it would be code
            begins = _TAG.match(part) or _OWN_TAG.match(part)  # its attributes may have backticks
            part = part if begins is None else _marked(begins[0]) + part[begins.end() :]
        parts.append(part if kind == "code" else _without_marks(outside_code(part, _marked)))
    return "".join(parts)


def without_tags(text: str) -> str:
    """Return a text without HTML, on one line; a text without end tags and <br> stays as it is.

    >>> without_tags("<p>Wash <b>both</b> hands &amp; dry&nbsp;them.</p><p>Twice.</p>"), without_tags("a <b> c &lt;")
    ('Wash both hands & dry them. Twice.', 'a <b> c &lt;')
    """
    if not _ENDED.search(text):
        return text
    plain = _TAG.sub(lambda tag: " " if tag["block"] else "", _without_elements(text))
    return " ".join(html.unescape(plain).split())


def _parts(text: str) -> Iterator[tuple[_Kind, str]]:
    """Yield (kind, text) of runs of lines as Markdown parses them; joined they are the text."""
    lines = [found[0] for found in _LINE.finditer(text) if found[0]]
    kinds: list[_Kind] = ["text"] * len(lines)
    for token in blocks.block_parser().parse(text):
        if token.type in _KINDS and token.map:
            first, last = token.map
            kinds[first:last] = [_KINDS[token.type]] * (min(last, len(lines)) - first)
    for kind, run in groupby(zip(kinds, lines, strict=True), key=lambda each: each[0]):
        yield kind, "".join(line for _, line in run)


def _without_elements(text: str) -> str:
    """Return the text without scripts, styles and the like, and with <pre> as fences."""
    if not _ELEMENT.search(text):
        return text
    spans: list[tuple[int, int]] = []
    at = 0
    for kind, part in _parts(text):
        spans += [(at, at + len(part))] if kind == "code" else [(at + a, at + b) for a, b in code_spans(part)]
        at += len(part)
    starts = [begin for begin, _ in spans]
    parts, start = [], 0
    never_closed: set[str] = set()
    for element in _ELEMENT.finditer(text):
        name = element["name"].lower()
        before = bisect_right(starts, element.start()) - 1
        if element.start() < start or name in never_closed or (before >= 0 and element.start() < spans[before][1]):
            continue
        end = re.compile(rf"</{name}\s*>", re.I).search(text, element.end())
        if end is None:
            never_closed.add(name)
            continue
        shown = html.unescape(_ANY_TAG.sub("", text[element.end() : end.start()])) if name == "pre" else ""
        parts += [text[start : element.start()], f"\n\n{fence(shown)}\n\n" if shown.strip() else ""]
        start = end.end()
    return "".join([*parts, text[start:]])


def _marked(text: str) -> str:
    """Return a text outside of code with a mark for each tag, and entities resolved."""
    text = _TAG.sub(lambda tag: _BLOCK_MARK if tag["block"] else _INLINE_MARK, text)
    text = _OWN_TAG.sub(lambda tag: _BLOCK_MARK + " ".join(_CAPTION.findall(tag[0])) + _BLOCK_MARK, text)
    return _ENTITY.sub(_sign, text)


def _without_marks(text: str) -> str:
    """Return the text without marks; lines with only tags become empty, or are removed if all were inline.

    What follows a line's first tag begins no heading, list, quote or table, as it did not with the tag before it.
    """
    text = re.sub(rf"^[ \t]*[{_MARKS}][ \t{_MARKS}]*(?=[-#+*>=_|~\d])", rf"\g<0>{_AFTER_A_TAG}", text, flags=re.M)
    text = re.sub(rf"^[ \t]*{_INLINE_MARK}[ \t{_INLINE_MARK}]*(?:\n|\Z)", "", text, flags=re.M)
    for pattern in (rf"^[ \t]*[{_MARKS}][ \t{_MARKS}]*$", rf"^[ \t]*[{_MARKS}]*{_BLOCK_MARK}[ \t{_MARKS}]*"):
        text = re.sub(pattern, "", text, flags=re.M)
    text = re.sub(rf"[ \t]*{_BLOCK_MARK}[ \t{_MARKS}]*$", "", text, flags=re.M)
    text = re.sub(rf"[ \t]*{_BLOCK_MARK}[ \t{_MARKS}]*", " ", text).replace(_INLINE_MARK, "")
    return re.sub(rf"{_AFTER_A_TAG}(.*)", lambda line: plain_lines(line[1]), text)


def _sign(entity: re.Match[str]) -> str:
    """Return the character of an entity, escaped for Markdown."""
    sign = html.unescape(entity[0])
    if sign == entity[0]:
        return sign
    if sign.isspace():
        return " "
    if sign == "&":
        return "\\&" if re.match(r"#?\w+;", entity.string[entity.end() : entity.end() + 40]) else "&"
    return "\\" + sign if sign in _SIGNS else sign
