"""What a model is told in a turn: what people said meanwhile, and as much of the conversation as fits."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from hive_agents import llm, prompts
from hive_agents.agents.effects import Done
from hive_agents.agents.models import streamed
from hive_agents.agents.viewing import PERSON
from hive_agents.agents.work import NodeWork
from hive_agents.approvals import WITHHELD
from hive_agents.llm import Message, ModelError
from hive_agents.memory import Summarise, compact, estimate_tokens


def hear(work: NodeWork) -> None:
    """Words that people said to the agent since, into the conversation that this node reads."""
    store, session = work.session.store, work.session
    if work.shared or work.delegated:
        return
    for entry in store.messages(session.conversation):
        if entry.key.startswith(PERSON) and store.find(work.conversation, entry.key) is None:
            store.append(work.conversation, entry.message, key=entry.key)


def missed(work: NodeWork, read: int) -> str:
    """What people said since the model was sent the conversation up to its message `read`; "" where nobody did."""
    store = work.session.store
    if work.delegated:
        return ""
    spoken = [entry for entry in store.messages(work.session.conversation) if entry.key.startswith(PERSON)]
    if work.shared:
        return "\n\n".join(entry.message.content for entry in spoken if entry.n > read)
    late = (entry for entry in spoken if store.find(work.conversation, entry.key) is None)
    return "\n\n".join(entry.message.content for entry in late)


async def turn_messages(
    work: NodeWork, key: str, tools: Sequence[llm.Tool], *, room: int | None = None
) -> list[Message]:
    """The system prompt and the conversation, which is compacted first where it is too long.

    `room` is what a model can be sent whose context holds less than the settings say.

    Raises: HIVE-105 where the prompt leaves no room, and what is wrong with the prompt.
    """
    store, prompt, view = work.session.store, work.prompt(), work.view()
    size = estimate_tokens(prompt) + sum(estimate_tokens(tool.model_dump_json()) for tool in tools)
    summarise = summariser(work, f"{key}/summary") if not view.hidden else _unsaid
    if room is not None:
        room = max(room, 2 * size)  # nothing helps where the prompt alone is too long
    await compact(store, work.conversation, work.files, context_tokens=room, prompt_tokens=size, summarise=summarise)
    withheld = view.withheld_from_model(work.conversation)
    shown = store.view(work.conversation, withheld=withheld, notice=WITHHELD)
    return [Message(role="system", content=prompt), *shown]


async def _unsaid(_: str) -> str:
    """No summary of words that a model may not be sent."""
    return ""


def summariser(work: NodeWork, key: str) -> Summarise:
    """Gives a model's summary of a transcript, "" where the model fails; paid once, under `key`.

    It raises BudgetExhausted where the budget leaves no room for it.
    """
    session = work.session

    async def summarise(transcript: str) -> str:
        async def do(_: bool) -> Done:
            text = prompts.load(
                "summary",
                session.workspace,
                conversation=_fitting(transcript, session.workspace.settings.agents.context_tokens // 2),
                fence=f"-----{secrets.token_hex(8)}-----",
            )
            try:
                said = await streamed(session.models("chat"), [Message(role="user", content=text)], [], lambda _: None)
            except ModelError as error:
                return Done({"error": str(error)[:500], "text": ""}, error.usage)
            return Done({"text": said.text}, said.usage)

        async with session.summaries:  # two branches may want the same one
            found = await session.effects.once(key, "model", "summary", do, node=work.node.id)
        return str(found["text"])

    return summarise


def _fitting(text: str, tokens: int) -> str:
    """The beginning and the end of a text that is too long.

    >>> _fitting("four letters a token", 2)
    'four\\n\\n[…]\\n\\noken'
    """
    size = estimate_tokens(text)
    if size <= tokens:
        return text
    half = len(text) * tokens // size // 2
    return f"{text[:half]}\n\n[…]\n\n{text[len(text) - half :]}"
