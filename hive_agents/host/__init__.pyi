from . import (
    decisions as decisions,
    moving as moving,
)
from .backup import (
    DUMP as DUMP,
    back_up as back_up,
)
from .decisions import (
    decide as decide,
)
from .doctor import (
    examine as examine,
)
from .doctor_permissions import (
    nobody_sees as nobody_sees,
)
from .firing import (
    fire as fire,
)
from .host import (
    Host as Host,
)
from .housekeeping import (
    delete_run as delete_run,
)
from .imports import (
    DocumentImport as DocumentImport,
    DocumentImports as DocumentImports,
    ImportedUpload as ImportedUpload,
    ImportStatus as ImportStatus,
    document_deleted as document_deleted,
    folder_below as folder_below,
    record_document as record_document,
)
from .languages import (
    language_advice as language_advice,
)
from .moving import (
    where as where,
)
from .queen import (
    Queen as Queen,
)
from .recorded_case import (
    record_case as record_case,
)
from .replay import (
    Replay as Replay,
    replay as replay,
)
