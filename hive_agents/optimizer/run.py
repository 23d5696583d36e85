"""Start and resume runs of the optimizer graph, which have a result even when they are interrupted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from hive_agents.access import Standing, owner as workspace_owner
from hive_agents.approvals import WITHHELD, ApprovalRequest, ApprovalStore, RequestReader
from hive_agents.base import HiveError
from hive_agents.base.files import atomic_write
from hive_agents.models import in_thread
from hive_agents.optimizer.context import OptimizerContext
from hive_agents.optimizer.page import page, restate
from hive_agents.optimizer.report import result_of
from hive_agents.optimizer.session import load_tuning, require_priced, require_text
from hive_agents.ranking import active_config
from hive_agents.runs import (
    ENDED,
    OPTIMIZER_GRAPH,
    Lease,
    Run,
    RunOutcome,
    RunRow,
    RunStore,
    checkpointer,
    control,
    load_graph,
    store,
)
from hive_agents.workspace import Workspace

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver

    from hive_agents.access import Principal
    from hive_agents.events import Bus


_WORDS = frozenset({"reason", "feedback", "message", "why", "tag"})
"""Keys of a result whose texts a model wrote, or that name tags."""


@dataclass
class OptimizeRun(Run):
    """One run of the optimizer graph.

    `on_update` gets the graph's state after each diagnosis and each judgement, in the thread that computes. A run that
    waits for a person has a preliminary result, and goes on once the request is decided. Ctrl-C ends it with
    `stopped_by: interrupted` and the result so far.
    """

    GRAPH: ClassVar[str] = OPTIMIZER_GRAPH
    SOURCE = "optimizer_run"
    CUT = False
    BROKEN_OFF = "queued"

    on_update: Callable[[dict[str, Any]], None] | None = None

    @classmethod
    def start(
        cls,
        workspace: Workspace,
        *,
        golden: Path | None,
        deploy: bool,
        settings: dict[str, Any],
        hold: bool = True,
        owner: Principal | None = None,
        key: str | None = None,
    ) -> OptimizeRun:
        """Return a new run for this process, or without `hold` for a host; a `key` starts one run only.

        What an `owner` starts who isn't the workspace's measures what they may view; the gate measures everything.

        Raises: HIVE-408 without an active config, HIVE-406 without any text, HIVE-409 for a limit of dollars that
        can't be kept, level 1 for a faulty golden set, also one without queries to learn from, or setting.
        """
        from hive_agents.evaluation import viewable_golden
        from hive_agents.ranking import require_sound

        active = active_config(workspace)
        viewer = None if owner == workspace_owner() else owner
        labels = viewable_golden(workspace, viewer, golden)
        require_sound(workspace, active.stored, judged=labels.collection, viewer=viewer)
        load_tuning(workspace, golden, viewer)
        require_text(workspace, active.stored.config.collection)
        require_priced(workspace, workspace.settings.optimizer.model_copy(update=settings))
        value = {"golden": str(golden.resolve()) if golden else None, "deploy": deploy, "settings": settings}
        if viewer is not None:
            value["viewer"] = Standing.of(workspace, viewer).model_dump(mode="json")
        status = "running" if hold else "queued"
        starter = owner or workspace_owner()  # who can't decide what the run asks for
        return cls(workspace, RunStore(workspace).insert(cls.GRAPH, value, owner=starter, key=key, status=status)[0])

    @classmethod
    def resume(cls, workspace: Workspace, run_id: str, **options: Any) -> OptimizeRun:
        """Raises: HIVE-409 for an unknown run."""
        row = RunStore(workspace).get(run_id)
        if row.graph != cls.GRAPH:
            fix = f"hive run --resume {run_id}"
            raise HiveError.of("HIVE-409", f"{run_id} is a run of {row.agent or row.graph}", fix=fix, exit_code=2)
        return cls(workspace, row, **options)

    @staticmethod
    def result_of(row: RunRow) -> dict[str, Any]:
        return row.result or {"run_id": row.run_id, "status": row.status, "stopped_by": row.summary["stopped_by"]}

    def progress(self) -> dict[str, Any]:
        """Return the fields of a search that show where it stands, as of its last step, or its end."""
        state: dict[str, Any] = {}
        if self.row.result is None or self.row.status not in ENDED:
            with checkpointer(self.workspace) as saver:
                checkpoint = saver.get_tuple({"configurable": {"thread_id": self.checkpoints(self.row)}})
            state = checkpoint.checkpoint["channel_values"] if checkpoint is not None else {}
        result = self.row.result or {}
        diagnosis = state.get("diagnosis") or result.get("diagnosis") or {}
        return {
            "rows": state.get("rows") or result.get("iterations") or [],
            "evaluations": state.get("evaluations") or result.get("evaluations") or 0,
            "stopped_by": state.get("stopped_by") or result.get("stopped_by"),
            "diagnosis": result.get("first_diagnosis") or state.get("first_diagnosis") or diagnosis.get("summary"),
            "losses": state.get("first_losses") or result.get("first_losses") or [],
            "fallbacks": state.get("fallbacks") or result.get("fallbacks") or [],
            "unavailable": state.get("unavailable") or result.get("unavailable"),
        }

    def shown_to(self, reader: Principal | None, value: Any) -> Any:
        """Return a part of what the search found, of somebody else's without words that may quote what the reader may
        not view: a model's reasons, and what a trial or the gate says of tags."""
        is_own = reader is not None and (reader.tenant, reader.user) == (self.row.tenant, self.row.user)
        return value if is_own or RequestReader(self.workspace, reader).views_everything else _without_words(value)

    def go(self, *, wait: float = 30.0) -> dict[str, Any]:
        """As `Run.go`; Ctrl-C before the first result raises KeyboardInterrupt."""
        result = super().go(wait=wait)
        if self.row.result is None:
            if self.row.status in control.RESTS.values() and not self.row.broke_off:
                return self.overtaken()
            raise KeyboardInterrupt
        return result

    def overtaken(self) -> dict[str, Any]:
        """Raises: HIVE-402 where somebody paused or stopped it just now."""
        if self.row.status in control.RESTS.values():
            message = f"somebody paused or stopped run {self.run_id} just now"
            raise HiveError.of("HIVE-402", message, path=self.run_id, fix=f"see `hive runs show {self.run_id}`")
        return super().overtaken()

    def open(self, lease: Lease, bus: Bus | None) -> OptimizerContext:
        value = self.row.value
        standing = Standing.model_validate(value["viewer"]) if "viewer" in value else None
        viewer = standing.now(self.workspace) if standing is not None else None
        return OptimizerContext(
            str(self.workspace.root), value["golden"], {"optimizer": value["settings"]}, principal=viewer
        )

    def compile(self, saver: BaseCheckpointSaver[str] | None) -> Any:
        return load_graph(self.GRAPH, saver)

    def begin(self, context: OptimizerContext) -> dict[str, Any]:
        return {"run_id": self.run_id, "deploy": self.row.value["deploy"]}

    async def advance(self, graph: Any, value: Any, options: dict[str, Any]) -> None:
        """Run the graph until it rests, in a thread of its own, since it computes."""

        def compute() -> None:
            for update in graph.stream(value, stream_mode="updates", **options):
                if self.on_update is not None and {"judge", "diagnose"} & update.keys():
                    self.on_update(dict(graph.get_state(options["config"]).values))

        await in_thread(compute)

    def outcome(self, context: OptimizerContext, state: Mapping[str, Any], pending: list[str]) -> RunOutcome:
        request = self._request(state)
        had_request = (self.row.result or {}).get("approval_id") is not None
        if request is None or not had_request or state["status"] != "stopped":
            result = self._result(context, state, interrupted=False)
        else:
            # Nothing was measured since the request, and the session may not open any more.
            result = (self.row.result or {}) | {"status": state["status"], "stopped_by": state["stopped_by"]}
            result["decision"] = _decision(request)
            restate(self._report, result)
        if request is not None and request.outcome is None and not pending:
            ending = {"run_id": self.run_id, "status": result["status"], "stopped_by": result["stopped_by"]}
            ApprovalStore(self.workspace).record_outcome(request.id, ending)
        return RunOutcome("waiting" if pending else "done", result)

    def kept(self, context: OptimizerContext | None, state: Mapping[str, Any], status: str) -> dict[str, Any] | None:
        if context is None or status not in control.RESTS.values():
            return self.row.result
        # A new session: the thread of a cancelled step still computes with the old one.
        context.sessions.clear()
        return self._result(context, state, interrupted=True)

    def spent(self, result: Mapping[str, Any] | None) -> store.RunCost | None:
        if not result or "usage" not in result:
            return None
        usage = result["usage"]
        return store.RunCost(usage["model_calls"], usage["input_tokens"] + usage["output_tokens"], usage["usd"])

    @property
    def _report(self) -> Path:
        self.workspace.state_folder("runs")
        return self.workspace.state_folder(f"runs/{self.run_id}") / "report.html"

    def _request(self, state: Mapping[str, Any]) -> ApprovalRequest | None:
        """Return the request if it is decided; None without a request."""
        id = state.get("approval_id")
        request = ApprovalStore(self.workspace).get(id) if id else None
        return request if request is not None and request.decided else None

    def _result(self, context: OptimizerContext, state: Mapping[str, Any], *, interrupted: bool) -> dict[str, Any]:
        request, report = self._request(state), self._report
        session = context.optimizer(self.run_id, state)
        result = result_of(session, state, self.run_id, interrupted=interrupted)
        result["decision"] = _decision(request) if request is not None else None
        atomic_write(report, page(result, session).encode(), mode=0o600)
        result["report"] = self.workspace.relative(report)
        return result


def _decision(request: ApprovalRequest) -> dict[str, Any]:
    """Return the status of the request, the person who decided it, and the reason."""
    # A vote does not decide a request that expired or was superseded.
    last = request.decisions[-1] if request.decisions and request.status in ("approved", "rejected") else None
    reason = (last.reason or last.message) if last else request.note
    return {"status": request.status, "by": last.by if last else None, "reason": reason}


def _without_words(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_words(part) for part in value]
    if not isinstance(value, dict):
        return value
    return {name: WITHHELD if name in _WORDS and part else _without_words(part) for name, part in value.items()}
