"""The installed graphs, and the context of their nodes: JSON-able fields, services opened on first use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hive_agents.errors import HiveError

if TYPE_CHECKING:
    from langgraph.runtime import Runtime

    from hive_agents.access import Principal
    from hive_agents.copilot import TurnSession
    from hive_agents.goals import Goal
    from hive_agents.judging import HybridJudge
    from hive_agents.llm import Script
    from hive_agents.optimizer import OptimizerSession
    from hive_agents.retrieval import SearchEngine
    from hive_agents.workspace import Workspace


GROUP = "hive_agents.graphs"


def load_graph(name: str, checkpointer: Any = None) -> Any:
    """Return the compiled graph `name`, with a checkpointer if one is given.

    Raises: HIVE-411 where the package isn't installed with its entry points.
    """
    graph = _installed(name)
    return graph if checkpointer is None else graph.builder.compile(checkpointer=checkpointer)


@cache
def _installed(name: str) -> Any:
    found = next((point for point in entry_points(group=GROUP) if point.name == name), None)
    if found is None:
        raise HiveError.of("HIVE-411", f'no graph "{name}" is installed', fix="install hive-agents with pip")
    return found.load()


@dataclass(frozen=True)
class HiveContext:
    """The context of graphs. `settings` overrides settings of the workspace, by section and key.

    `token` names the reader; `principal` is for code that has verified one itself.
    """

    workspace: str
    golden: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    token: str | None = field(default=None, repr=False)
    principal: Principal | None = None
    thread_id: str | None = None
    engine: SearchEngine | None = None
    scripts: dict[Path, Script] | None = None

    @classmethod
    def of(cls, runtime: Runtime[HiveContext]) -> HiveContext:
        # Without a context LangGraph passes None.
        if runtime.context is None:
            raise ValueError("pass context=HiveContext(workspace=...) to the graph")
        return runtime.context

    @cached_property
    def place(self) -> Workspace:
        from hive_agents.workspace import Workspace

        return self.engine.workspace if self.engine is not None else Workspace(self.workspace)

    @cached_property
    def sessions(self) -> dict[str, OptimizerSession]:
        """The open optimizer sessions by run; their cached rankings last as long as the process."""
        return {}

    def optimizer(self, run_id: str, state: Mapping[str, Any]) -> OptimizerSession:
        """Return the run's session; one that is opened again continues with the cost in `state`."""
        from hive_agents.optimizer import OptimizerSession

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

    @cached_property
    def reader(self) -> Principal:
        """The reader. Raises: HIVE-417 without a `Principal` object or a valid token; JSON isn't accepted."""
        from hive_agents.access import Principal, verify

        if isinstance(self.principal, Principal):
            return self.principal
        return verify(self.place, self.token or "")

    @cached_property
    def turns(self) -> dict[str, TurnSession]:
        """The open sessions of turns, by run."""
        return {}

    def turn(self, run_id: str, request: Mapping[str, Any]) -> TurnSession:
        """Return the session of a turn, with the past turns of the thread that its reader may still see."""
        from hive_agents.copilot import Request, ThreadStore, TurnSession, past_turns, reread
        from hive_agents.retrieval import SearchEngine

        session = self.turns.get(run_id)
        if session is None:
            engine = self.engine or SearchEngine(self.place)
            session = TurnSession(
                self.place,
                self.reader,
                run_id,
                Request.model_validate(request),
                engine=engine,
                scripts=self.scripts,
                build_judge=partial(self._judge, run_id),
            )
            if self.thread_id is not None:
                session.past = past_turns(
                    ThreadStore(self.place, self.reader), session.gate, self.thread_id, session.vocabulary
                )
            if not session.past and session.request.before:
                session.past = reread(
                    session.request.before, session.vocabulary, reader=self.reader.user, today=session.today
                )
            self.turns[run_id] = session
        return session

    def _judge(self, run_id: str, goal: Goal, llm: Any, panel: Sequence[Any]) -> HybridJudge:
        from hive_agents.runtime.runtime import Runtime

        return Runtime(self.place, tenant=self.reader.tenant, run_id=run_id).judge(goal, llm=llm, panel=panel)
