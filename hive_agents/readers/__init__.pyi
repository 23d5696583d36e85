from .conversion import (
    attachments_of as attachments_of,
    convert as convert,
    convert_bytes as convert_bytes,
    read as read,
    rows_in as rows_in,
    streamed as streamed,
)
from .decoding import (
    decode as decode,
)
from .from_mail import (
    mails_of as mails_of,
    unquoted_mail as unquoted_mail,
)
from .imported import (
    UNSUPPORTED as UNSUPPORTED,
    Imported as Imported,
    ImportFailure as ImportFailure,
    TableRow as TableRow,
)
from .registry import (
    KINDS as KINDS,
    MAX_BYTES as MAX_BYTES,
    READERS as READERS,
    SETTINGS as SETTINGS,
    is_plain_name as is_plain_name,
    is_table as is_table,
    kind_of as kind_of,
    unsupported as unsupported,
)
from .rows import (
    path_part as path_part,
)
