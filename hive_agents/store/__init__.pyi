from . import (
    audit as audit,
)
from .copying import (
    Progress as Progress,
    clear_records as clear_records,
    record_tables as record_tables,
    require_own_objects as require_own_objects,
    require_references as require_references,
    wrong_answers as wrong_answers,
)
from .database import (
    BUSY_SECONDS as BUSY_SECONDS,
    RecordsConnection as RecordsConnection,
    SelectedRow as SelectedRow,
    briefly as briefly,
    clock_of as clock_of,
    connect as connect,
    connected as connected,
    database_errors as database_errors,
    disconnect as disconnect,
    exclusive as exclusive,
    file_identity as file_identity,
    give_back as give_back,
    last_number as last_number,
    make_file as make_file,
    others_connected as others_connected,
    require_writable as require_writable,
    synchronous as synchronous,
    take_turn as take_turn,
    together as together,
    transaction as transaction,
    undone_by as undone_by,
    written_at_once as written_at_once,
)
from .edits import (
    FileChange as FileChange,
    digest_of as digest_of,
    write_changes as write_changes,
)
from .ledger import (
    Ledger as Ledger,
    LedgerHistory as LedgerHistory,
    made_by as made_by,
)
from .moved import (
    left_behind as left_behind,
    moved as moved,
)
from .notices import (
    listening as listening,
    notify as notify,
)
from .own_schema import (
    is_same_place as is_same_place,
    require_own_schema as require_own_schema,
    require_rights as require_rights,
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
