"""What a workspace remembers: how its SQLite file is opened, the schema, the audit log, histories that the log decides.

It imports `errors`, `files` and `workspace`, and knows nothing of what the rows are about. A change of the schema is
one more script in `schema`, a new history of decisions a `Ledger` where its rows are understood, and a new kind of
audit entry needs nothing here.
"""

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
    from hive_agents.store.ledger import History, Ledger, made_by

__all__ = [
    "BUSY_SECONDS",
    "History",
    "Ledger",
    "audit",
    "connect",
    "connected",
    "database_errors",
    "disconnect",
    "file_identity",
    "made_by",
    "transaction",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(
        __name__,
        {
            "database": "BUSY_SECONDS connect connected database_errors disconnect file_identity transaction",
            "ledger": "History Ledger made_by",
        },
        modules=("audit",),
    )
