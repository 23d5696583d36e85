"""A run of the optimizer in a host's hands: drained, gone on with, and carried out when a person has agreed."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from hive_agents.approvals import ApprovalStore
from hive_agents.host.host import Host
from hive_agents.optimizer.run import OptimizeRun
from hive_agents.ranking.deployed import versions
from hive_agents.runs import RunStore
from hive_agents.runs.driver import leases_of
from hive_agents.store import connected
from tests.graphs.optimizing import QUICK
from tests.host.hosting import until
from tests.sample import copied_sample


@pytest.mark.slow
async def test_a_run_that_was_left_behind_is_ended_by_hosts_and_a_person(tmp_path: Path) -> None:
    place = copied_sample(tmp_path / "w")
    with (place.root / "hive.toml").open("a") as settings:
        settings.write("[gate]\nalpha = 0.005\n")  # so that a person is asked: two iterations gain too little for it
    golden = json.loads((place.root / "evals" / "golden.json").read_text())
    (place.root / "evals" / "golden.json").write_text(json.dumps(golden | {"queries": golden["queries"][::2]}))
    run = OptimizeRun.start(place, golden=None, deploy=True, settings=QUICK).run_id

    async with Host(place, roles=("runs",)) as host:
        await host.dispatcher.looked.wait()
        assert not host.dispatcher.active, "its own process is about to begin"
        with connected(place.records) as connection:
            connection.execute("UPDATE runs SET started_at = '2026-01-01T00:00:00.000+00:00'")
        while not leases_of(place).held() & {RunStore(place).get(run).thread_id}:
            await asyncio.sleep(0.02)
    assert host.drained
    assert RunStore(place).get(run).status == "queued"

    async with Host(place, roles=("runs",)):
        await until(place, "waiting", run)
        (request,) = ApprovalStore(place).list("pending")
        assert not [version for version in versions(place) if version.via == "approval"]
        ApprovalStore(place).decide(request.id, "approve", by="dana")
        await until(place, "done", run)
        while ApprovalStore(place).get(request.id).outcome is None:
            await asyncio.sleep(0.02)
    assert [version.by for version in versions(place) if version.via == "approval"] == ["user:dana"]
