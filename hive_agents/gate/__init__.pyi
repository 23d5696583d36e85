from . import (
    anybody as anybody,
    approved as approved,
    interleaving as interleaving,
)
from .acceptance import (
    require_acceptable as require_acceptable,
)
from .canary import (
    CanaryStatus as CanaryStatus,
    Impression as Impression,
    ImpressionKind as ImpressionKind,
    canary_for as canary_for,
    canary_status as canary_status,
    credit as credit,
    decide_canary as decide_canary,
    draft_seed as draft_seed,
    open_impressions as open_impressions,
    record_impression as record_impression,
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
from .gate import (
    GateResult as GateResult,
    as_seen as as_seen,
    run_gate as run_gate,
)
from .generations import (
    accept_generations as accept_generations,
    decide_generations as decide_generations,
)
from .golden_trust import (
    accept as accept,
    is_accepted as is_accepted,
    label as label,
)
from .holdout import (
    proof_left as proof_left,
    proof_of as proof_of,
    visible_part as visible_part,
)
from .ledger import (
    distinct as distinct,
)
from .tags import (
    TagChange as TagChange,
    falling_tags as falling_tags,
)
