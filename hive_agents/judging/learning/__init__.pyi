from .mining import (
    mine as mine,
    nothing_because as nothing_because,
)
from .proposals import (
    RuleProposal as RuleProposal,
)
from .stages import (
    LearnedRule as LearnedRule,
    RuleBook as RuleBook,
)
