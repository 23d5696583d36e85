from . import (
    audit as audit,
)
from .database import (
    BUSY_SECONDS as BUSY_SECONDS,
    briefly as briefly,
    connect as connect,
    connected as connected,
    database_errors as database_errors,
    disconnect as disconnect,
    file_identity as file_identity,
    transaction as transaction,
)
from .ledger import (
    Ledger as Ledger,
    LedgerHistory as LedgerHistory,
    made_by as made_by,
)
from .reading import (
    documents_read as documents_read,
)
from .writes import (
    Writes as Writes,
)
