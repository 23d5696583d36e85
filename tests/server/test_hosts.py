"""Where the server has names, a request to another one is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.server.serving import SETTINGS, bearer, sample, served


async def test_a_server_with_names_answers_to_no_other(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws", SETTINGS + 'hosts = ["hive.example.org", "127.0.0.1"]\n')
    async with served(place, roles=("http",)) as client:
        for name, status in (
            ("127.0.0.1", 200),
            ("Hive.Example.org", 200),
            ("hive.example.org:8443", 200),
            ("evil.example.com", 421),
            ("hive.example.org.evil.com", 421),
        ):
            found = await client.get("/api/session", headers=bearer(place) | {"Host": name})
            assert found.status_code == status, name
        assert found.json()["status"] == 421
        for probe in ("/healthz", "/readyz"):
            assert (await client.get(probe, headers={"Host": "10.0.0.7"})).status_code == 200


async def test_a_server_that_this_machine_alone_reaches_answers_to_names_of_this_machine(tmp_path: Path) -> None:
    """A page elsewhere whose name leads to this machine by and by reads nothing, not even what nobody signs in for."""
    place = sample(tmp_path / "ws")
    async with served(place, roles=("http",)) as client:
        for name in ("localhost", "LocalHost:8787", "127.0.0.1:1", "127.0.0.2", "[::1]:8787"):
            assert (await client.get("/login", headers={"Host": name})).status_code == 200, name
        for name in (
            "rebinding.example",
            "127.0.0.1.rebinding.example",
            "localhost.rebinding.example",
            "10.0.0.7",
            "x",
        ):
            for path in ("/login", "/", "/webhooks/ring", "/api/openapi.json", "/static/app.css"):
                refused = await client.get(path, headers={"Host": name})
                assert (refused.status_code, refused.json()["code"]) == (421, "HIVE-409"), (name, path)


async def test_names_of_this_machine_are_known_beside_others(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws", SETTINGS + 'hosts = ["hive.example.org"]\n')
    async with served(place, roles=("http",)) as client:
        for name, status in (("hive.example.org", 200), ("localhost:8787", 200), ("rebinding.example", 421)):
            assert (await client.get("/login", headers={"Host": name})).status_code == status


async def test_a_server_that_others_reach_has_any_name_and_sends_nobody_to_one_that_it_does_not_know(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIVE_SIGNING_KEY", "k" * 43)
    keys = '[[access.keys]]\nkid = "first"\nalg = "HS256"\nsecret_ref = "env:HIVE_SIGNING_KEY"\n'
    for names, told in (("", "127.0.0.1:{}"), ('hosts = ["anything.example"]\n', "anything.example")):
        place = sample(tmp_path / told[0], f'{SETTINGS}host = "0.0.0.0"\n{names}{keys}')
        async with served(place, roles=("http",)) as client:
            headers = bearer(place, "root", "admin") | {"Host": "anything.example"}
            made = await client.post("/settings/tokens", data={"user": "dana", "lifetime": "hour"}, headers=headers)
            assert made.status_code == 200, made.text
            assert re.findall(r"http://([^ ]*)/login", made.text) == [told.format(client.base_url.port)]
