"""YAML front matter: taken from a Markdown source, written above a document."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from hive_agents.importing.imported import ImportFailure

_BLOCK = re.compile(r"---[ \t]*\n(?P<yaml>.*?)^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.S | re.M)
_OPENED = re.compile(r"---[ \t]*\n[\w-]+[ \t]*:")


def split(text: str) -> tuple[dict[str, Any], str]:
    """(front matter, body); a first `---` without a key below it is a line across the page, no front matter."""
    import yaml

    block = _BLOCK.match(text)
    if block is None:
        if _OPENED.match(text):
            raise ImportFailure("its front matter has no closing ---")
        return {}, text
    try:
        value = yaml.safe_load(block["yaml"])
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" (line {mark.line + 2})" if mark else ""
        raise ImportFailure(f"its front matter is not valid YAML{line}; quote values that hold a colon") from None
    if value is None:
        return {}, text[block.end() :]
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise ImportFailure("its front matter is not a list of `key: value` lines")
    return value, text[block.end() :]


def render(metadata: Mapping[str, Any], body: str) -> str:
    """The document's text; without metadata, and with nothing that looks like it, the body alone."""
    import yaml

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True  # the index refuses aliases: one can unfold to gigabytes

    if not metadata:
        return "---\n---\n" + body if body.startswith("---") else body
    head = yaml.dump(dict(metadata), Dumper=Dumper, sort_keys=False, allow_unicode=True, width=1000)
    return f"---\n{head}---\n\n{body.lstrip(chr(10))}"
