"""The models of one run, by role; those that read from a script go on where the run was."""

from __future__ import annotations

import json
import os
from pathlib import Path

from hive_agents.agents import AgentSpec
from hive_agents.llm import Chain, Line, Role, Script, model_names, open_chain, require_prices
from hive_agents.workspace import Workspace


class RunModels:
    """The chain of a role: for `chat` the agent's own model, else what the settings name; opened once.

    Raises, when asked for a role: HIVE-401 where no model of it can be had.
    """

    def __init__(self, workspace: Workspace, agent: AgentSpec) -> None:
        self._workspace, self._agent = workspace, agent
        self._chains: dict[Role, Chain] = {}
        self._scripts: dict[Path, Script] = {}
        self._used: dict[str, list[int]] = {}

    def __call__(self, role: Role) -> Chain:
        if role not in self._chains:
            settings, names = self._workspace.settings, self._names(role)
            for name in names:
                self._open_script(name)
            self._chains[role] = open_chain(names, settings, root=self._workspace.root, scripts=self._scripts)
        return self._chains[role]

    def require_prices(self, max_usd: float) -> None:
        """Raises: HIVE-409 where a limit in dollars can't be kept, because a model's price isn't known."""
        require_prices(self._workspace.settings, [*self._names("chat"), *self._names("judge")], max_usd)

    def _names(self, role: Role) -> list[str]:
        own = [self._agent.model] if self._agent.model else []
        settings = self._workspace.settings
        return (own or model_names(settings, role)) if role == "chat" else (model_names(settings, role) or own)

    @property
    def mark(self) -> str | None:
        """How far the scripts are used; None without any."""
        return json.dumps(self._used) if self._scripts else None

    def restore(self, mark: str | None) -> None:
        """Go on from a mark; chains that were opened before are no longer the run's."""
        marked = json.loads(mark or "{}")
        if marked != self._used:
            self._used = marked
            self._chains.clear()
            self._scripts.clear()

    def _open_script(self, name: str) -> None:
        provider, _, file = name.partition(":")
        path = Path(os.path.abspath(self._workspace.root / file))
        if provider == "scripted" and file.strip() and path not in self._scripts:
            self._scripts[path] = _RunScript(path, file, self._used.setdefault(str(path), []))


class _RunScript(Script):
    """A script without the lines that `used` counts, which goes on counting."""

    def __init__(self, path: Path, shown: str, used: list[int]) -> None:
        super().__init__(path, shown)
        self._numbers = {id(line): number for number, line in enumerate(self._left)}
        self._counted = used
        self._left = [line for line in self._left if line.repeat or self._numbers[id(line)] not in used]
        self._taken = len(used)

    def take(self, prompt: str) -> Line:
        line = super().take(prompt)
        self._counted.append(self._numbers[id(line)])
        return line
