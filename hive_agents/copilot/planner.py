"""Plans of turns by a model: one structured call, and the checks of its result."""

from __future__ import annotations

import json
import math
import secrets
import unicodedata
from collections.abc import Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any

from hive_agents.base import HiveError, one_line
from hive_agents.copilot.plan import (
    DocumentFilter,
    FilterValue,
    Operator,
    PastTurn,
    Plan,
    Routed,
    RouterDecision,
    SearchStrategy,
)
from hive_agents.copilot.reading import demands_on
from hive_agents.copilot.vocabulary import FieldWords, Vocabulary
from hive_agents.documents import iso_date, keyword_text
from hive_agents.models import Chain, Message, ModelError, prompts

if TYPE_CHECKING:
    from hive_agents.workspace import Workspace

MAX_LABEL = 80
MAX_QUERY = 500
MAX_QUESTION = 300
MAX_FILTERS = 10
MAX_VALUES = 50
MAX_OPTIONS = 8
MAX_TURNS = 6
MAX_TEXT = 2_000
MAX_TOKENS = 1_024
_ORDERED = ("date", "number")
_EXACTLY: tuple[Operator, ...] = ("gte", "lte")


class PlanFault(Exception):
    """Raised for a plan that can't be used; the deterministic router plans instead."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


async def plan_with_model(
    model: Chain,
    text: str,
    vocabulary: Vocabulary,
    *,
    reader: str,
    today: date,
    history: Sequence[PastTurn] = (),
    doc_id: str | None = None,
    deadline: float,
    workspace: Workspace | None = None,
) -> Routed:
    """Return the plan for `text`, by exactly one call; each model of the chain has `deadline` seconds.

    The prompt holds the reader's words and the values of documents that the reader may view, no document's text.
    `model.meter` counts the call's usage.

    Raises: PlanFault for every failure.
    """
    content = prompt(text, vocabulary, reader=reader, today=today, history=history, doc_id=doc_id, workspace=workspace)
    try:
        answer = await model.complete(
            [Message(role="user", content=content)],
            schema=plan_schema(),
            deadline=deadline,
            temperature=0,
            max_tokens=MAX_TOKENS,
        )
        plan = Plan.model_validate(answer.structured)
    except ModelError as error:
        raise PlanFault(f"{error.kind}: {error.message}") from error
    except Exception as error:  # however the planner fails, the reader's turn must not
        raise PlanFault(f"{type(error).__name__}: {error}"[:500]) from error
    return checked(plan, vocabulary, text=text, doc_id=doc_id)


def prompt(
    text: str,
    vocabulary: Vocabulary,
    *,
    reader: str,
    today: date,
    history: Sequence[PastTurn] = (),
    doc_id: str | None = None,
    workspace: Workspace | None = None,
) -> str:
    """Return the planner's prompt. Raises: PlanFault for a workspace's own prompt that can't be used."""
    try:
        return prompts.load(
            "planner",
            workspace,
            fields="\n".join(_field(name, words) for name, words in vocabulary.fields.items()) or "none",
            today=f"{today:%A}, {today.isoformat()}",
            reader=_json(one_line(reader, MAX_LABEL)),
            document="This request is about one." if doc_id is not None else "This request is not.",
            turns="\n".join(_turn(turn) for turn in history[-MAX_TURNS:]),
            question=_json(text[:MAX_TEXT]),
            # Random, so that no reader or document can close the fence.
            fence=f"=====  {secrets.token_hex(8)}  =====",
        )
    except HiveError as error:
        raise PlanFault(f"the prompt cannot be used: {error}"[:500]) from error


def plan_schema() -> dict[str, Any]:
    """Return the schema of `Plan` without references and descriptions, which some providers don't accept."""
    schema = Plan.model_json_schema()
    inlined: dict[str, Any] = _inlined(schema, schema["$defs"])
    return inlined | {"title": "plan", "description": "How the question is answered, in exactly one step."}


