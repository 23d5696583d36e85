"""The messages to a node's model: why the visit begins, what people said since, and the conversation that fits."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Sequence

from hive_agents import models
from hive_agents.agents.effects import Done
from hive_agents.agents.models import need, streamed
from hive_agents.agents.node_end import End
from hive_agents.agents.node_work import NodeWork
from hive_agents.agents.synthetic import ASK, LIST, REPORT, SET, WRITING, synthetic_tools
from hive_agents.agents.viewing import PERSON
from hive_agents.approvals import WITHHELD
from hive_agents.base import fenced
from hive_agents.memory import ContextHandoff, Summarise, compact, estimate_tokens, transition_marker
from hive_agents.models import Message, ModelError, prompts

OWN_WORDS = frozenset({SET, *WRITING, LIST, ASK, REPORT})
"""Tools whose results are texts of the loop, or of a person, and not data."""


def hear(work: NodeWork) -> None:
    """Copy new messages of people into the node's conversation."""
    store, session = work.session.store, work.session
    if work.shared or work.delegated:
        return
    for entry in store.messages(session.conversation):
        if entry.key.startswith(PERSON) and store.find(work.conversation, entry.key) is None:
            store.append(work.conversation, entry.message, key=entry.key)


def missed(work: NodeWork, read: int) -> str:
    """Return what people said after the message `read`, the last that the model was sent; "" without any."""
    store = work.session.store
    if work.delegated:
        return ""
    from_people = [entry for entry in store.messages(work.session.conversation) if entry.key.startswith(PERSON)]
    if work.shared:
        return "\n\n".join(entry.message.content for entry in from_people if entry.n > read)
    unread = (entry for entry in from_people if store.find(work.conversation, entry.key) is None)
    return "\n\n".join(entry.message.content for entry in unread)


async def turn_messages(
    work: NodeWork, key: str, tools: Sequence[models.Tool], *, room: int | None = None
) -> list[Message]:
    """Return the system prompt and the conversation, which is compacted first where it is too long.

    `room` is the context in tokens of a model that takes less than the settings say.

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
    return [Message(role="system", content=prompt), *_marked(shown)]


def _marked(messages: Sequence[Message]) -> Iterator[Message]:
    """Yield the messages, with results of tools and sub-agents fenced as data: they give the model no orders."""
    names: dict[str, str] = {}
    for message in messages:
        if message.role == "assistant":  # ids are unique within a turn only
            names = {call.id: call.name for call in message.tool_calls}
        if message.role == "tool" and names.get(message.tool_call_id) not in OWN_WORDS:
            message = message.model_copy(update={"content": fenced(message.content)})
        yield message


async def _unsaid(_: str) -> str:
    """Return no summary: the model may not be sent the words."""
    return ""


def summariser(work: NodeWork, key: str) -> Summarise:
    """Return a function that lets a model summarise a transcript, once under `key`; "" where the model fails.

    It raises BudgetExhausted where the budget has no room for it.
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
            messages = [Message(role="user", content=text)]
            chain, tell = work.chain, session.effects.sending(key)
            await session.effects.require(key, **need(chain, messages))
            try:
                answer = await streamed(chain, messages, [], lambda _: None, tell=tell)
            except ModelError as error:
                return Done({"error": str(error)[:500], "text": ""}, error.usage)
            return Done({"text": answer.text}, answer.usage)

        async with session.summaries:  # two branches may need the same one
            recorded = await session.effects.once(key, "model", "summary", do, node=work.node.id)
        return str(recorded["text"])

    return summarise


def _fitting(text: str, tokens: int) -> str:
    """Return the beginning and the end of a text that is too long.

    >>> _fitting("four letters a token", 2)
    'four\\n\\n[…]\\n\\noken'
    """
    size = estimate_tokens(text)
    if size <= tokens:
        return text
    half = len(text) * tokens // size // 2
    return f"{text[:half]}\n\n[…]\n\n{text[len(text) - half :]}"


def judged_words(words: str, *, own: bool = False) -> str:
    """Return a judge's words for the conversation: fenced, for they may quote the work, unless they are our `own` or a
    person's."""
    if own:
        return f"[Judge feedback]: {words}"
    return f"[Judge feedback]: This isn't good enough yet. A judge of the work missed this in it:\n{fenced(words)}"


async def why_here(work: NodeWork) -> str:
    """Return the first message of a visit: a judge's feedback, the results of the nodes before it, or the inputs."""
    session = work.session
    before = work.led_here
    goal_verdict = next((verdict for verdict in reversed(work.verdicts) if work.node.id in verdict["targets"]), None)
    if goal_verdict is not None and goal_verdict["n"] == len(work.verdicts) and not before:
        judged = session.effects.find(goal_verdict["key"])
        earlier = [end for end in work.ends if end["node"] == work.node.id][-1:]
        parts = [] if work.shared else [*[await _handed(work, end) for end in earlier], *_given_here(work)]
        if goal_verdict["action"] == "replan":
            context = fenced(json.dumps(judged["context"], ensure_ascii=False))
            return "\n\n".join([*parts, f"[Replan feedback]:\n{context}"])
        words = judged["feedback"] or judged["reasoning"]
        return "\n\n".join([*parts, judged_words(words, own=goal_verdict["key"].endswith("/answer"))])
    if not before:
        given = _given_here(work)
        return "\n\n".join(given if work.in_code and given else [work.task or f"Begin with {work.node.id}.", *given])
    if work.view().hidden:
        return f"Completed: {', '.join(end['node'] for end in before)}. Now it is {work.node.id}'s turn.\n\n{WITHHELD}"
    values = work.buffer.read_all("execution")
    files = [file.name for file in work.files.list()]
    outputs = {key: values.get(key) for end in before for key in end["outputs"]}
    if work.shared:
        marker = transition_marker(
            session.workspace,
            completed=", ".join(end["node"] for end in before),
            following=work.node.id,
            outputs=outputs,
            files=files,
            memory=work.notes,
            tools=[*work.tools.names, *(tool.name for tool in synthetic_tools(work))],
        )
        return "\n\n".join([marker, *_given_here(work)])
    return "\n\n".join([*[await _handed(work, end) for end in before], *_given_here(work)])


def _given_here(work: NodeWork) -> list[str]:
    """Return the inputs that the node's conversation doesn't have yet, in full: transition messages only name them."""
    ends_there = [end for end in work.ends if end["conversation"] == work.conversation]
    seen_keys = {key for end in ends_there for key in (*end["outputs"], *work.agent.node(end["node"]).input_keys)}
    text = work.input_texts.as_data({key: value for key, value in work.inputs.items() if key not in seen_keys})
    return [text] if text else []


async def _handed(work: NodeWork, end: End) -> str:
    values = work.buffer.read_all("execution")
    handoff = await ContextHandoff.build(
        work.session.store,
        end["conversation"],
        source=end["node"],
        target=work.node.id,
        outputs={key: values.get(key) for key in end["outputs"]},
        files=[file.name for file in work.files.list()],
        summarise=summariser(work, f"{work.key_of(end)}/handoff") if work.agent.mode == "isolated" else None,
    )
    return handoff.to_text()
