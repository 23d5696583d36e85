"""The optimizer: diagnose → propose → validate → evaluate → judge, repeated; then certify → deploy | escalate.

A result that doesn't pass the gate needs a person: escalate files a request, decide waits for it, deploy follows it.
State holds JSON only and survives a crash between any two nodes. The session in the context holds what can be computed
again: cached rankings, the baseline's scores.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.types import interrupt

from hive_agents.optimizer import OptimizerContext, OptimizerSession, steps


class OptimizerState(TypedDict, total=False):
    run_id: str
    deploy: bool  # False with --no-deploy
    baseline: dict[str, Any]
    incumbent: dict[str, Any]
    tried: list[str]
    iteration: int
    steps: int  # taken so far
    replanned: bool  # looking at what the owner could declare
    diagnosis: dict[str, Any]
    first_diagnosis: str
    first_losses: list[dict[str, Any]]
    diagnosed: str  # the hash of the diagnosed config
    proposals: list[dict[str, Any]]
    rows: list[dict[str, Any]]  # one for each trial, as in reports
    evaluations: int
    seconds: float
    usage: dict[str, Any]  # calls, tokens and dollars of models
    fallbacks: list[dict[str, Any]]  # iterations in which the heuristic replaced the model, and why
    stopped_by: str | None
    search_ended_by: str | None  # why the search ended; the run may end later for another reason
    unavailable: str | None  # why a reranker failed
    best: dict[str, Any] | None
    certificate: dict[str, Any] | None
    evaluation: dict[str, Any] | None
    needed_queries: int | None  # where there are too few for a certificate
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
    """Return a step of the library as a node, with the run's session."""

    def run(state: OptimizerState, runtime: Runtime[OptimizerContext]) -> Update:
        return step(OptimizerContext.of(runtime).optimizer(state["run_id"], state), state)

    return run


def decide(state: OptimizerState, runtime: Runtime[OptimizerContext]) -> Update:
    """Pause until the request is decided. The interrupt has to come first: a resumed node starts from its top."""
    interrupt({"approval_id": state["approval_id"]})
    return steps.decide(OptimizerContext.of(runtime).place, state)


def again(state: OptimizerState) -> Literal["diagnose", "finish"]:
    return "finish" if state.get("stopped_by") else "diagnose"


def worth_certifying(state: OptimizerState) -> Literal["certify", "__end__"]:
    return "certify" if state["status"] == "certifying" else "__end__"


def outcome(state: OptimizerState) -> Literal["deploy", "escalate", "__end__"]:
    if state["status"] == "stopped":  # with --no-deploy, or with too few queries to decide
        return "__end__"
    certificate = state["certificate"]
    return "deploy" if certificate and certificate["decision"] == "passed" else "escalate"


def answered(state: OptimizerState) -> Literal["deploy", "decide", "__end__"]:
    if state["status"] == "escalated":  # resumed before a decision
        return "decide"
    return "deploy" if state["status"] == "approved" else "__end__"


def build() -> StateGraph[OptimizerState, OptimizerContext, OptimizerState, OptimizerState]:
    builder = StateGraph(OptimizerState, context_schema=OptimizerContext)
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


graph: CompiledStateGraph[OptimizerState, OptimizerContext, OptimizerState, OptimizerState] = build().compile()
