from . import (
    machine as machine,
    trusted as trusted,
    workspace as workspace,
)
from .machine import (
    cores as cores,
)
from .trusted import (
    file_within as file_within,
    is_trusted as is_trusted,
    require_trust as require_trust,
    server_files as server_files,
    trust as trust,
    trusted_bytes as trusted_bytes,
    untrusted_files as untrusted_files,
)
from .workspace import (
    RemoteDatabase as RemoteDatabase,
    Workspace as Workspace,
)
