from . import (
    audit as audit,
    copying as copying,
    database as database,
    ledger as ledger,
    own_schema as own_schema,
)
from .copying import (
    Progress as Progress,
)
from .database import (
    RecordsConnection as RecordsConnection,
    SelectedRow as SelectedRow,
    briefly as briefly,
    clock_of as clock_of,
    connected as connected,
    database_errors as database_errors,
    exclusive as exclusive,
    file_identity as file_identity,
    transaction as transaction,
    undone_by as undone_by,
)
from .edits import (
    FileChange as FileChange,
    digest_of as digest_of,
    write_changes as write_changes,
)
from .moved import (
    left_behind as left_behind,
    moved as moved,
)
from .notices import (
    listening as listening,
    notify as notify,
)
from .postgres import (
    PostgresConnection as PostgresConnection,
    cut_after as cut_after,
)
from .reading import (
    documents_read as documents_read,
)
from .sealing import (
    moved_to as moved_to,
    seal as seal,
    unseal as unseal,
)
from .writes import (
    Writes as Writes,
)
