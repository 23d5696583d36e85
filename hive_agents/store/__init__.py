"""What a workspace remembers: its SQLite file and schema, the audit log."""

from typing import TYPE_CHECKING

from hive_agents.lazy import lazy

if TYPE_CHECKING:
    from hive_agents.store import audit
    from hive_agents.store.database import (
        BUSY_SECONDS,
        connect,
        connected,
        database_errors,
        disconnect,
        file_identity,
        transaction,
    )

__all__ = [
    "BUSY_SECONDS",
    "audit",
    "connect",
    "connected",
    "database_errors",
    "disconnect",
    "file_identity",
    "transaction",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(
        __name__,
        {
            "database": (
                "BUSY_SECONDS",
                "connect",
                "connected",
                "database_errors",
                "disconnect",
                "file_identity",
                "transaction",
            )
        },
        modules=("audit",),
    )
