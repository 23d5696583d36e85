from .conversion import (
    KINDS as KINDS,
    convert as convert,
    convert_bytes as convert_bytes,
)
from .examining import (
    DocumentFinding as DocumentFinding,
    examine_documents as examine_documents,
)
from .forgetting import (
    ForgetReport as ForgetReport,
    forget_sources as forget_sources,
)
from .imported import (
    UNSUPPORTED as UNSUPPORTED,
    Imported as Imported,
    ImportFailure as ImportFailure,
)
from .importing import (
    changes as changes,
    import_documents as import_documents,
)
from .report import (
    ImportReport as ImportReport,
    Skipped as Skipped,
)
