from .compare import (
    Comparison as Comparison,
    changed as changed,
    compare as compare,
)
from .evaluate import (
    Evaluation as Evaluation,
    QueryEvaluation as QueryEvaluation,
    evaluate as evaluate,
    evaluate_interleaved as evaluate_interleaved,
)
from .golden import (
    FILE as FILE,
    GoldenQuery as GoldenQuery,
    GoldenSet as GoldenSet,
    load_golden as load_golden,
)
from .label_yield import (
    LabelYield as LabelYield,
    open_questions as open_questions,
)
from .labelling import (
    pool as pool,
    question_key as question_key,
    save_label as save_label,
)
from .records import (
    record as record,
)
from .scopes import (
    Scopes as Scopes,
)
from .statistics import (
    PairedDifference as PairedDifference,
    holm_adjusted as holm_adjusted,
    is_measurable as is_measurable,
    needed_queries as needed_queries,
    one_sided_p_value as one_sided_p_value,
    paired_difference as paired_difference,
    spent_alpha as spent_alpha,
)
from .suggesting import (
    GENERATED as GENERATED,
    Suggestion as Suggestion,
    suggest as suggest,
)
