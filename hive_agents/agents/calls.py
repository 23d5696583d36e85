"""The tool calls of a turn: which run, which wait for a person, and the result that the conversation gets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from functools import partial
from typing import Any

from hive_agents.agents import node_requests, synthetic
from hive_agents.agents.call_bounds import CallBounds, binding, speaks
from hive_agents.agents.effects import Done
from hive_agents.agents.guards.loops import fingerprint
from hive_agents.agents.node_requests import Pending
from hive_agents.agents.node_work import NodeWork
from hive_agents.agents.stricter import Guards
from hive_agents.agents.sub_agents import NodeLoop, delegated, report
from hive_agents.agents.tool import SideEffect, ToolContext, as_json, as_result
from hive_agents.agents.tools import decided
from hive_agents.agents.verify import FILE_TOOLS
from hive_agents.approvals import STRICTER, WITHHELD, Filing, ToolDecision
from hive_agents.base import Busy, HiveError
from hive_agents.events import EventType
from hive_agents.memory import Delivery, ToolResult
from hive_agents.models import ToolCall
from hive_agents.store import briefly

IN_ORDER = (synthetic.SET, *synthetic.WRITING)
TOOL_SECONDS = 600.0
_ANSWERS = {"expired": "nobody answered in time", "superseded": "the request was withdrawn"}


def counted(work: NodeWork, call: ToolCall) -> bool:
    """Return whether a call counts towards the node's `max_tool_calls`: the loop's own tools don't."""
    return call.name in work.node.tools or call.name == synthetic.DELEGATE


async def answer(work: NodeWork, key: str, call: ToolCall, loop: NodeLoop) -> Delivery:
    """Return the result of a call as the conversation gets it; a sub-agent runs in `loop`.

    Raises: Pending where a person has to answer first; BudgetExhausted.
    """
    if call.name == synthetic.SET:
        work.session.effects.require_permission()
        return await work.session.effects.write(lambda: output_set(work, key, call))
    result = work.session.effects.find(key)
    facts = {"tool": call.name, "call": key, "fingerprint": fingerprint([call])}
    if result is None:
        await work.session.emit(EventType.TOOL_STARTED, key, work.node.id, **facts)
        result = await _carried_out(work, key, call, loop)
    return _answered(work, key, result, facts)


def output_set(work: NodeWork, key: str, call: ToolCall) -> Delivery:
    """Return the result of a call of set_output, as `answer` does, in a transaction of the ledger."""
    session, arguments = work.session, dict(call.args)

    def do() -> Done:
        faults = synthetic.wrong_arguments(work, synthetic.SET, arguments)
        if faults:
            result = ToolResult(f"{synthetic.SET} did not run: {'; '.join(faults[:5])}", True)
        else:
            try:
                result = synthetic.set_outputs(work, synthetic.given_outputs(work, arguments) or {})
            except Busy:
                raise  # the database is unavailable: no model can mend that, so the run pauses
            except HiveError as error:
                result = _refused(error)
        return _done(work, synthetic.SET, result, keep=False)

    facts = {"tool": call.name, "call": key, "fingerprint": fingerprint([call])}
    session.tell_later(EventType.TOOL_STARTED, key, work.node.id, **facts)
    result = session.effects.settle(key, "synthetic", synthetic.SET, do, node=work.node.id)
    for output in synthetic.given_outputs(work, arguments) or {} if not result["is_error"] else ():
        at = key if arguments.get("key") == output else f"{key}/{output}"
        session.tell_later(EventType.OUTPUT_SET, at, work.node.id, key=output)
    return _answered(work, key, result, facts)


def _answered(work: NodeWork, key: str, result: Mapping[str, Any], facts: Mapping[str, Any]) -> Delivery:
    """Return a recorded result as the conversation gets it, and tell of it later."""
    type = EventType.TOOL_FAILED if result["is_error"] else EventType.TOOL_COMPLETED
    more = {"error": result["content"][:300]} if result["is_error"] else {"chars": len(result["content"])}
    work.session.tell_later(type, key, work.node.id, **facts, **more)
    return Delivery(result["content"], result["is_error"], result.get("pointer"))


