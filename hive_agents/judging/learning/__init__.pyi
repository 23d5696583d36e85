from .mining import (
    mine as mine,
)
from .proposals import (
    RuleProposal as RuleProposal,
)
from .stages import (
    LearnedRule as LearnedRule,
    RuleBook as RuleBook,
)
