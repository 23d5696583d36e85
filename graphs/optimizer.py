"""The optimizer: diagnose → propose → validate → evaluate → judge, again and again; then certify → deploy | escalate.

What the gate doesn't let pass waits for a person: escalate asks, decide takes the answer, deploy acts on it.
State holds JSON only and survives a crash between any two nodes. The session in the context holds what
can be computed again: cached rankings, the baseline's scores.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.types import interrupt

from hive_agents.optimizer import OptimizerSession, steps
from hive_agents.runtime import HiveContext


class OptimizerState(TypedDict, total=False):
    run_id: str
    deploy: bool  # False with --no-deploy
    baseline: dict[str, Any]
    incumbent: dict[str, Any]
    archive: list[dict[str, Any]]  # accepted configs, oldest first
    tried: list[str]
    iteration: int
    fruitless: int
    wide: bool
    diagnosis: dict[str, Any]
    first_diagnosis: str
    diagnosed: str  # the identity of the config that the diagnosis is of
    swept: dict[str, Any]  # what each single step from the incumbent gains, measured once
    proposals: list[dict[str, Any]]
    rows: list[dict[str, Any]]  # one a trial, as reports show them
    evaluations: int
    seconds: float
    usage: dict[str, Any]  # calls, tokens and dollars of models
    fallbacks: list[dict[str, Any]]  # iterations in which the heuristic stood in for the model, and why
    stopped_by: str | None
    search_ended_by: str | None  # what ended the search, whatever became of the run behind it
    unavailable: str | None  # why a reranker couldn't be asked
    best: dict[str, Any] | None
    certificate: dict[str, Any] | None
    evaluation: dict[str, Any] | None
    needed_queries: int | None  # where too few exist for a certificate
    status: str
    approval_id: str | None


Update = dict[str, Any]
Step = Callable[[OptimizerSession, OptimizerState], Update]

STEPS: tuple[Step, ...] = (
    steps.diagnose,
    steps.propose,
    steps.validate,
    steps.evaluate,
    steps.judge,
    steps.finish,
    steps.certify,
    steps.deploy,
    steps.escalate,
)


def node(step: Step) -> Any:
    """Return a step of the library as a node: with the run's session, opened again where a process died."""

    def run(state: OptimizerState, runtime: Runtime[HiveContext]) -> Update:
        return step(HiveContext.of(runtime).optimizer(state["run_id"], state), state)

    return run


def decide(state: OptimizerState, runtime: Runtime[HiveContext]) -> Update:
    """Pause until the request is decided. Nothing comes before the interrupt: a resumed node starts from its top."""
    interrupt({"approval_id": state["approval_id"]})
    return steps.decide(HiveContext.of(runtime).place, state)


def again(state: OptimizerState) -> Literal["diagnose", "finish"]:
    return "finish" if state.get("stopped_by") else "diagnose"


def worth_certifying(state: OptimizerState) -> Literal["certify", "__end__"]:
    return "certify" if state["status"] == "certifying" else "__end__"


def outcome(state: OptimizerState) -> Literal["deploy", "escalate", "__end__"]:
    if state["status"] == "stopped":  # as asked, or because too few queries exist to decide by
        return "__end__"
    certificate = state["certificate"]
    return "deploy" if certificate and certificate["decision"] == "passed" else "escalate"


def answered(state: OptimizerState) -> Literal["deploy", "decide", "__end__"]:
    if state["status"] == "escalated":  # woken before anybody decided
        return "decide"
    return "deploy" if state["status"] == "approved" else "__end__"


def build() -> StateGraph[OptimizerState, HiveContext, OptimizerState, OptimizerState]:
    builder = StateGraph(OptimizerState, context_schema=HiveContext)
    for step in STEPS:
        builder.add_node(step.__name__, node(step))
    builder.add_node("decide", decide)
    builder.add_edge(START, "diagnose")
    builder.add_edge("diagnose", "propose")
    builder.add_edge("propose", "validate")
    builder.add_edge("validate", "evaluate")
    builder.add_edge("evaluate", "judge")
    builder.add_conditional_edges("judge", again)
    builder.add_conditional_edges("finish", worth_certifying)
    builder.add_conditional_edges("certify", outcome)
    builder.add_edge("deploy", END)
    builder.add_edge("escalate", "decide")
    builder.add_conditional_edges("decide", answered)
    return builder


graph: CompiledStateGraph[OptimizerState, HiveContext, OptimizerState, OptimizerState] = build().compile()
