"""The files that pages load: kept by browsers for good, sent compressed, and few enough for a page at once."""

from __future__ import annotations

import gzip
import re
from html import unescape
from pathlib import Path

import httpx
import pytest

from hive_agents.access.logins import login_code
from hive_agents.server.pages.assets import address
from tests.pages.filled import EVERYTHING, addresses, administered, filled, parts
from tests.server.serving import bearer, sample, served

BUDGET = 150_000
"""Bytes that come over the network until a page is first painted, the page itself included."""
LOADED = re.compile(r'(?:src|href)="(/static/[^"]+)"')


async def test_a_file_is_kept_for_good_under_the_address_of_its_content_and_asked_for_anew_elsewhere(
    tmp_path: Path,
) -> None:
    async with served(sample(tmp_path / "ws"), roles=("http",)) as client:
        kept = await client.get(address("style.css"))
        assert "immutable" in kept.headers["cache-control"]
        for other in ("/static/style.css", "/static/style.css?v=000000000000"):
            changes = await client.get(other)
            assert changes.headers["cache-control"] == "no-cache"
            tag = {"If-None-Match": changes.headers["etag"]}
            again = await client.get(other, headers=tag)
            assert (again.status_code, again.content) == (304, b"")


async def test_a_file_is_compressed_for_whoever_reads_that_and_plain_for_others(tmp_path: Path) -> None:
    async with served(sample(tmp_path / "ws"), roles=("http",)) as client:
        plain = await client.get(address("app.js"), headers={"Accept-Encoding": "identity"})
        assert "content-encoding" not in plain.headers
        async with client.stream("GET", address("app.js"), headers={"Accept-Encoding": "br, gzip;q=0.8"}) as answer:
            sent = b"".join([part async for part in answer.aiter_raw()])
            assert answer.headers["vary"] == "Accept-Encoding"
        assert gzip.decompress(sent) == plain.content
        assert len(sent) < len(plain.content) / 2
        refused = await client.get(address("app.js"), headers={"Accept-Encoding": "gzip;q=0"})
        assert "content-encoding" not in refused.headers


async def test_a_page_is_never_compressed_for_it_holds_secrets_beside_strangers_words(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    async with served(place, roles=("http",)) as client:
        page = await client.get("/chat", headers=bearer(place) | {"Accept-Encoding": "gzip"})
        assert page.status_code == 200
        assert "content-encoding" not in page.headers


@pytest.mark.slow
async def test_every_page_is_painted_after_less_than_150_kb(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    async with served(place) as client:
        made = await filled(place, client)
        headers = bearer(place, "root", *EVERYTHING) | {"Accept-Encoding": "gzip"}
        shown = addresses(made) | parts(made)
        sizes = {name: await painted(client, path, headers) for name, path in shown.items()}
        owner = {"Accept-Encoding": "gzip"}
        await client.get("/login", params={"code": login_code(place)})
        sizes |= {name: await painted(client, path, owner) for name, path in administered().items()}
    assert {name: size for name, size in sizes.items() if size >= BUDGET} == {}
    assert set(sizes) == {*shown, *administered()}


async def painted(client: httpx.AsyncClient, path: str, headers: dict[str, str]) -> int:
    """The bytes of a page and of all that it loads, as they are sent."""
    page = await client.get(path, headers=headers)
    assert page.status_code == 200, path
    loaded = {unescape(one) for one in LOADED.findall(page.text)}
    assert loaded
    return len(page.content) + sum([await _sent(client, one, headers) for one in sorted(loaded)])


async def _sent(client: httpx.AsyncClient, path: str, headers: dict[str, str]) -> int:
    async with client.stream("GET", path, headers=headers) as answer:
        assert answer.status_code == 200
        return sum([len(part) async for part in answer.aiter_raw()])
