"""What starts runs by itself: schedules, webhooks and event streams."""

from hive_agents.triggers.files import (
    all_triggers,
    check_trigger,
    load_trigger,
    parse_trigger,
    remove_trigger,
    sound_trigger,
    trigger_ids,
    write_trigger,
)
from hive_agents.triggers.firing import Fire, is_refusal, key_of, kind_of
from hive_agents.triggers.schedule import Ticks, next_tick, ticks_between
from hive_agents.triggers.scheduler import GRACE, Outcome, Scheduler
from hive_agents.triggers.spec import (
    CronTrigger,
    IntervalTrigger,
    SseTrigger,
    TriggerSpec,
    WebhookTrigger,
    is_scheduled,
)
from hive_agents.triggers.sse import Subscription
from hive_agents.triggers.store import TriggerState, TriggerStore
from hive_agents.triggers.subscriptions import Subscriptions
from hive_agents.triggers.webhooks import Accepted, Refused, accept, sign

__all__ = [
    "GRACE",
    "Accepted",
    "CronTrigger",
    "Fire",
    "IntervalTrigger",
    "Outcome",
    "Refused",
    "Scheduler",
    "SseTrigger",
    "Subscription",
    "Subscriptions",
    "Ticks",
    "TriggerSpec",
    "TriggerState",
    "TriggerStore",
    "WebhookTrigger",
    "accept",
    "all_triggers",
    "check_trigger",
    "is_refusal",
    "is_scheduled",
    "key_of",
    "kind_of",
    "load_trigger",
    "next_tick",
    "parse_trigger",
    "remove_trigger",
    "sign",
    "sound_trigger",
    "ticks_between",
    "trigger_ids",
    "write_trigger",
]
