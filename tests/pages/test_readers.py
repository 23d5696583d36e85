"""Folders that are shared in the browser, by forms alone."""

from __future__ import annotations

import asyncio
import html
import json
import re
import tomllib
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from hive_agents import Workspace
from hive_agents.access import Principal, is_open
from hive_agents.access.logins import login_code
from hive_agents.store import audit
from hive_agents.workspace.settings import Settings
from tests.pages.browser import chromium, needs_chromium, require_accessible, signed_in
from tests.pages.test_settings import sent, written
from tests.people import token_of
from tests.server.serving import bearer, sample, served, token
from tests.server.test_documents_http import LAMP, imported, listed, owner, without_documents

READERS = "/settings/readers"


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    return without_documents(tmp_path / "ws")


@pytest.fixture
async def client(place: Workspace) -> AsyncIterator[httpx.AsyncClient]:
    """A browser of the workspace's owner, who added a document to each of two folders."""
    async with served(place) as client:
        headers = await owner(client, place)
        for folder in ("open", "secret"):
            await imported(client, headers, (f"{folder}.md", LAMP), folder=folder)
        yield client


def of_nora(place: Workspace) -> dict[str, str]:
    nora = Principal("acme", "nora", frozenset({"qa"}), frozenset({"reader"}))
    return {"Authorization": f"Bearer {token_of(place, nora, 3600)}"}


async def test_a_folder_is_shared_with_what_is_in_it_and_what_comes_later(
    place: Workspace, client: httpx.AsyncClient
) -> None:
    nora = of_nora(place)
    assert await listed(client, nora) == {}
    form = {"act": "write", "folder": "open", "tenant": "acme", "people": "nora, dana", "groups": "lab"}
    shown = await sent(client, READERS, **form)
    view = '["user:nora", "user:dana", "group:lab"]'
    assert f'+    {{"tenant": "acme", "match": "open/**", "view": {view}}}' in html.unescape(shown.text)
    assert "come to belong to this one: 1" in shown.text
    assert "tenant" not in (place.documents / "open" / "open.md").read_text()
    done = await written(client, shown)
    assert (done.status_code, done.headers["location"]) == (303, f"{READERS}?done=written")
    assert list(await listed(client, nora)) == ["open/open.md"]
    (entry,) = audit.recorded(place, "file_changed")
    assert entry["file"] == "access/people.json"
    mine = {"X-CSRF-Token": (await client.get("/api/session")).json()["csrf"]}
    await imported(client, mine, ("new.md", LAMP), folder="open")
    await imported(client, mine, ("open/a.md", LAMP), ("secret/b.md", LAMP))  # in two folders: nothing is guessed
    assert list(await listed(client, nora)) == ["open/new.md", "open/open.md"]
    page = (await client.get(READERS)).text
    assert "<bdi>open</bdi>" in page
    assert "group lab" in page


async def test_the_form_offers_the_folders_people_and_groups_that_there_are(
    place: Workspace, client: httpx.AsyncClient
) -> None:
    mine = {"X-CSRF-Token": (await client.get("/api/session")).json()["csrf"]}
    await imported(client, mine, ("deep.md", LAMP), folder="open/inner")
    await written(client, await sent(client, "/settings/person", act="write", user="ann", tenant="acme",
                                     role=["reader"], groups="lab", keep="1"))  # fmt: skip
    page = (await client.get(f"{READERS}?person=ann&folder=open")).text
    assert re.findall(r'<option value="([^"]*)"', page) == ["", "open", "open/inner", "secret", "documents"]
    assert '<option value="open" selected>' in page
    assert '<input type="checkbox" name="people" value="ann" checked>' in page
    assert '<input type="checkbox" name="groups" value="lab">' in page
    form: dict[str, str | list[str]] = {"act": "write", "folder": "open/inner", "tenant": "acme"}
    form["people"] = ["ann", "zoe, ann"]
    shown = html.unescape((await sent(client, READERS, **form, groups=["lab", ""])).text)
    assert '"match": "open/inner/**", "view": ["user:ann", "user:zoe", "group:lab"]' in shown
    assert "ann, zoe, lab will read what is in open/inner/" in shown
    everybody = html.unescape((await sent(client, READERS, **form | {"folder": "documents", "everybody": "1"})).text)
    assert "Everybody of acme will read what is in documents/" in everybody
    everything = html.unescape((await sent(client, READERS, **form | {"folder": "documents"})).text)
    assert '"match": "**"' in everything
    later = html.unescape((await sent(client, READERS, **form, new_folder="later")).text)
    assert '"match": "later/**"' in later
    person = (await client.get("/settings/person?user=ann")).text
    assert '<input type="checkbox" name="groups" value="lab" checked>' in person


