"""Strict JSON with the line of every fault, for files that people and agents edit."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from hive_agents.base.errors import HiveError
from hive_agents.base.files.guarded import MAX_DEPTH, Exceeded, read_bytes, require_bounded

MAX_PLACED = 2_000_000
"""Characters of a text up to which faults get lines, which takes far longer than parsing."""
MAX_DIGITS = 300  # what a float can still hold

_COMMENT = re.compile(r"//|/\*|#")
_ESCAPE = re.compile(r"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|u(?P<lone>[dD][89a-fA-F]..)|.)", re.S)
JsonPath = Sequence[str | int]


def decode(data: bytes, file: str) -> str:
    """Return the UTF-8 text of `data`. Raises: HIVE-112 with the line of the first bad byte."""
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


def load_text(path: Path, file: str) -> str:
    """Return the text of a file that people write. Raises: HIVE-403 where it can't be read, HIVE-112 as `decode`."""
    try:
        return decode(read_bytes(path), file)
    except OSError as error:
        why = f"{file} cannot be read: {error.strerror}"
        raise HiveError.of("HIVE-403", why, file=file, path="$", fix="make it a readable file") from None


def require_own_name(what: str, id: str, name: str, file: str, text: str) -> None:
    """Raise HIVE-113 where the object in a file has another `id` than the file's `name`."""
    if id != name:
        raise HiveError.of(
            "HIVE-113",
            f'the {what} in {file} calls itself "{id}"',
            file=file,
            path="id",
            line=line_of(text, ["id"]),
            fix=f'write "id": "{name}", or rename the file',
        )


def non_finite(value: Any) -> JsonPath | None:
    """Return the path of the first number that JSON doesn't have, NaN or an infinity; None without one.

    >>> non_finite({"a": [1.5, float("nan")]}), non_finite({"a": 1e308})
    (('a', 1), None)
    """
    pending: list[tuple[tuple[str | int, ...], Any]] = [((), value)]
    while pending:
        path, part = pending.pop()
        if isinstance(part, float) and not math.isfinite(part):
            return path
        if isinstance(part, dict):
            pending += [((*path, str(name)), inner) for name, inner in part.items()]
        elif isinstance(part, list | tuple):
            pending += [((*path, number), inner) for number, inner in enumerate(part)]
    return None


def parse(text: str, file: str) -> Any:
    """Return the value of a JSON text. Raises: HIVE-101 or HIVE-102 with file and line.

    Stricter than `json.loads`: duplicate keys, NaN and Infinity are errors, and so are lone surrogates,
    numbers beyond a float and nesting over `MAX_DEPTH`, which other programs can't read.
    """
    try:
        value = json.loads(
            text,
            object_pairs_hook=_no_duplicates,
            parse_constant=_no_constants,
            parse_int=_bounded_int,
            parse_float=_finite_float,
        )
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
                fix="remove the comment",
            ) from None
        fix = "mend the JSON; a missing comma or quote often stands just before the place"
        raise _invalid(f"{error.msg} (column {error.colno})", file, error.lineno, fix) from None
    except RecursionError:
        raise _too_deep(file) from None
    except _Refused as refused:
        raise _invalid(str(refused), file, refused.line_in(text), refused.fix) from None
    try:
        require_bounded(value, size=len(text) + 1)
    except Exceeded:
        raise _too_deep(file) from None
    lone = next((match for match in _ESCAPE.finditer(text) if match["lone"]), None)
    if lone is not None:
        line = _line_at(text, lone.start())
        raise _invalid(f"{lone[0]} is half of a character", file, line, "write the character itself")
    return value


def object_in(text: str) -> dict[str, Any] | None:
    """Return the object that a text is in JSON; None for any other text.

    >>> object_in('{"a": 1}'), object_in("[1]"), object_in("one")
    ({'a': 1}, None, None)
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


class _Refused(ValueError):
    """Well-formed JSON that other programs could misread."""

    def __init__(self, message: str, fix: str, *, number: str | None = None, key: str | None = None) -> None:
        super().__init__(message)
        self.fix, self._number, self._key = fix, number, key

    def line_in(self, text: str) -> int | None:
        """Return the line of the number, or of the second use of the key."""
        import yaml

        nodes = [_composed(text)]
        while nodes:
            node = nodes.pop()
            if isinstance(node, yaml.MappingNode):
                same = [name for name, _ in node.value if name.value == self._key]
                if len(same) > 1:
                    return int(same[1].start_mark.line) + 1
                nodes += [value for _, value in reversed(node.value)]
            elif isinstance(node, yaml.SequenceNode):
                nodes += reversed(node.value)
            elif isinstance(node, yaml.ScalarNode) and node.style != '"' and node.value == self._number:
                return int(node.start_mark.line) + 1
        return None


def _invalid(message: str, file: str, line: int | None, fix: str) -> HiveError:
    return HiveError.of("HIVE-101", f"not valid JSON: {message}", file=file, path="$", line=line, fix=fix)


def _too_deep(file: str) -> HiveError:
    return _invalid("nested too deeply", file, 1, f"nest at most {MAX_DEPTH} levels")


def line_of(text: str, path: JsonPath) -> int | None:
    """Return the 1-based line of the value at `path`, or of its nearest existing parent."""
    import yaml

    node = _composed(text)
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


@lru_cache(maxsize=2)
def _composed(text: str) -> Any:
    """Return the text as YAML nodes, which have lines; cached, because a file with one fault often has many."""
    import yaml

    if len(text) > MAX_PLACED:
        return None
    try:
        # JSON strings hold no raw tabs, so this changes only white space, where YAML forbids tabs.
        return yaml.compose(text.replace("\t", " "), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, RecursionError):
        return None


def show_path(path: JsonPath) -> str:
    """Return a path as text.

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
        raise _Refused(f"duplicate key {json.dumps(twice)}", "keep one of them", key=twice)
    return value


def _no_constants(name: str) -> Any:
    raise _Refused(f"{name} is not a JSON number", "use a number, or null", number=name)


def _bounded_int(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise _Refused(f"{digits[:12]}… has {len(digits)} digits", "use a smaller number", number=digits)
    return int(digits)


def _finite_float(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise _Refused(f"{digits[:24]} is too large", "use a smaller number", number=digits)
    return value


def _line_at(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1
