from .answers import (
    Recheck as Recheck,
)
from .patch import (
    PatchError as PatchError,
    json_patch as json_patch,
    patched as patched,
)
from .permission import (
    handed_to as handed_to,
    hindrance as hindrance,
    refused as refused,
)
from .policy import (
    STRICTER as STRICTER,
    ToolDecision as ToolDecision,
    ToolPolicy as ToolPolicy,
    ToolRule as ToolRule,
)
from .reader import (
    WITHHELD as WITHHELD,
    RequestReader as RequestReader,
)
from .request import (
    OWN_TENANT as OWN_TENANT,
    ApprovalRequest as ApprovalRequest,
    Approvers as Approvers,
    Diff as Diff,
    Filing as Filing,
    Status as Status,
    Verb as Verb,
    batch_hash as batch_hash,
    filed_by as filed_by,
)
from .store import (
    ApprovalStore as ApprovalStore,
)
