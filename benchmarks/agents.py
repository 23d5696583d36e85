"""The same three agents here, in LangGraph and in Pydantic AI: prompts, processor time and what each survives.

    python benchmarks/agents.py [--rounds N] [--json FILE]

`classify` answers at once, `check` looks something up first, `refund` pays money back once a person has agreed. Each
framework has them as its documentation shows it, with an output of the same type and a model that answers by a script.
Prompts are what a server would get: messages and the schemas of tools, as JSON in OpenAI's shape, over all calls of a
run. Processor time is of the whole process, by turns, with records on disk where the framework has them: SQLite here
and for LangGraph; Pydantic AI by itself has none. The first run in a folder makes the records' files, the next one
finds them. Then each pays in a process that is killed right after the payment, and a second process is told to go on.

What it leaves out: servers, and models' own time. Two columns need `pip install pydantic-ai-slim dbos`, which aren't
among our extras: Pydantic AI by itself, and in workflows of DBOS with its records in SQLite.

The frameworks stand in one file, long as it is: their parts are read beside one another, and their lines counted in it.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage, convert_to_openai_messages
from langchain_core.outputs import ChatGeneration, ChatResult as LangChainResult
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, interrupt
from pydantic import BaseModel, ConfigDict

from hive_agents import Agent, AgentRun, Workspace, effect, flow, idempotency_key, tool
from hive_agents.approvals import ApprovalStore
from hive_agents.models import Chain, ChatDelta, ChatResult, Message, Tool, ToolCall, Usage


class Ticket(BaseModel):
    order: str
    message: str


class Verdict(BaseModel):
    trusted: bool
    why: str


TICKET = Ticket(order="A-2", message="The parcel never came, and I want my money back.")
VERDICT = {"trusted": True, "why": "first refund"}
CLASSIFY = "Is this a ticket of a customer whom we trust?"
CHECK = "Look up past refunds of the order, then say whether the customer can be trusted."
REFUND = "Look up past refunds, pay the price of the order back, then say what you decided."
Call = tuple[str, dict[str, Any]]
LOOK: Call = ("past_refunds", {"order": "A-2"})
PAY: Call = ("pay_back", {"order": "A-2", "amount": 80.0})
SCRIPTS: dict[str, list[Call]] = {"classify": [], "check": [LOOK], "refund": [LOOK, PAY]}
"""Calls of tools before the output, one in each turn of the model."""


@dataclass
class Ledger:
    """Where payments go, and what ends the process right after one."""

    file: Path = Path(os.devnull)
    deadly: bool = False
    past: dict[str, int] = field(default_factory=lambda: {"A-1": 3})

    def pay(self, order: str, amount: float, key: str | None = None) -> str:
        with self.file.open("a", encoding="utf-8") as file:
            file.write(f"{key or order}={amount}\n")
        if self.deadly:
            os.kill(os.getpid(), signal.SIGKILL)
        return "R-1"


LEDGER = Ledger()


@dataclass
class Sent:
    """The requests of runs, as JSON in OpenAI's shape."""

    requests: list[str] = field(default_factory=list)

    def add(self, messages: Any, tools: Any) -> None:
        self.requests.append(json.dumps({"messages": messages, "tools": tools}, ensure_ascii=False))

    @property
    def characters(self) -> int:
        return sum(map(len, self.requests))


Run = Callable[[str, Path, Sent, str], Coroutine[Any, Any, str]]
"""Run an agent in a folder until its output, agreeing where it asks; goes on where a run of this id is there."""


# Here.


@tool
async def past_refunds(order: str) -> int:
    """How often the customer of an order was refunded."""
    return LEDGER.past.get(order, 0)


@effect(ask=True)
async def pay_back(order: str, amount: float) -> str:
    """Pay money back; gives the receipt."""
    return LEDGER.pay(order, amount, idempotency_key())


classifier = Agent(Ticket, Verdict, prompt=CLASSIFY)
checker = Agent(Ticket, Verdict, tools=[past_refunds], prompt=CHECK)
payer = Agent(Ticket, Verdict, tools=[past_refunds, pay_back], prompt=REFUND)


