"""A question to the copilot as a run: a turn in its reader's thread, answered by this process or by a host."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from hive_agents import gate
from hive_agents.access import Principal, Standing, is_open
from hive_agents.base import HiveError, one_line
from hive_agents.base.files import require_short
from hive_agents.copilot.context import CopilotContext
from hive_agents.copilot.outcome import TurnOutcome
from hive_agents.copilot.plan import SearchStrategy
from hive_agents.copilot.session import Request, TurnSession
from hive_agents.copilot.threads import ThreadStore, Turn
from hive_agents.events import Event, EventType
from hive_agents.index import StaleIndex
from hive_agents.models import Usage
from hive_agents.ranking import SearchEngine, active_config
from hive_agents.runs import CHAT_GRAPH, Lease, Run, RunOutcome, RunRow, RunStore, beside, leases_of, load_graph, store

if TYPE_CHECKING:
    from hive_agents.events import Bus
    from hive_agents.models import Script
    from hive_agents.workspace import Workspace

T = TypeVar("T")
TRIES = 5


MAX_TITLE = 100
"""The most characters of a question in the title of a request to check its answer."""


def require_question(request: Request) -> None:
    """Raises: HIVE-409 where nothing is asked, or about a document without a name; HIVE-105 for too long a question."""
    require_short(request.text)
    if not request.text.strip():
        raise HiveError.of("HIVE-409", "there is no question", fix="ask in your own words", exit_code=2)
    if request.doc_id is not None and not request.doc_id.strip():
        raise HiveError.of("HIVE-409", "the document has no name", fix="name it, or leave it out", exit_code=2)


@dataclass
class QuestionRun(Run):
    """One question of a reader; `on_node` gets the name of each node that begins.

    It has no checkpoints: nothing is stored before its turn is in the thread, so an interrupted question starts again.
    """

    GRAPH: ClassVar[str] = CHAT_GRAPH
    SOURCE = "chat"
    BROKEN_OFF = "failed"

    reader: Principal
    request: Request
    engine: SearchEngine
    scripts: dict[Path, Script] = field(default_factory=dict)
    on_node: Callable[[str], None] | None = None
    session: TurnSession | None = field(default=None, init=False)
    turn: Turn | None = field(default=None, init=False)

    @classmethod
    def start(
        cls,
        workspace: Workspace,
        standing: Standing,
        request: Request,
        thread_id: str,
        engine: SearchEngine,
        **options: Any,
    ) -> QuestionRun:
        """Return a new question to be answered by this process; `standing` is the reader's in their conversation."""
        reader = standing.principal
        value = {"request": request.model_dump(mode="json"), "reader": standing.model_dump(mode="json")}
        run_id = store.new_run_id()
        # Another question of the thread may hold it: then `work` waits.
        lease = leases_of(workspace).acquire(thread_id, run_id)
        row, _ = RunStore(workspace).insert(
            cls.GRAPH, value, owner=reader, thread_id=thread_id, run_id=run_id, status="running"
        )
        return cls(workspace, row, reader, request, engine, **options, _lease=lease)

    @classmethod
    def queue(
        cls, workspace: Workspace, reader: Principal, request: Request, thread_id: str | None, *, key: str | None = None
    ) -> tuple[RunRow, bool]:
        """Queue a question for a host, in the given or a new thread; return its row, and whether it is new.

        A question with the same `key` is queued once.

        Raises: HIVE-409 for nothing asked, a thread that isn't theirs, or a key of something else; HIVE-408 without an
        active config.
        """
        require_question(request)
        active_config(workspace)
        threads = ThreadStore(workspace, reader)
        if thread_id is not None:
            threads.require(thread_id)
        target = thread_id or threads.create(request.text)
        value = {"request": request.model_dump(mode="json")}
        value["reader"] = Standing.of(workspace, reader).model_dump(mode="json")
        new = False
        try:
            row, new = RunStore(workspace).insert(cls.GRAPH, value, owner=reader, thread_id=target, key=key)
        finally:
            if not new and thread_id is None:  # the earlier run has another thread
                threads.delete(target)
        if thread_id is not None:
            threads.name(thread_id, request.text)
        return row, new

    @classmethod
    def resume(
        cls, workspace: Workspace, run_id: str, *, engine: SearchEngine | None = None, **options: Any
    ) -> QuestionRun:
        """Return an interrupted or queued question, with its reader's current permissions.

        Raises: HIVE-409 for an unknown run, HIVE-407 for one whose stored question or reader is damaged, HIVE-417
        where the reader may not ask any more.
        """
        row = RunStore(workspace).get(run_id)
        try:
            standing = Standing.model_validate_json(json.dumps(row.value["reader"]))
            request = Request.model_validate(row.value["request"])
        except (KeyError, ValueError):
            message = f"run {run_id} doesn't say who asked what"
            raise HiveError.of("HIVE-407", message, path="runs.input", fix="ask again", exit_code=3) from None
        return cls(workspace, row, standing.now(workspace), request, engine or SearchEngine(workspace), **options)

    @staticmethod
    def result_of(row: RunRow) -> dict[str, Any]:
        return {"run_id": row.run_id, "status": row.status, "stopped_by": row.summary["stopped_by"]}

    @property
    def tells(self) -> bool:
        """Only if a host answers: elsewhere the caller of `work` gets the answer."""
        return self.hosted

    @asynccontextmanager
    async def checkpointer(self, lease: Lease) -> AsyncIterator[None]:
        yield None

    async def aside(self, work: Callable[[], T], *, brief: bool = True) -> T:
        """Call `work` directly without a host: the turn is computed in this event loop, too."""
        return await super().aside(work, brief=brief) if self.hosted else work()

    def open(self, lease: Lease, bus: Bus | None) -> CopilotContext:
        return CopilotContext(
            str(self.workspace.root),
            principal=self.reader,
            thread_id=self.row.thread_id,
            engine=self.engine,
            scripts=self.scripts,
        )

    def compile(self, saver: Any) -> Any:
        return load_graph(self.GRAPH, saver)

    def begin(self, context: CopilotContext) -> dict[str, Any]:
        return {"run_id": self.run_id, "request": self.request.model_dump(mode="json")}

    async def advance(self, graph: Any, value: Any, options: dict[str, Any]) -> dict[str, Any]:
        """Compute the turn, in a thread on a host, whose event loop serves requests and streams meanwhile.

        Raises: HIVE-402 where documents change all the time.
        """
        if not self.hosted:
            return await self._compute(graph, value, options, self.on_node)
        loop = asyncio.get_running_loop()

        def notify(node: str) -> None:
            asyncio.run_coroutine_threadsafe(self._announce(node), loop)  # the turn goes on meanwhile

        return await beside(partial(self._compute, graph, value, options, notify))

    async def _compute(
        self, graph: Any, value: Any, options: dict[str, Any], on_node: Callable[[str], None] | None
    ) -> dict[str, Any]:
        turns = options["context"].turns
        state: dict[str, Any] = {}
        for _ in range(TRIES):
            with suppress(StaleIndex):  # documents changed meanwhile: nothing is stored yet, so start again
                async for task in graph.astream(value, stream_mode="tasks", **options):
                    if "result" in task:
                        state |= task["result"]
                    elif on_node is not None:
                        on_node(task["name"])
                self.session = turns.pop(self.run_id)  # avoids a reference cycle
                return state
            turns.clear()
        raise HiveError.of("HIVE-402", "the index keeps changing under the search", fix="ask again in a moment")

    async def _announce(self, node: str) -> None:
        if self.on_node is not None:
            self.on_node(node)
        if self.bus is not None:
            row, payload = self.row, {"node": node}
            await self.bus.publish(
                Event(EventType.NODE_STARTED, row.run_id, row.thread_id, node, row.thread_id, row.tenant, payload)
            )

    def outcome(self, context: CopilotContext, state: Mapping[str, Any], pending: list[str]) -> RunOutcome:
        """Raises: HIVE-409 for a cursor of a question that has no pages."""
        session = self.session
        assert session is not None
        outcome = TurnOutcome.model_validate_json(json.dumps(state["outcome"]))
        if self.request.cursor is not None and outcome.decision.strategy is not SearchStrategy.METADATA_ONLY:
            fix = "leave the cursor out: only a list by filters has pages"
            raise HiveError.of("HIVE-409", "this question has no next page", fix=fix, exit_code=2)
        outcome = self._judged(outcome, session)
        if outcome.results:
            session.trace.basis = session.basis
        threads = ThreadStore(self.workspace, self.reader)
        answer = session.conclusion.model_answer
        thread_id, question = self.row.thread_id, self.request.text
        self.turn = threads.add(thread_id, self.run_id, question, outcome, session.trace, answer)
        if session.impression is not None:
            gate.canary.record_impression(self.workspace, session.impression)
        return RunOutcome("done", None)

    def spent(self, result: Mapping[str, Any] | None) -> store.RunCost | None:
        if self.session is None:
            return None
        usage = self.session.meter.usage
        return store.RunCost(self.session.meter.calls, usage.input_tokens + usage.output_tokens, usage.usd)

    def _judged(self, outcome: TurnOutcome, session: TurnSession) -> TurnOutcome:
        """Log the judge's decision, and file a request where it escalated; both contain no text of a document."""
        judged = session.conclusion.judged
        if judged is None:
            return outcome
        from hive_agents.judging import Runtime

        judgment = judged.judgment
        runtime = Runtime(self.workspace, tenant=self.reader.tenant, run_id=self.run_id)
        silent = [signal.model_copy(update={"detail": ""}) for signal in judgment.signals]
        judgment = judgment.model_copy(update={"reasoning": "", "feedback": None, "signals": silent})
        thread_id = self.row.thread_id
        result = {
            "question": self.request.text,
            "answer_source": outcome.answer_source,
            "documents": outcome.documents,
            "thread_id": thread_id,
        }
        spent = sum(judged.spent, Usage())
        number = runtime.log_decision(
            judged.goal, result, judgment, judge=judged.judge, usage=spent, llm_calls=len(judged.spent)
        )
        if not judgment.escalated or is_open(self.workspace):  # in an open workspace its only reader would be asked
            return outcome
        asked = one_line(self.request.text)[:MAX_TITLE]
        id = runtime.file_judgment(number, title=f'check the answer to "{asked}"', thread_id=thread_id)
        return outcome.model_copy(update={"approval_id": id})
