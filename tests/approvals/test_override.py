"""An override is filed once, however many ask for it at a time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.approvals import ApprovalStore, Filing
from hive_agents.host.decisions import file_once
from tests.approvals.asking import filing


def override(latency: float = 1.0, *, requester: str = "user:kim", reason: str = "why", **hashes: Any) -> Filing:
    certificate = {"config_hash": "c", "active_hash": "a", "golden_hash": "g", "index_hash": "i"} | hashes
    context = {
        "file": "configs/c.json",
        "via": "override",
        "reason": reason,
        "certificate": {"decision": "inconclusive"},
        "evaluation": {"latency": latency, "certificate": certificate | {"at": str(latency), "audit": latency}},
    }
    return filing(kind="deploy", requester=requester, context=context)


def test_many_at_once_get_one_request(place: Workspace) -> None:
    """Timings and the log's head differ in each measurement, and say nothing about the config."""
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda latency: file_once(place, override(latency)), range(4)))
    assert [one.id for one in ApprovalStore(place).list()] == [found[0]]
    assert set(found) == {found[0]}


@pytest.mark.parametrize("hashes", [{"golden_hash": "h"}, {"active_hash": None}, {"index_hash": "j"}, {"model": "m"}])
def test_other_figures_are_another_request(place: Workspace, hashes: dict[str, Any]) -> None:
    first, second = file_once(place, override()), file_once(place, override(**hashes))
    assert [(one.id, one.status) for one in ApprovalStore(place).list()] == [
        (second, "pending"),
        (first, "superseded"),
    ]


def test_nobody_supersedes_what_another_person_asked(place: Workspace) -> None:
    first, second = file_once(place, override()), file_once(place, override(requester="user:lee"))
    assert {one.id for one in ApprovalStore(place).list("pending")} == {first, second}
