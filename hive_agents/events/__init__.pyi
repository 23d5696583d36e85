from . import (
    tickets as tickets,
)
from .bell import (
    Bell as Bell,
    tail as tail,
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
    EscalationTicket as EscalationTicket,
    TicketCause as TicketCause,
    TicketSeverity as TicketSeverity,
    tickets_of as tickets_of,
)
from .types import (
    DURABLE as DURABLE,
    Event as Event,
    EventSource as EventSource,
    EventType as EventType,
    derived_id as derived_id,
)
