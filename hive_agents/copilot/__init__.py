"""The copilot: what each step of a turn does, from a reader's words to a reply that holds only what they may view.

It stands on retrieval, access, judging and models, knows neither LangGraph nor the runtime, and is read from the top by
`steps` (the nodes), `session` (what a turn works with), `router` and `planner` (what will be done), `scope` (who may
see it), `extract`, `answer` and `reply` (what is shown). New words go to `languages/`, one file a language; a new rule
of reading to `reading`, with labelled utterances in its tests; a new step to `steps`.
"""

from typing import TYPE_CHECKING

from hive_agents.lazy import lazy

if TYPE_CHECKING:
    from hive_agents.copilot.documents import RESERVED, declared, document_filters, require_known
    from hive_agents.copilot.feedback import STATUSES, VERDICTS, FeedbackQueue, Item
    from hive_agents.copilot.outcome import Trace, TurnOutcome
    from hive_agents.copilot.plan import DocumentFilter, Plan, RouterDecision, SearchStrategy
    from hive_agents.copilot.reply import LIMITED, finalize, fresh_reply, render_reply
    from hive_agents.copilot.scope import certain_scope, open_scope, vocabulary_of
    from hive_agents.copilot.session import Request, TurnSession
    from hive_agents.copilot.steps import permission_gate, rerank, retrieve, retrieves, rewrite, route
    from hive_agents.copilot.threads import ModelAnswer, ThreadStore, Turn, past_turns, trace_of

__all__ = [
    "LIMITED",
    "RESERVED",
    "STATUSES",
    "VERDICTS",
    "DocumentFilter",
    "FeedbackQueue",
    "Item",
    "ModelAnswer",
    "Plan",
    "Request",
    "RouterDecision",
    "SearchStrategy",
    "ThreadStore",
    "Trace",
    "Turn",
    "TurnOutcome",
    "TurnSession",
    "certain_scope",
    "declared",
    "document_filters",
    "finalize",
    "fresh_reply",
    "open_scope",
    "past_turns",
    "permission_gate",
    "render_reply",
    "require_known",
    "rerank",
    "retrieve",
    "retrieves",
    "rewrite",
    "route",
    "trace_of",
    "vocabulary_of",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(
        __name__,
        {
            "documents": "RESERVED declared document_filters require_known",
            "feedback": "STATUSES VERDICTS FeedbackQueue Item",
            "scope": "certain_scope open_scope vocabulary_of",
            "outcome": "TurnOutcome Trace",
            "plan": "DocumentFilter Plan RouterDecision SearchStrategy",
            "reply": "LIMITED finalize fresh_reply render_reply",
            "session": "Request TurnSession",
            "steps": "permission_gate rerank retrieve retrieves rewrite route",
            "threads": "ModelAnswer ThreadStore Turn past_turns trace_of",
        },
    )
