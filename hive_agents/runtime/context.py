"""What a graph's nodes are given: JSON-able fields, services opened when they are first used."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langgraph.runtime import Runtime

    from hive_agents.optimizer.session import OptimizerSession
    from hive_agents.workspace import Workspace


@dataclass(frozen=True)
class HiveContext:
    """`settings` overrides single settings of the workspace, by section and key, as flags do."""

    workspace: str
    golden: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, runtime: Runtime[HiveContext]) -> HiveContext:
        # LangGraph passes None where the caller gave no context, and says nothing.
        if runtime.context is None:
            raise ValueError("pass context=HiveContext(workspace=...) to the graph")
        return runtime.context

    @cached_property
    def place(self) -> Workspace:
        from hive_agents.workspace import Workspace

        return Workspace(self.workspace)

    @cached_property
    def sessions(self) -> dict[str, OptimizerSession]:
        """Open optimizer sessions by run, so that cached rankings last as long as the process."""
        return {}

    def optimizer(
        self, run_id: str, baseline: dict[str, Any] | None, evaluations: int, seconds: float
    ) -> OptimizerSession:
        from hive_agents.optimizer.session import OptimizerSession

        session = self.sessions.get(run_id)
        if session is None:
            settings = self.place.settings.optimizer.model_copy(update=self.settings.get("optimizer", {}))
            session = self.sessions[run_id] = OptimizerSession(
                self.place,
                settings,
                golden=Path(self.golden) if self.golden else None,
                baseline=baseline,
                evaluations=evaluations,
                seconds=seconds,
            )
        return session
