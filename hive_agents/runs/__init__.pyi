from . import (
    checkpoints as checkpoints,
    control as control,
    store as store,
)
from .beside import (
    beside as beside,
)
from .checkpoints import (
    checkpointer as checkpointer,
    load_graph as load_graph,
)
from .control import (
    end_person as end_person,
    pause as pause,
    resume as resume,
    say as say,
    stop as stop,
)
from .driver import (
    Run as Run,
    RunOutcome as RunOutcome,
    leases_of as leases_of,
)
from .leases import (
    Hold as Hold,
    Lease as Lease,
    LeaseLost as LeaseLost,
    Leases as Leases,
    at_work as at_work,
    join as join,
    leave as leave,
    taken as taken,
    taken_each as taken_each,
)
from .limits import (
    Limits as Limits,
)
from .queue import (
    DueRun as DueRun,
    RunQueue as RunQueue,
    in_turns as in_turns,
)
from .scope import (
    Scope as Scope,
)
from .store import (
    ACTIVE as ACTIVE,
    AGENT_GRAPH as AGENT_GRAPH,
    CHAT_GRAPH as CHAT_GRAPH,
    ENDED as ENDED,
    OPTIMIZER_GRAPH as OPTIMIZER_GRAPH,
    STATUSES as STATUSES,
    RunRow as RunRow,
    RunStore as RunStore,
    run_turn as run_turn,
)
