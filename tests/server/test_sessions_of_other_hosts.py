"""Who signed in on one host is known on all that share their records and a key, until they are signed out on one."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from hive_agents.access.logins import login_code
from tests.real_engines import postgres
from tests.server.serving import SETTINGS, sample, served

pytestmark = [pytest.mark.slow, pytest.mark.sqlite_file]
KEY = '[[access.keys]]\nkid = "first"\nalg = "HS256"\nsecret_ref = "env:HIVE_SIGNING_KEY"\n'


async def test_a_session_counts_on_every_host_until_it_is_ended_on_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIVE_SIGNING_KEY", "9f" * 32)
    with postgres() as server:
        monkeypatch.setenv("HIVE_STORAGE__URL", server.url)
        monkeypatch.setenv("HIVE_STORAGE__NAMESPACE", f"t{uuid.uuid4().hex[:12]}")
        places = [sample(tmp_path / name, SETTINGS + KEY) for name in "ab"]
        async with served(places[0], roles=("http",)) as a, served(places[1], roles=("http",)) as b:
            link = {"code": login_code(places[1], "alice")}
            assert "set-cookie" in (await a.get("/login", params=link)).headers
            assert "set-cookie" not in (await b.get("/login", params=link)).headers, "it is good once"
            assert (await b.get("/api/session")).status_code == 401
            b.cookies.update(a.cookies)
            me = (await b.get("/api/session")).json()
            assert me["user"] == "alice"
            sent = {"X-CSRF-Token": me["csrf"], "Sec-Fetch-Site": "same-origin"}
            asked = await b.post("/api/runs", json={"input": {"text": "what returns a fresh token?"}}, headers=sent)
            assert asked.status_code == 202, asked.text
            assert (await a.post("/logout", headers=sent)).status_code < 400
            assert (await b.get("/api/session")).status_code == 401
