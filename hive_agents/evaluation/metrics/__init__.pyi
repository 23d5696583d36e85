from .distractors import (
    distractors as distractors,
)
from .labels import (
    discount as discount,
    ideal_dcg as ideal_dcg,
)
from .measure import (
    measure as measure,
)
from .mrr import (
    reciprocal_rank as reciprocal_rank,
)
from .ndcg import (
    ndcg as ndcg,
)
from .precision import (
    precision as precision,
)
from .recall import (
    recall as recall,
)
from .udcg import (
    ideal_udcg as ideal_udcg,
    nudcg as nudcg,
    udcg as udcg,
)
