from .examining import (
    examine_documents as examine_documents,
)
from .forgetting import (
    forget_sources as forget_sources,
)
from .importing import (
    changes as changes,
    import_documents as import_documents,
)
from .report import (
    ImportReport as ImportReport,
    LeftOut as LeftOut,
    Skipped as Skipped,
)
