"""An engine that is refused or frozen costs one deadline, and readers are answered by the host's own index."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from hive_agents import Workspace
from hive_agents.access import known_principal
from hive_agents.copilot import open_scope
from hive_agents.engines.breaker import breakers_of
from hive_agents.host.dispatcher import TAKES
from hive_agents.optimizer.run import OptimizeRun
from hive_agents.server.freshness import GOOD_FOR
from hive_agents.workspace.trusted import trust
from tests.engines.played_cluster import PlayedCluster
from tests.graphs.optimizing import QUICK, small
from tests.host.hosting import until
from tests.host.test_dispatcher import dispatching
from tests.server.serving import SETTINGS, asked, bearer, sample, served

KB = "knowledge-base"
QUESTION = "How long does an API token last?"
OWN = "this was found in this host's own index"


@pytest.fixture
def cluster() -> Iterator[PlayedCluster]:
    found = PlayedCluster()
    yield found
    found.close()


WAYS: list[Callable[[PlayedCluster], None]] = [PlayedCluster.freeze, PlayedCluster.refuse]


def over(cluster: PlayedCluster, folder: Path, *, rest: float = 60.0) -> Workspace:
    limits = f"timeout_seconds = 1.0\nrest_seconds = {rest}\n"
    place = sample(folder, f'{SETTINGS}\n[search]\nurl = "{cluster.url}"\n{limits}')
    trust(place)
    place.index()
    return place


class Reader:
    """Somebody who asks a host over HTTP."""

    def __init__(self, client: httpx.AsyncClient, place: Workspace, user: str = "dana") -> None:
        self._client, self._headers = client, bearer(place, user)

    async def asks(self, text: str = QUESTION) -> dict[str, Any]:
        """The reply to a question, once its run has ended well."""
        run_id = (await asked(self._client, self._headers, text))["run_id"]
        while True:
            found = (await self._client.get(f"/api/runs/{run_id}", headers=self._headers)).json()
            if found["run"]["status"] not in ("queued", "running"):
                break
            await asyncio.sleep(0.05)
        assert found["run"]["status"] == "done", found
        reply: dict[str, Any] = found["result"]
        return reply

    async def looks_up(self, text: str) -> dict[str, Any]:
        answer = await self._client.post("/api/query", json={"query": text}, headers=self._headers)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def finds(self, text: str) -> list[str]:
        return [one["doc_id"] for one in (await self.looks_up(text))["results"]]


@asynccontextmanager
async def hosted(place: Workspace, user: str = "dana") -> AsyncIterator[tuple[Reader, httpx.AsyncClient]]:
    async with served(place) as client:
        yield Reader(client, place, user), client


@pytest.mark.parametrize("goes_away", WAYS)
async def test_questions_are_answered_by_the_own_index_and_the_engine_is_left_alone(
    cluster: PlayedCluster, tmp_path: Path, goes_away: Callable[[PlayedCluster], None]
) -> None:
    place = over(cluster, tmp_path / "ws")
    async with hosted(place) as (dana, client):
        whole = await dana.asks()
        assert OWN not in (whole["notice"] or "")
        assert (await dana.looks_up(QUESTION))["notice"] is None
        goes_away(cluster)
        for _ in range(3):  # so many refusals, or one silence, and nothing is sent any more
            await dana.asks()
        (breaker,) = breakers_of(place).values()
        assert breaker.state == "open"
        sent = cluster.asked.total()
        told = await asyncio.gather(*(dana.asks(f"{QUESTION} {number}") for number in range(5)), dana.asks())
        assert breaker.since is not None
        since = f"since {breaker.since:%Y-%m-%d %H:%M} UTC"
        told.append(await dana.looks_up(QUESTION))
        assert all(OWN in reply["notice"] and since in reply["notice"] for reply in told)
        page = await client.get("/documents/try", params={"query": QUESTION}, headers=bearer(place))
        assert since in page.text
        told.pop()
        assert told[-1]["status"] == whole["status"]
        assert {one["doc_id"] for one in told[-1]["results"]} & {one["doc_id"] for one in whole["results"]}
        assert cluster.asked.total() == sent
        assert breaker.outcomes["spared"]


@pytest.mark.parametrize("goes_away", WAYS)
async def test_documents_that_change_meanwhile_make_no_question_fail_and_are_found_when_it_is_back(
    cluster: PlayedCluster, tmp_path: Path, goes_away: Callable[[PlayedCluster], None]
) -> None:
    place = over(cluster, tmp_path / "ws", rest=0.5)
    async with hosted(place, "root") as (root, _):
        before = await root.finds("token")
        goes_away(cluster)
        changed, gone = (place.documents / before[0]), before[1]
        changed.write_text(changed.read_text("utf-8") + "\nA zwiebelfisch is a letter of another face.\n", "utf-8")
        assert before[0] in await root.finds("token")
        assert not await root.finds("zwiebelfisch")
        (place.documents / gone).unlink()
        await asyncio.sleep(GOOD_FOR)
        assert gone not in await root.finds("token")
        cluster.come_back()
        while await root.finds("zwiebelfisch") != [before[0]]:
            await asyncio.sleep(0.1)
        assert gone not in await root.finds("token")
        assert OWN not in ((await root.asks())["notice"] or "")


async def test_an_upload_waits_for_the_engine(cluster: PlayedCluster, tmp_path: Path) -> None:
    place = over(cluster, tmp_path / "ws", rest=0.5)
    async with hosted(place, "root") as (root, client):
        cluster.refuse()
        sent = {"file": ("bees.md", b"# Bees\n\nA zwiebelfisch is no bee.\n")}
        made = await client.post("/api/documents", files=sent, headers=bearer(place, "root"))
        assert made.status_code == 202, made.text
        path = f"/api/imports/{made.json()['import_id']}"
        (breaker,) = breakers_of(place).values()
        while breaker.state == "closed":
            await asyncio.sleep(0.05)
        assert (await client.get(path, headers=bearer(place, "root"))).json()["status"] != "failed"
        cluster.come_back()
        while (await client.get(path, headers=bearer(place, "root"))).json()["files"][0]["status"] != "indexed":
            await asyncio.sleep(0.1)
        assert await root.finds("zwiebelfisch")


async def test_a_run_that_needs_the_engine_rests_and_goes_on_when_it_is_back(
    cluster: PlayedCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It rests more often than a run may break off before it has failed."""
    place = small(tmp_path / "ws")
    limits = "timeout_seconds = 1.0\nrest_seconds = 0.1\n"
    with (place.root / "hive.toml").open("a", encoding="utf-8") as file:
        file.write(f'\n[search]\nurl = "{cluster.url}"\n{limits}')
    place = Workspace(place.root)
    trust(place)
    place.index()
    run = OptimizeRun.start(place, golden=None, deploy=True, settings=QUICK, hold=False).run_id
    cluster.refuse()
    async with dispatching(place):
        while caplog.text.count("rests for a while: HIVE-434") <= TAKES:
            await asyncio.sleep(0.02)
        cluster.come_back()
        await until(place, "done", run)


