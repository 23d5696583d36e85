from . import (
    audit as audit,
    copying as copying,
    database as database,
    edits as edits,
    ledger as ledger,
    notices as notices,
    own_schema as own_schema,
    postgres as postgres,
    sealing as sealing,
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
)
from .moved import (
    left_behind as left_behind,
    moved as moved,
)
from .reading import (
    documents_read as documents_read,
)
from .sealing import (
    moved_to as moved_to,
)
from .writes import (
    Writes as Writes,
)
