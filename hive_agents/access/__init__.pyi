from . import (
    logins as logins,
    proofs as proofs,
    service as service,
    tokens as tokens,
    who as who,
)
from .editing import (
    access_change as access_change,
    grant_change as grant_change,
)
from .keys import (
    TOKENS as TOKENS,
    keys_of as keys_of,
    local_key as local_key,
    uses_local_key as uses_local_key,
)
from .principal import (
    LOCAL_TENANT as LOCAL_TENANT,
    OWNER as OWNER,
    RESERVED as RESERVED,
    ROLES as ROLES,
    AccessLabels as AccessLabels,
    Principal as Principal,
    asked_by as asked_by,
    is_name as is_name,
    local_user as local_user,
    owner as owner,
)
from .proofs import (
    issued_tokens as issued_tokens,
)
from .remote import (
    RemotePermissions as RemotePermissions,
)
from .rules import (
    AccessFile as AccessFile,
    AccessRules as AccessRules,
    Grant as Grant,
    GroupEntry as GroupEntry,
    PermissionFault as PermissionFault,
    PrincipalEntry as PrincipalEntry,
    is_open as is_open,
    known_principal as known_principal,
)
from .service import (
    ViewGate as ViewGate,
    labels_in_file as labels_in_file,
    permissions_of as permissions_of,
)
from .tokens import (
    Standing as Standing,
    mint as mint,
    revoke as revoke,
)
from .who import (
    OPERATORS as OPERATORS,
    Asker as Asker,
    people as people,
    person as person,
    same_hands as same_hands,
    same_person as same_person,
    service_principal as service_principal,
)
