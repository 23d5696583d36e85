"""A plan that a turn can follow, or the reason why it is none; nothing that a model says is taken on trust."""

from __future__ import annotations

import math
import unicodedata

from hive_agents.copilot.plan import DocumentFilter, FilterValue, Operator, Plan, RouterDecision, SearchStrategy
from hive_agents.copilot.router import Routed
from hive_agents.copilot.sentences import MAX_LABEL
from hive_agents.copilot.vocabulary import FieldWords, Vocabulary
from hive_agents.retrieval.documents import iso_date, keyword_text
from hive_agents.text import one_line

MAX_QUERY = 500
MAX_QUESTION = 300
MAX_FILTERS = 10
MAX_VALUES = 50
MAX_OPTIONS = 8
_ORDERED = ("date", "number")
_EXACTLY: tuple[Operator, ...] = ("gte", "lte")


class PlanFault(Exception):
    """No plan that can be followed; the deterministic router takes over."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def checked(plan: Plan, vocabulary: Vocabulary, *, text: str, doc_id: str | None = None) -> Routed:
    """The plan's one step, its values as the documents spell them and its texts bounded.

    `text` is what the reader wrote, `doc_id` the document that the request is about. A step is made whole where its
    meaning is plain: a search without words takes the rewritten query, filters beside words are Hybrid, a question
    that comes with a document is about it.

    Raises: PlanFault.
    """
    if len(plan.steps) != 1:
        raise PlanFault(f"{len(plan.steps)} steps, not one")
    step = plan.steps[0]
    query = one_line(step.rewritten_query, MAX_QUERY) or one_line(text, MAX_QUERY)
    said = {"rewritten_query": query, "reason": one_line(step.reason, MAX_QUESTION)}
    empty: dict[str, object] = {"search_value": None, "filters": [], "question": None, "options": []}
    if not step.strategy.retrieves:
        asked = _asking(step) if step.strategy is SearchStrategy.NEEDS_CLARIFICATION else {}
        route = "general.help" if step.route == "general.help" else "documents.search"
        return Routed(step.model_copy(update=empty | said | asked | {"route": route}))
    if step.route == "general.help":
        raise PlanFault(f"general.help retrieves nothing, and the strategy is {step.strategy}")
    if step.route == "documents.doc_context" and doc_id is None:
        raise PlanFault("a question about a document, and no document")
    about = {"route": "documents.search" if doc_id is None else "documents.doc_context"}
    return Routed(step.model_copy(update=empty | said | about | _search(step, query, vocabulary, doc_id)), doc_id)


def _search(step: RouterDecision, query: str, vocabulary: Vocabulary, doc_id: str | None) -> dict[str, object]:
    """Strategy, words and filters of a step that retrieves."""
    if len(step.filters) > MAX_FILTERS:
        raise PlanFault(f"{len(step.filters)} filters, more than {MAX_FILTERS}")
    filters = [each for demand in step.filters for each in _filters(demand, vocabulary)]
    filters = [demand for place, demand in enumerate(filters) if demand not in filters[:place]]
    words = one_line(step.search_value or "", MAX_QUERY)
    if step.strategy is SearchStrategy.METADATA_ONLY:
        if words and not filters and doc_id is None:
            # Without filters it lists everything: right for "the newest documents", not for something sought.
            raise PlanFault("MetadataOnly without a filter would drop what is searched for")
        return {"filters": filters}
    words = words or query
    if not words:
        raise PlanFault(f"{step.strategy} without anything to search for")
    strategy = SearchStrategy.HYBRID if filters else SearchStrategy.CONTENT_ONLY
    return {"strategy": strategy, "search_value": words, "filters": filters}


def _asking(step: RouterDecision) -> dict[str, object]:
    question = one_line(step.question or "", MAX_QUESTION)
    if not question:
        raise PlanFault("NeedsClarification without a question")
    options = [label for option in step.options[:MAX_OPTIONS] if (label := one_line(option, MAX_LABEL))]
    return {"question": question, "options": options}


def _filters(demand: DocumentFilter, vocabulary: Vocabulary) -> list[DocumentFilter]:
    words = vocabulary.fields.get(demand.field)
    if words is None:
        raise PlanFault(f'no field is called "{one_line(demand.field, MAX_LABEL)}"')
    if not demand.values or len(demand.values) > MAX_VALUES:
        raise PlanFault(f"{demand.field}: {len(demand.values)} values")
    if demand.op not in ("eq", "in", "not_in"):
        return [demand.model_copy(update={"value": _bound(_single(demand), words, demand)})]
    if demand.op == "eq" and words.type in _ORDERED:
        # Which dates and numbers there are is no part of the vocabulary; bounds need not know.
        value = _bound(_single(demand), words, demand)
        return [DocumentFilter(field=demand.field, op=op, value=value) for op in _EXACTLY]
    if demand.op == "eq":
        return [demand.model_copy(update={"value": _known(_single(demand), words, demand.field)})]
    known = list(dict.fromkeys(_known(each, words, demand.field) for each in demand.values))
    return [demand.model_copy(update={"value": known})]


def _single(demand: DocumentFilter) -> FilterValue:
    if len(demand.values) != 1:
        raise PlanFault(f"{demand.field}: {demand.op} takes one value")
    return demand.values[0]


def _bound(value: FilterValue, words: FieldWords, demand: DocumentFilter) -> FilterValue:
    if words.type not in _ORDERED:
        raise PlanFault(f"{demand.field} is a {words.type}: it has no order for {demand.op}")
    typed = _typed(value, words.type)
    if typed is None:
        raise PlanFault(f"{demand.field}: {value!r:.80} is not a {words.type}")
    return typed


def _known(value: FilterValue, words: FieldWords, field: str) -> FilterValue:
    """The value as visible documents have it; a value that only hidden ones have is an unknown value."""
    if words.type in (*_ORDERED, "boolean"):
        typed = _typed(value, words.type)
        if typed is not None and any(_typed(known, words.type) == typed for known in words.values):
            return typed
    else:
        said = keyword_text(value)
        spelled = next((known for known in words.values if known == said), None)
        spelled = spelled or next((known for known in words.values if _folded(known) == _folded(said)), None)
        if spelled is not None:
            return spelled
    raise PlanFault(f"{field}: no visible document has {value!r:.80}")


def _typed(value: FilterValue, kind: str) -> FilterValue | None:
    """The value as the index compares it; None where it is not of its field's type."""
    if kind == "boolean":
        return {"true": True, "false": False}.get(keyword_text(value).strip().lower())
    try:
        if kind == "date":
            return iso_date(value)
        number = math.nan if isinstance(value, bool) else float(value)
    except (ValueError, OverflowError):
        return None
    if not math.isfinite(number):
        return None
    return int(number) if number.is_integer() else number


def _folded(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())
