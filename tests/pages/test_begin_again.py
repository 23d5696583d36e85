"""A server that its owner lets begin again from a page: it has the file's settings then."""

from __future__ import annotations

from pathlib import Path

import httpx

from hive_agents import Workspace
from hive_agents.access.logins import login_code
from tests.pages.hosted import begun
from tests.pages.test_settings import sent, written
from tests.server.serving import sample, served

MODEL = {"name": "lab", "url": "http://127.0.0.1:9/v1", "model": "small"}


async def test_what_was_written_is_used_after_a_press_and_whoever_asks_meanwhile_waits(tmp_path: Path) -> None:
    with begun(tmp_path, {}, "") as (url, link):
        async with httpx.AsyncClient(base_url=url, timeout=60) as owner:
            await owner.get(link)
            await written(owner, await sent(owner, "/settings/model", **MODEL))
            assert "Begin again now" in (await owner.get("/settings/models")).text
            again = await sent(owner, "/settings/restart", back="models")
            assert (again.status_code, again.headers["location"]) == (303, "/settings/models?done=restarted")
            async with httpx.AsyncClient(base_url=url, timeout=60, cookies=owner.cookies) as other:
                assert (await other.get("/settings/models")).status_code == 200
            shown = (await owner.get(again.headers["location"])).text
            assert "The server has begun again" in shown
            assert "Begin again now" not in shown
            assert "HIVE" not in (await owner.get("/settings/models")).text
            back = await sent(owner, "/settings/restart", back="signin")
            assert back.headers["location"] == "/settings/signin?done=restarted"
            assert (await owner.get(back.headers["location"])).status_code == 200


async def test_a_server_does_not_end_for_settings_with_which_it_could_not_begin(tmp_path: Path) -> None:
    with begun(tmp_path, {}, "") as (url, link):
        toml = tmp_path / "ws" / "hive.toml"
        async with httpx.AsyncClient(base_url=url, timeout=60) as owner:
            await owner.get(link)
            right = toml.read_text(encoding="utf-8")
            away = '[storage]\nurl = "postgresql://hive@127.0.0.1:1/hive"\nworkspace = "one"\n'
            broken = ("[server", '[server]\nport = "many"\n', '[[access.keys]]\nkid = "new"\nalg = "HS256"\n', away)
            for wrong in broken:
                toml.write_text(f"{right}\n{wrong}", encoding="utf-8")
                assert (await sent(owner, "/settings/restart", back="models")).status_code in (400, 422, 503), wrong
                assert (await owner.get("/healthz")).status_code == 200
            toml.write_text(right, encoding="utf-8")
            assert (await sent(owner, "/settings/restart", back="models")).status_code == 303
            assert (await owner.get("/settings")).status_code == 200


async def test_a_host_within_another_program_says_that_it_can_not_begin_again(tmp_path: Path) -> None:
    place: Workspace = sample(tmp_path / "ws")
    async with served(place, roles=("http",)) as client:
        await client.get("/login", params={"code": login_code(place)})
        refused = await sent(client, "/settings/restart", back="models")
        assert refused.status_code == 400
        assert "start it again" in refused.text
