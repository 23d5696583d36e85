"""Markdown and MDX, with front matter in YAML, TOML or JSON; MkDocs' admonitions, tabs, attributes and snippets."""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any

from hive_agents.base import HiveError
from hive_agents.base.files import frontmatter
from hive_agents.documents import chunking
from hive_agents.readers.decoding import decode
from hive_agents.readers.html_in_markdown import outside_code, without_html
from hive_agents.readers.imported import Imported, ImportFailure

_INDENT = 4
_MOST_BLOCKS = 300_000
"""The most lines that begin a block. Each takes a parser up to 80 µs and 2 kB, and an index ends at 10,000 passages."""
_BEGINNING = re.compile(r"^[ \t]*(?:[-+*#>|=~`<]|\d{1,9}[.)]|$)", re.M)
_BLOCK = re.compile(
    r"(?P<indent> *)(?:(?:!!!|\?\?\?\+?)[ ]+(?P<kind>[\w-]+)(?:[ ]+[\w-]+)*|===[+!]?(?=[ ]+\"))"
    r"(?:[ ]+\"(?P<title>[^\"]*)\")?\s*"
)
_FENCE = re.compile(r" *(?P<fence>`{3,}|~{3,})")
# Also those of kramdown, and the anchors of Hugo and Docusaurus after headings.
_ITEM = r"(?:[.#][\w:-]+|[\w-]+=(?:\"[^\"\n]*\"|[\w-]+))"
_ATTRIBUTES = re.compile(rf"(?<![ \t])[ \t]*\{{(?::[^{{}}\n]*|[ ]?[.#][\w:-]+(?:[ ]+{_ITEM})*[ ]*)\}}(?=[ \t]*$)", re.M)
_SNIPPET = re.compile(r"^[ \t]*-{1,}8<-{1,}[ \t]+\"[^\"\n]*\"[ \t]*\n?", re.M)


def without_extensions(text: str, left_out: Counter[str]) -> str:
    """Return the text with admonitions and tabs as paragraphs below their titles, without attributes and snippets.

    Snippets, which are other files' texts, are counted in `left_out`.

    >>> without_extensions('!!! warning\\n    It is hot.\\n', Counter())
    '**Warning**\\n\\nIt is hot.\\n'
    >>> without_extensions("## Pairing {#pairing}\\n", Counter())
    '## Pairing\\n'
    """
    if "!!!" in text or "???" in text or "===" in text:
        text = "\n".join(_outdented(text.split("\n")))
    return outside_code(text, partial(_without_marks, left_out))


def _without_marks(left_out: Counter[str], text: str) -> str:
    text, snippets = _SNIPPET.subn("", text)
    left_out["snippets of other files"] += snippets
    return _ATTRIBUTES.sub("", text)


def _outdented(lines: list[str]) -> list[str]:
    """Return the lines with the contents of blocks outdented to the level of the blocks themselves."""
    outdented: list[str] = []
    columns: list[int] = []  # where the text of each open block begins
    fence = ""
    following = _widths_of_following(lines)
    for number, line in enumerate(lines):
        blank = not line.strip()
        while not fence and not blank and columns and _width(line) < columns[-1]:
            columns.pop()
        shown = line[min(_INDENT * len(columns), _width(line)) :]
        ticks = _FENCE.match(line)
        if fence:
            fence = "" if ticks and ticks["fence"].startswith(fence) and not line.strip().strip(fence[0]) else fence
        elif ticks:
            fence = ticks["fence"]
        elif (block := _BLOCK.fullmatch(line)) and (
            block["title"] or following[number] >= len(block["indent"]) + _INDENT
        ):
            columns.append(len(block["indent"]) + _INDENT)
            title = block["title"] if block["title"] is not None else (block["kind"] or "").capitalize()
            apart = [""] if any(below.strip() for below in lines[number + 1 : number + 2]) else []
            outdented += [f"{shown[: _width(shown)]}**{title}**", *apart] if title else []
            continue
        outdented.append("" if blank else shown)
    return outdented