@flow
async def classify(ticket: Ticket) -> Verdict:
    return await classifier(ticket)


@flow
async def check(ticket: Ticket) -> Verdict:
    return await checker(ticket)


@flow
async def refund(ticket: Ticket) -> Verdict:
    return await payer(ticket)


async def hive(name: str, folder: Path, sent: Sent, id: str = "run") -> str:
    if not (folder / "hive.toml").exists():
        (folder / "collections").mkdir()
        (folder / "hive.toml").write_text('[models]\nembedding = "none"\n', encoding="utf-8")
    place, script = Workspace(folder), SCRIPTS[name]

    class Scripted:
        name = "scripted"

        async def complete(self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), **_: Any) -> ChatResult:
            sent.add(*_as_sent(messages, tools))
            done = sum(one.role == "tool" for one in messages)
            call = script[done] if done < len(script) else ("set_output", VERDICT)
            return ChatResult(text="", tool_calls=[ToolCall(name=call[0], args=call[1])], usage=Usage())

        async def stream(self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), **_: Any) -> Any:
            yield ChatDelta(text="", result=await self.complete(messages, tools=tools))

    options: dict[str, Any] = {"models": lambda role: Chain([Scripted()])}
    agent = {"classify": classify, "check": check, "refund": refund}[name]
    kept = folder / id
    if kept.exists():
        run = AgentRun.resume(place, kept.read_text(), agent=agent, **options)
    else:
        run = AgentRun.start(place, agent, TICKET, **options)
        kept.write_text(run.run_id)
    result = await run.work()
    while result["approval_ids"]:
        for asked in result["approval_ids"]:
            ApprovalStore(place).decide(asked, "approve", by="dana")
        result = await AgentRun.resume(place, run.run_id, agent=agent, **options).work()
    assert result["status"] == "done", result
    return str(Verdict.model_validate(result["outputs"]).why)


def _as_sent(messages: Sequence[Message], tools: Sequence[Tool]) -> tuple[list[Any], list[Any]]:
    told: list[Any] = []
    for one in messages:
        calls = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": json.dumps(call.args)}}
            for call in one.tool_calls
        ]
        told.append({"role": one.role, "content": one.content} | ({"tool_calls": calls} if calls else {}))
        if one.role == "tool":
            told[-1]["tool_call_id"] = one.tool_call_id
    return told, [{"type": "function", "function": one.model_dump()} for one in tools]


# LangGraph.


class ScriptedLangChain(BaseChatModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    script: list[Call]
    sent: Sent
    tools: list[Any] = []

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> Any:
        return self.model_copy(update={"tools": [convert_to_openai_tool(one) for one in tools]})

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> LangChainResult:
        self.sent.add(convert_to_openai_messages(messages), self.tools)
        done = sum(isinstance(one, ToolMessage) for one in messages)
        call = self.script[done] if done < len(self.script) else ("Verdict", VERDICT)
        answer = AIMessage("", tool_calls=[{"name": call[0], "args": call[1], "id": f"c{done}"}])
        return LangChainResult(generations=[ChatGeneration(message=answer)])


async def langgraph(name: str, folder: Path, sent: Sent, id: str = "run") -> str:
    def past_refunds(order: str) -> int:
        """How often the customer of an order was refunded."""
        return LEDGER.past.get(order, 0)

    def pay_back(order: str, amount: float) -> str:
        """Pay money back; gives the receipt."""
        if interrupt({"tool": "pay_back", "order": order, "amount": amount}) != "approve":
            return "refused"
        return LEDGER.pay(order, amount)

    tools: Any = {"classify": [], "check": [past_refunds], "refund": [past_refunds, pay_back]}[name]
    prompt = {"classify": CLASSIFY, "check": CHECK, "refund": REFUND}[name]
    model = ScriptedLangChain(script=SCRIPTS[name], sent=sent).bind_tools([*tools, Verdict])

    async def think(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await model.ainvoke([("system", prompt), *state["messages"]])]}

    def onward(state: MessagesState) -> str:
        last = state["messages"][-1]
        return END if isinstance(last, AIMessage) and last.tool_calls[0]["name"] == "Verdict" else "act"

    graph = StateGraph(MessagesState)
    graph.add_node("think", think)
    graph.add_edge(START, "think")
    if tools:
        graph.add_node("act", ToolNode(tools))
        graph.add_edge("act", "think")
    graph.add_conditional_edges("think", onward, ["act", END] if tools else [END])
    config: Any = {"configurable": {"thread_id": id}}
    async with AsyncSqliteSaver.from_conn_string(str(folder / "langgraph.db")) as saver:
        compiled = graph.compile(checkpointer=saver)
        began = (await compiled.aget_state(config)).values
        given: Any = None if began else {"messages": [("user", TICKET.model_dump_json())]}
        result = await compiled.ainvoke(given, config, durability="sync")
        while "__interrupt__" in result:
            result = await compiled.ainvoke(Command(resume="approve"), config, durability="sync")
    return Verdict.model_validate(result["messages"][-1].tool_calls[0]["args"]).why


