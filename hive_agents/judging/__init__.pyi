from . import (
    audits as audits,
    calibration as calibration,
    labels as labels,
)
from .certify import (
    lower_bound as lower_bound,
)
from .criteria import (
    register_criterion as register_criterion,
    score_criteria as score_criteria,
)
from .decision_log import (
    DecisionLog as DecisionLog,
    Spent as Spent,
)
from .decisions import (
    ACTIONS as ACTIONS,
    UNTYPED as UNTYPED,
    JudgedCase as JudgedCase,
)
from .drift import (
    DriftState as DriftState,
)
from .evaluators import (
    AsyncEvaluator as AsyncEvaluator,
    Evaluator as Evaluator,
    EvaluatorFault as EvaluatorFault,
    ModelEvaluator as ModelEvaluator,
    Unavailable as Unavailable,
    evaluator as evaluator,
    fingerprint_of as fingerprint_of,
)
from .hybrid import (
    Attempts as Attempts,
    HybridJudge as HybridJudge,
    JudgeProtocol as JudgeProtocol,
)
from .labels import (
    enter as enter,
)
from .metrics import (
    CalibrationMetrics as CalibrationMetrics,
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
from .thresholds import (
    GLOBAL as GLOBAL,
    apply_threshold as apply_threshold,
    awaiting as awaiting,
    refuse_thresholds as refuse_thresholds,
    standing as standing,
    threshold_for as threshold_for,
)
from .verdict import (
    CapabilityLevel as CapabilityLevel,
    EscalationReason as EscalationReason,
    FailedStep as FailedStep,
    FeedbackContext as FeedbackContext,
    Judgment as Judgment,
    JudgmentAction as JudgmentAction,
    Signal as Signal,
)
