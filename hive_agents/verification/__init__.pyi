from .acceptance import (
    require_acceptable as require_acceptable,
)
from .anybody import (
    BUDGETED as BUDGETED,
    CheapLabels as CheapLabels,
    RankingsFinding as RankingsFinding,
    decide_again as decide_again,
    gate_rankings as gate_rankings,
    home_of as home_of,
    ledger_beside as ledger_beside,
    record_acceptance as record_acceptance,
)
from .approved import (
    deploy_approved as deploy_approved,
    deployed_for as deployed_for,
    stale_because as stale_because,
)
from .canary import (
    Canary as Canary,
    CanarySignal as CanarySignal,
    CanaryStatus as CanaryStatus,
    Impression as Impression,
    ImpressionKind as ImpressionKind,
    Tally as Tally,
    canary_for as canary_for,
    canary_status as canary_status,
    credit as credit,
    decide_canary as decide_canary,
    draft_seed as draft_seed,
    open_impressions as open_impressions,
    record_impression as record_impression,
    running_canary as running_canary,
)
from .certificate import (
    changed_since as changed_since,
    log_verdict as log_verdict,
)
from .check import (
    check_config as check_config,
    named_config as named_config,
    require_sound as require_sound,
    stored_from as stored_from,
)
from .decision import (
    GateDecision as GateDecision,
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
    cost_of_look as cost_of_look,
    visible_part as visible_part,
)
from .interleaving import (
    ALARM as ALARM,
    NEITHER as NEITHER,
    Draft as Draft,
    e_value as e_value,
    still_missing as still_missing,
    team_draft as team_draft,
)
from .ledger import (
    MAX_USES as MAX_USES,
    HoldoutUse as HoldoutUse,
    distinct as distinct,
)
from .tags import (
    TagChange as TagChange,
    falling_tags as falling_tags,
)
