"""Rules that are learned from people's decisions quote what was decided: they are told to whoever may see that."""

from __future__ import annotations

from pathlib import Path

import pytest

from hive_agents import Workspace
from hive_agents.access.who import TOKEN
from hive_agents.judging.decision_log import DecisionLog
from tests.judging.test_mining import line
from tests.leaks.pairs import MARK, bearer, made, token
from tests.sample import hive
from tests.server.serving import served


def decided(place: Workspace, tenant: str) -> None:
    """Decisions about work of a tenant, of which people send back all that has one word."""
    DecisionLog(place).load(
        line(
            n,
            {"answer": f"the {MARK if n % 2 else 'plain'}_rotor {n}"},
            "retry" if n % 2 else ("accept", "replan")[n // 2 % 2],
            tenant=tenant,
        )
        for n in range(60)
    )


@pytest.mark.parametrize("tenant", ["globex", "acme"])
async def test_a_rule_is_told_to_whoever_may_see_the_work_that_it_was_learned_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tenant: str
) -> None:
    place = made(tmp_path / "ws", hidden=False)
    decided(place, tenant)
    mined = hive("judge", "rules", "mine", "-w", place.root, "--json").json["proposals"]
    (found,) = [one for one in mined if MARK in one["trigger_pattern"]]
    told = []
    async with served(place, roles=("http",)) as client:
        for path in (
            "/api/approvals?status=pending",
            "/approvals",
            f"/api/approvals/{found['approval_id']}",
            f"/approvals/{found['approval_id']}",
        ):
            told.append((await client.get(path, headers=bearer(place))).text)
    monkeypatch.setenv(TOKEN, token(place))
    for words in (("list",), ("show", found["id"]), ("mine",), ("approve", found["id"]), ("retire", found["id"])):
        told.append((ran := hive("judge", "rules", *words, "-w", place.root, "--json")).out + ran.err)
    assert [MARK in text for text in told] == [tenant == "acme"] * len(told)
    assert hive("judge", "rules", "show", found["id"], "-w", place.root, "--json").json