async def test_an_admin_is_offered_no_folder_person_or_group_of_others(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    (place.documents / "theirs").mkdir()
    (place.documents / "theirs" / "plan.md").write_text("---\ntenant: globex\n---\n# A plan\n", encoding="utf-8")
    place.index()
    async with served(place, roles=("http",)) as client:
        await client.post("/login", json={"token": token(place, "root")})
        for path in (READERS, "/settings/people"):
            page = (await client.get(path)).text
            assert 'value="dana"' in page
            assert 'value="hana"' not in page, "who is of another tenant"
        page = (await client.get(READERS)).text
        offered = re.findall(r'<option value="([^"]*)"', page)
        assert {"sops", "documents"} < {*offered}
        assert "theirs" not in offered


async def test_a_folder_is_shared_no_more(place: Workspace, client: httpx.AsyncClient) -> None:
    form = {"act": "write", "folder": "documents", "tenant": "acme", "everybody": "1"}
    assert "the folder is missing" in (await sent(client, READERS, **form | {"folder": ""})).text
    await written(client, await sent(client, READERS, **form))
    assert list(await listed(client, of_nora(place))) == ["open/open.md", "secret/secret.md"]
    assert "Nothing would change" in (await sent(client, READERS, **form)).text
    shown = await sent(client, READERS, act="remove", match="**", tenant="acme")
    assert (await written(client, shown)).headers["location"] == f"{READERS}?done=removed"
    assert await listed(client, of_nora(place)) == {}


async def test_a_folder_that_is_shared_with_another_person_stays_shared_with_the_first(
    place: Workspace, client: httpx.AsyncClient
) -> None:
    form = {"act": "write", "folder": "open", "tenant": "acme"}
    await written(client, await sent(client, READERS, **form, people="nora"))
    shown = await sent(client, READERS, **form, people="zoe", groups="lab")
    said = html.unescape(shown.text)
    assert '+    {"tenant": "acme", "match": "open/**", "view": ["user:nora", "user:zoe", "group:lab"]}' in said
    assert "zoe, lab will read what is in open/" in said
    assert "As before, open/ is also read by nora." in said
    await written(client, shown)
    assert list(await listed(client, of_nora(place))) == ["open/open.md"]
    everybody = await sent(client, READERS, **form, everybody="1")
    assert "As before, open/ is also read by nora, zoe, lab." in html.unescape(everybody.text)
    assert "Nothing would change" in (await sent(client, READERS, **form, people="nora")).text


async def test_what_is_shared_meanwhile_is_shown_before_another_person_is_added(
    place: Workspace, client: httpx.AsyncClient
) -> None:
    form = {"act": "write", "folder": "open", "tenant": "acme"}
    shown = await sent(client, READERS, **form, people="zoe")
    await written(client, await sent(client, READERS, **form, people="nora"))
    again = await written(client, shown)
    assert "changed since you looked" in again.text
    assert "As before, open/ is also read by nora." in html.unescape(again.text)
    await written(client, again)
    assert list(await listed(client, of_nora(place))) == ["open/open.md"]


async def test_a_folder_is_shared_no_more_with_one_or_with_all_and_who_loses_it_is_said(
    place: Workspace, client: httpx.AsyncClient
) -> None:
    form = {"act": "write", "folder": "open", "tenant": "acme", "people": "zoe, nora", "groups": "lab"}
    await written(client, await sent(client, READERS, **form))
    page = html.unescape((await client.get(READERS)).text)
    assert re.findall(r'name="view" value="([^"]*)"', page) == ["user:zoe", "user:nora", "group:lab"]
    every = html.unescape((await sent(client, READERS, act="remove", match="open/**", tenant="acme")).text)
    assert "zoe, nora, lab will no longer read what is in open/" in every
    one = await sent(client, READERS, view="user:zoe", match="open/**", tenant="acme")
    assert "zoe will no longer read what is in open/" in one.text
    assert "As before, open/ is also read by nora, lab." in one.text
    await written(client, one)
    assert list(await listed(client, of_nora(place))) == ["open/open.md"]
    assert "<span>zoe</span>" not in (await client.get(READERS)).text


async def test_nothing_is_promised_to_people_or_of_documents_of_another_organisation(tmp_path: Path) -> None:
    place = without_documents(tmp_path / "ws")
    async with served(place) as client:
        headers = await owner(client, place)
        await imported(client, headers, ("plan.md", LAMP), folder="plans", tenant="globex")
        named = {"act": "write", "tenant": "acme", "role": ["reader"], "keep": "1"}
        await written(client, await sent(client, "/settings/person", **named, user="nora"))
        form = {"act": "write", "folder": "plans", "people": "nora"}
        said = html.unescape((await sent(client, READERS, **form, tenant="acme")).text)
        assert "nora will read what is added to plans/ later for acme." in said
        assert "Of 1 documents in plans/, 1 belong to another organisation than acme" in said
        assert "will read what is in" not in said
        said = html.unescape((await sent(client, READERS, **form, tenant="globex")).text)
        assert "Not of globex, and so without a document by this: nora." in said
        assert "will read" not in said
        await imported(client, headers, ("ours.md", LAMP), folder="plans", tenant="acme")
        said = html.unescape((await sent(client, READERS, **form, tenant="acme")).text)
        assert "nora will read what is in plans/" in said
        assert "Of 2 documents in plans/, 1 belong to another organisation than acme" in said


async def test_the_documents_are_examined_while_the_owner_reads_all_of_them(client: httpx.AsyncClient) -> None:
    assert "Examine the documents" in (await client.get("/documents")).text
    found = (await sent(client, "/documents/examine")).text
    assert "1 say word for word what another one says" in found
    assert 'href="/documents/secret%2Fsecret.md"' in found
    named = {"act": "write", "user": "ann", "tenant": "acme", "role": ["reader"]}
    await written(client, await sent(client, "/settings/person", **named))
    assert "Examine the documents" not in (await client.get("/documents")).text
    refused = await sent(client, "/documents/examine")
    assert refused.status_code == 403
    assert "secret.md" not in refused.text


async def test_the_owner_goes_on_reading_everything_with_the_first_person(
    place: Workspace, client: httpx.AsyncClient
) -> None:
    mine = {"X-CSRF-Token": (await client.get("/api/session")).json()["csrf"]}
    asked = {"input": {"text": "Where is the lamp?"}}
    thread = (await client.post("/api/runs", json=asked, headers=mine)).json()["thread_id"]
    people = (await client.get("/settings/people")).text
    (tenant,) = re.findall(r'<input id="tenant" name="tenant" value="([^"]+)"', people)
    assert f'<input id="tenant" name="tenant" value="{tenant}"' in (await client.get(READERS)).text
    assert 'name="keep" value="1" checked' in people
    form = {"act": "write", "user": "maria", "tenant": tenant, "role": ["reader"]}
    lost = html.unescape((await sent(client, "/settings/person", **form)).text)
    assert "You will no longer see 2 documents" in lost
    await written(client, await sent(client, READERS, act="write", folder="open", tenant=tenant, people="maria"))
    shown = await sent(client, "/settings/person", **form, keep="1")
    assert "maria will read 1 of 2 documents." in shown.text
    assert "You will still read all 2" in shown.text
    await written(client, shown)
    for settings in (place, Workspace(place.root)):  # of the running server, and of the next one
        assert is_open(settings)
    assert sorted(await listed(client, mine)) == ["open/open.md", "secret/secret.md"]
    assert thread in (await client.get("/api/threads")).text
    assert (await client.get(f"/chat/{thread}")).status_code == 200
    again = await client.post("/api/runs", json=asked | {"thread_id": thread}, headers=mine)
    assert again.status_code == 202, again.text
    maria = {"Authorization": f"Bearer {token_of(place, Principal(tenant, 'maria'), 3600)}"}
    assert list(await listed(client, maria)) == ["open/open.md"]
    assert thread not in (await client.get("/api/threads", headers=maria)).text
    assert "will still read all 2" in (await sent(client, "/settings/person", **form | {"user": "nora"})).text


async def test_a_readers_first_page_asks_and_says_what_she_reads(place: Workspace, client: httpx.AsyncClient) -> None:
    nora = of_nora(place)
    assert "no document that you may read" in (await client.get("/", headers=nora)).text
    await written(client, await sent(client, READERS, act="write", folder="open", tenant="acme", people="nora"))
    for _ in range(100):
        page = (await client.get("/", headers=nora)).text
        if "Documents that you may read: 1" in page:
            break
        await asyncio.sleep(0.1)
    else:
        pytest.fail(page)
    assert '<form class="ask card" data-api="POST /api/runs" data-then="/chat/{thread_id}">' in page
    assert "<bdi>open</bdi>" in page
    assert "secret" not in page


async def test_a_persons_page_makes_a_token_and_tells_of_them(place: Workspace, client: httpx.AsyncClient) -> None:
    await written(client, await sent(client, READERS, act="write", folder="open", tenant="acme", people="maria"))
    form = {"act": "write", "user": "maria", "tenant": "acme", "role": ["reader"], "keep": "1"}
    await written(client, await sent(client, "/settings/person", **form))
    page = (await client.get("/settings/person?user=maria")).text
    assert "maria reads 1 of 2 documents." in page
    assert "<bdi>open</bdi>" in page
    (form_of_token,) = re.findall(r'<form class="card" method="post" action="/settings/tokens">.*?</form>', page, re.S)
    assert 'name="user" value="maria"' in form_of_token
    made = await sent(client, "/settings/tokens", act="make", user="maria", lifetime="month")
    (text,) = re.findall(r"<textarea[^>]*>([^<]+)</textarea>", made.text)
    assert f'data-copy="{text}"' in made.text
    assert f"answers only on the machine that it runs on, at {client.base_url}" in made.text
    assert list(await listed(client, {"Authorization": f"Bearer {text}"})) == ["open/open.md"]


@pytest.mark.slow
@needs_chromium
async def test_a_reader_asks_on_her_first_page(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    async with (
        served(place) as client,
        chromium() as browser,
        signed_in(browser, str(client.base_url), place, "dana", "reader") as page,
    ):
        await require_accessible(page)
        await page.get_by_label("Your question").fill("how long do logs stay?")
        await page.get_by_role("button", name="Ask").click()
        await page.wait_for_url("**/chat/*")
        await page.get_by_text("how long do logs stay?").first.wait_for()


async def test_an_admin_is_told_what_a_person_reads_of_what_the_admin_reads(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    for name, tenant in (("theirs", "globex"), ("both", "[acme, globex]")):
        text = f"---\ntenant: {tenant}\nview: tenant\n---\n# A plan\n"
        (place.documents / f"{name}.md").write_text(text, encoding="utf-8")
    place.index()
    async with served(place, roles=("http",)) as client:
        await client.post("/login", json={"token": token(place, "root")})
        shown = await sent(client, "/settings/person", act="write", user="nora", role=["reader"], keep="1")
        assert "nora" in shown.text
        assert "hive.toml" not in shown.text
        assert "will read" not in shown.text
        readable = {user: await total(client, place, user) for user in ("root", "guest")}
        assert 1 < readable["guest"] < readable["root"]
        page = (await client.get("/settings/person?user=guest")).text
        told = f"guest reads {readable['guest']} of the {readable['root']} documents that you read."
        assert f"{told} Of those, {readable['guest']} name everybody of acme as their readers." in page
        assert "No folder is shared" not in page
        page = (await client.get("/settings/person?user=alice")).text
        assert "Folders that are shared with them:" in page
        await client.get("/login", params={"code": login_code(place)})
        page = (await client.get("/settings/person?user=guest")).text
        every = len(list(place.documents.rglob("*.md")))
        assert f"guest reads {readable['guest']} of {every} documents." in page


async def total(client: httpx.AsyncClient, place: Workspace, user: str) -> int:
    return len(await listed(client, bearer(place, user), limit=200))


async def test_an_owner_who_reads_nothing_reads_everything_from_then_on(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    async with served(place, roles=("http",)) as client:
        headers = await owner(client, place)
        assert await listed(client, headers) == {}
        for path in ("/", "/documents", "/chat"):
            page = html.unescape((await client.get(path)).text)
            assert "As the owner of this machine you may read every document" in page, path
            assert "{n} of {all} files ready; you can't read them yet" in page, path
            assert page.count('action="/settings/readers/owner"') == 2, path
            assert "can be asked about now" not in page, path
        before = await total(client, place, "guest")
        shown = await sent(client, f"{READERS}/owner")
        said = html.unescape(shown.text)
        assert '+mode = "open"' in said
        assert f"will read all {len(list(place.documents.rglob('*.md')))} documents here" in said
        assert not is_open(place)
        done = await written(client, shown)
        assert (done.status_code, done.headers["location"]) == (303, "/documents?done=written")
        for settings in (place, Workspace(place.root)):  # of the running server, and of the next one
            assert is_open(settings)
        (entry,) = audit.recorded(place, "file_changed")
        assert entry["file"] == "hive.toml"
        assert len(await listed(client, headers, limit=200)) > before
        assert await total(client, place, "guest") == before
        page = html.unescape((await client.get("/documents")).text)
        assert "files can be asked about now" in page
        assert "/settings/readers/owner" not in page
        assert (await sent(client, f"{READERS}/owner")).status_code == 403


async def test_nobody_but_the_owner_at_this_machine_makes_everything_theirs_to_read(tmp_path: Path) -> None:
    keys = '[[access.keys]]\nkid = "own"\nalg = "HS256"\nsecret_ref = "env:HIVE_TEST_KEY"\n'
    place = sample(tmp_path / "ws")
    async with served(place, roles=("http",)) as client:
        await client.post("/login", json={"token": token(place, "root")})
        refused = await sent(client, f"{READERS}/owner")
        assert refused.status_code == 403, "an admin of a tenant"
        assert "hive.toml" not in refused.text
        assert "/settings/readers/owner" not in (await client.get("/documents")).text
        await owner(client, place)
        access = Settings.model_validate(tomllib.loads(keys)).access
        vars(place)["settings"] = place.settings.model_copy(update={"access": access})
        assert (await sent(client, f"{READERS}/owner")).status_code == 403, "where others may reach the server"


async def test_a_folder_is_not_shared_with_nobody_nor_outside_of_the_documents(client: httpx.AsyncClient) -> None:
    assert "people is missing" in (await sent(client, READERS, act="write", folder="open", tenant="acme")).text
    wrong = await sent(client, READERS, act="write", folder="../open", tenant="acme", everybody="1")
    assert wrong.status_code == 400, wrong.text


async def test_an_admin_shares_in_their_tenant_alone_and_sees_its_grants_alone(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    file = place.root / "access" / "grants.json"
    value = json.loads(file.read_text())
    value["grants"].append({"tenant": "globex", "match": "theirs/**", "view": ["tenant"]})
    file.write_text(json.dumps(value), encoding="utf-8")
    async with served(place, roles=("http",)) as client:
        await client.post("/login", json={"token": token(place, "root")})
        assert "theirs" not in (await client.get(READERS)).text
        form = {"act": "write", "folder": "sops", "tenant": "globex", "people": "guest"}
        shown = html.unescape((await sent(client, READERS, **form)).text)
        assert '+    {"tenant": "acme", "match": "sops/**", "view": ["user:guest"]}' in shown
        assert "globex" not in shown.replace('name="tenant" value="globex"', "")
        assert (await client.get(READERS, headers=bearer(place, "dana"))).status_code == 403
