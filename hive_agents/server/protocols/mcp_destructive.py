"""The tools that deploy configs and decide requests: each asks a person before it acts.

Their annotations name local functions, so this module can't have `from __future__ import annotations`.
"""

from collections.abc import Callable
from typing import Annotated, Any, Literal

from mcp.server.elicitation import ElicitationResult
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.resolve import Elicit, Resolve
from pydantic import Field

from hive_agents.base import UNSEEN, HiveError, cut, hides, safe_line, spelled_json
from hive_agents.base.files import LongText, ShortName
from hive_agents.server import approvals, configs
from hive_agents.server.auth import APPROVER, OPERATOR, CallContext
from hive_agents.server.protocols.mcp_calls import ToolCalls
from hive_agents.server.protocols.mcp_consent import Consent, agreed_to, by_request, can_ask
from hive_agents.server.shapes import ConfigRef

_Question = Elicit[Consent] | None
_Verb = Literal["approve", "reject"]
LONGEST_SHOWN = 4_000
"""Characters of what a request is about in a question."""
FIGURES = ("evaluation", "diagnosis", "certificate", "policy", "hard_constraints")
"""Parts of a request that are measured, or the program's own, and that a question has no room for."""
WAITING = "waiting"
"""The `decision` of a deployment that waits for an approver."""


def destructive(calls: ToolCalls) -> list[Callable[..., Any]]:
    """Return the tools `deploy` and `decide_approval`."""

    async def shown_config(config: ConfigRef, ctx: Context[Any, Any]) -> configs.ConfigShown:
        return await calls.done(ctx, OPERATOR, lambda call: configs.show_config(call, config))

    async def about_deploy(
        shown: Annotated[configs.ConfigShown, Resolve(shown_config)], reason: LongText, ctx: Context[Any, Any]
    ) -> _Question:
        question = f"Deploy {shown.name} ({shown.hash[:12]})? If it passes the gate it serves everybody."
        lines = [question, f"Why, says the client: {reason}"]
        return Elicit("\n".join(map(safe_line, lines)), Consent) if can_ask(ctx) else None

    async def about_decision(
        request_id: ShortName, verb: _Verb, version: int, reason: LongText, ctx: Context[Any, Any]
    ) -> _Question:
        def asked(call: CallContext) -> str:
            shown = approvals.show_request(call, request_id).request
            return _question(verb, f"{request_id}, version {version}", shown, reason)

        question = await calls.done(ctx, APPROVER, asked)
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


def _question(verb: _Verb, named: str, request: dict[str, Any], reason: str) -> str:
    """Return the question whether to decide a request so, with all that it is about, each part on a line of its own:
    no text can be taken for another part. `reason` is the client's word.

    Raises: HIVE-415 where a person would agree to more than a form shows.
    """
    context = request["context"]
    if "tool" in context:
        about = f"The call: {context['tool']} {spelled_json(context.get('args'))}"
    else:
        about = f"It is about: {spelled_json({name: context[name] for name in context if name not in FIGURES})}"
    if len(about) > LONGEST_SHOWN and verb == "approve":
        fix = f"decide it on the page, or with `hive approvals {verb} {request['id']}`"
        raise HiveError.of("HIVE-415", "it is too long to be shown by a client's form", fix=fix, exit_code=1)
    lines = [f"{verb.capitalize()} {named}: {request['title']}?", cut(about, LONGEST_SHOWN)]
    lines += [f"Since this was asked: {change}" for change in request.get("changed", ())]
    lines.append(f"Why, says the client: {reason}")
    if hides(lines) or "warning" in request:
        lines.append(f"Beware: {UNSEEN}.")
    return "\n".join(map(safe_line, lines))


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
