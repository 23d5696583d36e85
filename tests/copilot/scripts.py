"""Scripted models for the copilot's tests, and what each of them was asked."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hive_agents.models import Chain, ChatResult, Message, Script, Tool
from hive_agents.models.scripted import ScriptedModel

INJECTIONS: list[dict[str, Any]] = json.loads(Path(__file__).with_name("injections.json").read_text("utf-8"))
"""Texts that give a model orders, each with what a model answers that obeys it."""


class Recorded(ScriptedModel):
    """A scripted model that keeps every prompt and every tool that it was offered."""

    def __init__(self, script: Path, lines: Sequence[dict[str, Any]]) -> None:
        script.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
        super().__init__(Script(script))
        self.prompts: list[str] = []
        self.tools: list[Tool] = []

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        schema: dict[str, Any] | None = None,
        tools: Sequence[Tool] = (),
        deadline: float,
        temperature: float | None = None,
        max_tokens: int | None = None,
    ) -> ChatResult:
        self.prompts.append("\n".join(message.content for message in messages))
        self.tools += tools
        return await super().complete(messages, schema=schema, tools=tools, deadline=deadline)


def scripted(folder: Path, *lines: dict[str, Any]) -> tuple[Chain, Recorded]:
    model = Recorded(folder / "script.jsonl", lines)
    return Chain([model], deadline=0.5), model
