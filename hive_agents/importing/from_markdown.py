"""Markdown and MDX, with the front matter that site generators know: YAML, TOML, JSON."""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any

from hive_agents.errors import HiveError
from hive_agents.files import frontmatter
from hive_agents.importing.decoding import decode
from hive_agents.importing.imported import Imported, ImportFailure
from hive_agents.retrieval import first_heading

_TOML = re.compile(r"\+\+\+[ \t]*\n(?P<block>.*?)^\+\+\+[ \t]*(?:\n|\Z)", re.S | re.M)
_FENCE = re.compile(
    r"^(?P<indent> {0,3})(?P<mark>`{3,}|~{3,})[^\n]*\n.*?(?:^ {0,3}(?P=mark)[`~]*[ \t]*$|\Z)", re.S | re.M
)
_CODE_SPAN = re.compile(r"(?P<ticks>`+)(?!`).+?(?<!`)(?P=ticks)(?!`)", re.S)
# Templates' calls: Hugo, Jekyll and Liquid, Docusaurus' comments. The text between an opening and a closing call stays.
_SHORTCODE = re.compile(r"\{\{[<%].*?[%>]\}\}|\{%-?.*?-?%\}|\{/\*.*?\*/\}|<!--.*?-->", re.S)
_SHORTCODE_WORDS = re.compile(r'\b(?:title|caption|alt|summary)\s*=\s*"([^"]*)"')
_MDX_STATEMENT = re.compile(
    r"^(?:import\s.+?(?:from\s+)?['\"][^'\"\n]+['\"];?|export\s.+?)(?=\n\s*\n|\n(?:import|export)\s|\Z)", re.S | re.M
)
_JSX_TAG = re.compile(r"</?[A-Z][\w.]*(?:\s+(?:[^<>{}\"']|\"[^\"]*\"|'[^']*'|\{(?:[^{}]|\{[^{}]*\})*\})*)?\s*/?>|</?>")
_JSX_WORDS = re.compile(r"\b(?:title|label|caption|alt|summary)=[\"']([^\"']*)[\"']")
_JSX_TEXT = re.compile(r"\{\s*(['\"`])((?:(?!\1).)*)\1\s*\}")


def from_markdown(data: bytes) -> Imported:
    text = decode(data)
    metadata, body, is_yaml = split(text)
    clean = _outside_code(body, _without_shortcodes)
    if is_yaml and clean == body:
        return Imported(clean, _title(metadata), metadata, source=text)
    return Imported(clean, _title(metadata) or first_heading(clean) or None, metadata)


def from_mdx(data: bytes) -> Imported:
    metadata, body, _ = split(decode(data))
    clean = _outside_code(_outside_code(body, _without_jsx), _without_shortcodes)
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
    if re.match(r"\{[ \t]*\n?\s*\"", text):
        try:
            found, end = json.JSONDecoder(parse_float=frontmatter.number_text).raw_decode(text)
        except ValueError:
            return {}, text, True  # a text that begins with a brace
        return (found, text[end:].lstrip("\n"), False) if isinstance(found, dict) else ({}, text, True)
    try:
        block, body = frontmatter.split(text, "")
        return frontmatter.values(block, ""), body, True
    except HiveError as error:
        found = error.diagnostics[0]
        why = found.message.removeprefix("the ").replace("front matter: ", "front matter is not valid YAML: ", 1)
        raise ImportFailure(f"its {why} (line {found.line}); {found.fix}") from None


def _outside_code(text: str, change: Any) -> str:
    """Return the text, changed everywhere but in fences and code spans."""
    parts, start = [], 0
    code = re.compile(f"{_FENCE.pattern}|{_CODE_SPAN.pattern}", re.S | re.M)
    for found in code.finditer(text):
        parts += [change(text[start : found.start()]), found[0]]
        start = found.end()
    return "".join([*parts, change(text[start:])])


def _without_shortcodes(text: str) -> str:
    return _dropped(_SHORTCODE, _SHORTCODE_WORDS, text)


def _without_jsx(text: str) -> str:
    text = _MDX_STATEMENT.sub("", text)
    return _JSX_TEXT.sub(r"\2", _dropped(_JSX_TAG, _JSX_WORDS, text))


def _dropped(pattern: re.Pattern[str], words: re.Pattern[str], text: str) -> str:
    """Return the text without what the pattern finds; titles and captions in it are words that readers see.

    A line that held nothing else goes with it.
    """

    def kept(found: re.Match[str]) -> str:
        return " ".join(words.findall(found[0]))

    lines = pattern.sub(lambda found: f"\ue000{kept(found)}\ue000", text)
    lines = re.sub(r"^[ \t]*(?:\ue000\ue000[ \t]*)+(?:\n|\Z)", "", lines, flags=re.M)
    return lines.replace("\ue000", "")
