from . import (
    audits as audits,
    calibration as calibration,
)
from .binomial import (
    lower_bound as lower_bound,
)
from .certify import (
    Certificate as Certificate,
)
from .claims import (
    slips as slips,
)
from .criteria import (
    score_criteria as score_criteria,
)
from .decision_log import (
    DecisionLog as DecisionLog,
)
from .evaluators import (
    Abstention as Abstention,
    AsyncEvaluator as AsyncEvaluator,
    EvaluatorFault as EvaluatorFault,
    ModelEvaluator as ModelEvaluator,
)
from .finer import (
    MOST_SHOWN as MOST_SHOWN,
    Annotators as Annotators,
    Cascade as Cascade,
)
from .hybrid import (
    Attempts as Attempts,
    HybridJudge as HybridJudge,
)
from .judges import (
    Runtime as Runtime,
)
from .requests import (
    ANSWERED as ANSWERED,
    EFFECTS as EFFECTS,
    ask_for_rule as ask_for_rule,
    ask_for_thresholds as ask_for_thresholds,
    carried_out as carried_out,
    open_drift_ticket as open_drift_ticket,
    open_missed_tickets as open_missed_tickets,
    overtaken_because as overtaken_because,
)
from .rules import (
    EvaluationRule as EvaluationRule,
    decide as decide,
    load_rules as load_rules,
    names_of as names_of,
)
from .stats import (
    judge_stats as judge_stats,
)
from .verdict import (
    EscalationReason as EscalationReason,
    FailedStep as FailedStep,
    FeedbackContext as FeedbackContext,
    Judgment as Judgment,
    JudgmentAction as JudgmentAction,
    Signal as Signal,
)