def _inlined(node: Any, definitions: Mapping[str, Any]) -> Any:
    if isinstance(node, list):
        return [_inlined(each, definitions) for each in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _inlined(definitions[node["$ref"].rsplit("/", 1)[1]], definitions)
    dropped = ("$defs", "title", "description", "default")
    return {key: {name: _inlined(field, definitions) for name, field in value.items()} if key == "properties"
            else _inlined(value, definitions) for key, value in node.items() if key not in dropped}  # fmt: skip


def _field(name: str, words: FieldWords) -> str:
    """Return a field as one line of JSON. A value too long to be repeated exactly isn't offered."""
    shown = [value for value in words.values if len(str(value)) <= MAX_LABEL][:MAX_VALUES]
    line: dict[str, Any] = {"field": name, "type": words.type, "values": shown}
    if len(shown) < len(words.values):
        line["further_values"] = len(words.values) - len(shown)
    return _json(line)


def _turn(turn: PastTurn) -> str:
    fields = {"strategy", "search_value", "filters", "question"}
    decided = turn.decision.model_dump(mode="json", include=fields, exclude_defaults=True)
    return _json({"earlier": one_line(turn.text, MAX_QUERY), "decided": decided})


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def checked(plan: Plan, vocabulary: Vocabulary, *, text: str, doc_id: str | None = None) -> Routed:
    """Return the plan's one step, its values spelled as in the documents and its texts cut to their limits.

    `text` is the reader's message, `doc_id` the document that the request is about. Clear omissions are completed: a
    search without words takes the rewritten query, filters beside words are Hybrid, a request with a document is about
    that.

    Raises: PlanFault for anything else that can't be followed.
    """
    if len(plan.steps) != 1:
        raise PlanFault(f"{len(plan.steps)} steps, not one")
    step = plan.steps[0]
    query = one_line(step.rewritten_query, MAX_QUERY) or one_line(text, MAX_QUERY)
    decision = RouterDecision(rewritten_query=query, strategy=step.strategy, reason=one_line(step.reason, MAX_QUESTION))
    if not step.strategy.retrieves:
        asked = _asking(step) if step.strategy is SearchStrategy.NEEDS_CLARIFICATION else {}
        route = "general.help" if step.route == "general.help" else "documents.search"
        return Routed(decision.model_copy(update={**asked, "route": route}))
    if step.route == "general.help":
        raise PlanFault(f"general.help retrieves nothing, and the strategy is {step.strategy}")
    if step.route == "documents.doc_context" and doc_id is None:
        raise PlanFault("a question about a document, and no document")
    route = "documents.search" if doc_id is None else "documents.doc_context"
    searched = _searching(step, query, vocabulary, doc_id)
    return Routed(decision.model_copy(update={**searched, "route": route}), doc_id)


def _searching(step: RouterDecision, query: str, vocabulary: Vocabulary, doc_id: str | None) -> dict[str, object]:
    """Return strategy, words and filters of a step that retrieves."""
    if len(step.filters) > MAX_FILTERS:
        raise PlanFault(f"{len(step.filters)} filters, more than {MAX_FILTERS}")
    filters = [each for demand in step.filters for each in _filters(demand, vocabulary)]
    filters = [demand for place, demand in enumerate(filters) if demand not in filters[:place]]
    words = one_line(step.search_value or "", MAX_QUERY)
    if step.strategy is SearchStrategy.METADATA_ONLY:
        if words and not filters and doc_id is None:
            # Without filters it lists everything, which is right only where no words are searched for.
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
    if demand.op in ("in", "not_in") or (demand.op == "eq" and demand.field in vocabulary.joined):
        values = list(dict.fromkeys(_known(each, words, demand.field) for each in demand.values))
        if demand.field in vocabulary.joined:
            return demands_on(vocabulary, demand.field, values, excluded=demand.op == "not_in")
        return [demand.model_copy(update={"value": values})]
    if len(demand.values) != 1:
        raise PlanFault(f"{demand.field}: {demand.op} takes one value")
    value = demand.values[0]
    if demand.op == "eq" and words.type not in _ORDERED:
        return [demand.model_copy(update={"value": _known(value, words, demand.field)})]
    # The vocabulary has no dates and numbers, and bounds don't need them.
    bound = _bound(value, words, demand)
    operators = _EXACTLY if demand.op == "eq" else (demand.op,)
    return [DocumentFilter(field=demand.field, op=op, value=bound) for op in operators]


def _bound(value: FilterValue, words: FieldWords, demand: DocumentFilter) -> FilterValue:
    if words.type not in _ORDERED:
        raise PlanFault(f"{demand.field} is a {words.type}: it has no order for {demand.op}")
    typed = _typed(value, words.type)
    if typed is None:
        raise PlanFault(f"{demand.field}: {value!r:.80} is not a {words.type}")
    return typed


def _known(value: FilterValue, words: FieldWords, field: str) -> FilterValue:
    """Return the value as visible documents spell it. Raises: PlanFault for others, also those of hidden documents."""
    if words.type in (*_ORDERED, "boolean"):
        typed = _typed(value, words.type)
        if typed is not None and any(_typed(known, words.type) == typed for known in words.values):
            return typed
    else:
        text = keyword_text(value)
        spelled = next((known for known in words.values if known == text), None)
        spelled = spelled or next((known for known in words.values if _folded(known) == _folded(text)), None)
        if spelled is not None:
            return spelled
    raise PlanFault(f"{field}: no visible document has {value!r:.80}")


def _typed(value: FilterValue, kind: str) -> FilterValue | None:
    """Return the value as the index compares it; None where it is not of its field's type."""
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
