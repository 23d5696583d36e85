"""The pointer pattern: a long tool result is saved to a file, and the conversation gets a line with the file's name.

JSON is indented there, so that it can be read page by page.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from hive_agents.base import HiveError, cut, encodable
from hive_agents.memory.data_files import DataFiles


@dataclass(frozen=True, slots=True)
class ToolResult:
    """A tool's full result, or its error.

    >>> ToolResult("3 pages found").is_error
    False
    """

    content: str
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class Delivery:
    """The text for the conversation; `pointer` is the line that may replace it later, `file` the file's name."""

    content: str
    is_error: bool = False
    pointer: str | None = None
    file: str | None = None


LIMIT = 30_000
LOAD_DATA = "load_data"
_TOOL = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_NUMBERED = re.compile(r".+_(\d{1,9})\.txt", re.DOTALL)


class Spillover:
    """Saves long results of a run; without `files` they are cut.

    `limit` is `settings.agents.spillover_chars`, in characters. Files are `{tool}_{n}.txt`, numbered over all tools;
    the next number is read from the folder under its lock, so that neither a restart nor a parallel call uses one
    twice. A file that a crash left without its message stays, and its number is not used again.

    >>> Spillover(None, limit=10).deliver("web_search", ToolResult("a long answer")).content
    'a long ans\\n\\n[Result from web_search: 13 chars. Only first 10 chars shown]'
    """

    def __init__(self, files: DataFiles | None, *, limit: int = LIMIT) -> None:
        self.files = files
        self.limit = limit

    def deliver(self, tool: str, result: ToolResult) -> Delivery:
        """Return the text of a result for the conversation.

        Raises: HIVE-113 where the tool's name can't be part of a file's, HIVE-403 where the file can't be written.
        """
        text = encodable(result.content)
        shown = text[: self.limit]
        if result.is_error:
            return Delivery(text, is_error=True)
        if tool == LOAD_DATA:
            return Delivery(text if shown == text else f"{shown}\n\n{self._cut_page(len(text))}")
        if self.files is None:
            return Delivery(text if shown == text else f"{shown}\n\n{self._cut_short(tool, len(text))}")
        file = self._save(self.files, tool, text)
        pointer = f"[Saved to '{file}']" if shown == text else _too_large(tool, len(text), file)
        return Delivery(f"{shown}\n\n{pointer}", pointer=pointer, file=file)

    def _save(self, files: DataFiles, tool: str, text: str) -> str:
        require_tool_name(tool)
        with files.lock():
            number = files.next_number(_NUMBERED)
            taken = {one.name for one in files.list()}
            while (file := f"{tool}_{number}.txt") in taken:  # an agent saved one of that name
                number += 1
            files.seal(file, pretty(text))
        return file

    def _cut_page(self, chars: int) -> str:
        shown = f"[Cut at {self.limit:,} of {chars:,} chars."
        return f"{shown} Use offset/limit parameters to read smaller chunks.]"

    def _cut_short(self, tool: str, chars: int) -> str:
        return f"[Result from {tool}: {chars:,} chars. Only first {self.limit:,} chars shown]"


def require_tool_name(tool: str) -> None:
    """Raise HIVE-113 where a tool's name can't be part of a file's name; to be called before the tool runs."""
    if not _TOOL.fullmatch(tool):
        raise HiveError.of(
            "HIVE-113",
            f"the tool name {cut(ascii(tool), 80)} can't be part of a file's name",
            fix='name the tool with letters, digits, "_", "-" and ".", at most 128',
        )


def _too_large(tool: str, chars: int, file: str) -> str:
    saved = f"[Result from {tool}: {chars:,} chars — too large for context, saved to '{file}'."
    return f"{saved} Use load_data(filename='{file}') to read the full result.]"


_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')
_PAGED = 500


def pretty(text: str) -> str:
    """Return a JSON object or list indented by two; any other text, and JSON that has lines already, as it is.

    Parsing and printing again would lose doubled keys and rewrite numbers: only white space changes here.

    >>> print(pretty('{"n":1.50,"tags":["a",{}]}'))
    {
      "n": 1.50,
      "tags": [
        "a",
        {}
      ]
    }
    """
    start = text.lstrip()[:1]
    if start not in ("{", "[") or ("\n" in text and max(map(len, text.splitlines())) <= _PAGED):
        return text
    try:
        json.loads(text, parse_int=str)
    except (ValueError, RecursionError):
        return text
    return "".join(_pieces(_TOKEN.findall(text)))


def _pieces(tokens: list[str]) -> list[str]:
    pieces, depth, previous = [], 0, ""
    for token in tokens:
        if token in "}]":
            depth -= 1
            if previous not in "{[":
                pieces.append("\n" + "  " * depth)
        elif previous and previous in "{[,":
            pieces.append("\n" + "  " * depth)
        elif previous == ":":
            pieces.append(" ")
        if token in "{[":
            depth += 1
        pieces.append(token)
        previous = token
    return pieces
