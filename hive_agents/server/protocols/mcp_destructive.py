"""The tools that deploy configs and decide requests: each asks a person before it acts.

Their annotations name local functions, so this module can't have `from __future__ import annotations`.
"""

from collections.abc import Callable
from typing import Annotated, Any, Literal

from mcp.server.elicitation import ElicitationResult
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.resolve import Elicit, Resolve
from pydantic import Field

from hive_agents.base import UNSEEN, HiveError, cut, hides, spelled, spelled_json
from hive_agents.base.files import LongText, ShortName
from hive_agents.server import approvals, configs
from hive_agents.server.auth import APPROVER, OPERATOR, CallContext
from hive_agents.server.protocols.mcp_calls import ToolCalls
from hive_agents.server.protocols.mcp_consent import Consent, agreed_to, by_request, can_ask
from hive_agents.server.shapes import ConfigRef

_Question = Elicit[Consent] | None
_Verb = Literal["approve", "reject"]
LONGEST_CALL = 2_000
"""Characters of a call's arguments in a question."""
WAITING = "waiting"
"""The `decision` of a deployment that waits for an approver."""


def destructive(calls: ToolCalls) -> list[Callable[..., Any]]:
    """Return the tools `deploy` and `decide_approval`."""

    async def shown_config(config: ConfigRef, ctx: Context[Any, Any]) -> configs.ConfigShown:
        return await calls.done(ctx, OPERATOR, lambda call: configs.show_config(call, config))

    async def about_deploy(
        shown: Annotated[configs.ConfigShown, Resolve(shown_config)], reason: LongText, ctx: Context[Any, Any]
    ) -> _Question:
        question = f"Deploy {shown.name} ({shown.hash[:12]})? If it passes the gate it serves everybody. Why: {reason}"
        return Elicit(spelled(question), Consent) if can_ask(ctx) else None

    async def about_decision(
        request_id: ShortName, verb: _Verb, version: int, reason: LongText, ctx: Context[Any, Any]
    ) -> _Question:
        shown = await calls.done(ctx, APPROVER, lambda call: approvals.show_request(call, request_id))
        question = _question(f"{verb.capitalize()} {request_id}, version {version}", shown.request, reason)
        return Elicit(question, Consent) if can_ask(ctx) else None

    async def deploy(
        config: ConfigRef,
        reason: LongText,
        shown: Annotated[configs.ConfigShown, Resolve(shown_config)],
        answer: Annotated[ElicitationResult[Consent], Resolve(about_deploy)],
        ctx: Context[Any, Any],
    ) -> configs.Deployed:
        """Put a config through the deploy gate; it serves if it is proved better. Each time spends a use of the
        holdout: compare on validation first. Where you can't ask your person an approver is asked: the decision is
        `waiting`, `approval_id` names the request, and the same call goes on once it is approved."""

        def deployed(call: CallContext) -> configs.Deployed:
            agreed = agreed_to(answer, f"deploying {config}")
            # With the hash of the config that the person agreed to: it may have changed meanwhile.
            body = configs.Deploy(config=config, hash=shown.hash, reason=reason)
            if agreed:
                return configs.deploy_config(call, body)
            title, args = f"deploy {shown.name} for an MCP client", {"config": shown.name, "hash": shown.hash}
            args["reason"] = reason
            id, outcome = by_request(call, "deploy", title, args, lambda: configs.deploy_config(call, body))
            return outcome if outcome is not None else _waiting(id)

        return await calls.done(ctx, OPERATOR, deployed)

    async def decide_approval(
        request_id: ShortName,
        verb: _Verb,
        version: Annotated[int, Field(ge=1, description="the version that was read")],
        reason: LongText,
        answer: Annotated[ElicitationResult[Consent], Resolve(about_decision)],
        ctx: Context[Any, Any],
    ) -> approvals.DecidedRequest:
        """Decide a request, as the person whose token this is, who is asked first."""

        def decided(call: CallContext) -> approvals.DecidedRequest:
            if not agreed_to(answer, f"deciding {request_id}"):
                why = "this client can't ask its person, and nobody else decides"
                fix = f"decide it on the page, or with `hive approvals {verb} {request_id}`"
                raise HiveError.of("HIVE-415", why, fix=fix, exit_code=1)
            body = approvals.Decide(verb=verb, version=version, reason=reason)
            return approvals.decide_request(call, request_id, body)

        return await calls.done(ctx, APPROVER, decided)

    return [deploy, decide_approval]


def _question(verb: str, request: dict[str, Any], reason: str) -> str:
    """Return the question whether to decide a request so, with the call that it is about."""
    lines = [f"{verb}: {request['title']}? Why: {reason}"]
    if "tool" in request["context"]:
        args = cut(spelled_json(request["context"].get("args")), LONGEST_CALL)
        lines.append(f"The call: {request['context']['tool']} {args}")
    lines += [f"Since this was asked: {change}" for change in request.get("changed", ())]
    if hides(lines) or "warning" in request:
        lines.append(f"Beware: {UNSEEN}.")
    return spelled("\n".join(lines))


def _waiting(approval_id: str) -> configs.Deployed:
    return configs.Deployed(
        decision=WAITING,
        reasons=[],
        watch=[],
        deployed=None,
        previous=None,
        evaluation={},
        certificate={},
        approval_id=approval_id,
        override=None,
    )
