"""What keeps an agent from going round in circles, and from spending more than it may."""

from hive_agents.agents.guards.budget import Budget, BudgetExhausted, Limits, Spent
from hive_agents.agents.guards.loops import doom_loop, fingerprint
from hive_agents.agents.guards.retries import RetryPolicy, is_transient, retried
from hive_agents.agents.guards.stalls import Turn, is_stalled

__all__ = [
    "Budget",
    "BudgetExhausted",
    "Limits",
    "RetryPolicy",
    "Spent",
    "Turn",
    "doom_loop",
    "fingerprint",
    "is_stalled",
    "is_transient",
    "retried",
]
