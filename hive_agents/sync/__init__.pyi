from . import (
    editing as editing,
    importing as importing,
)
from .examining import (
    examine_documents as examine_documents,
)
from .forgetting import (
    ForgetReport as ForgetReport,
    forget_sources as forget_sources,
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
from .syncing import (
    Sync as Sync,
    SyncProgress as SyncProgress,
)
