from . import (
    steps as steps,
)
from .context import (
    JudgeContext as JudgeContext,
    OpenModels as OpenModels,
)
from .criteria import (
    align as align,
    stale_criteria as stale_criteria,
)
from .summary import (
    watched_tenants as watched_tenants,
)
from .tickets import (
    TicketBook as TicketBook,
)
