from . import (
    editing as editing,
    forgetting as forgetting,
    importing as importing,
    syncing as syncing,
)
from .examining import (
    examine_documents as examine_documents,
)
from .git import (
    git_output as git_output,
)
from .placing import (
    places as places,
)
from .records import (
    NAMED as NAMED,
    Records as Records,
)
from .report import (
    ImportReport as ImportReport,
    LeftOut as LeftOut,
    Skipped as Skipped,
    unsupported_kind as unsupported_kind,
)
from .sources import (
    Listing as Listing,
    SourceFile as SourceFile,
    list_files as list_files,
)
