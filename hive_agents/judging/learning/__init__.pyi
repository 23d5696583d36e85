from . import (
    prompts as prompts,
)
from .mining import (
    mine as mine,
    nothing_because as nothing_because,
)
from .stages import (
    LearnedRule as LearnedRule,
    RuleBook as RuleBook,
    unknown_rule as unknown_rule,
)