async def _carried_out(work: NodeWork, key: str, call: ToolCall, loop: NodeLoop) -> Any:
    name, arguments = call.name, dict(call.args)
    if name not in (*FILE_TOOLS, synthetic.ASK, synthetic.DELEGATE, synthetic.REPORT):
        return await _tool(work, key, name, arguments)
    faults = synthetic.wrong_arguments(work, name, arguments)
    if name == synthetic.DELEGATE and work.delegated:
        faults = ["a sub-agent delegates to nobody: do it yourself, or report what is missing"]
    if faults:
        return await _recorded(work, key, name, ToolResult(f"{name} did not run: {'; '.join(faults[:5])}", True))
    if name == synthetic.ASK:
        filing = node_requests.question(work, key, arguments["question"], arguments.get("options") or [])
        request = await work.session.ask(filing)
        if not request.decided:
            raise Pending([request.id])
        refused = request.status != "responded"
        return await _recorded(
            work, key, name, ToolResult(_ANSWERS.get(request.status) or node_requests.words_of(request), refused)
        )
    if name == synthetic.DELEGATE:
        return await _delegation(work, key, arguments, loop)
    if name == synthetic.REPORT:
        return await _recorded(work, key, name, await _reported(work, key, arguments))
    return await _file_tool(work, key, name, arguments)


async def _file_tool(work: NodeWork, key: str, name: str, arguments: dict[str, Any]) -> Any:
    guards = await briefly(partial(Guards.of, work.session, work.agent.id))

    def refusal() -> str | None:
        then = synthetic.decision(work, name, arguments)
        now = synthetic.decision(work, name, arguments, guards.policies.values())
        return "the policy denies it" if then == "deny" else guards.refusal(name, then, now)

    decision = synthetic.decision(work, name, arguments, guards.policies.values())
    why = refusal()
    if why is None and (decision == "ask" or _was_asked(work, key)):
        effect: SideEffect = "write" if name in synthetic.WRITING else "read"
        parameters = synthetic.file_parameters(name)
        filing = node_requests.tool_call(work, key, name, arguments, parameters, effect)
        permitted = await _permitted(work, key, filing)
        if isinstance(permitted, str):
            why = permitted
        else:
            arguments = permitted
            why = refusal()
    if why is not None:
        return await _recorded(work, key, name, ToolResult(f"{name} did not run: {why}", True))
    return await _local(work, key, name, arguments)


def _was_asked(work: NodeWork, key: str) -> bool:
    """Return whether a person was asked about a call, whatever its policy says now."""
    return work.session.effects.find(f"{key}/question") is not None


async def _permitted(work: NodeWork, key: str, filing: Filing) -> dict[str, Any] | str:
    """Return the arguments that a person agrees to, or why the call may not run. Raises: Pending.

    The question is recorded, and stays the same when the tool's parameters change before it is answered.
    """
    noted = await work.session.effects.note(f"{key}/question", filing.model_dump(mode="json"))
    filing = Filing.model_validate(work.session.effects.find(noted))
    if await work.session.granted(filing):
        return dict(filing.context["args"])
    request = await work.session.ask(filing)
    if not request.decided:
        raise Pending([request.id])
    if request.status not in ("approved", "edited"):
        return _ANSWERS.get(request.status) or f"a person refused it: {node_requests.words_of(request)}"
    return dict(request.context["args"])


def _refused(error: HiveError) -> ToolResult:
    diagnostic = error.diagnostics[0]
    fix = f" ({diagnostic.fix})" if diagnostic.fix else ""
    return ToolResult(f"{diagnostic.code}: {diagnostic.message}{fix}", True)


async def _local(work: NodeWork, key: str, name: str, arguments: dict[str, Any]) -> Any:
    async def do(again: bool) -> Done:
        try:
            if name in ("load_data", "edit_data") and work.view().hidden:
                result = ToolResult(WITHHELD, True)  # the file may quote what can't be viewed now
            elif name == "edit_data":
                result = await _edited(work, key, arguments, again)
            else:
                result = await asyncio.to_thread(synthetic.file_tool, work, name, arguments)
        except Busy:
            raise  # the database is unavailable: no model can mend that, so the run pauses
        except HiveError as error:
            result = _refused(error)
        return _done(work, name, result, keep=name == "load_data")

    return await work.session.effects.once(key, "synthetic", name, do, node=work.node.id)


