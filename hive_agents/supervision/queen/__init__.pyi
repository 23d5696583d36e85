from .action_log import (
    ActionLog as ActionLog,
)
from .colony import (
    QUEEN as QUEEN,
    Colony as Colony,
    Propose as Propose,
)
from .rulings import (
    is_ruling as is_ruling,
)
from .session import (
    QueenSession as QueenSession,
)
from .workers import (
    Worker as Worker,
)
