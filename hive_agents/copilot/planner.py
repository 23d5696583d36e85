"""The model's plan of a turn: one structured call, checked before anything is done with it."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any

from hive_agents import prompts
from hive_agents.copilot.checks import MAX_QUERY, PlanFault, checked
from hive_agents.copilot.plan import Plan
from hive_agents.copilot.router import PastTurn, Routed
from hive_agents.copilot.sentences import MAX_LABEL
from hive_agents.copilot.vocabulary import FieldWords, Vocabulary
from hive_agents.errors import HiveError
from hive_agents.llm import Chain, Message, ModelError
from hive_agents.text import one_line

if TYPE_CHECKING:
    from hive_agents.workspace import Workspace

__all__ = ["PlanFault", "plan_schema", "plan_with_model", "prompt"]

MAX_VALUES = 50
MAX_TURNS = 6
MAX_TEXT = 2_000
MAX_TOKENS = 1_024


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
    """What to do with `text`, by exactly one call; each model of the chain has `deadline` seconds.

    The prompt holds what the reader wrote and the values of documents that the reader may view, no document's text.
    `model.meter` knows what the call cost.

    Raises: PlanFault for whatever goes wrong; the router plans then.
    """
    asked = prompt(text, vocabulary, reader=reader, today=today, history=history, doc_id=doc_id, workspace=workspace)
    try:
        answer = await model.complete(
            [Message(role="user", content=asked)],
            schema=plan_schema(),
            deadline=deadline,
            temperature=0,
            max_tokens=MAX_TOKENS,
        )
        plan = Plan.model_validate(answer.structured)
    except ModelError as error:
        raise PlanFault(f"{error.kind}: {error.message}") from error
    except Exception as error:  # a planner that fails in a new way is no reason to leave the reader without an answer
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
    """All that the planner is told. Raises: PlanFault for a workspace's own prompt that can't be used."""
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
            # Nothing that a reader or a document says can close what it can't foresee.
            fence=f"=====  {secrets.token_hex(8)}  =====",
        )
    except HiveError as error:
        raise PlanFault(f"the prompt cannot be used: {error}"[:500]) from error


def plan_schema() -> dict[str, Any]:
    """The schema of `Plan` without references and prose: some providers take nothing but plain schemas."""
    schema = Plan.model_json_schema()
    plain: dict[str, Any] = _plain(schema, schema["$defs"])
    return plain | {"title": "plan", "description": "How the question is answered, in exactly one step."}


def _plain(node: Any, definitions: Mapping[str, Any]) -> Any:
    if isinstance(node, list):
        return [_plain(each, definitions) for each in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _plain(definitions[node["$ref"].rsplit("/", 1)[1]], definitions)
    dropped = ("$defs", "title", "description", "default")
    return {key: {name: _plain(field, definitions) for name, field in value.items()} if key == "properties"
            else _plain(value, definitions) for key, value in node.items() if key not in dropped}  # fmt: skip


def _field(name: str, words: FieldWords) -> str:
    """One line of JSON. A value too long to be repeated exactly isn't offered."""
    shown = [value for value in words.values if len(str(value)) <= MAX_LABEL][:MAX_VALUES]
    line: dict[str, Any] = {"field": name, "type": words.type, "values": shown}
    if len(shown) < len(words.values):
        line["further_values"] = len(words.values) - len(shown)
    return _json(line)


def _turn(turn: PastTurn) -> str:
    kept = {"strategy", "search_value", "filters", "question"}
    decided = turn.decision.model_dump(mode="json", include=kept, exclude_defaults=True)
    return _json({"earlier": one_line(turn.text, MAX_QUERY), "decided": decided})


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
