"""The documentation of every diagnostic, read from `docs/diagnostics.md`."""

from __future__ import annotations

import re

from hive_agents.base.errors import NotFound, closest
from hive_agents.base.resources import bundled

_SECTION = re.compile(r"^## (?P<code>HIVE-\d{3})\b(?P<title>.*)$", re.M)


def documentation() -> dict[str, str]:
    """Return each code's entry in Markdown, with the title first."""
    text = bundled("docs/diagnostics.md").read_text(encoding="utf-8")
    sections = list(_SECTION.finditer(text))
    ends = [*(section.start() for section in sections[1:]), len(text)]
    return {
        section["code"]: f"**{section['title'].strip()}**\n\n{text[section.end() : end].strip()}"
        for section, end in zip(sections, ends, strict=True)
    }


def documented(code: str) -> tuple[str, str]:
    """Return (code, entry) for `HIVE-203`, `hive-203` or `203`. Raises: HIVE-409 for an unknown code."""
    entries = documentation()
    number = code.upper().removeprefix("HIVE-").removeprefix("HIVE")
    name = f"HIVE-{number}"
    if name not in entries:
        guess = closest(name, entries)
        raise NotFound.of("HIVE-409", f"there is no diagnostic {code}", fix=f"did you mean {guess}?" if guess else None)
    return name, entries[name]
