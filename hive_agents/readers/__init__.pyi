from .conversion import (
    KINDS as KINDS,
    MAX_BYTES as MAX_BYTES,
    VERSION as VERSION,
    convert as convert,
    convert_bytes as convert_bytes,
    is_plain_name as is_plain_name,
    is_table as is_table,
    kind_of as kind_of,
    read as read,
    rows_in as rows_in,
    unsupported as unsupported,
)
from .decoding import (
    decode as decode,
)
from .imported import (
    UNSUPPORTED as UNSUPPORTED,
    Imported as Imported,
    ImportFailure as ImportFailure,
    TableRow as TableRow,
)
