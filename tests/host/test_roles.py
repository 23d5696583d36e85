"""A part of a host waits for the database by itself: the loop goes on, and no lease is left behind."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hive_agents.base import HiveError
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


@pytest.mark.parametrize(
    ("code", "pauses"),
    [
        ("HIVE-403", [0.5, 1.0, 2.0, 2.0, 2.0]),  # the records can't be reached: a host is ready soon after they can
        ("HIVE-427", [0.5, 1.0, 2.0, 4.0, 8.0]),
    ],
)
async def test_a_part_begins_again_soon_after_the_records_are_back(
    code: str, pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    rested: list[float] = []

    async def rest(seconds: float) -> None:
        rested.append(seconds)
        if len(rested) == len(pauses):
            raise asyncio.CancelledError

    async def failing() -> None:
        raise HiveError.of(code, "away")

    monkeypatch.setattr(asyncio, "sleep", rest)
    with pytest.raises(asyncio.CancelledError):
        await HostRole("judge", failing).run()
    assert rested == pauses
