from .budget import (
    MEASURES as MEASURES,
    Budget as Budget,
    BudgetExhausted as BudgetExhausted,
    BudgetSpent as BudgetSpent,
    Limits as Limits,
    Measure as Measure,
)
from .loops import (
    doom_loop as doom_loop,
    fingerprint as fingerprint,
    kept as kept,
)
from .retries import (
    RetryPolicy as RetryPolicy,
    is_transient as is_transient,
    retried as retried,
)
from .stalls import (
    LoopTurn as LoopTurn,
    is_stalled as is_stalled,
)
