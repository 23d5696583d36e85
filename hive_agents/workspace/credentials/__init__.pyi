from .postgres_login import (
    login_fix as login_fix,
    login_options as login_options,
)
from .references import (
    is_reference as is_reference,
    resolve as resolve,
)
from .secret import (
    Secret as Secret,
    redacted as redacted,
)
from .store import (
    CredentialStore as CredentialStore,
)
