from . import (
    receipt as receipt,
    steps as steps,
)
from .asking import (
    language_of_most as language_of_most,
)
from .chat import (
    Chat as Chat,
)
from .context import (
    CopilotContext as CopilotContext,
)
from .drafting import (
    interleaved as interleaved,
    results_under as results_under,
)
from .feedback import (
    STATUSES as STATUSES,
    VERDICTS as VERDICTS,
    FeedbackQueue as FeedbackQueue,
    Item as Item,
)
from .outcome import (
    Trace as Trace,
    TurnOutcome as TurnOutcome,
)
from .plan import (
    DocumentFilter as DocumentFilter,
    Plan as Plan,
    RouterDecision as RouterDecision,
    SearchStrategy as SearchStrategy,
)
from .query import (
    search as search,
)
from .reply import (
    LIMITED as LIMITED,
    finalize as finalize,
    fresh_reply as fresh_reply,
    told_before as told_before,
)
from .router import (
    reread as reread,
)
from .run import (
    QuestionRun as QuestionRun,
)
from .session import (
    Request as Request,
    TurnSession as TurnSession,
    certain_scope as certain_scope,
    open_scope as open_scope,
    vocabulary_of as vocabulary_of,
)
from .steps import (
    permission_gate as permission_gate,
    rerank as rerank,
    retrieve as retrieve,
    retrieves as retrieves,
    rewrite as rewrite,
    route as route,
)
from .threads import (
    REMEMBERED as REMEMBERED,
    ThreadStore as ThreadStore,
    Turn as Turn,
    asked_questions as asked_questions,
    past_turns as past_turns,
    remembered as remembered,
)
from .vocabulary import (
    declared as declared,
    document_status as document_status,
)
