"""What a run store and leases are, for databases that several hosts share; `tests/runs/contract.py` tests any.

These don't make another database possible by themselves: a `Lease` is proved by `require` in the transaction of each
write that it fences, so effects and checkpoints have to be in the same database as the leases, and events that a change
of status tells of, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from hive_agents.runs.store import RunRow

if TYPE_CHECKING:
    from hive_agents.access import Principal
    from hive_agents.events import Event
    from hive_agents.runs.leases import Lease
    from hive_agents.runs.queue import DueRun


class RunStoreProtocol(Protocol):
    def insert(
        self,
        graph: str,
        value: dict[str, Any],
        *,
        agent: str | None = None,
        owner: Principal | None = None,
        thread_id: str | None = None,
        key: str | None = None,
        status: str = "queued",
        run_id: str | None = None,
    ) -> tuple[RunRow, bool]: ...

    def get(self, run_id: str) -> RunRow: ...

    def has_key(self, key: str, *, tenant: str) -> bool: ...

    def list(
        self,
        *,
        status: str | Sequence[str] | None = None,
        tenant: str | None = None,
        user: str | None = None,
        limit: int = 100,
        before: str | None = None,
    ) -> list[RunRow]: ...

    def update(
        self,
        run_id: str,
        status: str,
        *,
        result: dict[str, Any] | None = None,
        stopped_by: str | None = None,
        error: dict[str, str] | None = None,
        lease: Lease | None = None,
        among: Sequence[str] | None = None,
        unasked: bool = False,
        seen: RunRow | None = None,
        told: Event | None = None,
    ) -> bool: ...

    def move(
        self, run_id: str, status: str, by: str, *, to: str | None = None, control: str | None = None
    ) -> tuple[RunRow, bool]: ...

    def asked(self, run_id: str) -> str | None: ...

    def withdraw(self, run_id: str, why: str) -> None: ...

    def delete(self, run_id: str) -> None: ...


class LeasesProtocol(Protocol):
    seconds: float
    clock: Callable[[], float]

    def acquire(self, thread_id: str, run_id: str) -> Lease | None: ...

    def acquire_each(self, wanted: Sequence[tuple[str, str]]) -> list[Lease]: ...

    def is_held(self, thread_id: str) -> bool: ...

    def held(self) -> frozenset[str]: ...

    def clear(self, thread_id: str) -> None: ...

    def extend(self, lease: Lease, until: float) -> bool: ...


class RunQueueProtocol(Protocol):
    def due(self) -> list[DueRun]: ...

    def take(self, wanted: Sequence[DueRun]) -> list[Lease]: ...

    def progress(self, run_id: str) -> int: ...

    def attempts(self, run_id: str) -> int: ...
