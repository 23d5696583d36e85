from . import (
    deployed as deployed,
    deployment as deployment,
    draft as draft,
    goal_judge as goal_judge,
    mcp_servers as mcp_servers,
    node_end as node_end,
    rehearsal as rehearsal,
    spec as spec,
    verify as verify,
)
from .config_tools import (
    propose_config as propose_config,
)
from .deployed import (
    deployed_text as deployed_text,
    deployment_warnings as deployment_warnings,
    follow_history as follow_history,
    known_agents as known_agents,
    require_agent as require_agent,
    roll_back as roll_back,
    serving_agent as serving_agent,
    versions as versions,
)
from .effects import (
    Done as Done,
    Effects as Effects,
)
from .evaluation import (
    evaluate_agent as evaluate_agent,
)
from .input import (
    RunValue as RunValue,
    accepted_input as accepted_input,
    require_agent_run as require_agent_run,
)
from .new_agent import (
    new_agent as new_agent,
)
from .node_loop import (
    STEPS as STEPS,
)
from .node_work import (
    NodeWork as NodeWork,
)
from .own_tools import (
    code_at as code_at,
    workspace_tools as workspace_tools,
)
from .recheck import (
    recheck_for as recheck_for,
)
from .recorded_code import (
    recorded_code as recorded_code,
)
from .recording import (
    MadeCall as MadeCall,
    RecordedStep as RecordedStep,
    Recording as Recording,
)
from .retry import (
    retry as retry,
)
from .run import (
    AgentRun as AgentRun,
)
from .run_log import (
    RunLog as RunLog,
)
from .searching import (
    scoped_search as scoped_search,
)
from .session import (
    AgentSession as AgentSession,
)
from .spec import (
    AgentSpec as AgentSpec,
)
from .steps import (
    steps_of as steps_of,
)
from .stricter import (
    changes_since as changes_since,
)
from .tool import (
    Tool as Tool,
    ToolContext as ToolContext,
)
from .tools import (
    ToolRegistry as ToolRegistry,
    Tools as Tools,
)
from .viewing import (
    RunView as RunView,
)
from .web_tools import (
    destination as destination,
)
