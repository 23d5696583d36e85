"""The optimizer: diagnose → propose → validate → evaluate → judge, again and again; then certify → deploy | escalate.

State holds JSON only and survives a crash between any two nodes. The session in the context holds what
can be computed again: cached rankings, the baseline's scores.
"""

from __future__ import annotations

from typing import Any, Literal, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime

from hive_agents.optimizer import steps
from hive_agents.optimizer.session import OptimizerSession
from hive_agents.runtime.context import HiveContext


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
    proposals: list[dict[str, Any]]
    rows: list[dict[str, Any]]  # one a trial, as reports show them
    evaluations: int
    seconds: float
    stopped_by: str | None
    best: dict[str, Any] | None
    certificate: dict[str, Any] | None
    evaluation: dict[str, Any] | None
    status: str
    approval_id: str | None


Update = dict[str, Any]


def diagnose(state: OptimizerState, runtime: Runtime[HiveContext]) -> Update:
    return steps.diagnose(_session(state, runtime), state)


def propose(state: OptimizerState, runtime: Runtime[HiveContext]) -> Update:
    return steps.propose(_session(state, runtime), state)


def validate(state: OptimizerState, runtime: Runtime[HiveContext]) -> Update:
    return steps.validate(_session(state, runtime), state)


def evaluate(state: OptimizerState, runtime: Runtime[HiveContext]) -> Update:
    return steps.evaluate(_session(state, runtime), state)


def judge(state: OptimizerState, runtime: Runtime[HiveContext]) -> Update:
    return steps.judge(_session(state, runtime), state)


def finish(state: OptimizerState, runtime: Runtime[HiveContext]) -> Update:
    return steps.finish(_session(state, runtime), state)


def certify(state: OptimizerState, runtime: Runtime[HiveContext]) -> Update:
    return steps.certify(_session(state, runtime), state)


def deploy(state: OptimizerState, runtime: Runtime[HiveContext]) -> Update:
    return steps.deploy(_session(state, runtime), state)


def escalate(state: OptimizerState, runtime: Runtime[HiveContext]) -> Update:
    return steps.escalate(_session(state, runtime), state)


def again(state: OptimizerState) -> Literal["diagnose", "finish"]:
    return "finish" if state.get("stopped_by") else "diagnose"


def worth_certifying(state: OptimizerState) -> Literal["certify", "__end__"]:
    return "certify" if state["status"] == "certifying" else "__end__"


def outcome(state: OptimizerState) -> Literal["deploy", "escalate", "__end__"]:
    if not state["deploy"]:
        return "__end__"
    certificate = state["certificate"]
    return "deploy" if certificate and certificate["decision"] == "passed" else "escalate"


def _session(state: OptimizerState, runtime: Runtime[HiveContext]) -> OptimizerSession:
    context = HiveContext.of(runtime)
    return context.optimizer(
        state["run_id"], state.get("baseline"), state.get("evaluations", 0), state.get("seconds", 0.0)
    )


def build() -> StateGraph[OptimizerState, HiveContext, OptimizerState, OptimizerState]:
    builder = StateGraph(OptimizerState, context_schema=HiveContext)
    for node in (diagnose, propose, validate, evaluate, judge, finish, certify, deploy, escalate):
        builder.add_node(node)
    builder.add_edge(START, "diagnose")
    builder.add_edge("diagnose", "propose")
    builder.add_edge("propose", "validate")
    builder.add_edge("validate", "evaluate")
    builder.add_edge("evaluate", "judge")
    builder.add_conditional_edges("judge", again)
    builder.add_conditional_edges("finish", worth_certifying)
    builder.add_conditional_edges("certify", outcome)
    builder.add_edge("deploy", END)
    builder.add_edge("escalate", END)
    return builder


graph: CompiledStateGraph[OptimizerState, HiveContext, OptimizerState, OptimizerState] = build().compile()
