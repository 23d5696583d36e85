"""Where the server has names, a request to another one is refused."""

from __future__ import annotations

from pathlib import Path

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


async def test_a_server_without_names_answers_to_all(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    async with served(place, roles=("http",)) as client:
        named = bearer(place) | {"Host": "anything.example"}
        assert (await client.get("/api/session", headers=named)).status_code == 200
