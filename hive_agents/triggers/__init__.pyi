from .files import (
    all_triggers as all_triggers,
    is_anothers_service as is_anothers_service,
    parse_trigger as parse_trigger,
    reached_trigger as reached_trigger,
    reaches as reaches,
    remove_trigger as remove_trigger,
    sound_trigger as sound_trigger,
    trigger_change as trigger_change,
    trigger_ids as trigger_ids,
    trigger_removal as trigger_removal,
    write_trigger as write_trigger,
)
from .firing import (
    key_of as key_of,
    kind_of as kind_of,
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
from .webhooks import (
    RefusedRequest as RefusedRequest,
    accept as accept,
)
