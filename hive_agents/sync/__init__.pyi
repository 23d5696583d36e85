from .editing import (
    change_fields as change_fields,
    delete_document as delete_document,
    outcome_of as outcome_of,
    sources_of as sources_of,
)
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
from .placing import (
    places as places,
)
from .report import (
    ImportReport as ImportReport,
    LeftOut as LeftOut,
    Skipped as Skipped,
)
