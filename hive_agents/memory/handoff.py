"""Transitions between phases: a marker in a continued conversation, or a handoff to a new one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from hive_agents.base import cut, encodable, fenced
from hive_agents.base.files import Format
from hive_agents.memory.compaction import Summarise
from hive_agents.memory.conversation import ConversationStore
from hive_agents.memory.tiers import transcript
from hive_agents.memory.values import value_line
from hive_agents.models import prompts

if TYPE_CHECKING:
    from hive_agents.workspace import Workspace

REFLECTION = (
    "Before proceeding, briefly reflect: what went well in the previous phase? "
    "Are there any gaps or surprises worth noting?"
)
_VALUE = 500
_SUMMARY = 4000
_TRANSCRIPT = 60_000


def transition_marker(
    workspace: Workspace,
    *,
    completed: str,
    following: str,
    outputs: Mapping[str, Any],
    files: Iterable[str] = (),
    memory: str = "",
    tools: Iterable[str] = (),
) -> str:
    """Return the message between two phases of a continuous conversation, after `prompts/agent_transition.md`.

    `completed` and `following` are nodes, `outputs` those of the completed phase, `tools` those of the next.

    Raises: HIVE-105, HIVE-106, HIVE-107 for a pattern that the workspace overrides and got wrong.
    """
    return prompts.load(
        "agent_transition",
        workspace,
        completed=completed,
        following=following,
        outputs=fenced(_outputs(outputs)),
        files="\n".join(f"- {name}" for name in files) or "(none)",
        memory=fenced(memory.strip()) if memory.strip() else "(empty)",
        tools=", ".join(tools) or "(none)",
        reflection=REFLECTION,
    )


class ContextHandoff(Format):
    """The summary of the previous phase for an isolated one, instead of its conversation; plain JSON.

    >>> handoff = ContextHandoff(source="collect", target="write", summary="Two found.", outputs={"items": [1, 2]})
    >>> print("\\n".join(line for line in handoff.to_text().splitlines() if "--" not in line))
    The phase collect is completed. What it leaves to write:
    Two found.
    <BLANKLINE>
    Outputs:
    - items: [1, 2]
    """

    source: str
    target: str
    summary: str
    outputs: dict[str, Any] = {}
    files: list[str] = []
    messages: int = 0

    def to_text(self) -> str:
        """Return the first message of the next phase."""
        parts = [f"The phase {self.source} is completed. What it leaves to {self.target}:"]
        parts += [fenced(f"{self.summary}\n\nOutputs:\n{_outputs(self.outputs)}")]
        if self.files:
            parts += ["", "Files:", *(f"- {name}" for name in self.files)]
        return "\n".join(parts)

    @classmethod
    async def build(
        cls,
        store: ConversationStore,
        conversation_id: str,
        *,
        source: str,
        target: str,
        outputs: Mapping[str, Any],
        files: Iterable[str] = (),
        summarise: Summarise | None = None,
    ) -> ContextHandoff:
        """Return the handoff, summarised by `summarise`; without it, or where it fails, by the phase's last message.

        Raises: HIVE-409 for an unknown conversation.
        """
        with store.timeline(conversation_id) as timeline:
            messages, groups, lead = len(timeline.entries), list(timeline.groups()), timeline.lead
        said = [group.head.message.content for group in groups if group.head.message.role == "assistant"]
        summary = next((text for text in reversed(said) if text.strip()), "It said nothing.")
        if summarise is not None:
            with suppress(Exception):  # the phase is done all the same
                summary = (await summarise(transcript(lead, groups)[-_TRANSCRIPT:])).strip() or summary
        return cls(
            source=source,
            target=target,
            summary=cut(encodable(summary), _SUMMARY),
            outputs=dict(outputs),
            files=list(files),
            messages=messages,
        )


def _outputs(outputs: Mapping[str, Any]) -> str:
    return (
        "\n".join(f"- {value_line(key, 100)}: {value_line(value, _VALUE)}" for key, value in outputs.items())
        or "(none)"
    )
