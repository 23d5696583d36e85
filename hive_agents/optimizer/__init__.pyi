from . import (
    steps as steps,
    why as why,
)
from .context import (
    OptimizerContext as OptimizerContext,
)
from .report import (
    declarable as declarable,
    ending as ending,
    for_readers as for_readers,
    missing as missing,
    proposed_by as proposed_by,
    reader_figures as reader_figures,
    reranking as reranking,
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
from .stale import (
    StalePair as StalePair,
    stale_pairs as stale_pairs,
)
from .why_document import (
    document_ways as document_ways,
)
