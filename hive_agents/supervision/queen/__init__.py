"""The queen: she looks after runs by a policy, and answers people in their own scope; she decides nothing for them.

She may read runs, tickets, requests and values, control runs, and file requests, and imports nothing that decides a
request or reads a secret. What a ticket makes her do is in `policy` and `escalations`, what a person's answer makes her
do in `rulings`; what may be said to her without a model is in `commands`, with one in `tools`, within a `mandate`.
"""

from typing import TYPE_CHECKING

from hive_agents.lazy import lazy

if TYPE_CHECKING:
    from hive_agents.supervision.queen.action_log import ActionEntry, ActionLog
    from hive_agents.supervision.queen.colony import QUEEN, Colony, Propose
    from hive_agents.supervision.queen.rulings import is_ruling
    from hive_agents.supervision.queen.session import QueenSession
    from hive_agents.supervision.queen.workers import Worker

__all__ = ["QUEEN", "ActionEntry", "ActionLog", "Colony", "Propose", "QueenSession", "Worker", "is_ruling"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(
        __name__,
        {
            "action_log": "ActionLog ActionEntry",
            "colony": "QUEEN Colony Propose",
            "rulings": "is_ruling",
            "session": "QueenSession",
            "workers": "Worker",
        },
    )
