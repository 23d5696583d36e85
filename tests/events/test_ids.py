"""Ids that runs and requests of earlier releases have told: they are derived the same for ever."""

from __future__ import annotations

import pytest

from hive_agents.events.types import EventSource, derived_id


@pytest.mark.parametrize(
    ("source", "parts", "id"),
    [
        ("agent", ("r1", "ask#1", "node.started"), "ac6bcb75-888f-5c24-b35f-960a6df8dd32"),
        ("approval", ("q1", "approval.decided"), "354a19d6-7abc-587e-835e-13758f283331"),
        ("chat", ("r1",), "0d982f36-696e-5825-8b9b-4a09e32ec387"),
        ("health", ("r1", "stalled", 1), "58709e37-4018-5438-a5e1-21eecb06c380"),
        ("optimizer", ("r1/2", "optimizer.trial", 0), "531ced02-c048-5f91-9559-b1d9e2ee6f97"),
        ("optimizer_run", ("r1", "run.waiting", 2), "ffc45a40-e792-5b90-b3fa-61802a2a875a"),
        ("trigger", ("acme", "trigger/nightly/2026"), "a9ec30da-8c3d-559a-8f99-72ae2527152c"),
    ],
)
def test_ids_of_earlier_releases_stay_the_same(source: EventSource, parts: tuple[object, ...], id: str) -> None:
    assert derived_id(source, *parts) == id


def test_two_sources_never_share_an_id() -> None:
    assert derived_id("given_up", "r1", "x") != derived_id("run_moved", "r1", "x") != derived_id("agent", "r1", "x")