async def _edited(work: NodeWork, key: str, arguments: dict[str, Any], again: bool) -> ToolResult:
    """Edit a file; digests of it before and after are recorded first, so that a retry sees whether it was edited."""
    change = [arguments[name] for name in ("filename", "old", "new")]

    async def do(_: bool) -> Done:
        return Done(await asyncio.to_thread(synthetic.planned_edit, work, *change))

    plan = await work.session.effects.once(f"{key}/plan", "synthetic", "edit_data", do, node=work.node.id)
    return await asyncio.to_thread(synthetic.edit, work, *change, plan=plan, again=again)


async def by_code(work: NodeWork, key: str, name: str, arguments: dict[str, Any]) -> Any:
    """Return {content, is_error} of a call that code makes; the content is JSON, and never cut.

    Raises: as `answer`.
    """
    effects, facts = work.session.effects, {"tool": name, "call": key}
    facts["fingerprint"] = fingerprint([ToolCall(name=name, args=arguments)])
    result = effects.find(key)
    if result is None:
        await work.session.emit(EventType.TOOL_STARTED, key, work.node.id, **facts)
        result = await _tool(work, key, name, arguments, code=True)
    _answered(work, key, result, facts)
    await work.session.tell_rest()
    return result


async def _tool(work: NodeWork, key: str, name: str, arguments: dict[str, Any], *, code: bool = False) -> Any:
    approved, arguments = False, work.tools.completed(name, arguments)
    guards = await briefly(partial(Guards.of, work.session, work.agent.id))
    if work.tools.decide(name, arguments) != "deny" and not work.tools.check(name, arguments):
        permitted = await _allowed(work, key, name, arguments, guards)
        if isinstance(permitted, str):
            return await _recorded(work, key, name, ToolResult(f"{name} did not run: {permitted}", True))
        approved, arguments = permitted is not arguments, permitted
    then = work.tools.decide(name, arguments)
    refusal = None if then == "deny" else guards.refusal(name, then, _now(work, guards, name, arguments))

    async def do(again: bool) -> Done:
        session = work.session
        if refusal is not None:
            what = "may have run before the process died, and isn't called again" if again else "did not run"
            return _done(work, name, ToolResult(f"{name} {what}: {refusal}", True), False)
        if again and (settled := await _settled(work, key, name, arguments)) is not None:
            return await asyncio.to_thread(_done, work, name, settled, True)
        context = ToolContext(
            session.workspace,
            session.principal,
            session.run_id,
            work.agent.id,
            work.node.id,
            idempotency_key=f"{session.run_id}/{key}",
            again=again,
        )
        seconds_left = session.effects.left(key, "seconds")
        timeout = TOOL_SECONDS if seconds_left is None else min(TOOL_SECONDS, seconds_left)
        try:
            async with session.calls, asyncio.timeout(timeout):
                text = as_json if code else as_result
                result = await work.tools.call(name, arguments, context, approved=approved, text=text)
        except TimeoutError:
            result = ToolResult(f"{name} was cut off: it gave no result within {timeout:g} s", True)
        done = _done(work, name, result, False) if code else await asyncio.to_thread(_done, work, name, result, True)
        if code:
            done.result.update(tool=name, args=arguments)
        if context.documents:
            session.documents_read[key] = frozenset(context.documents)
        return Done(done.result | ({"documents": sorted(context.documents)} if context.documents else {}))

    return await work.session.effects.once(key, "tool", name, do, node=work.node.id, tool_calls=1)


async def _allowed(
    work: NodeWork, key: str, name: str, arguments: dict[str, Any], guards: Guards
) -> dict[str, Any] | str:
    """Return `arguments` where nobody has to be asked, those that people agreed to, or why the call may not run.

    They are asked again where the goal has got a constraint since, which the call violates. Raises: Pending.
    """
    tool, effects = work.tools[name], work.session.effects
    decision = _now(work, guards, name, arguments)
    if decision == "deny":
        return arguments
    bounds = await _bounds(work, key, name, arguments, asks=decision == "ask")
    result = work.buffer.read_all("execution") | work.outputs.values
    bounds = guards.newer(work.session.goal, tool, arguments, result, bounds) or bounds
    violates = bounds is not None and bool(bounds.violated(name, arguments))
    asks = decision == "ask" or violates or _was_asked(work, key)
    question, n = key, 1
    while asks:
        filing = node_requests.tool_call(work, question, name, arguments, tool.parameters, tool.side_effect, bounds)
        permitted = await _permitted(work, question, filing)
        if isinstance(permitted, str):
            return permitted
        asked = effects.find(f"{question}/question")["context"].get("hard_constraints")
        known = CallBounds.model_validate(asked) if asked is not None else None
        arguments, question, n = permitted, f"{key}/stricter{n}", n + 1
        bounds = guards.newer(work.session.goal, tool, arguments, result, known)
        asks = bounds is not None or _was_asked(work, question)
    return arguments


