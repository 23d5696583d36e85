"""Rules learned from what people decided, proposed to people, and let in step by step."""

from hive_agents.judging.learning.mining import mine
from hive_agents.judging.learning.proposals import RuleProposal
from hive_agents.judging.learning.stages import LearnedRule, RuleBook

__all__ = ["LearnedRule", "RuleBook", "RuleProposal", "mine"]
