from . import (
    interchange as interchange,
    labelling as labelling,
    outside as outside,
    reach as reach,
    readers as readers,
    results as results,
    statistics as statistics,
)
from .compare import (
    Comparison as Comparison,
    changed as changed,
    compare as compare,
)
from .engines import (
    EngineComparison as EngineComparison,
    compare_engines as compare_engines,
)
from .evaluate import (
    Scopes as Scopes,
    evaluate as evaluate,
    evaluate_interleaved as evaluate_interleaved,
)
from .golden import (
    FILE as FILE,
    GENERATED as GENERATED,
    GoldenQuery as GoldenQuery,
    GoldenSet as GoldenSet,
    OpenSplit as OpenSplit,
    Split as Split,
    concealed as concealed,
    hash_before as hash_before,
    load_golden as load_golden,
    question_key as question_key,
    viewable_golden as viewable_golden,
)
from .label_yield import (
    LabelYield as LabelYield,
    open_questions as open_questions,
)
from .leakage import (
    Leaks as Leaks,
    leaks_of as leaks_of,
)
from .powered import (
    PoweredDifference as PoweredDifference,
    powered_difference as powered_difference,
)
from .ranking_asking import (
    ask_both as ask_both,
)
from .ranking_sources import (
    Source as Source,
    open_source as open_source,
)
from .readers import (
    Reach as Reach,
    Readers as Readers,
    readers_lines as readers_lines,
)
from .results import (
    Evaluation as Evaluation,
)
from .splits import (
    PROVING as PROVING,
    golden_size as golden_size,
    held_out as held_out,
    missing_labels as missing_labels,
    open_part as open_part,
    split as split,
)
from .statistics import (
    spent_alpha as spent_alpha,
)
from .suggesting import (
    suggest as suggest,
)
