"""What a node is given: its inputs as data for a model, whole, or their beginning and the file that has all of it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from hive_agents.memory import pretty
from hive_agents.text import cut, encodable, fenced, sha256

if TYPE_CHECKING:
    from hive_agents.agents.node_work import NodeWork


def given(work: NodeWork, keys: Iterable[str]) -> str:
    """Return these inputs of the node in words that begin a visit; nothing where there are none."""
    wanted = set(keys)
    values = {key: value for key, value in work.inputs.items() if key in wanted}
    if not values:
        return ""
    lines = [f"- {key}: {beginning(work, json.dumps(value, ensure_ascii=False))}" for key, value in values.items()]
    return "\n".join([f"Inputs:\n{fenced(chr(10).join(lines))}", *leading_on(work, values)])


def leading_on(work: NodeWork, values: dict[str, Any]) -> list[str]:
    """Return the lines that lead to those of the values that are too long to be shown whole; each is in a file then."""
    found = []
    for key, value in values.items():
        whole = as_text(value)
        if len(json.dumps(value, ensure_ascii=False)) <= _limit(work):
            continue
        # A later visit may be given another value: each has a name of its own, which no agent's file can take.
        file = f"input-{key}-{sha256(whole)[:8]}.txt"
        with work.files.lock():
            if file not in {one.name for one in work.files.list()}:
                work.files.seal(file, whole if isinstance(value, str) else pretty(whole))
        saved = f"[Input {key}: {len(whole):,} chars — too large for context, saved to '{file}'."
        found.append(f"{saved} Use load_data(filename='{file}') to read all of it.]")
    return found


def as_text(value: Any) -> str:
    """Return a text as it is, with its lines, and anything else as JSON."""
    return encodable(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def beginning(work: NodeWork, text: str) -> str:
    """Return a text up to the length that a tool's result may have, and to a quarter of the context or so."""
    return cut(text, _limit(work))


def _limit(work: NodeWork) -> int:
    settings = work.session.workspace.settings.agents
    return min(settings.spillover_chars, settings.context_tokens)  # a token has four characters or so
