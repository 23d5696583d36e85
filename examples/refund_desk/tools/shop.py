"""What the refund desk can do: its orders are in data/orders.json, what it paid and sent is in shop.db."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from hive_agents import tool
from hive_agents.agents import ToolContext

SHOP = Path(__file__).parents[1]


@tool(policy="allow")
def look_up_order(order: str) -> dict[str, Any]:
    """Find an order: its customer, what was paid for it, and whether it was paid back.

    Args:
        order: The number of the order, such as A-1001.
    """
    with books() as shop:
        refunds = shop.execute("SELECT amount FROM refunds WHERE order_id = ?", (order,)).fetchall()
    return {**_order(order), "refunded": sum(amount for (amount,) in refunds)}


@tool(policy="allow")
def past_refunds(customer: str) -> list[dict[str, Any]]:
    """List what a customer was paid back before."""
    with books() as shop:
        rows = shop.execute("SELECT order_id, amount FROM refunds ORDER BY order_id").fetchall()
    return [{"order": order, "amount": amount} for order, amount in rows if _order(order)["customer"] == customer]


@tool(side_effect="external")
def issue_refund(order: str, amount: int, context: ToolContext) -> dict[str, Any]:
    """Pay money back for an order, in whole dollars.

    The key of the call makes it happen once: a call that comes again after a crash finds what it did the first time.
    """
    with books() as shop:
        done = shop.execute("SELECT key, amount FROM refunds WHERE order_id = ?", (order,)).fetchone()
        if done is not None and done[0] != context.idempotency_key:
            raise ValueError(f"{order} was refunded already: {done[1]} dollars")
        if not 0 < amount <= _order(order)["paid"]:
            raise ValueError(f"{order}: {_order(order)['paid']} dollars were paid, so {amount} can't be paid back")
        shop.execute(
            "INSERT INTO refunds VALUES (?, ?, ?, 1) ON CONFLICT (key) DO UPDATE SET times = times + 1",
            (context.idempotency_key, order, amount),
        )
    return {"receipt": f"R-{order}", "amount": amount}


@tool(side_effect="external")
def send_letter(order: str, text: str) -> str:
    """Send the customer of an order a letter.

    It takes no key, so nobody can know whether a call that a crash cut off was made: a person is asked.
    """
    with books() as shop:
        shop.execute("INSERT INTO letters VALUES (?, ?)", (order, text))
    return f"sent to {_order(order)['customer']}"


@contextmanager
def books() -> Iterator[sqlite3.Connection]:
    """One transaction in the shop's books."""
    with closing(sqlite3.connect(SHOP / "shop.db", timeout=30, isolation_level=None)) as shop:
        shop.execute("CREATE TABLE IF NOT EXISTS refunds (key TEXT PRIMARY KEY, order_id TEXT, amount INT, times INT)")
        shop.execute("CREATE TABLE IF NOT EXISTS letters (order_id TEXT, text TEXT)")
        shop.execute("BEGIN IMMEDIATE")
        with shop:
            yield shop


def _order(number: str) -> dict[str, Any]:
    orders: dict[str, dict[str, Any]] = json.loads((SHOP / "data" / "orders.json").read_text())
    if number not in orders:
        raise ValueError(f"there is no order {number}")
    return {"order": number, **orders[number]}
