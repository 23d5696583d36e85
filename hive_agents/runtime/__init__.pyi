from . import (
    agent_deploy as agent_deploy,
)
from .agent_deploy import (
    AgentDeployment as AgentDeployment,
)
from .agent_eval import (
    CaseRuns as CaseRuns,
    evaluate_agent as evaluate_agent,
)
from .agent_gate import (
    Stage as Stage,
)
from .agent_input import (
    accepted_input as accepted_input,
)
from .agent_run import (
    AgentRun as AgentRun,
)
from .backup import (
    Backup as Backup,
    back_up as back_up,
)
from .beside import (
    beside as beside,
)
from .chat import (
    Chat as Chat,
)
from .context import (
    HiveContext as HiveContext,
)
from .decisions import (
    ask_for_override as ask_for_override,
    decide as decide,
    decision_json as decision_json,
    finish as finish,
    host_goes_on as host_goes_on,
)
from .driver import (
    leases_of as leases_of,
)
from .firing import (
    fire as fire,
)
from .host import (
    ROLES as ROLES,
    Host as Host,
)
from .housekeeping import (
    delete_run as delete_run,
)
from .judge_requests import (
    ask_for_rule as ask_for_rule,
    ask_for_thresholds as ask_for_thresholds,
    open_drift_ticket as open_drift_ticket,
)
from .moving import (
    MovedPart as MovedPart,
    RecordsMove as RecordsMove,
    move_records as move_records,
    record_counts as record_counts,
    reopen_records as reopen_records,
    where as where,
)
from .optimize import (
    OptimizeRun as OptimizeRun,
)
from .precedence import (
    Precedence as Precedence,
)
from .queen import (
    Queen as Queen,
)
from .question import (
    QuestionRun as QuestionRun,
)
from .recorded_case import (
    record_case as record_case,
)
from .replay import (
    Parting as Parting,
    Replay as Replay,
    replay as replay,
)
from .retry import (
    retry as retry,
)
from .runtime import (
    Runtime as Runtime,
)
from .tail import tail as tail
