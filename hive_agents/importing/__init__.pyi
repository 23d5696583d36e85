from .conversion import (
    KINDS as KINDS,
    convert as convert,
)
from .files import (
    ImportReport as ImportReport,
    Skipped as Skipped,
    import_files as import_files,
)
from .imported import (
    Imported as Imported,
    ImportFailure as ImportFailure,
)
