"""Markdown and MDX, with the front matter that site generators know: YAML, TOML, JSON."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Iterator
from typing import Any

from hive_agents.errors import HiveError
from hive_agents.files import frontmatter
from hive_agents.importing.decoding import decode
from hive_agents.importing.html_in_markdown import without_html
from hive_agents.importing.imported import Imported, ImportFailure
from hive_agents.importing.literal import outside_code
from hive_agents.importing.mkdocs import without_extensions
from hive_agents.retrieval import first_heading

_TOML = re.compile(r"\+\+\+[ \t]*\n(?P<block>.*?)^\+\+\+[ \t]*(?:\n|\Z)", re.S | re.M)
# Templates' calls: Hugo, Jekyll and Liquid, Docusaurus' comments. The text between an opening and a closing call stays.
_SHORTCODE_BEGINS = re.compile(r"\{\{[<%]|\{%|\{/\*|<!--")
_SHORTCODE_ENDS = {"{{<": ("%}}", ">}}"), "{{%": ("%}}", ">}}"), "{%": ("%}",), "{/*": ("*/}",), "<!--": ("-->",)}
_SHORTCODE_WORDS = re.compile(r'\b(?:title|caption|alt|summary)\s*=\s*"([^"]*)"')
_MDX_STATEMENT = re.compile(
    r"^(?:import\s.+?(?:from\s+)?['\"][^'\"\n]+['\"];?|export\s.+?)(?=\n\s*\n|\n(?:import|export)\s|\Z)", re.S | re.M
)
# Nothing is tried in two ways: a tag that never ends would take long.
_JSX_TAG = re.compile(
    r"</?[A-Z][\w.]*+(?:\s(?:[^<>{}\"']++|\"[^\"]*+\"|'[^']*+'|\{(?:[^{}]++|\{[^{}]*+\})*+\})*+)?+/?>|</?>"
)
_JSX_WORDS = re.compile(r"\b(?:title|label|caption|alt|summary)=[\"']([^\"']*)[\"']")
_JSX_TEXT = re.compile(r"\{\s*(['\"`])((?:(?!\1).)*)\1\s*\}")


def from_markdown(data: bytes) -> Imported:
    text = decode(data)
    metadata, body, is_yaml = split(text)
    clean = without_html(outside_code(without_extensions(body), _without_shortcodes))
    if is_yaml and clean == body:
        return Imported(clean, _title(metadata), metadata, source=text)
    return Imported(clean, _title(metadata) or first_heading(clean) or None, metadata)


def from_mdx(data: bytes) -> Imported:
    metadata, body, _ = split(decode(data))
    body = outside_code(without_extensions(body), _without_jsx)
    clean = without_html(outside_code(body, _without_shortcodes))
    return Imported(clean, _title(metadata) or first_heading(clean) or None, metadata)


def _title(metadata: dict[str, Any]) -> str | None:
    title = metadata.get("title")
    return title if isinstance(title, str) else None


def split(text: str) -> tuple[dict[str, Any], str, bool]:
    """Return (front matter, body, whether it was YAML or none). Raises: ImportFailure."""
    toml = _TOML.match(text)
    if toml:
        try:
            return tomllib.loads(toml["block"], parse_float=frontmatter.number_text), text[toml.end() :], False
        except tomllib.TOMLDecodeError as error:
            raise ImportFailure(f"its front matter is not valid TOML: {error}") from None
        except RecursionError:
            raise ImportFailure("its front matter is nested too deeply") from None
    if re.match(r"\{[ \t]*\n?\s*\"", text):
        try:
            found, end = json.JSONDecoder(parse_float=frontmatter.number_text).raw_decode(text)
        except (ValueError, RecursionError):
            return {}, text, True  # a text that begins with a brace
        return (found, text[end:].lstrip("\n"), False) if isinstance(found, dict) else ({}, text, True)
    try:
        block, body = frontmatter.split(text, "")
        return frontmatter.values(block, ""), body, True
    except HiveError as error:
        found = error.diagnostics[0]
        why = found.message.removeprefix("the ").replace("front matter: ", "front matter is not valid YAML: ", 1)
        raise ImportFailure(f"its {why} (line {found.line}); {found.fix}") from None


def _without_shortcodes(text: str) -> str:
    return _dropped(_shortcodes(text), _SHORTCODE_WORDS, text)


def _shortcodes(text: str) -> Iterator[tuple[int, int]]:
    """Yield where calls begin and end; those that never end cost no more than one look for their end."""
    start = 0
    nearest: dict[str, int] = {}
    while (found := _SHORTCODE_BEGINS.search(text, start)) is not None:
        start = found.end()
        for end in _SHORTCODE_ENDS[found[0]]:
            if nearest.get(end, 0) < start:
                place = text.find(end, start)
                nearest[end] = len(text) if place < 0 else place
        place, end = min((nearest[end], end) for end in _SHORTCODE_ENDS[found[0]])
        if place < len(text):
            start = place + len(end)
            yield found.start(), start


def _without_jsx(text: str) -> str:
    text = _MDX_STATEMENT.sub("", text)
    return _JSX_TEXT.sub(r"\2", _dropped((found.span() for found in _JSX_TAG.finditer(text)), _JSX_WORDS, text))


def _dropped(places: Iterable[tuple[int, int]], words: re.Pattern[str], text: str) -> str:
    """Return the text without what is at `places`; titles and captions in it are words that readers see.

    A line that held nothing else goes with it.
    """
    parts, start = [], 0
    for begin, end in places:
        parts += [text[start:begin], f"\ue000{' '.join(words.findall(text[begin:end]))}\ue000"]
        start = end
    lines = "".join([*parts, text[start:]])
    lines = re.sub(r"^[ \t]*(?:\ue000\ue000[ \t]*)+(?:\n|\Z)", "", lines, flags=re.M)
    return lines.replace("\ue000", "")
