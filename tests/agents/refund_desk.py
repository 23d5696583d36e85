"""The example of docs/agents-in-code.md: a desk that pays money back."""

from __future__ import annotations

from pydantic import BaseModel

from hive_agents import Agent, Budget, Call, effect, flow, idempotency_key, tool


class Ticket(BaseModel):
    order: str
    message: str


class Verdict(BaseModel):
    trusted: bool
    why: str


class Decision(BaseModel):
    amount: float
    letter: str


class Shop:
    def __init__(self) -> None:
        self.paid: list[tuple[str, float, str]] = []

    async def refunds(self, order: str) -> int:
        return sum(paid[0] == order for paid in self.paid)

    async def refund(self, order: str, amount: float, key: str) -> str:
        self.paid.append((order, amount, key))
        return f"R-{len(self.paid)}"


shop = Shop()


@tool
async def past_refunds(order: str) -> int:
    """How often the customer of an order was refunded."""
    return await shop.refunds(order)


def large(order: str, amount: float) -> bool:
    return amount > 50


@effect(ask=large)  # a person decides above 50
async def refund(order: str, amount: float) -> str:
    """Pay money back; gives the receipt."""
    return await shop.refund(order, amount, key=idempotency_key())


checker = Agent(Ticket, Verdict, tools=[past_refunds], prompt="A pattern of refunds?")
clerk = Agent(Ticket, Decision, tools=[past_refunds], prompt="Decide amount and letter.")


def absurd(call: Call) -> bool:  # never, whoever approves
    return call.tool == "refund" and call.args["amount"] > 500


@flow(never=absurd, budget=Budget(usd=0.10))
async def desk(ticket: Ticket) -> Decision:
    verdict = await checker(ticket)  # a sub-agent, recorded
    decision = await clerk(ticket, note=verdict.why)
    if verdict.trusted:
        await refund(ticket.order, decision.amount)
    return decision
