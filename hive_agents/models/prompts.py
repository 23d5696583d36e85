"""Prompts: text files with `$variables`, bundled with the package, which a workspace can override."""

from __future__ import annotations

import os
import re
from functools import lru_cache
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from hive_agents.base import HiveError, bundled
from hive_agents.base.files import NAME_PATTERN, jsontext

if TYPE_CHECKING:
    from hive_agents.workspace import Workspace


def load(name: str, workspace: Workspace | None = None, **variables: str) -> str:
    """Return the prompt `name` with its variables substituted; values are inserted as they are, also with a `$`.

    Raises: HIVE-107 without such a prompt, HIVE-106 for a missing variable, HIVE-105 for a stray `$`.
    """
    return filled(template(name, workspace), f"prompts/{name}.md", **variables)


def filled(text: str, file: str, **variables: str) -> str:
    """Return a prompt's text with its variables substituted, as `load` does; `file` is named in errors."""
    names = _names(text)
    if names is None:
        raise HiveError.of(
            "HIVE-105",
            "a $ stands before no variable",
            file=file,
            path="$",
            line=_line_of_stray(text),
            fix="write $$ for a dollar sign",
        )
    missing = sorted(names - set(variables))
    if missing:
        available = ", ".join(f"${key}" for key in sorted(variables)) or "none"
        raise HiveError.of(
            "HIVE-106",
            f"the prompt asks for ${missing[0]}, which is not given",
            file=file,
            path="$",
            line=_line_of(text, rf"\$\{{?{missing[0]}\b"),
            fix=f"use the variables there are: {available}",
        )
    return Template(text).substitute(variables)


def template(name: str, workspace: Workspace | None = None) -> str:
    """Return a prompt's text without substitution. Raises: HIVE-107, HIVE-112, HIVE-114 for a link."""
    file = f"prompts/{name}.md"
    shipped = bundled("prompts") / f"{name}.md"
    places = [shipped] if workspace is None else [workspace.root / "prompts" / f"{name}.md", shipped]
    path = next((place for place in places if re.match(NAME_PATTERN, name) and place.is_file()), None)
    if path is None:
        raise HiveError.of("HIVE-107", f"there is no prompt {name}", file=file, path="$", fix="name a file in prompts/")
    if path == shipped:
        state = os.stat(path)
        return _shipped(path, (state.st_ino, state.st_size, state.st_mtime_ns))
    return jsontext.load_text(path, file)


@lru_cache(maxsize=64)
def _names(text: str) -> frozenset[str] | None:
    """Return the variables of a prompt; None for one with a stray `$`."""
    prompt = Template(text)
    return frozenset(prompt.get_identifiers()) if prompt.is_valid() else None


@lru_cache(maxsize=64)
def _shipped(path: Path, state: tuple[int, ...]) -> str:  # noqa: ARG001
    """Return the text of a bundled prompt, cached by the state of its file."""
    return jsontext.load_text(path, f"prompts/{path.name}")


def _line_of(text: str, pattern: str) -> int | None:
    match = re.search(pattern, text)
    return text.count("\n", 0, match.start()) + 1 if match else None


def _line_of_stray(text: str) -> int | None:
    invalid = next((match for match in Template.pattern.finditer(text) if match["invalid"] is not None), None)
    return text.count("\n", 0, invalid.start()) + 1 if invalid else None
