from .files import (
    all_triggers as all_triggers,
    check_trigger as check_trigger,
    load_trigger as load_trigger,
    parse_trigger as parse_trigger,
    reached_trigger as reached_trigger,
    reaches as reaches,
    remove_trigger as remove_trigger,
    sound_trigger as sound_trigger,
    trigger_ids as trigger_ids,
    write_trigger as write_trigger,
)
from .firing import (
    key_of as key_of,
    kind_of as kind_of,
)
from .schedule import (
    next_tick as next_tick,
    ticks_between as ticks_between,
)
from .scheduler import (
    Outcome as Outcome,
    Scheduler as Scheduler,
)
from .spec import (
    CronTrigger as CronTrigger,
    IntervalTrigger as IntervalTrigger,
    SseTrigger as SseTrigger,
    TriggerSpec as TriggerSpec,
    WebhookTrigger as WebhookTrigger,
    is_scheduled as is_scheduled,
)
from .sse import (
    StreamSubscription as StreamSubscription,
)
from .store import (
    TriggerStore as TriggerStore,
    trigger_row as trigger_row,
)
from .subscriptions import (
    Subscriptions as Subscriptions,
)
from .webhooks import (
    Accepted as Accepted,
    RefusedRequest as RefusedRequest,
    accept as accept,
    sign as sign,
)
