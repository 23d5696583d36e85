from . import (
    machine as machine,
    trusted as trusted,
    workspace as workspace,
)
from .machine import (
    cores as cores,
    make_state as make_state,
)
from .trusted import (
    MODEL_BYTES as MODEL_BYTES,
    TrustStatus as TrustStatus,
    file_within as file_within,
    is_trusted as is_trusted,
    is_trusted_model as is_trusted_model,
    may_sign as may_sign,
    pins_file as pins_file,
    require_trust as require_trust,
    require_trusted_model as require_trusted_model,
    server_files as server_files,
    trust as trust,
    trusted_bytes as trusted_bytes,
    untrusted_files as untrusted_files,
    untrusted_notice as untrusted_notice,
)
from .workspace import (
    RemoteDatabase as RemoteDatabase,
    Workspace as Workspace,
)
