"""The context of the optimizer graph's nodes: JSON-able fields, the session opened on first use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hive_agents.optimizer.session import OptimizerSession
from hive_agents.workspace import Workspace

if TYPE_CHECKING:
    from langgraph.runtime import Runtime

    from hive_agents.access import Principal


@dataclass(frozen=True)
class OptimizerContext:
    """The context of `graphs/optimizer`. `settings` overrides settings of the workspace, by section and key.

    `principal` is whom figures are for; None is the workspace's owner.
    """

    workspace: str
    golden: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    principal: Principal | None = None

    @classmethod
    def of(cls, runtime: Runtime[OptimizerContext]) -> OptimizerContext:
        # Without a context LangGraph passes None.
        if runtime.context is None:
            raise ValueError("pass context=OptimizerContext(workspace=...) to the graph")
        return runtime.context

    @cached_property
    def place(self) -> Workspace:
        return Workspace(self.workspace)

    @cached_property
    def sessions(self) -> dict[str, OptimizerSession]:
        """The open optimizer sessions by run; their cached rankings last as long as the process."""
        return {}

    def optimizer(self, run_id: str, state: Mapping[str, Any]) -> OptimizerSession:
        """Return the run's session; one that is opened again continues with the cost in `state`."""
        session = self.sessions.get(run_id)
        if session is None:
            settings = self.place.settings.optimizer.model_copy(update=self.settings.get("optimizer", {}))
            session = self.sessions[run_id] = OptimizerSession(
                self.place,
                settings,
                golden=Path(self.golden) if self.golden else None,
                baseline=state.get("baseline"),
                evaluations=state.get("evaluations", 0),
                seconds=state.get("seconds", 0.0),
                usage=state.get("usage"),
                ledger=self.place.state_folder(f"runs/{run_id}") / "usage.json",
                viewer=self.principal,
            )
        return session