def _widths_of_following(lines: list[str]) -> list[int]:
    """Return for each line the indentation of the next one that isn't blank, -1 where there is none."""
    widths, width = [-1] * len(lines), -1
    for number in range(len(lines) - 1, -1, -1):
        widths[number] = width
        width = _width(lines[number]) if lines[number].strip() else width
    return widths


def _width(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


_KEY = re.compile(r"[\w\"'.-]+:(?:\s|$)")
_ACCESS = re.compile(r"(?m)^[ \t\"']*(?:view|tenant)\b")
_DATE = re.compile(r"(?m)^([\w-]+:[ \t]*)(\d{4}-\d\d?-\d\d?(?:[Tt \t][\d:.Zz+ -]*[\d:.Zz+-])?)[ \t]*$")
_TOML = re.compile(r"\+\+\+[ \t]*\n(?P<block>.*?)^\+\+\+[ \t]*(?:\n|\Z)", re.S | re.M)
# Calls in templates of Hugo, Jekyll and Liquid, and comments. Text between an opening and a closing call stays.
_SHORTCODE_BEGINS = re.compile(r"\{\{[<%]|\{%|\{/\*|<!--")
_SHORTCODE_ENDS = {"{{<": ("%}}", ">}}"), "{{%": ("%}}", ">}}"), "{%": ("%}",), "{/*": ("*/}",), "<!--": ("-->",)}
_SHORTCODE_WORDS = re.compile(r'\b(?:title|caption|alt|summary)\s*=\s*"([^"]*)"')
_MDX_STATEMENT = re.compile(
    r"^(?:import\s.{1,2000}?(?:from\s+)?['\"][^'\"\n]+['\"];?|export\s.+?)(?=\n\s*\n|\n(?:import|export)\s|\Z)",
    re.S | re.M,
)
# Possessive throughout: a tag that never ends must not cause backtracking.
_JSX_TAG = re.compile(
    r"</?[A-Z][\w.]*+(?:\s(?:[^<>{}\"']++|\"[^\"]*+\"|'[^']*+'|\{(?:[^{}]++|\{[^{}]*+\})*+\})*+)?+/?>|</?>"
)
_JSX_WORDS = re.compile(r"\b(?:title|label|caption|alt|summary)=[\"']([^\"']*)[\"']")
_JSX_TEXT = re.compile(r"\{\s*(['\"`])((?:(?!\1).)*)\1\s*\}")


def from_markdown(data: bytes) -> Imported:
    text = decode(data)
    metadata, body, is_yaml = split(text)
    left_out: Counter[str] = Counter()
    clean = without_html(outside_code(without_extensions(body, left_out), partial(_without_shortcodes, left_out)))
    title = _title(metadata)
    naming, first = ("", "") if title else chunking.naming_heading(clean)
    if is_yaml and clean == body and naming == first:
        return Imported(clean, title, metadata, source=text)
    return Imported(clean, title or naming or None, metadata, left_out=left_out)


def from_mdx(data: bytes) -> Imported:
    metadata, body, _ = split(decode(data))
    left_out: Counter[str] = Counter()
    body = outside_code(without_extensions(body, left_out), _without_jsx)
    clean = without_html(outside_code(body, partial(_without_shortcodes, left_out)))
    return Imported(clean, _title(metadata) or chunking.naming_heading(clean)[0] or None, metadata, left_out=left_out)


def _title(metadata: dict[str, Any]) -> str | None:
    title = metadata.get("title")
    return title if isinstance(title, str) else None


def split(text: str) -> tuple[dict[str, Any], str, bool]:
    """Return (front matter, body, whether it was YAML or none). Raises: ImportFailure."""
    if next(islice(_BEGINNING.finditer(text), _MOST_BLOCKS, None), None):
        raise ImportFailure(f"over {_MOST_BLOCKS:,} headings, items, rows and paragraphs; split it")
    toml = _TOML.match(text)
    if toml:
        try:
            return tomllib.loads(toml["block"], parse_float=frontmatter.number_text), text[toml.end() :], False
        except tomllib.TOMLDecodeError as error:
            raise ImportFailure(f"its front matter is not valid TOML: {error}") from None
        except RecursionError:
            raise ImportFailure("its front matter is nested too deeply") from None
    if re.match(r"\{\s*\"", text):
        try:
            values, end = json.JSONDecoder(parse_float=frontmatter.number_text).raw_decode(text)
        except (ValueError, RecursionError):
            return {}, text, True  # a text that begins with a brace
        return (values, text[end:].lstrip("\n"), False) if isinstance(values, dict) else ({}, text, True)
    block = body = ""
    try:
        block, body = frontmatter.split(text, "")
        return frontmatter.values(block, ""), body, True
    except HiveError as error:
        if _is_prose(block):
            return {}, text, False
        with suppress(HiveError):
            if block:  # 30 February is a text
                return frontmatter.values(_DATE.sub(r"\1'\2'", block), ""), body, False
        fault = error.diagnostics[0]
        why = fault.message.removeprefix("the ").replace("front matter: ", "front matter is not valid YAML: ", 1)
        raise ImportFailure(f"its {why} (line {fault.line}); {fault.fix}") from None


def _is_prose(block: str) -> bool:
    """Return whether what stands between two rules is text: its first line, or most of them, are no keys.

    >>> _is_prose("Some words.\\nOthers: here.\\nAnd more."), _is_prose("title: [\\nauthor: a"), _is_prose("")
    (True, False, False)
    """
    if _ACCESS.search(block):
        return False  # who may view a document isn't guessed
    lines = [line for line in block.split("\n") if line.strip() and not line.startswith((" ", "\t", "#", "- "))]
    odd = [_KEY.match(line) is None for line in lines]
    return any(odd[:1]) or sum(odd) * 2 > len(odd)


def _without_shortcodes(left_out: Counter[str], text: str) -> str:
    spans = list(_shortcodes(text))
    left_out["calls of templates"] += sum(not text.startswith(("<!--", "{/*"), begin) for begin, _ in spans)
    return _dropped(spans, _SHORTCODE_WORDS, text)


def _shortcodes(text: str) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of calls; the search for each kind of end is done once for all calls before it."""
    start = 0
    nearest: dict[str, int] = {}
    while (call := _SHORTCODE_BEGINS.search(text, start)) is not None:
        start = call.end()
        for end in _SHORTCODE_ENDS[call[0]]:
            if nearest.get(end, 0) < start:
                place = text.find(end, start)
                nearest[end] = len(text) if place < 0 else place
        place, end = min((nearest[end], end) for end in _SHORTCODE_ENDS[call[0]])
        if place < len(text):
            start = place + len(end)
            yield call.start(), start


def _without_jsx(text: str) -> str:
    text = _MDX_STATEMENT.sub("", text)
    return _JSX_TEXT.sub(r"\2", _dropped((tag.span() for tag in _JSX_TAG.finditer(text)), _JSX_WORDS, text))


def _dropped(spans: Iterable[tuple[int, int]], words: re.Pattern[str], text: str) -> str:
    """Return the text with each span replaced by its titles and captions, which `words` finds.

    A line with only spans that have none is removed.
    """
    parts, start = [], 0
    for begin, end in spans:
        parts += [text[start:begin], f"\ue000{' '.join(words.findall(text[begin:end]))}\ue000"]
        start = end
    lines = "".join([*parts, text[start:]])
    lines = re.sub(r"^[ \t]*(?:\ue000\ue000[ \t]*)+(?:\n|\Z)", "", lines, flags=re.M)
    return lines.replace("\ue000", "")
