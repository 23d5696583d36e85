"""Front matter, the YAML between the `---` lines of a document, parsed alike for index, permissions and imports."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Mapping
from typing import Any

import yaml

from hive_agents.base.errors import HiveError

_FENCE = re.compile(r"^(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.M)
_OPENED = re.compile(r"---[ \t]*\r?\n(?P<key>[\w-]+[ \t]*:)?")
MAX_FRONT_MATTER = 64_000
MAX_NESTING = 20
# PyYAML's constructors raise all of these on odd scalars and tags.
_BUILD_FAILURES = (ValueError, ArithmeticError, LookupError, AttributeError, TypeError, AssertionError)
_FIX = "front matter is YAML: `key: value` a line, and quotes around values with a colon"


def split(text: str, file: str) -> tuple[str, str]:
    """Return (YAML, body) of a document; the YAML is empty where there is none.

    Raises: HIVE-108 where it isn't closed.
    """
    opened = _OPENED.match(text)
    if opened is None:
        return "", text
    parts = _FENCE.split(text, 2)
    if len(parts) == 3:
        return parts[1], parts[2]
    if opened["key"] is None:  # then it is a thematic break, and all of the text is body
        return "", text
    raise _refused("the front matter has no closing ---", file, 1, "add a line ---")


def parse(text: str, file: str) -> dict[str, Any]:
    """Return the YAML's keys and values as JSON values. Raises: HIVE-108 with the line in the file."""
    return {_utf8(key): plain(value) for key, value in values(text, file).items()}


def values(text: str, file: str) -> dict[str, Any]:
    """Return the YAML's keys and values with YAML's types, such as dates. Raises: HIVE-108 as `parse`."""
    if len(text) > MAX_FRONT_MATTER:
        why = f"the front matter is over {MAX_FRONT_MATTER} characters"
        raise _refused(why, file, 1, "move the text into the body")
    try:
        metadata = yaml.load(text, _Loader)
    except _Unusable as error:
        raise _refused(str(error.problem), file, _line(error), error.fix) from None
    except yaml.YAMLError as error:
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        position = getattr(error, "position", None)  # a character that YAML forbids has no mark
        line = text.count("\n", 0, position) + 2 if isinstance(position, int) else _line(error)
        raise _refused(f"front matter: {problem}", file, line) from None
    except _BUILD_FAILURES as error:
        raise _refused(f"front matter: {error}", file, _bad_value(text)) from None
    except RecursionError:
        raise _refused("front matter: nested too deeply", file, 1) from None
    if metadata is None:
        return {}
    if not isinstance(metadata, dict) or not all(isinstance(key, str) for key in metadata):
        raise _refused("front matter is not a list of `key: value` lines", file, 2)
    return metadata


def number_text(text: str) -> float | str:
    """Return the number in a text that Python would write in the same way, else the text: version 3.10 isn't 3.1.

    >>> number_text("3.5"), number_text("3.10")
    (3.5, '3.10')
    """
    number = float(text)
    return number if str(number) == text else text


def render(metadata: Mapping[str, Any], body: str) -> str:
    """Return a document's text; without metadata the body alone, after empty front matter if it starts like one."""
    if not metadata:
        return "---\n---\n" + body if body.startswith("---") else body
    head = yaml.dump(dict(metadata), Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=1000).strip()
    return f"---\n{head}\n---\n\n{body.lstrip(chr(10))}"


def _refused(message: str, file: str, line: int, fix: str = _FIX) -> HiveError:
    return HiveError.of("HIVE-108", message, file=file, line=line, fix=fix)


def _line(error: Any) -> int:
    """Return the line in the file, whose first line is the fence."""
    mark = getattr(error, "problem_mark", None)
    return 1 if mark is None else int(mark.line) + 2


def _bad_value(text: str) -> int:
    """Return the file's line of the first key or value that can't be constructed, such as 30 February."""
    loader = yaml.SafeLoader(text)
    try:
        top: Any = loader.get_single_node()
        for node in (node for pair in top.value for node in pair) if isinstance(top, yaml.MappingNode) else ():
            try:
                loader.construct_object(node, deep=True)
            except (*_BUILD_FAILURES, yaml.YAMLError):
                return int(node.start_mark.line) + 2
        return 1
    finally:
        loader.dispose()


def plain(value: Any) -> Any:
    """Return the value with JSON's types."""
    if isinstance(value, dict):
        return {_utf8(str(key)): plain(item) for key, item in value.items()}
    if isinstance(value, (list, set, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (dt.date, dt.datetime, dt.time)):
        return value.isoformat()
    if isinstance(value, str):
        return _utf8(value)
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    return str(value)


def _utf8(text: str) -> str:
    r"""Return the text with surrogate pairs joined: YAML reads the escapes `\ud83d\ude00` as two characters.

    >>> _utf8("\ud83d\ude00") == "\U0001f600", _utf8("\ud83d!")
    (True, '\ufffd!')
    """
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class _Unusable(yaml.MarkedYAMLError):
    """Valid YAML that is not allowed in front matter; with `problem` and `fix`."""

    def __init__(self, problem: str, mark: Any, fix: str) -> None:
        super().__init__(problem=problem, problem_mark=mark)
        self.fix = fix


class _Loader(yaml.SafeLoader):
    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):  # it can expand to gigabytes, and is useless in front matter
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise _Unusable("front matter can't use YAML aliases", mark, "repeat the value")
        self._depth = getattr(self, "_depth", 0) + 1
        if self._depth > MAX_NESTING:  # PyYAML's time grows with the square of the depth
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            why = f"front matter: nested too deeply, more than {MAX_NESTING} levels"
            raise _Unusable(why, mark, "write it flatter")
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1

    def construct_document(self, node: Any) -> Any:
        _require_distinct_keys(node)
        return super().construct_document(node)


def _round_tripping(construct: Any) -> Any:
    """Return a constructor that keeps the text unless the value is written in the same way.

    So 3.10, a version, 007 and `NO`, a country, stay texts.
    """

    def value(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> Any:
        text = str(node.value)
        constructed = construct(loader, node)
        if isinstance(constructed, float) and not math.isfinite(constructed):
            return constructed
        written, read = str(constructed), text
        if isinstance(constructed, bool):
            written, read = written.lower(), read.lower()
        return constructed if written == read else text

    return value


for _tag, _construct in (
    ("int", _Loader.construct_yaml_int),
    ("float", _Loader.construct_yaml_float),
    ("bool", _Loader.construct_yaml_bool),
):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_tag}", _round_tripping(_construct))


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def _require_distinct_keys(top: Any) -> None:
    """Raise `_Unusable` for a key that occurs twice: YAML would drop its first value."""
    pending = [top]
    while pending:
        node = pending.pop()
        if isinstance(node, yaml.MappingNode):
            seen = set()
            for key, value in node.value:
                if isinstance(key, yaml.ScalarNode) and (key.tag, key.value) in seen:
                    problem = f'front matter: the key "{key.value[:60]}" stands there twice'
                    raise _Unusable(problem, key.start_mark, "keep one of them")
                seen.add((key.tag, str(key.value)))
                pending += [key, value]
        elif isinstance(node, yaml.SequenceNode):
            pending += node.value
