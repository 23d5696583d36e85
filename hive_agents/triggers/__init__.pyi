from . import (
    files as files,
    firing as firing,
    webhooks as webhooks,
)
from .files import (
    all_triggers as all_triggers,
    reached_trigger as reached_trigger,
    reaches as reaches,
)
from .scheduler import (
    Scheduler as Scheduler,
)
from .spec import (
    TriggerSpec as TriggerSpec,
    is_scheduled as is_scheduled,
)
from .store import (
    TriggerStore as TriggerStore,
    coming as coming,
    trigger_row as trigger_row,
)
from .subscriptions import (
    Subscriptions as Subscriptions,
)
