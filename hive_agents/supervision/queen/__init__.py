"""The queen: she looks after runs by a policy, and answers people in their own scope; she decides nothing for them."""

from hive_agents.supervision.queen.action_log import ActionLog, Entry
from hive_agents.supervision.queen.colony import QUEEN, Colony
from hive_agents.supervision.queen.rulings import is_ruling
from hive_agents.supervision.queen.session import QueenSession
from hive_agents.supervision.queen.workers import Worker

__all__ = ["QUEEN", "ActionLog", "Colony", "Entry", "QueenSession", "Worker", "is_ruling"]
