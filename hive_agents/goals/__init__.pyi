from . import (
    goals as goals,
)
from .goals import (
    CapabilityLevel as CapabilityLevel,
    Constraint as Constraint,
    Goal as Goal,
    SuccessCriterion as SuccessCriterion,
    goal_ids as goal_ids,
    goal_type_of as goal_type_of,
    load_goal as load_goal,
)
from .patterns import (
    compiled as compiled,
)
