from . import (
    mining as mining,
    prompts as prompts,
    stages as stages,
)
from .stages import (
    unknown_rule as unknown_rule,
)