# Pydantic AI.


async def pydantic_ai(name: str, _: Path, sent: Sent, __: str = "run") -> str:
    from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, Tool, ToolApproved

    def past_refunds(order: str) -> int:
        """How often the customer of an order was refunded."""
        return LEDGER.past.get(order, 0)

    def pay_back(order: str, amount: float) -> str:
        """Pay money back; gives the receipt."""
        return LEDGER.pay(order, amount)

    tools = {
        "classify": [],
        "check": [Tool(past_refunds)],
        "refund": [Tool(past_refunds), Tool(pay_back, requires_approval=True)],
    }[name]
    prompt = {"classify": CLASSIFY, "check": CHECK, "refund": REFUND}[name]
    types: Any = [Verdict, DeferredToolRequests] if name == "refund" else Verdict
    agent: Any = Agent(_scripted_function(name, sent), output_type=types, instructions=prompt, tools=tools)
    result = await agent.run(TICKET.model_dump_json())
    while isinstance(result.output, DeferredToolRequests):
        agreed = DeferredToolResults(approvals={one.tool_call_id: ToolApproved() for one in result.output.approvals})
        result = await agent.run(message_history=result.all_messages(), deferred_tool_results=agreed)
    return str(result.output.why)


def _scripted_function(name: str, sent: Sent) -> Any:
    from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart, ToolReturnPart
    from pydantic_ai.models.function import AgentInfo, FunctionModel

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        sent.add(*_as_sent_by_pydantic_ai(messages, info))
        done = sum(isinstance(part, ToolReturnPart) for one in messages for part in one.parts)
        script = SCRIPTS[name]
        call = script[done] if done < len(script) else (info.output_tools[0].name, VERDICT)
        return ModelResponse(parts=[ToolCallPart(call[0], call[1])])

    return FunctionModel(answer)


def _as_sent_by_pydantic_ai(messages: Any, info: Any) -> tuple[list[Any], list[Any]]:
    told: list[Any] = [{"role": "system", "content": info.instructions}] if info.instructions else []
    for one in messages:
        for part in one.parts:
            if part.part_kind == "tool-call":
                function = {"name": part.tool_name, "arguments": part.args_as_json_str()}
                call = {"id": part.tool_call_id, "type": "function", "function": function}
                told.append({"role": "assistant", "content": "", "tool_calls": [call]})
            elif part.part_kind == "tool-return":
                text = part.model_response_str()
                told.append({"role": "tool", "content": text, "tool_call_id": part.tool_call_id})
            else:
                told.append({"role": "user", "content": part.content})
    tools = [*info.function_tools, *info.output_tools]
    functions = [
        {"name": one.name, "description": one.description, "parameters": one.parameters_json_schema} for one in tools
    ]
    return told, [{"type": "function", "function": function} for function in functions]


# Pydantic AI in workflows of DBOS.


