from . import (
    conversion as conversion,
    from_mail as from_mail,
    registry as registry,
)
from .conversion import (
    read as read,
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
from .registry import (
    KINDS as KINDS,
    MAX_BYTES as MAX_BYTES,
    kind_of as kind_of,
)
from .rows import (
    path_part as path_part,
)
