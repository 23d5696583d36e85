"""What ships with the package, in a wheel or a checkout: files, diagnostics' documentation, JSON Schemas."""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from hive_agents.base.errors import NotFound, closest, did_you_mean

_PACKAGE = Path(__file__).parents[1]


@cache  # each turn of a model asks for prompts
def bundled(name: str) -> Path:
    """Return the bundled file or folder `name`, for example `workspace` or `docs/diagnostics.md`."""
    installed = _PACKAGE / "_bundled" / name
    return installed if installed.exists() else _PACKAGE.parent / name


_SECTION = re.compile(r"^## (?P<code>HIVE-\d{3})\b(?P<title>.*)$", re.M)


def documentation() -> dict[str, str]:
    """Return each code's entry in Markdown, with the title first."""
    text = bundled("docs/diagnostics.md").read_text(encoding="utf-8")
    sections = list(_SECTION.finditer(text))
    return {
        section["code"]: f"**{section['title'].strip()}**\n\n{text[section.end() : end].strip()}"
        for section, end in zip(sections, [*(one.start() for one in sections[1:]), len(text)], strict=True)
    }


def documented(code: str) -> tuple[str, str]:
    """Return (code, entry) for `HIVE-203`, `hive-203` or `203`. Raises: HIVE-409 for an unknown code."""
    entries = documentation()
    name = "HIVE-" + code.upper().removeprefix("HIVE").removeprefix("-")
    if name not in entries:
        guess = closest(name, entries)
        raise NotFound.of("HIVE-409", f"there is no diagnostic {code}", fix=f"did you mean {guess}?" if guess else None)
    return name, entries[name]


KINDS = {
    "config": ("hive_agents.ranking.config", "RetrievalConfig"),
    "collection": ("hive_agents.documents.documents", "Collection"),
    "golden": ("hive_agents.evaluation.golden", "GoldenFile"),
    "goal": ("hive_agents.goals.goals", "Goal"),
    "rule": ("hive_agents.judging.rules", "EvaluationRule"),
    "agent": ("hive_agents.agents.spec", "AgentSpec"),
    "trigger": ("hive_agents.triggers.spec", "TriggerFile"),
    "access": ("hive_agents.access.rules", "AccessFile"),
    "settings": ("hive_agents.workspace.settings", "Settings"),
}


def json_schema(kind: str) -> dict[str, Any]:
    """Return the JSON Schema of a kind of file. Raises: HIVE-409 for an unknown kind."""
    if kind not in KINDS:
        fix = did_you_mean(kind, KINDS, f"use one of: {', '.join(KINDS)}")
        raise NotFound.of("HIVE-409", f'there is no schema "{kind}"', fix=fix)
    module, name = KINDS[kind]
    schema: dict[str, Any] = getattr(import_module(module), name).model_json_schema(by_alias=True)
    for part in (schema, *schema.get("$defs", {}).values()):
        if "description" in part:  # a docstring, whose example is Python and not the file's JSON
            part["description"] = part["description"].partition(">>>")[0].strip()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