def _now(work: NodeWork, guards: Guards, name: str, arguments: Mapping[str, Any]) -> ToolDecision:
    """Return the stricter decision of the run's policies and those of now."""
    then = work.tools.decide(name, arguments)
    if not guards.policies:
        return then
    return max(then, decided(guards.policies.values(), work.tools[name], arguments), key=STRICTER.index)


async def _settled(work: NodeWork, key: str, name: str, arguments: dict[str, Any]) -> ToolResult | None:
    """Return a person's answer about a call that was interrupted; None where it is to be made again.

    Asks only about external tools without an idempotency key. Raises: Pending.
    """
    if name not in work.tools or work.tools[name].side_effect != "external" or work.tools[name].keyed:
        return None
    effects, n = work.session.effects, 1
    while effects.find(f"{key}/again{n}") is not None:
        n += 1
    request = await work.session.ask(node_requests.broken_off(work, f"{key}/again{n}", name, arguments))
    if not request.decided:
        raise Pending([request.id])
    if request.status == "responded":
        return ToolResult(f"It was done before the process died. A person says: {node_requests.words_of(request)}")
    if request.status != "approved":
        return ToolResult(f"{name} may have run before the process died; it isn't called again", True)
    await effects.note(f"{key}/again{n}", {"request": request.id})
    return None


async def _bounds(work: NodeWork, key: str, name: str, arguments: dict[str, Any], *, asks: bool) -> CallBounds | None:
    """Return the hard constraints on the call and on a person's edit of it; None where none applies.

    Recorded once: outputs may have changed when the step is done again.
    """
    tool = work.tools[name]
    constraints = binding(work.session.goal, tool)
    parameters = tool.parameters.get("properties") or {}
    if not any(asks or speaks(one, tool.side_effect, parameters, arguments) for one in constraints):
        return None

    async def do(_: bool) -> Done:
        result = work.buffer.read_all("execution") | work.outputs.values
        return Done(CallBounds.of(constraints, tool, result).model_dump(mode="json"))

    recorded = await work.session.effects.once(f"{key}/bounds", "synthetic", "constraints", do, node=work.node.id)
    return CallBounds.model_validate(recorded)


async def _delegation(work: NodeWork, key: str, arguments: dict[str, Any], loop: NodeLoop) -> Any:
    # Not one effect of the ledger: a sub-agent's steps are recorded there one by one, and it may wait for days.
    async with work.session.delegations:
        inputs = arguments.get("inputs") or {}
        result = await delegated(work, key, arguments["agent"], arguments["task"], inputs, loop)
    text = json.dumps(result, ensure_ascii=False)
    # A result that fits stays plain JSON.
    keep = len(text) > work.spill.limit
    failed = result["status"] != "completed"
    return await _recorded(work, key, synthetic.DELEGATE, ToolResult(text, failed and not keep), keep)


async def _reported(work: NodeWork, key: str, arguments: dict[str, Any]) -> ToolResult:
    message = arguments["message"]
    await report(work, key, message, arguments.get("data"), complete=bool(arguments.get("mark_complete")))
    if not arguments.get("wait_for_response"):
        return ToolResult("Reported.")
    request = await work.session.ask(node_requests.question(work, key, message, []))
    if not request.decided:
        raise Pending([request.id])
    return ToolResult(_ANSWERS.get(request.status) or node_requests.words_of(request), request.status != "responded")


async def _recorded(work: NodeWork, key: str, name: str, result: ToolResult, keep: bool = False) -> Any:
    async def do(_: bool) -> Done:
        return _done(work, name, result, keep)

    return await work.session.effects.once(key, "synthetic", name, do, node=work.node.id)


def _done(work: NodeWork, name: str, result: ToolResult, keep: bool) -> Done:
    """Return a result to record; `keep` puts one that is too long into a file and delivers a pointer to it."""
    delivery = work.spill.deliver(name, result) if keep else Delivery(result.content, result.is_error)
    return Done({"content": delivery.content, "is_error": delivery.is_error, "pointer": delivery.pointer})
