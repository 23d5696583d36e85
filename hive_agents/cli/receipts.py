"""The kinds of receipts: how each is made and verified."""

from __future__ import annotations

from collections.abc import Callable

from hive_agents.copilot import Chat, receipt as answer
from hive_agents.gate.receipts import Receipt, decision, deployment, gate, statement
from hive_agents.workspace import Workspace

answer_receipt = answer.receipt_of
decision_receipt = decision.receipt_of
deployment_receipt = deployment.receipt_of


async def verify_receipt(
    workspace: Callable[[], Workspace], receipt: Receipt, chat: Callable[[], Chat]
) -> list[statement.Rederived]:
    """Return a check of each fact of a receipt; `chat` opens the reader's conversation of an answer.

    `workspace` is called for all kinds but a comparison by `hive gate`, which needs none.

    A fact that differs was altered, in the receipt or in the workspace; an unknown one can't be derived any more.
    Raises: HIVE-409 where the workspace doesn't have the receipt's object.
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
