"""Run the optimizer graph: started, resumed, interrupted, always with a result."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from hive_agents.files import atomic_write
from hive_agents.optimizer.page import page
from hive_agents.optimizer.report import result_of
from hive_agents.retrieval.deployed import active_config
from hive_agents.runtime.checkpoints import checkpointer
from hive_agents.runtime.context import HiveContext
from hive_agents.runtime.graphs import load_graph
from hive_agents.runtime.runs import Run, end_run, find_run, start_run
from hive_agents.workspace import Workspace

OnUpdate = Callable[[dict[str, Any]], None]


class OptimizeRun:
    """One run of the optimizer graph; its row is in the store before the graph starts."""

    def __init__(self, workspace: Workspace, run: Run) -> None:
        self.workspace = workspace
        self.run = run

    @classmethod
    def start(cls, workspace: Workspace, *, golden: Path | None, deploy: bool, settings: dict[str, Any]) -> OptimizeRun:
        """Raises: HIVE-408 without an active config, level 1 for the golden set or a bad setting."""
        from hive_agents.evaluation import load_golden
        from hive_agents.verification import require_sound

        active = active_config(workspace)
        require_sound(workspace, active.stored, golden=load_golden(workspace, golden))
        value = {"golden": str(golden.resolve()) if golden else None, "deploy": deploy, "settings": settings}
        return cls(workspace, start_run(workspace, "optimizer", value))

    @classmethod
    def resume(cls, workspace: Workspace, run_id: str) -> OptimizeRun:
        """Raises: HIVE-409 for an unknown run."""
        return cls(workspace, find_run(workspace, run_id, "optimizer"))

    def go(self, on_update: OnUpdate | None = None) -> dict[str, Any]:
        """Run to the end, or go on from the last checkpoint; a run that has ended gives its result again.

        Ctrl-C ends it with `stopped_by: interrupted` and what was found so far.
        """
        if self.run.status == "done" and self.run.result is not None:
            return self.run.result
        value = self.run.input
        context = HiveContext(str(self.workspace.root), value["golden"], {"optimizer": value["settings"]})
        config: Any = {"configurable": {"thread_id": self.run.thread_id}, "recursion_limit": 10_000}
        interrupted = False
        with checkpointer(self.workspace) as saver:
            graph = load_graph("optimizer", saver)
            known = graph.get_state(config)
            fresh = None if known.next else {"run_id": self.run.run_id, "deploy": value["deploy"]}
            try:
                for update in graph.stream(fresh, config, context=context, stream_mode="updates", durability="sync"):
                    if on_update is not None and {"judge", "diagnose"} & update.keys():
                        on_update(dict(graph.get_state(config).values))
            except KeyboardInterrupt:
                interrupted = True
            state = dict(graph.get_state(config).values)
        session = context.optimizer(
            self.run.run_id, state.get("baseline"), state.get("evaluations", 0), state.get("seconds", 0.0)
        )
        result = result_of(session, state, self.run.run_id, interrupted=interrupted)
        self.workspace.state_folder("runs")
        folder = self.workspace.state_folder(f"runs/{self.run.run_id}")
        atomic_write(folder / "report.html", page(result, session).encode(), mode=0o600)
        result["report"] = self.workspace.relative(folder / "report.html")
        end_run(self.workspace, self.run.run_id, "stopped" if interrupted else "done", result)
        return result
