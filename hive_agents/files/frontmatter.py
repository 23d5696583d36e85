"""The YAML between the two `---` lines of a document: the same reading for the index and for permissions."""

from __future__ import annotations

import datetime as dt
import math
import re
from typing import Any

from hive_agents.errors import HiveError

_FENCE = re.compile(r"---[ \t]*\r?\n(?P<yaml>.*?)^(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.S | re.M)
_KEY = re.compile(r"---[ \t]*\r?\n[\w-]+[ \t]*:")
MAX_FRONT_MATTER = 64_000
# PyYAML's constructors fail in all these ways on odd scalars and tags.
_BUILD_FAILURES = (ValueError, ArithmeticError, LookupError, AttributeError, TypeError, AssertionError)


def split(text: str, file: str) -> tuple[str, str]:
    """(YAML, body) of a document; the YAML is empty where there is none. Raises: HIVE-108 where it has no end."""
    found = _FENCE.match(text)
    if found is not None:
        return found["yaml"], text[found.end() :]
    if _KEY.match(text):  # without a key this is a thematic break, and all of it is body
        raise HiveError.of("HIVE-108", "the front matter has no closing ---", file=file, line=1, fix="add a line ---")
    return "", text


def parse(text: str, file: str) -> dict[str, Any]:
    """The YAML's keys and values, as JSON can hold them. Raises: HIVE-108 with the line in the file."""
    return {_utf8(key): plain(value) for key, value in _yaml(text, file).items()}


def _yaml(text: str, file: str) -> dict[str, Any]:
    import yaml

    fix = "front matter is YAML: `key: value` a line, and quotes around values with a colon"
    if len(text) > MAX_FRONT_MATTER:
        message = f"the front matter is over {MAX_FRONT_MATTER} characters"
        raise HiveError.of("HIVE-108", message, file=file, line=1, fix="move the text into the body")
    try:
        # An alias can unfold to gigabytes; nobody needs one in front matter.
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            if isinstance(event, yaml.AliasEvent):
                raise HiveError.of(
                    "HIVE-108",
                    "front matter can't use YAML aliases",
                    file=file,
                    line=event.start_mark.line + 2 if event.start_mark else 2,
                    fix="repeat the value",
                )
        value = _built(text, file)
    except yaml.YAMLError as error:
        mark: Any = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        place = getattr(error, "position", None)  # a character that YAML forbids has no mark
        before = text.count("\n", 0, place) if isinstance(place, int) else -1
        line = (before if mark is None else int(mark.line)) + 2
        raise HiveError.of("HIVE-108", f"front matter: {problem}", file=file, line=line, fix=fix) from None
    except _BUILD_FAILURES as error:
        raise HiveError.of("HIVE-108", f"front matter: {error}", file=file, line=_bad_value(text), fix=fix) from None
    except RecursionError:
        raise HiveError.of("HIVE-108", "front matter: nested too deeply", file=file, line=1, fix=fix) from None
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise HiveError.of("HIVE-108", "front matter is not a list of `key: value` lines", file=file, line=2, fix=fix)
    return value


def _built(text: str, file: str) -> Any:
    """The YAML's value. Raises: HIVE-108 for a key that stands twice: YAML would forget the first one's value."""
    import yaml

    loader = yaml.SafeLoader(text)
    try:
        top: Any = loader.get_single_node()
        left = [top] if top is not None else []
        while left:
            node = left.pop()
            if isinstance(node, yaml.MappingNode):
                seen = set()
                for key, value in node.value:
                    if isinstance(key, yaml.ScalarNode) and (key.tag, key.value) in seen:
                        line = int(key.start_mark.line) + 2
                        message = f'front matter: the key "{key.value[:60]}" stands there twice'
                        raise HiveError.of("HIVE-108", message, file=file, line=line, fix="keep one of them")
                    seen.add((key.tag, str(key.value)))
                    left += [key, value]
            elif isinstance(node, yaml.SequenceNode):
                left += node.value
        return loader.construct_document(top) if top is not None else None
    finally:
        loader.dispose()


def _bad_value(text: str) -> int:
    """The file's line of the first value that YAML can read and not build, such as 30 February."""
    import yaml

    node: Any = yaml.compose(text, Loader=yaml.SafeLoader)
    for _, value in node.value if isinstance(node, yaml.MappingNode) else []:
        try:
            yaml.safe_load(text[value.start_mark.index : value.end_mark.index])
        except _BUILD_FAILURES:
            return int(value.start_mark.line) + 2
    return 1


def plain(value: Any) -> Any:
    """The value as JSON can hold it."""
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
    r"""YAML reads the escapes `\ud83d\ude00` as two halves of a character, which no file can hold: join them.

    >>> _utf8("\ud83d\ude00") == "\U0001f600", _utf8("\ud83d!")
    (True, '\ufffd!')
    """
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