async def dbos(name: str, folder: Path, sent: Sent, id: str = "run") -> str:
    from dbos import DBOS, SetWorkflowID
    from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, Tool, ToolApproved
    from pydantic_ai.durable_exec.dbos import DBOSDurability

    where = f"sqlite:///{folder / 'dbos.db'}"
    DBOS(config={"name": "refunds", "system_database_url": where, "application_version": "1", "log_level": "ERROR"})

    @DBOS.step()
    async def past_refunds(order: str) -> int:
        """How often the customer of an order was refunded."""
        return LEDGER.past.get(order, 0)

    @DBOS.step()
    async def pay_back(order: str, amount: float) -> str:
        """Pay money back; gives the receipt."""
        return LEDGER.pay(order, amount)

    tools = {
        "classify": [],
        "check": [Tool(past_refunds)],
        "refund": [Tool(past_refunds), Tool(pay_back, requires_approval=True)],
    }[name]
    prompt = {"classify": CLASSIFY, "check": CHECK, "refund": REFUND}[name]
    types: Any = [Verdict, DeferredToolRequests] if name == "refund" else Verdict
    model, durable = _scripted_function(name, sent), DBOSDurability()
    agent: Any = Agent(model, name=name, output_type=types, instructions=prompt, tools=tools, capabilities=[durable])

    @DBOS.workflow(name=name)
    async def run(ticket: str) -> str:
        result = await agent.run(ticket)
        while isinstance(result.output, DeferredToolRequests):
            calls = result.output.approvals
            await DBOS.set_event_async("asks", [one.tool_call_id for one in calls])
            await DBOS.recv_async("answer", timeout_seconds=86_400)
            agreed = DeferredToolResults(approvals={one.tool_call_id: ToolApproved() for one in calls})
            result = await agent.run(message_history=result.all_messages(), deferred_tool_results=agreed)
        return str(result.output.why)

    DBOS.launch()  # which goes on with what a dead process left
    try:
        if await DBOS.get_workflow_status_async(id) is None:
            with SetWorkflowID(id):
                await DBOS.start_workflow_async(run, TICKET.model_dump_json())
        if name == "refund" and await DBOS.get_event_async(id, "asks", timeout_seconds=60):
            await DBOS.send_async(id, "approve", "answer", idempotency_key="answer")
        return str(await (await DBOS.retrieve_workflow_async(id)).get_result())
    finally:
        DBOS.destroy(destroy_registry=True)
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor())  # it has ended the loop's, too


FRAMEWORKS: dict[str, Run] = {"hive": hive, "langgraph": langgraph, "pydantic_ai": pydantic_ai, "dbos": dbos}


def available() -> list[str]:
    there = [name for name in FRAMEWORKS if name == "hive" or find_spec(name) is not None]
    return [name for name in there if name != "dbos" or "pydantic_ai" in there]


def lines(framework: str) -> int:
    """Return how many lines of this file a framework's agents take: with what runs them, without scripted models."""
    tree = ast.parse(Path(__file__).read_text(encoding="utf-8"))
    own = ("past_refunds", "pay_back", "classifier", "checker", "payer", *SCRIPTS) if framework == "hive" else ()
    counted: set[int] = set()
    for node in tree.body:
        names = {getattr(node, "name", None), *(getattr(one, "id", None) for one in getattr(node, "targets", ()))}
        if names & {framework, *own}:
            first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))])
            counted |= set(range(first, (node.end_lineno or first) + 1))
            for inner in ast.walk(node):
                if getattr(inner, "name", None) == "Scripted":
                    counted -= set(range(inner.lineno, inner.end_lineno + 1))  # type: ignore[attr-defined]
    text = Path(__file__).read_text(encoding="utf-8").splitlines()
    return sum(bool(text[n - 1].strip()) for n in counted)


async def prompts(framework: str, agent: str) -> dict[str, int]:
    sent = Sent()
    with tempfile.TemporaryDirectory() as folder:
        assert await FRAMEWORKS[framework](agent, Path(folder), sent, "run") == VERDICT["why"]
    return {"calls": len(sent.requests), "characters": sent.characters}


