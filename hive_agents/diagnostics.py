"""The documentation of every diagnostic, read from `docs/diagnostics.md`."""

from __future__ import annotations

import re

from hive_agents.errors import NotFound, closest
from hive_agents.resources import bundled

_SECTION = re.compile(r"^## (?P<code>HIVE-\d{3})\b(?P<title>.*)$", re.M)


def documentation() -> dict[str, str]:
    """Code → its entry in Markdown, the title first."""
    text = bundled("docs/diagnostics.md").read_text(encoding="utf-8")
    sections = list(_SECTION.finditer(text))
    ends = [*(found.start() for found in sections[1:]), len(text)]
    return {
        found["code"]: f"**{found['title'].strip()}**\n\n{text[found.end() : end].strip()}"
        for found, end in zip(sections, ends, strict=True)
    }


def documented(code: str) -> tuple[str, str]:
    """(code, entry) for `HIVE-203`, `hive-203` or `203`. Raises: HIVE-409 for an unknown code."""
    known = documentation()
    number = code.upper().removeprefix("HIVE-").removeprefix("HIVE")
    name = f"HIVE-{number}"
    if name not in known:
        guess = closest(name, known)
        raise NotFound.of("HIVE-409", f"there is no diagnostic {code}", fix=f"did you mean {guess}?" if guess else None)
    return name, known[name]
