"""Which events somebody wants: by type, run, node and stream, and-ed."""

from __future__ import annotations

from collections.abc import Iterable

from hive_agents.events.types import Event, EventType


class Filter:
    """None lets everything pass. Raises: ValueError for a type that doesn't exist.

    >>> Filter(types={EventType.RUN_FAILED}, run_id="r1").matches(Event(type=EventType.RUN_FAILED, run_id="r2"))
    False
    """

    __slots__ = ("narrow", "node_id", "run_id", "stream_id", "types")

    def __init__(
        self,
        types: Iterable[EventType] | None = None,
        run_id: str | None = None,
        node_id: str | None = None,
        stream_id: str | None = None,
    ) -> None:
        self.types = None if types is None else frozenset(EventType(type) for type in types)
        self.run_id = run_id
        self.node_id = node_id
        self.stream_id = stream_id
        self.narrow = not (run_id is None and node_id is None and stream_id is None)

    def takes(self, type: EventType) -> bool:
        return self.types is None or type in self.types

    def matches(self, event: Event) -> bool:
        return (
            self.takes(event.type)
            and self.run_id in (None, event.run_id)
            and self.node_id in (None, event.node_id)
            and self.stream_id in (None, event.stream_id)
        )
