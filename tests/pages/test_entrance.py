"""The way in: by a token or a link, for one's own pages alone, with headers that keep foreign scripts out."""

from __future__ import annotations

import hashlib
import json
from importlib.resources import files
from pathlib import Path

import pytest

from hive_agents.access.logins import login_code
from hive_agents.server.pages import language
from hive_agents.server.pages.assets import THIRD_PARTY
from hive_agents.server.pages.view import environment
from tests.pages.browser import chromium, needs_chromium, reached, require_accessible, signed_in, window
from tests.server.serving import bearer, sample, served, token


def test_third_party_files_are_as_they_were_published() -> None:
    static = files("hive_agents.server.pages").joinpath("static")
    for name, digest in THIRD_PARTY.items():
        assert hashlib.sha256(static.joinpath(name).read_bytes()).hexdigest() == digest


def test_templates_are_whole_and_no_text_is_spare() -> None:
    import re

    used = set()
    for name in environment().list_templates():
        source = environment().loader.get_source(environment(), name)[0]  # type: ignore[union-attr]
        environment().compile(source)
        used |= set(re.findall(r'\bt\(["\']([\w.]+)["\']\s*[,)]', source))
        assert not re.search(r"\son\w+=|<script(?! src)|style=", source), f"{name} has inline script or style"
        assert "|safe" not in source.replace(" ", ""), f"{name} shows something unescaped"
    assert used <= set(language.texts())


async def test_a_file_of_texts_is_a_translation_for_whoever_wants_its_language(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    english = json.loads(language.TEXTS.joinpath("en.json").read_text(encoding="utf-8"))
    (tmp_path / "en.json").write_text(json.dumps(english), encoding="utf-8")
    (tmp_path / "de.json").write_text(json.dumps({"login.title": "Anmelden"}), encoding="utf-8")
    monkeypatch.setattr(language, "TEXTS", tmp_path)
    language.texts.cache_clear()
    language.languages.cache_clear()
    try:
        async with served(sample(tmp_path / "ws"), roles=("http",)) as client:
            page = (await client.get("/login", headers={"Accept-Language": "de-CH, en;q=0.5"})).text
            assert '<html lang="de">' in page
            assert "Anmelden" in page
            assert english["login.lead"].partition("`")[0] in page  # what isn't translated is English
            assert '<html lang="en">' in (await client.get("/login", headers={"Accept-Language": "ru"})).text
    finally:
        language.texts.cache_clear()
        language.languages.cache_clear()


async def test_pages_send_whoever_is_not_signed_in_to_the_form(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    async with served(place) as client:
        answer = await client.get("/chat?x=1", follow_redirects=False)
        assert answer.status_code in (303, 404)
        answer = await client.get("/", follow_redirects=False)
        assert (answer.status_code, answer.headers["location"]) == (303, "/login")
        form = await client.get("/login?next=//evil.example")
        assert 'data-then="/"' in form.text
        assert "default-src 'none'" in form.headers["content-security-policy"]
        assert "unsafe" not in form.headers["content-security-policy"]


async def test_an_address_that_leads_nowhere_is_a_page_for_people_and_a_problem_for_programs(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    async with served(place, roles=("http",)) as client:
        people = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
        for headers in (people, people | bearer(place)):
            page = await client.get("/nowhere", headers=headers)
            assert (page.status_code, page.headers["content-type"]) == (404, "text/html; charset=utf-8")
            assert "There is no page at this address." in page.text
            assert "default-src 'none'" in page.headers["content-security-policy"]
            assert ("Sign out" in page.text) == ("Authorization" in headers)
        for path, headers in (("/nowhere", {}), ("/api/nowhere", people)):
            told = await client.get(path, headers=headers)
            assert (told.status_code, told.headers["content-type"]) == (404, "application/problem+json")
        assert (await client.get("/logout", headers=people)).status_code == 405


async def test_what_is_not_there_leads_to_what_is_in_the_words_of_the_pages(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    async with served(place, roles=("http",)) as client:
        root = bearer(place, "root", "reader", "approver", "operator")
        for path in ("/approvals/a0", "/colony/runs/r0", "/optimize/configs/none", "/optimize/r0", "/chat/t0"):
            page = await client.get(path, headers=root)
            assert page.status_code == 404
            assert f'<li><a href="/{path.split("/")[1]}">' in page.text
            assert "`hive" not in page.text
            assert "/api/" not in page.text
        assert 'href="/optimize"' not in (await client.get("/chat/t0", headers=bearer(place))).text


async def test_link_signs_in_once_and_the_page_says_who_one_is(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    async with served(place) as client:
        code = login_code(place, "dana")
        assert not (await client.head(f"/login?code={code}")).cookies, "a preview of the link uses it up"
        page = await client.get(f"/login?code={code}", follow_redirects=True)
        assert page.status_code == 200
        assert "dana of acme" in page.text or "dana of" in page.text
        client.cookies.clear()
        again = await client.get(f"/login?code={code}", follow_redirects=True)
        assert again.status_code == 401
        assert "Sign in" in again.text


async def test_static_files_are_anybodys_and_nothing_else_is(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    async with served(place) as client:
        assert (await client.get("/static/style.css")).headers["content-type"].startswith("text/css")
        for name in ("..%2Fview.py", "view.py", "%2e%2e%2ftexts%2fen.json", "none.css"):
            assert (await client.get(f"/static/{name}")).status_code == 404


@pytest.mark.slow
@needs_chromium
async def test_signing_in_and_out_by_keyboard_in_a_browser(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    async with served(place) as client, chromium() as browser:
        async with signed_in(browser, str(client.base_url), place) as page:
            assert "dana" in await page.locator(".who").inner_text()
            await require_accessible(page)
            await reached(page, "details.account > summary")
            await page.keyboard.press("Enter")
            await reached(page, ".who [data-api='POST /logout']")
            await page.keyboard.press("Enter")
            await page.wait_for_url("**/login")
            await require_accessible(page)
            await page.goto("/")
            assert page.url.endswith("/login")


@pytest.mark.slow
@needs_chromium
async def test_a_wrong_token_is_told_and_nothing_is_lost(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    async with served(place) as client, chromium() as browser:
        context = await window(browser, str(client.base_url))
        page = await context.new_page()
        await page.goto("/login")
        await page.get_by_label("Token").fill(token(place)[:-3] + "xyz")
        await page.keyboard.press("Enter")
        await page.locator("#told .fault").wait_for()
        assert await page.get_by_label("Token").input_value()
