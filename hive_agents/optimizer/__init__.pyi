from . import (
    report as report,
    stale as stale,
    steps as steps,
    why as why,
)
from .context import (
    OptimizerContext as OptimizerContext,
)
from .run import (
    OptimizeRun as OptimizeRun,
)
from .session import (
    OptimizerSession as OptimizerSession,
    load_tuning as load_tuning,
)
from .space import (
    in_words as in_words,
)
from .why_document import (
    document_ways as document_ways,
)
