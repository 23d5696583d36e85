from . import (
    audits as audits,
    calibration as calibration,
    evaluators as evaluators,
    requests as requests,
    rules as rules,
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
from .rules import (
    EvaluationRule as EvaluationRule,
    load_rules as load_rules,
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
