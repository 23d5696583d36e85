"""What a user may ask counts over all hosts that share their records."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from hive_agents.access import Principal, proofs
from hive_agents.base import HiveError
from hive_agents.server.rates import Rates
from tests.real_engines import Postgres, postgres
from tests.records import execute
from tests.server.serving import SETTINGS, bearer, sample, served

pytestmark = [pytest.mark.slow, pytest.mark.sqlite_file]
RATE = 48
LIMITS = SETTINGS.replace("10000", str(RATE))
SHARE = RATE // 12
DANA = Principal("acme", "dana", frozenset(), frozenset({"reader"}))


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with postgres() as running:
        yield running


@pytest.fixture(autouse=True)
def records(server: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records of this test, whose clock stands still, so that no bucket fills up meanwhile."""
    monkeypatch.setenv("HIVE_STORAGE__URL", server.url)
    monkeypatch.setenv("HIVE_STORAGE__NAMESPACE", f"t{uuid.uuid4().hex[:12]}")
    monkeypatch.setattr(proofs, "clock_of", lambda place: lambda: 1_000.0)
    monkeypatch.setattr("hive_agents.server.app.Rates", lambda workspace: Rates(workspace, lambda: 1_000.0))


async def test_two_hosts_admit_no_more_than_one(tmp_path: Path) -> None:
    async with AsyncExitStack() as hosts:
        places = [sample(tmp_path / name, LIMITS) for name in "ab"]
        clients = [await hosts.enter_async_context(served(place, roles=("http",))) for place in places]
        dana = [bearer(place) for place in places]  # each host's key is its own
        answers = [await clients[n % 2].get("/api/session", headers=dana[n % 2]) for n in range(RATE + 4)]
        assert [one.status_code for one in answers] == [200] * RATE + [429] * 4
        assert [one.headers["x-ratelimit-remaining"] for one in answers[-5:]] == ["0"] * 5
        assert all(int(one.headers["retry-after"]) >= 1 for one in answers[-4:])
        assert (await clients[1].get("/api/session", headers=bearer(places[1], "alice"))).status_code == 200


def admitted(rates: Rates, times: int) -> int:
    """How many of so many requests of dana are admitted."""
    count = 0
    for _ in range(times):
        try:
            rates.admit(DANA)
            count += 1
        except HiveError as error:
            assert error.diagnostics[0].code == "HIVE-433"  # noqa: PT017 - those that come after it count, too
    return count


def test_what_a_host_took_and_did_not_use_is_dropped(tmp_path: Path) -> None:
    """One that took a share and then is asked nothing must not add it to a full bucket a minute later."""
    place, now = sample(tmp_path / "ws", LIMITS), [1_000.0]
    idle, busy = (Rates(place, lambda: now[0]) for _ in range(2))
    assert admitted(idle, 1) == 1
    assert admitted(busy, RATE) == RATE - SHARE
    now[0] += 60
    execute(place, "UPDATE request_buckets SET at = at - 60")
    assert admitted(busy, RATE) == RATE
    assert admitted(idle, RATE) == 0
    assert idle.left(DANA).remaining == 0
