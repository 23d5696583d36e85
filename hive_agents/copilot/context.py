"""The context of the copilot graph's nodes: JSON-able fields, services opened on first use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hive_agents.access import Principal, tokens
from hive_agents.copilot.dropped import DroppedFiles
from hive_agents.copilot.router import reread
from hive_agents.copilot.session import Request, TurnSession
from hive_agents.copilot.threads import ThreadStore, past_turns
from hive_agents.judging import Runtime as Judges
from hive_agents.ranking import SearchEngine
from hive_agents.workspace import Workspace

if TYPE_CHECKING:
    from langgraph.runtime import Runtime

    from hive_agents.goals import Goal
    from hive_agents.judging import HybridJudge
    from hive_agents.models import Script


@dataclass(frozen=True)
class CopilotContext:
    """The context of `graphs/worker`. `token` names the reader; `principal` is for code that verified one itself."""

    workspace: str
    token: str | None = field(default=None, repr=False)
    principal: Principal | None = None
    thread_id: str | None = None
    engine: SearchEngine | None = None
    scripts: dict[Path, Script] | None = None

    @classmethod
    def of(cls, runtime: Runtime[CopilotContext]) -> CopilotContext:
        # Without a context LangGraph passes None.
        if runtime.context is None:
            raise ValueError("pass context=CopilotContext(workspace=...) to the graph")
        return runtime.context

    @cached_property
    def place(self) -> Workspace:
        return self.engine.workspace if self.engine is not None else Workspace(self.workspace)

    @cached_property
    def reader(self) -> Principal:
        """The reader. Raises: HIVE-417 without a `Principal` object or a valid token; JSON isn't accepted."""
        if isinstance(self.principal, Principal):
            return self.principal
        return tokens.verify(self.place, self.token or "")

    @cached_property
    def turns(self) -> dict[str, TurnSession]:
        """The open sessions of turns, by run."""
        return {}

    def turn(self, run_id: str, request: Mapping[str, Any]) -> TurnSession:
        """Return the session of a turn, with the past turns of the thread that its reader may still see."""
        session = self.turns.get(run_id)
        if session is None:
            engine = self.engine or SearchEngine(self.place)
            session = TurnSession(
                self.place,
                self.reader,
                run_id,
                Request.model_validate(request),
                engine=engine,
                files=None if self.thread_id is None else DroppedFiles(self.place, self.reader, self.thread_id),
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
        return Judges(self.place, tenant=self.reader.tenant, run_id=run_id).judge(goal, llm=llm, panel=panel)
