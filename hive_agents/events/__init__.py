"""The event bus: typed events, subscribers with bounded queues, a durable log."""

from hive_agents.events.bell import Bell
from hive_agents.events.bus import EventBus
from hive_agents.events.consumer import Consumer
from hive_agents.events.ids import derived_id
from hive_agents.events.log import EventLog
from hive_agents.events.protocols import Bus, EventLogProtocol, Handler, Overflow, SubscriptionProtocol
from hive_agents.events.subscription import Subscription
from hive_agents.events.tickets import TICKET_EVENTS, Cause, EscalationTicket, Severity, tickets_of, worst
from hive_agents.events.types import DURABLE, Event, EventType

__all__ = [
    "DURABLE",
    "TICKET_EVENTS",
    "Bell",
    "Bus",
    "Cause",
    "Consumer",
    "EscalationTicket",
    "Event",
    "EventBus",
    "EventLog",
    "EventLogProtocol",
    "EventType",
    "Handler",
    "Overflow",
    "Severity",
    "Subscription",
    "SubscriptionProtocol",
    "derived_id",
    "tickets_of",
    "worst",
]
