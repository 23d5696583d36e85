from .asking import (
    language_of_most as language_of_most,
)
from .documents import (
    document_filters as document_filters,
    require_known as require_known,
)
from .drafting import (
    credit_open as credit_open,
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
    Result as Result,
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
    render_reply as render_reply,
    rows_of as rows_of,
    told_before as told_before,
)
from .router import (
    reread as reread,
)
from .session import (
    Request as Request,
    TurnSession as TurnSession,
    certain_scope as certain_scope,
    log_mark as log_mark,
    may_open as may_open,
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
    ModelAnswer as ModelAnswer,
    ThreadStore as ThreadStore,
    Turn as Turn,
    asked_questions as asked_questions,
    past_turns as past_turns,
    remembered as remembered,
    trace_of as trace_of,
)
from .vocabulary import (
    declared as declared,
    document_status as document_status,
)
