from .access import (
    Principal as Principal,
)
from .agents import (
    AgentRun as AgentRun,
    AgentSpec as AgentSpec,
    ToolContext as ToolContext,
    ToolRegistry as ToolRegistry,
)
from .agents.code import (
    Agent as Agent,
    Budget as Budget,
    flow as flow,
)
from .agents.judges import (
    JudgeProtocol as JudgeProtocol,
    NodeContext as NodeContext,
    NodeVerdict as NodeVerdict,
    register_judge as register_judge,
)
from .agents.node_judge import (
    SubagentJudge as SubagentJudge,
)
from .agents.spec import (
    EdgeSpec as EdgeSpec,
    NodeSpec as NodeSpec,
)
from .agents.tool import (
    Call as Call,
)
from .agents.trial import (
    Trial as Trial,
)
from .agents.typed_tools import (
    effect as effect,
    idempotency_key as idempotency_key,
    tool as tool,
)
from .approvals import (
    ApprovalRequest as ApprovalRequest,
)
from .base import (
    Diagnostic as Diagnostic,
    HiveError as HiveError,
)
from .copilot import (
    Chat as Chat,
    DocumentFilter as DocumentFilter,
)
from .copilot.plan import (
    Plan as Plan,
    RouterDecision as RouterDecision,
    SearchStrategy as SearchStrategy,
)
from .documents import (
    Collection as Collection,
)
from .evaluation import (
    Evaluation as Evaluation,
    evaluate as evaluate,
)
from .events import (
    EscalationTicket as EscalationTicket,
    Event as Event,
    EventBus as EventBus,
    EventType as EventType,
)
from .goals import (
    CapabilityLevel as CapabilityLevel,
    Constraint as Constraint,
    Goal as Goal,
    SuccessCriterion as SuccessCriterion,
)
from .host import (
    Host as Host,
)
from .index.indexing import (
    IndexReport as IndexReport,
)
from .judging import (
    Certificate as Certificate,
    EvaluationRule as EvaluationRule,
    FeedbackContext as FeedbackContext,
    HybridJudge as HybridJudge,
    Judgment as Judgment,
    JudgmentAction as JudgmentAction,
    Runtime as Runtime,
    Signal as Signal,
)
from .judging.criteria import (
    register_criterion as register_criterion,
)
from .judging.learning.proposals import (
    RuleProposal as RuleProposal,
)
from .judging.metrics import (
    CalibrationMetrics as CalibrationMetrics,
)
from .judging.sequential import (
    DriftDetector as DriftDetector,
)
from .judging.weights import (
    SignalWeights as SignalWeights,
)
from .memory import (
    ContextHandoff as ContextHandoff,
    ConversationStore as ConversationStore,
    DataBuffer as DataBuffer,
    OutputAccumulator as OutputAccumulator,
    ToolResult as ToolResult,
)
from .ranking import (
    Hit as Hit,
    Ranking as Ranking,
    RetrievalConfig as RetrievalConfig,
    SearchEngine as SearchEngine,
)
from .ranking.searchable import (
    Workspace as Workspace,
)
from .sync import (
    ImportReport as ImportReport,
)
from .sync.importing import (
    import_documents as import_documents,
)
