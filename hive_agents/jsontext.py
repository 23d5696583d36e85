"""Strict JSON with the place of every fault: people and agents edit these files by hand."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from hive_agents.errors import HiveError

_COMMENT = re.compile(r"//|/\*|#")
JsonPath = Sequence[str | int]


def decode(data: bytes, file: str) -> str:
    """UTF-8 text of `data`, or HIVE-112 with the line of the first bad byte."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise HiveError.of(
            "HIVE-112",
            f"byte 0x{data[error.start]:02x} is not UTF-8",
            file=file,
            path="$",
            line=line,
            fix="save the file as UTF-8",
        ) from None
    if text.startswith("\ufeff"):
        raise HiveError.of(
            "HIVE-112",
            "the file starts with a byte order mark",
            file=file,
            path="$",
            line=1,
            fix="save the file as UTF-8 without BOM",
        )
    return text


def parse(text: str, file: str) -> Any:
    """The value of a JSON text; HIVE-101 or HIVE-102 with file and line otherwise.

    Stricter than `json.loads`: duplicate keys, NaN and Infinity are errors.
    """
    try:
        return json.loads(text, object_pairs_hook=_no_duplicates, parse_constant=_no_constants)
    except json.JSONDecodeError as error:
        rest = text[error.pos :].lstrip()
        before = text[: error.pos].rstrip()
        if _COMMENT.match(rest) or before.endswith(("//", "/*", "#")):
            raise HiveError.of(
                "HIVE-102",
                "JSON has no comments",
                file=file,
                path="$",
                line=error.lineno,
                fix='remove the comment; put remarks into "description"',
            ) from None
        message, line = f"{error.msg} (column {error.colno})", error.lineno
    except RecursionError:
        message, line = "nested too deeply", 1
    except ValueError as error:
        message = str(error)
        found = re.match(r"duplicate key (\".*\")", message, re.S)
        line = _line_of_second(text, found.group(1)) if found else 1
    raise HiveError.of("HIVE-101", f"not valid JSON: {message}", file=file, path="$", line=line, fix=_FIX) from None


_FIX = "mend the JSON; a missing comma or quote often stands just before the place"


def line_of(text: str, path: JsonPath) -> int | None:
    """1-based line of the value at `path`, or of its nearest existing parent."""
    import yaml

    try:
        # JSON strings hold no raw tabs, so this changes white space only, which YAML is picky about.
        node = yaml.compose(text.replace("\t", " "), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, RecursionError):
        return None
    line: int | None = node.start_mark.line + 1 if node is not None else None
    for key in path:
        child = None
        if isinstance(node, yaml.MappingNode):
            for name, value in node.value:
                if name.value == str(key):
                    child, line = value, name.start_mark.line + 1
        elif isinstance(node, yaml.SequenceNode) and isinstance(key, int) and key < len(node.value):
            child = node.value[key]
            line = child.start_mark.line + 1
        if child is None:
            break
        node = child
    return line


def show_path(path: JsonPath) -> str:
    """
    >>> show_path(["queries", 0, "id"]), show_path([])
    ('queries[0].id', '$')
    """
    shown = ""
    for part in path:
        shown += f"[{part}]" if isinstance(part, int) else f".{part}" if shown else part
    return shown or "$"


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        names = [key for key, _ in pairs]
        twice = next(key for key in names if names.count(key) > 1)
        raise ValueError(f"duplicate key {json.dumps(twice)}")
    return value


def _no_constants(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def _line_of_second(text: str, quoted_key: str) -> int:
    first = text.find(quoted_key)
    second = text.find(quoted_key, first + 1)
    return text.count("\n", 0, max(first, second)) + 1
