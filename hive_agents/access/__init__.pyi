from .documents import (
    CurrentLabels as CurrentLabels,
    Documents as Documents,
    labels_in_file as labels_in_file,
)
from .gate import (
    TurnGate as TurnGate,
    ViewGate as ViewGate,
)
from .grants import (
    AccessFile as AccessFile,
    Grant as Grant,
)
from .keys import (
    SigningKey as SigningKey,
    keys_of as keys_of,
    uses_local_key as uses_local_key,
)
from .labels import (
    AccessLabels as AccessLabels,
)
from .local_key import (
    local_key as local_key,
)
from .logins import (
    LINK_SECONDS as LINK_SECONDS,
    SESSION_SECONDS as SESSION_SECONDS,
    asker_of as asker_of,
    begin_session as begin_session,
    end_session as end_session,
    is_session as is_session,
    login_code as login_code,
)
from .people import (
    asked_by as asked_by,
    person as person,
    same_person as same_person,
)
from .principal import (
    LOCAL_TENANT as LOCAL_TENANT,
    ROLES as ROLES,
    Principal as Principal,
    is_name as is_name,
    is_subject as is_subject,
)
from .remote import (
    PermissionFault as PermissionFault,
    RemotePermissions as RemotePermissions,
)
from .revoked import (
    revoke as revoke,
)
from .rules import (
    AccessRules as AccessRules,
    of_tenant as of_tenant,
)
from .service import (
    LocalPermissions as LocalPermissions,
    OpenPermissions as OpenPermissions,
    PermissionService as PermissionService,
    permissions_of as permissions_of,
)
from .standing import (
    Standing as Standing,
)
from .tokens import (
    Token as Token,
    mint as mint,
    verify as verify,
)
from .who import (
    TOKEN as TOKEN,
    Asker as Asker,
    Caller as Caller,
    Decider as Decider,
    known_principal as known_principal,
    local_user as local_user,
    owner as owner,
    require_proof as require_proof,
    service_principal as service_principal,
)
