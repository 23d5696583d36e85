"""Replies of the copilot, rendered for a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from hive_agents.base import safe_text
from hive_agents.cli.surface import count, styled

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from hive_agents.copilot import Chat, DocumentFilter

_PLANNERS = {"deterministic": "", "model": ", planned by a model", "fallback": ", planned without its model"}
_SEARCHED = ("MetadataOnly", "ContentOnly", "Hybrid")


def rendered(reply: dict[str, Any], next_page: str = "/more") -> Iterator[RenderableType]:
    """Yield a reply's filters, notice, question, answer, passages of the reader's files and results, their limits, and
    the way to the next page."""
    if reply["filters"]:
        yield styled(safe_text(f"filtered by {in_words(reply['filters'])}"), "dim")
    if reply["notice"]:
        yield styled(reply["notice"], "yellow")
    if reply["question"]:
        yield styled(safe_text(reply["question"]), "bold")
    for number, option in enumerate(reply["options"], start=1):
        yield styled(safe_text(f"  {number}. {option}"), "")
    if reply["answer"]:
        yield styled(safe_text(reply["answer"]), "")
    for one in reply.get("files", ()):
        yield styled(safe_text(f"your file {one['name']}"), "bold cyan")
        yield marked(one["excerpt"])
    if reply["results"]:
        yield from results_table(reply["results"], one_document=reply["route"] == "documents.doc_context")
    if reply["strategy"] in _SEARCHED:
        from hive_agents.copilot import LIMITED

        yield styled(f"{_counted(reply)} · {reply['strategy']}{_PLANNERS[reply['planner']]}", "dim")
        if reply["next_cursor"]:
            yield styled(f"there are more: {next_page}", "dim")
        yield styled(LIMITED, "dim")


def one_shot(reply: dict[str, Any]) -> Iterator[RenderableType]:
    """Yield the reply to a single question, with the ids that the next command needs."""
    thread = f"--thread {reply['thread_id']}"
    yield from rendered(reply, "--cursor takes the next_cursor of --json; in a conversation, /more")
    if reply["question"]:
        yield styled(f"answer with {thread}", "dim")
    elif reply["strategy"] in _SEARCHED:
        yield styled(f"run {reply['run_id']} · go on with {thread}", "dim")


def results_table(results: list[dict[str, Any]], *, one_document: bool = False) -> Iterator[RenderableType]:
    """Yield a table of each result's title, passage and reason; for `one_document`, with the title only once, above.

    A passage that another result above has already, as in another release, isn't repeated.
    """
    from rich.console import Group
    from rich.table import Table

    from hive_agents.copilot import told_before

    if one_document:
        yield _heading(results[0])
    table = Table.grid(padding=(0, 1))
    table.add_column(justify="right", width=3)
    table.add_column(overflow="fold")
    for result, same_as in zip(results, told_before(results), strict=True):
        if same_as is not None and not one_document:
            table.add_row(str(result["rank"]), styled(f"{_source(result)} · the same passage as {same_as}", "dim"))
            continue
        parts: list[RenderableType] = [] if one_document else [_heading(result)]
        parts += _passages(result)
        if result["relevance_source"] != "filter":  # the reason is the filters, which are shown above
            parts.append(styled(safe_text(result["reason"]), "dim italic"))
        table.add_row(str(result["rank"]), Group(*parts))
    yield ""
    yield table
    yield ""


def _passages(result: dict[str, Any]) -> Iterator[RenderableType]:
    """Yield the windows of a result; of the first result the best one stands before the others, in a frame."""
    from rich.panel import Panel
    from rich.text import Text

    windows = result["windows"]
    if result["rank"] == 1 and len(windows) > 1:
        yield Panel(marked(next(one["marked"] for one in windows if one["best"])), expand=False)
        windows = [one for one in windows if not one["best"]]
    yield Text("\n…\n").join(marked(one["marked"]) for one in windows) if windows else marked(result["excerpt"])


def _heading(result: dict[str, Any]) -> Text:
    from rich.text import Text

    return Text.assemble((safe_text(result["title"]), "bold cyan"), "\n", (_source(result), "dim"))


def _source(result: dict[str, Any]) -> str:
    """Return a result's document, its status, and its relevance."""
    from hive_agents.copilot import document_status

    parts = [safe_text(result["doc_id"])]
    if (status := document_status(result["metadata"])) is not None:
        parts.append(safe_text(status))
    if result["relevance"] is not None:
        parts.append(f"{result['relevance_source']} {result['relevance']:.2f}")
    return " · ".join(parts)


def _counted(reply: dict[str, Any]) -> str:
    one_document = reply["route"] == "documents.doc_context"
    shown = count(len(reply["results"]), "passage" if one_document else "document")
    by_filter = reply["results"] and reply["strategy"] == "MetadataOnly"
    return f"{shown}, matched by filter, not ranked" if by_filter else shown


def marked(passage: str) -> Text:
    """Return a passage with the words in `<mark>` highlighted."""
    from rich.text import Text

    text = Text()
    for number, part in enumerate(re.split(r"</?mark>", safe_text(passage))):
        text.append(part, style="bold yellow" if number % 2 else "")
    return text


def in_words(filters: Sequence[dict[str, Any]]) -> str:
    """Return filters as a text.

    >>> in_words([{"field": "status", "op": "in", "value": ["draft", "effective"]}])
    'status = draft or effective'
    """
    from hive_agents.copilot import OPERATOR_SIGNS

    parts = []
    for condition in filters:
        value = condition["value"]
        text = " or ".join(map(str, value)) if isinstance(value, list) else str(value)
        parts.append(f"{condition['field']} {OPERATOR_SIGNS[condition['op']]} {text}")
    return ", ".join(parts)


def pinned_filters(chat: Chat, expressions: Sequence[str]) -> list[DocumentFilter]:
    """Return the filters of expressions such as status=draft. Raises: HIVE-409, HIVE-206 to HIVE-208."""
    return chat.filters(expressions) if expressions else []
