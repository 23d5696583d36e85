"""The data buffer: values shared between nodes, in three scopes; nodes declare the keys that they use."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, get_args
from weakref import WeakValueDictionary

from hive_agents.base import HiveError, closest, encodable
from hive_agents.memory.values import to_json
from hive_agents.store import audit, connected

if TYPE_CHECKING:
    from hive_agents.workspace import Workspace

BufferScope = Literal["execution", "stream", "global"]
_LOCKS: WeakValueDictionary[tuple[str, ...], threading.Lock] = WeakValueDictionary()
_LOCKS_GUARD = threading.Lock()
_WHERE = "tenant = ? AND scope = ? AND scope_key = ?"


class DataBuffer:
    """The values that one run sees: its own, its stream's and the tenant's; each write is stored at once.

    `reads` and `writes` are the allowed keys, None for all. A key that may be written may also be read.

    Raises, in every method: HIVE-103 naming a key that isn't declared; HIVE-402, HIVE-403, HIVE-407 from the database.

    >>> import tempfile, pathlib
    >>> from hive_agents import Workspace
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> (folder / "collections").mkdir()
    >>> buffer = DataBuffer(Workspace(folder), run_id="r1")
    >>> buffer.write("topic", {"name": "bees"})
    1
    >>> node = buffer.for_node(input_keys=["topic"], output_keys=["items"])
    >>> node.read("topic")
    {'name': 'bees'}
    >>> node.write("topic", "wasps")
    Traceback (most recent call last):
    hive_agents.base.errors.HiveError: error[HIVE-103]: the key "topic" is not declared as an output
      fix: declare it, or use one of: items
    """

    def __init__(
        self,
        workspace: Workspace,
        *,
        tenant: str = "local",
        run_id: str,
        stream_id: str | None = None,
        reads: Iterable[str] | None = None,
        writes: Iterable[str] | None = None,
    ) -> None:
        self.workspace = workspace
        self.tenant = tenant
        self.run_id = run_id
        self.stream_id = stream_id
        self.writes = None if writes is None else frozenset(writes)
        self.reads = None if reads is None else frozenset(reads) | (self.writes or frozenset())
        keys = {"execution": run_id, "global": ""} | ({} if stream_id is None else {"stream": stream_id})
        self._places = {scope: (tenant, scope, keys[scope]) for scope in get_args(BufferScope) if scope in keys}
        self._locks = {scope: _lock_of(str(workspace.root), *place) for scope, place in self._places.items()}

    def for_node(self, input_keys: Iterable[str], output_keys: Iterable[str]) -> DataBuffer:
        """Return the buffer limited to the keys that a node declares."""
        return DataBuffer(
            self.workspace,
            tenant=self.tenant,
            run_id=self.run_id,
            stream_id=self.stream_id,
            reads=input_keys,
            writes=output_keys,
        )

    def read(self, key: str, scope: BufferScope | None = None, default: Any = None) -> Any:
        """Return the value in that scope; without one the nearest: execution, then stream, then global."""
        self._permit(key, self.reads, "an input")
        for place in self._places.values() if scope is None else [self._place(scope)]:
            found = self._get(place, key)
            if found is not None:
                return json.loads(found[0])
        return default

    def read_all(self, scope: BufferScope | None = None) -> dict[str, Any]:
        """Return every value that may be read, by key; without a scope the nearest of each."""
        places = [self._place(scope)] if scope else list(self._places.values())
        # One statement, so that no writer comes between two scopes.
        query = f"SELECT scope, key, value FROM buffers WHERE ({' OR '.join([f'({_WHERE})'] * len(places))})"
        wanted = [] if self.reads is None else ["", *self.reads]  # no key is "", and a server takes no empty list
        query += f" AND key IN ({', '.join('?' * len(wanted))})" if wanted else ""
        with connected(self.workspace.records) as connection:
            rows = connection.execute(query, [*(part for place in places for part in place), *wanted]).fetchall()
        nearest_last = sorted(rows, key=lambda row: -[place[1] for place in places].index(row[0]))
        values = {key: value for _, key, value in nearest_last}
        return {key: json.loads(values[key]) for key in sorted(values)}

    def snapshot(self) -> Mapping[str, Any]:
        """Return an immutable copy of `read_all`: objects are mapping proxies, lists are tuples."""
        frozen: Mapping[str, Any] = _frozen(self.read_all())
        return frozen

    def write(self, key: str, value: Any, scope: BufferScope = "execution") -> int:
        """Set a value; return its version, from 1.

        Raises: HIVE-104 for what isn't plain JSON, HIVE-105 for more than a million characters of it.
        """
        self._permit(key, self.writes, "an output")
        place, text = self._place(scope), to_json(key, value)
        with connected(self.workspace.records) as connection:
            row = connection.execute(
                "INSERT INTO buffers VALUES (?, ?, ?, ?, ?, 1, ?) ON CONFLICT (tenant, scope, scope_key, key)"
                " DO UPDATE"
                " SET value = excluded.value, version = buffers.version + 1, at = excluded.at RETURNING version",
                (*place, key, text, audit.now()),
            ).fetchall()
        return int(row[0][0])

    def update(
        self, key: str, change: Callable[[Any], Any], scope: BufferScope = "execution", default: Any = None
    ) -> Any:
        """Set the value to `change(value)` and return it, without losing concurrent writes.

        `change` gets `default` without a value. It is called again after a concurrent write, and must not use this
        buffer itself.

        Raises: HIVE-104, HIVE-105 as `write`.
        """
        self._permit(key, self.reads, "an input")
        self._permit(key, self.writes, "an output")
        place = self._place(scope)
        with self._locks[scope]:
            while True:
                found = self._get(place, key)
                value = change(default if found is None else json.loads(found[0]))
                if self._replace(place, key, to_json(key, value), 0 if found is None else found[1]):
                    return value

    def _replace(self, place: tuple[str, str, str], key: str, text: str, version: int) -> bool:
        with connected(self.workspace.records) as connection:
            if not version:
                insert = "INSERT INTO buffers VALUES (?, ?, ?, ?, ?, 1, ?) ON CONFLICT DO NOTHING"
                return connection.execute(insert, (*place, key, text, audit.now())).rowcount == 1
            update = f"UPDATE buffers SET value = ?, version = buffers.version + 1, at = ? WHERE {_WHERE}"
            row = (text, audit.now(), *place, key, version)
            return connection.execute(f"{update} AND key = ? AND version = ?", row).rowcount == 1

    def _get(self, place: tuple[str, str, str], key: str) -> tuple[str, int] | None:
        query = f"SELECT value, version FROM buffers WHERE {_WHERE} AND key = ?"
        with connected(self.workspace.records) as connection:
            found: tuple[str, int] | None = connection.execute(query, (*place, key)).fetchone()
        return found

    def _place(self, scope: BufferScope) -> tuple[str, str, str]:
        if scope not in self._places:
            known = ", ".join(self._places)
            why = "this run belongs to no stream" if scope == "stream" else f"there is no scope {scope}"
            raise HiveError.of("HIVE-409", why, fix=f"use one of: {known}")
        return self._places[scope]

    def _permit(self, key: str, allowed: frozenset[str] | None, what: str) -> None:
        if not isinstance(key, str) or not key or encodable(key) != key:
            raise HiveError.of("HIVE-104", f"{key!a} can't be a key", fix="use a text that names the value")
        if allowed is not None and key not in allowed:
            guess = closest(key, allowed)
            known = ", ".join(sorted(allowed)) or "none"
            fix = f'did you mean "{guess}"?' if guess else f"declare it, or use one of: {known}"
            raise HiveError.of("HIVE-103", f'the key "{key}" is not declared as {what}', fix=fix)


def _lock_of(*place: str) -> threading.Lock:
    with _LOCKS_GUARD:
        lock = _LOCKS.get(place)
        if lock is None:
            lock = _LOCKS[place] = threading.Lock()
        return lock


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return MappingProxyType({key: _frozen(inner) for key, inner in value.items()})
    if isinstance(value, list):
        return tuple(_frozen(inner) for inner in value)
    return value
