from .goals import (
    CALL_NAMES as CALL_NAMES,
    CapabilityLevel as CapabilityLevel,
    Constraint as Constraint,
    EvalCase as EvalCase,
    ExpectedCall as ExpectedCall,
    Goal as Goal,
    NamedGoalType as NamedGoalType,
    SuccessCriterion as SuccessCriterion,
    ToolStub as ToolStub,
    goal_ids as goal_ids,
    goal_type_of as goal_type_of,
    load_goal as load_goal,
)
from .patterns import (
    compiled as compiled,
)
