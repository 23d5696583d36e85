from . import (
    anybody as anybody,
    approved as approved,
    canary as canary,
    gate as gate,
    generations as generations,
    holdout as holdout,
    interleaving as interleaving,
)
from .acceptance import (
    require_acceptable as require_acceptable,
)
from .canary import (
    CanaryStatus as CanaryStatus,
    canary_status as canary_status,
)
from .certificate import (
    log_verdict as log_verdict,
)
from .decision import (
    GateFinding as GateFinding,
)
from .deploy import (
    Deployment as Deployment,
    deploy as deploy,
    rollback as rollback,
    switch as switch,
)
from .faulty import (
    check_beside_faults as check_beside_faults,
)
from .golden_trust import (
    accept as accept,
    is_accepted as is_accepted,
    label as label,
)
from .holdout import (
    visible_part as visible_part,
)
from .ledger import (
    distinct as distinct,
)
from .tags import (
    TagChange as TagChange,
    falling_tags as falling_tags,
)
