"""python-frontmatter's YAML handler with our fences, and without what would make a reading ambiguous or endless.

The library's own `parse` is not used: it strips the body, takes `-----` for a fence and overlooks front matter that
has no end.
"""

from __future__ import annotations

import math
import re
from typing import Any

import yaml
from frontmatter.default_handlers import YAMLHandler

MAX_NESTING = 20


class Refused(yaml.MarkedYAMLError):
    """Valid YAML that front matter can't use; `problem` says why, `fix` what to do."""

    def __init__(self, problem: str, mark: Any, fix: str) -> None:
        super().__init__(problem=problem, problem_mark=mark)
        self.fix = fix


class _Loader(yaml.SafeLoader):
    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):  # one can unfold to gigabytes, and nobody needs one in front matter
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise Refused("front matter can't use YAML aliases", mark, "repeat the value")
        self._depth = getattr(self, "_depth", 0) + 1
        if self._depth > MAX_NESTING:  # PyYAML's time grows with the square of the depth
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            why = f"front matter: nested too deeply, more than {MAX_NESTING} levels"
            raise Refused(why, mark, "write it flatter")
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
    """Raise `Refused` for a key that occurs twice: YAML would drop its first value."""
    left = [top]
    while left:
        node = left.pop()
        if isinstance(node, yaml.MappingNode):
            seen = set()
            for key, value in node.value:
                if isinstance(key, yaml.ScalarNode) and (key.tag, key.value) in seen:
                    problem = f'front matter: the key "{key.value[:60]}" stands there twice'
                    raise Refused(problem, key.start_mark, "keep one of them")
                seen.add((key.tag, str(key.value)))
                left += [key, value]
        elif isinstance(node, yaml.SequenceNode):
            left += node.value


HANDLER = _Handler()
