"""A node's inputs as a model sees them: each in full, or its beginning and the file that holds all of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hive_agents.base import cut, encodable, fenced, sha256
from hive_agents.memory import DataFiles, pretty


@dataclass(frozen=True)
class InputTexts:
    """Inputs as texts of at most `limit` characters; longer ones are kept whole in what `files` returns.

    The files are asked for only where an input is long: a run without one needs no folder.
    """

    files: Callable[[], DataFiles]
    limit: int

    def as_data(self, values: Mapping[str, Any]) -> str:
        """Return the inputs as fenced JSON, with references to the files of long ones; "" without inputs."""
        if not values:
            return ""
        lines = [f"- {key}: {self.cut(json.dumps(value, ensure_ascii=False))}" for key, value in values.items()]
        return "\n".join([f"Inputs:\n{fenced(chr(10).join(lines))}", *self.references(values)])

    def references(self, values: Mapping[str, Any]) -> list[str]:
        """Return a line for each input that is too long to be shown in full: its file, and how to read it."""
        return [self._reference(key, value) for key, value in values.items() if self._is_long(value)]

    def cut(self, text: str) -> str:
        """Return a text up to `limit`."""
        return cut(text, self.limit)

    def _is_long(self, value: Any) -> bool:
        return len(json.dumps(value, ensure_ascii=False)) > self.limit

    def _reference(self, key: str, value: Any) -> str:
        text = as_text(value)
        # A later visit may have another value, so each has its own file, under a name that agents can't write to.
        file = f"input-{key}-{sha256(text)[:8]}.txt"
        files = self.files()
        with files.lock():
            if file not in {stored.name for stored in files.list()}:
                files.seal(file, text if isinstance(value, str) else pretty(text))
        saved = f"[Input {key}: {len(text):,} chars — too large for context, saved to '{file}'."
        return f"{saved} Use load_data(filename='{file}') to read all of it.]"


def as_text(value: Any) -> str:
    """Return a text as it is, with its lines, and anything else as JSON."""
    return encodable(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