async def processor_time(agent: str, rounds: int) -> dict[str, dict[str, float]]:
    """Seconds of a run by framework, as medians over rounds by turns: the first one in a folder, and the next one."""
    found: dict[str, dict[str, list[float]]] = {name: {"first": [], "next": []} for name in available()}
    for n in range(rounds + 1):
        for name, seconds in found.items():
            with tempfile.TemporaryDirectory() as folder:
                for which, taken in seconds.items():
                    began = time.process_time()
                    await FRAMEWORKS[name](agent, Path(folder), Sent(), which)
                    if n:  # the first round imports
                        taken.append(time.process_time() - began)
    return {name: {key: statistics.median(one) for key, one in seconds.items()} for name, seconds in found.items()}


def after_a_kill(framework: str) -> dict[str, Any]:
    """Pay in a process that is killed right after the payment, and go on in a second one."""
    with tempfile.TemporaryDirectory() as folder:
        ledger = Path(folder) / "payments"
        command = [sys.executable, __file__, "--pay", framework, folder]
        first = subprocess.run([*command, "--deadly"], capture_output=True, text=True)
        second = subprocess.run(command, capture_output=True, text=True)
        payments = ledger.read_text(encoding="utf-8").split()
    return {
        "killed": first.returncode == -signal.SIGKILL,
        "ended": second.returncode == 0,
        "payments": len(payments),
        "keys": len(set(payments)) if framework == "hive" else None,
        "calls_of_the_model_again": int(second.stdout or 0) if second.returncode == 0 else None,
    }


def pay(framework: str, folder: Path, deadly: bool) -> None:
    LEDGER.file, LEDGER.deadly = folder / "payments", deadly
    (folder / "place").mkdir(exist_ok=True)
    sent = Sent()
    asyncio.run(FRAMEWORKS[framework]("refund", folder / "place", sent, "run"))
    print(len(sent.requests))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--pay", nargs=2, metavar=("FRAMEWORK", "FOLDER"), help=argparse.SUPPRESS)
    parser.add_argument("--deadly", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.pay:
        pay(given.pay[0], Path(given.pay[1]), given.deadly)
        return
    report: dict[str, Any] = {"lines": {name: lines(name) for name in available()}}
    report |= {"prompts": {}, "seconds": {}, "killed": {}}
    for agent in SCRIPTS:
        report["prompts"][agent] = {name: asyncio.run(prompts(name, agent)) for name in available()}
        report["seconds"][agent] = asyncio.run(processor_time(agent, given.rounds))
    report["killed"] = {name: after_a_kill(name) for name in available()}
    head = f"{'agent':10}{'framework':14}{'calls':>6}{'characters':>12}{'x':>6}"
    print(f"{head}{'CPU ms, first':>15}{'x':>6}{'next':>9}{'x':>6}")
    for agent, row in report["prompts"].items():
        seconds = report["seconds"][agent]
        for name, one in row.items():
            ratio = one["characters"] / row["langgraph"]["characters"]
            first, later = seconds[name]["first"], seconds[name]["next"]
            print(
                f"{agent:10}{name:14}{one['calls']:6}{one['characters']:12,}{ratio:6.2f}"
                f"{1000 * first:15.1f}{first / seconds['langgraph']['first']:6.2f}"
                f"{1000 * later:9.1f}{later / seconds['langgraph']['next']:6.2f}"
            )
    print(f"\nlines of the three agents: {report['lines']}")
    print("\nkilled right after the payment, then told to go on:")
    for name, one in report["killed"].items():
        keys = f" under {one['keys']} key" if one["keys"] else ""
        print(
            f"  {name:14}{'ends' if one['ended'] else 'fails'}; the payment was made {one['payments']} x{keys};"
            f" {one['calls_of_the_model_again']} calls of the model in the second process"
        )
    if given.json:
        given.json.write_text(json.dumps(report, indent=2), encoding="utf-8")


if __name__ == "__main__":
    main()
