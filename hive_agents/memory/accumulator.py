"""Outputs on their way: what `set_output` said so far, on disk the moment it was said."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hive_agents.errors import HiveError, closest
from hive_agents.memory.conversation import ConversationStore
from hive_agents.memory.values import value_line


class OutputAccumulator:
    """The declared outputs of one node; a new one over the same conversation finds what was set before a crash.

    >>> import tempfile, pathlib
    >>> from hive_agents import Workspace
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> (folder / "collections").mkdir()
    >>> store = ConversationStore(Workspace(folder))
    >>> outputs = OutputAccumulator(store, store.create("digest", "r1"), ["items", "note"])
    >>> outputs.set("items", [1, 2])
    >>> outputs.missing(), outputs.missing(nullable=["note"]), outputs.values
    (['note'], [], {'items': [1, 2]})
    """

    def __init__(self, store: ConversationStore, conversation_id: str, output_keys: Iterable[str]) -> None:
        self.store = store
        self.conversation_id = conversation_id
        self.output_keys = tuple(dict.fromkeys(output_keys))

    @property
    def values(self) -> dict[str, Any]:
        """A copy of what is set, declared keys only: other nodes may share the conversation."""
        stored = self.store.outputs(self.conversation_id)
        return {key: value for key, value in stored.items() if key in self.output_keys}

    def set(self, key: str, value: Any) -> None:
        """Set an output, or set it anew.

        Raises: HIVE-103 for a key that isn't declared, HIVE-104 for what isn't plain JSON, HIVE-105 for too much.
        """
        if key not in self.output_keys:
            guess = closest(key, self.output_keys)
            known = ", ".join(self.output_keys) or "none"
            raise HiveError.of(
                "HIVE-103",
                f'"{value_line(key, 80)}" is no declared output',
                fix=f'did you mean "{guess}"?' if guess else f"the declared outputs are: {known}",
            )
        self.store.set_output(self.conversation_id, key, value)

    def missing(self, keys: Iterable[str] | None = None, nullable: Iterable[str] = ()) -> list[str]:
        """Which of `keys` (all declared ones) are not set; null counts as set where it is allowed to be."""
        values, may_be_null = self.values, set(nullable)
        wanted = self.output_keys if keys is None else keys
        return [key for key in wanted if key not in may_be_null and values.get(key) is None]
