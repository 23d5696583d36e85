from . import (
    conversion as conversion,
    registry as registry,
)
from .conversion import (
    convert as convert,
    read as read,
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
    kind_of as kind_of,
)
from .rows import (
    path_part as path_part,
)
