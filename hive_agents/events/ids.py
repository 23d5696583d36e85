"""Derived ids: a step that is done again tells the same event, and the log takes it once."""

from __future__ import annotations

import uuid
from typing import Literal

Source = Literal[
    "agent",
    "approval",
    "chat",
    "given_up",
    "health",
    "optimizer",
    "optimizer_run",
    "run_moved",
    "trigger",
    "ticks_missed",
]
_NAMESPACE = uuid.UUID("3b0d6c1e-52f7-5a68-9c21-6e4f8d0a7b95")
# A run, a request or a ticket that was begun by an earlier release tells again what it told then: these sources keep
# the namespaces that they had, and a new source takes none.
_KEPT = {
    "agent": uuid.UUID("0d2a1f6e-6a57-5c2b-9a53-8f8d5f0f4c11"),
    "approval": uuid.UUID("6d1f3a0c-8e0b-5b0e-9c57-2f7f0c1e9d44"),
    "chat": uuid.UUID("2d8f6a17-5b3c-5e90-9a44-c1e07b9d3f62"),
    "health": uuid.UUID("5c0a4d0e-8d0f-5b1c-9d7e-2f6f0a9b4c33"),
    "optimizer": uuid.UUID("f1d5c9a2-6f6e-5a0d-8f58-3a7f0f0f7b31"),
    "optimizer_run": uuid.UUID("7c1f4b0e-93a5-5d21-8e64-0b5d2f6a9c17"),
    "trigger": uuid.UUID("0d6f1f0e-54f5-5b1c-8a43-3a1f2f7a9c55"),
}


def derived_id(source: Source, *parts: object) -> str:
    """Return the id of what `source` tells of `parts`: the same whenever and wherever it is told.

    >>> derived_id("health", "r1", "stalled", 1)
    '58709e37-4018-5438-a5e1-21eecb06c380'
    """
    name = "/".join(map(str, parts))
    kept = _KEPT.get(source)
    return str(uuid.uuid5(_NAMESPACE, f"{source}/{name}") if kept is None else uuid.uuid5(kept, name))
