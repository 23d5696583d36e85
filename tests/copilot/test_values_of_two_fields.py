"""A value of two fields is never taken as one of them in silence."""

from __future__ import annotations

from pathlib import Path

from hive_agents import Workspace
from tests.copilot.chats import ask, place_with

ROWS = {
    "orders/o1.md": ("tenant", "late", "late"),
    "orders/o2.md": ("tenant", "late", "sent"),
    "orders/o3.md": ("tenant", "paid", "sent"),
    "orders/o4.md": ("group:qa", "paid", "lost"),
    "orders/o5.md": ("group:qa", "lost", "sent"),
}


def orders(root: Path) -> Workspace:
    front = "title: Order {n}\ntenant: acme\nview: ['{view}']\npayment: {payment}\ndelivery: {delivery}"
    documents = {
        name: f"---\n{front.format(n=n, view=view, payment=payment, delivery=delivery)}\n---\nAn order.\n"
        for n, (name, (view, payment, delivery)) in enumerate(ROWS.items(), start=1)
    }
    return place_with(root, documents, "payment", "delivery")


def test_the_reply_says_which_field_was_meant_and_which_other_has_the_value(tmp_path: Path) -> None:
    place = orders(tmp_path)
    reply = ask(place, "guest", "how many orders are late")
    assert [demand["field"] for demand in reply["filters"]] == ["payment"]
    assert reply["notice"] == '"late" is a value of delivery, too: I took it as one of payment.'
    assert ask(place, "guest", "orders whose payment is late")["notice"] is None
    assert ask(place, "guest", "orders whose delivery is late")["filters"][0]["field"] == "delivery"
    # Of the fields of documents that the reader may not see nothing is said.
    assert "value of" not in (ask(place, "guest", "how many orders are lost")["notice"] or "")
    assert "value of" in ask(place, "dana", "how many orders are lost")["notice"]
