"""The kinds of receipts: how each is made, and how one that somebody holds is derived again."""

from __future__ import annotations

from collections.abc import Callable

from hive_agents.receipts import answer, decision, deployment, gate
from hive_agents.receipts.statement import Receipt, Rederived
from hive_agents.runtime import Chat
from hive_agents.workspace import Workspace

answer_receipt = answer.receipt_of
decision_receipt = decision.receipt_of
deployment_receipt = deployment.receipt_of


async def verify_receipt(
    workspace: Callable[[], Workspace], receipt: Receipt, chat: Callable[[], Chat]
) -> list[Rederived]:
    """Return what became of each thing that a receipt says; `chat` opens its reader's conversation for an answer.

    `workspace` is called for all kinds but a comparison by `hive gate`, which needs none.

    A thing that differs was altered, in the receipt or in the workspace; one that is unknown can't be derived any more.
    Raises: HIVE-409 where the workspace doesn't know what the receipt is of.
    """
    match receipt.kind:
        case "answer":
            return [check async for check in answer.checks_of(chat(), receipt)]
        case "decision":
            return list(decision.checks_of(workspace(), receipt))
        case "deployment":
            return list(deployment.checks_of(workspace(), receipt))
        case "gate":
            return list(gate.checks_of(receipt))