async def test_rights_hold_whichever_engine_answers(cluster: PlayedCluster, tmp_path: Path) -> None:
    place = over(cluster, tmp_path / "ws")
    scope = open_scope(place, place.engine(), known_principal(place, "guest"), KB)
    allowed = set(scope.doc_ids())
    words = ("token", "key", "expire", "salary", "incident", "holiday", "password")
    async with hosted(place, "guest") as (guest, _):
        there = [await guest.finds(word) for word in words]
        cluster.refuse()
        here = [await guest.finds(word) for word in words]
    assert allowed < set(place.engine().index(KB).doc_ids())
    for found in (there, here):
        assert any(found)
        assert {doc_id for one in found for doc_id in one} <= allowed


async def test_readiness_and_metrics_tell_of_the_engine_and_only_a_host_without_an_index_is_unready(
    cluster: PlayedCluster, tmp_path: Path
) -> None:
    place = over(cluster, tmp_path / "ws")
    async with hosted(place) as (dana, client):
        await dana.asks()
        assert (await client.get("/readyz")).json()["engines"] == {"opensearch": "ok"}
        assert 'hive_engine_state{engine="opensearch",state="closed"} 1.0' in await numbers(client, place)
        cluster.freeze()
        found = await client.get("/readyz")
        assert (found.status_code, found.json()["engines"]) == (200, {"opensearch": "away"})
        await dana.asks()
        told = await numbers(client, place)
        assert 'hive_engine_state{engine="opensearch",state="open"} 1.0' in told
        assert 'hive_engine_requests_total{engine="opensearch",outcome="silent"} 1.0' in told
        assert 'hive_engine_request_seconds_sum{engine="opensearch"} 0.0\n' not in told
        place.database.rename(place.database.with_suffix(".away"))
        try:
            found = await client.get("/readyz")
        finally:
            place.database.with_suffix(".away").rename(place.database)
        assert found.status_code == 503
        assert "HIVE-434" in {one["code"] for one in found.json()["diagnostics"]}


async def numbers(client: httpx.AsyncClient, place: Workspace) -> str:
    return (await client.get("/metrics", headers=bearer(place, "root"))).text
