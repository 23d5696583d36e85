"""The queen: she looks after runs by a policy, and answers people in their own scope; she decides nothing for them."""

from hive_agents.supervision.queen.colony import ACTIVE, Colony
from hive_agents.supervision.queen.ledger import Entry, Ledger
from hive_agents.supervision.queen.rulings import is_ruling
from hive_agents.supervision.queen.scope import QUEEN
from hive_agents.supervision.queen.session import QueenSession
from hive_agents.supervision.queen.workers import Worker

__all__ = ["ACTIVE", "QUEEN", "Colony", "Entry", "Ledger", "QueenSession", "Worker", "is_ruling"]
