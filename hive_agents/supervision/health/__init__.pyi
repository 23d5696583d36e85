from .context import (
    JudgeContext as JudgeContext,
    OpenModels as OpenModels,
)
from .criteria import (
    align as align,
    stale_criteria as stale_criteria,
)
from .steps import (
    assess as assess,
    detect as detect,
    looked_back as looked_back,
    observe as observe,
    remember as remember,
    tell as tell,
)
from .summary import (
    watched_tenants as watched_tenants,
)
from .tickets import (
    TicketBook as TicketBook,
)
