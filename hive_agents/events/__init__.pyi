from .bell import (
    Bell as Bell,
)
from .bus import (
    EventBus as EventBus,
)
from .consumer import (
    Consumer as Consumer,
)
from .log import (
    EventLog as EventLog,
)
from .protocols import (
    Bus as Bus,
    Publish as Publish,
)
from .tickets import (
    ESCALATIONS as ESCALATIONS,
    SEVERITIES as SEVERITIES,
    TICKET_EVENTS as TICKET_EVENTS,
    EscalationTicket as EscalationTicket,
    TicketCause as TicketCause,
    TicketSeverity as TicketSeverity,
    ticket_id as ticket_id,
    tickets_of as tickets_of,
    worst as worst,
)
from .types import (
    DURABLE as DURABLE,
    Event as Event,
    EventSource as EventSource,
    EventType as EventType,
    derived_id as derived_id,
)
