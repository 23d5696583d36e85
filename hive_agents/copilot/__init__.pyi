from . import (
    feedback as feedback,
    receipt as receipt,
    reply as reply,
    steps as steps,
)
from .chat import (
    Chat as Chat,
)
from .context import (
    CopilotContext as CopilotContext,
)
from .documents import (
    declared as declared,
)
from .dropped import (
    end_person as end_person,
    forget_unused_files as forget_unused_files,
)
from .plan import (
    OPERATOR_SIGNS as OPERATOR_SIGNS,
    DocumentFilter as DocumentFilter,
)
from .query import (
    SearchReply as SearchReply,
    search as search,
)
from .reply import (
    LIMITED as LIMITED,
    told_before as told_before,
)
from .roles import (
    document_status as document_status,
)
from .run import (
    QuestionRun as QuestionRun,
)
from .session import (
    Request as Request,
    TurnSession as TurnSession,
    certain_scope as certain_scope,
    open_scope as open_scope,
)
from .threads import (
    REMEMBERED as REMEMBERED,
    ThreadStore as ThreadStore,
    asked_questions as asked_questions,
    remembered as remembered,
)
