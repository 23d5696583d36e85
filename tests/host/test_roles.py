"""A part of a host waits for the database by itself: the loop goes on, and no lease is left behind."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hive_agents.host.roles import HostRole
from hive_agents.runs.driver import leases_of
from tests.host.hosting import prepared
from tests.records import held


@pytest.mark.sqlite_file
async def test_a_part_that_ends_while_the_database_is_locked_keeps_no_lease(tmp_path: Path) -> None:
    place = prepared(tmp_path / "ws")
    role = HostRole("judge", asyncio.Event().wait, leases=leases_of(place))
    part = asyncio.create_task(role.run())
    while role.state != "up":
        await asyncio.sleep(0.01)
    with held(place):
        part.cancel()
        assert not (await asyncio.wait([part], timeout=0.2))[0], "it can't let go yet"
    await asyncio.wait([part])
    assert not leases_of(place).held()
