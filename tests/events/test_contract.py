from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from hive_agents.events import Bus, EventBus, EventLog
from hive_agents.events.protocols import EventLogProtocol
from tests.events.contract import BusContract, LogContract


class TestBusInMemory(BusContract):
    @pytest.fixture
    async def bus(self) -> AsyncIterator[Bus]:
        async with EventBus() as bus:
            yield bus


class TestBusWithLog(BusContract):
    @pytest.fixture
    async def bus(self, log: EventLog) -> AsyncIterator[Bus]:
        async with EventBus(log) as bus:
            yield bus


class TestSqliteLog(LogContract):
    @pytest.fixture
    def log(self, log: EventLog) -> EventLogProtocol:
        return log
