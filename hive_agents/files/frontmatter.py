"""The YAML between the two `---` lines of a document: one reading for the index, for permissions and for imports.

python-frontmatter's own `parse` is not used, only its YAML handler: it strips the body, takes `-----` for a fence and
overlooks front matter that has no end.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Mapping
from typing import Any

import yaml
from frontmatter.default_handlers import YAMLHandler

from hive_agents.errors import HiveError

_OPENED = re.compile(r"---[ \t]*\r?\n(?P<key>[\w-]+[ \t]*:)?")
MAX_FRONT_MATTER = 64_000
MAX_NESTING = 20
# PyYAML's constructors fail in all these ways on odd scalars and tags.
_BUILD_FAILURES = (ValueError, ArithmeticError, LookupError, AttributeError, TypeError, AssertionError)
_FIX = "front matter is YAML: `key: value` a line, and quotes around values with a colon"


def split(text: str, file: str) -> tuple[str, str]:
    """Return (YAML, body) of a document; the YAML is empty where there is none.

    Raises: HIVE-108 where it has no end.
    """
    opened = _OPENED.match(text)
    if opened is None:
        return "", text
    try:
        return _HANDLER.split(text)
    except ValueError:  # only one fence
        if opened["key"] is None:  # then it is a thematic break, and all of the text is body
            return "", text
        raise _refused("the front matter has no closing ---", file, 1, "add a line ---") from None


def parse(text: str, file: str) -> dict[str, Any]:
    """Return the YAML's keys and values as JSON can hold them. Raises: HIVE-108 with the line in the file."""
    return {_utf8(key): plain(value) for key, value in values(text, file).items()}


def values(text: str, file: str) -> dict[str, Any]:
    """Return the YAML's keys and values as YAML has them, dates for example. Raises: HIVE-108 as `parse`."""
    if len(text) > MAX_FRONT_MATTER:
        why = f"the front matter is over {MAX_FRONT_MATTER} characters"
        raise _refused(why, file, 1, "move the text into the body")
    try:
        found = _HANDLER.load(text)
    except _Unusable as error:
        raise _refused(str(error.problem), file, _line(error), error.fix) from None
    except yaml.YAMLError as error:
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        place = getattr(error, "position", None)  # a character that YAML forbids has no mark
        line = text.count("\n", 0, place) + 2 if isinstance(place, int) else _line(error)
        raise _refused(f"front matter: {problem}", file, line) from None
    except _BUILD_FAILURES as error:
        raise _refused(f"front matter: {error}", file, _bad_value(text)) from None
    except RecursionError:
        raise _refused("front matter: nested too deeply", file, 1) from None
    if found is None:
        return {}
    if not isinstance(found, dict) or not all(isinstance(key, str) for key in found):
        raise _refused("front matter is not a list of `key: value` lines", file, 2)
    return found


def number_text(text: str) -> float | str:
    """Return the number where it is written as Python writes it, else its text: version 3.10 isn't 3.1.

    >>> number_text("3.5"), number_text("3.10")
    (3.5, '3.10')
    """
    number = float(text)
    return number if str(number) == text else text


def render(metadata: Mapping[str, Any], body: str) -> str:
    """Return a document's text; without metadata the body alone, behind empty front matter where it looks like some."""
    if not metadata:
        return "---\n---\n" + body if body.startswith("---") else body
    head = _HANDLER.export(dict(metadata), sort_keys=False, width=1000)
    return f"---\n{head}\n---\n\n{body.lstrip(chr(10))}"


def _refused(message: str, file: str, line: int, fix: str = _FIX) -> HiveError:
    return HiveError.of("HIVE-108", message, file=file, line=line, fix=fix)


def _line(error: Any) -> int:
    """Return the line in the file, whose first line is the fence."""
    mark = getattr(error, "problem_mark", None)
    return 1 if mark is None else int(mark.line) + 2


def _bad_value(text: str) -> int:
    """Return the file's line of the first key or value that YAML can read and not build, such as 30 February."""
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
    """Return the value as JSON can hold it."""
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
    r"""Return the text with halves of characters joined: YAML reads the escapes `\ud83d\ude00` as two.

    >>> _utf8("\ud83d\ude00") == "\U0001f600", _utf8("\ud83d!")
    (True, '\ufffd!')
    """
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class _Unusable(yaml.MarkedYAMLError):
    """Valid YAML that front matter can't use; `problem` says why, `fix` what to do."""

    def __init__(self, problem: str, mark: Any, fix: str) -> None:
        super().__init__(problem=problem, problem_mark=mark)
        self.fix = fix


class _Loader(yaml.SafeLoader):
    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):  # one can unfold to gigabytes, and nobody needs one in front matter
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


def _as_written(construct: Any) -> Any:
    """Return a constructor that takes a value over only where writing it gives the same text again.

    A version 3.10 is no number, 007 no seven, `NO` a country: what would lose its text stays text.
    """

    def value(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> Any:
        text = str(node.value)
        made = construct(loader, node)
        if isinstance(made, float) and not math.isfinite(made):
            return made
        written = str(made).lower() if isinstance(made, bool) else str(made)
        return made if written == (text.lower() if isinstance(made, bool) else text) else text

    return value


for _tag, _construct in (
    ("int", _Loader.construct_yaml_int),
    ("float", _Loader.construct_yaml_float),
    ("bool", _Loader.construct_yaml_bool),
):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_tag}", _as_written(_construct))


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


class _Handler(YAMLHandler):
    FM_BOUNDARY = re.compile(r"^(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.M)

    def load(self, fm: str, **options: object) -> Any:
        return super().load(fm, Loader=_Loader, **options)

    def export(self, metadata: dict[str, object], **options: object) -> str:
        return str(super().export(metadata, Dumper=_Dumper, **options))


def _require_distinct_keys(top: Any) -> None:
    """Raise `_Unusable` for a key that occurs twice: YAML would drop its first value."""
    left = [top]
    while left:
        node = left.pop()
        if isinstance(node, yaml.MappingNode):
            seen = set()
            for key, value in node.value:
                if isinstance(key, yaml.ScalarNode) and (key.tag, key.value) in seen:
                    problem = f'front matter: the key "{key.value[:60]}" stands there twice'
                    raise _Unusable(problem, key.start_mark, "keep one of them")
                seen.add((key.tag, str(key.value)))
                left += [key, value]
        elif isinstance(node, yaml.SequenceNode):
            left += node.value


_HANDLER = _Handler()
