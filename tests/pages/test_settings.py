"""The settings by forms alone, as a browser without scripts sends them."""

from __future__ import annotations

import html
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from playwright.async_api import Dialog

from hive_agents import Workspace
from hive_agents.access import known_principal, mint
from hive_agents.access.logins import login_code
from hive_agents.server.auth import csrf_of
from hive_agents.store import audit
from tests.pages.browser import chromium, needs_chromium, signed_in
from tests.server.serving import SETTINGS, bearer, sample, served, token

HIDDEN = re.compile(r'<input type="hidden" name="([\w.]+)" value="([^"]*)">')


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    return sample(tmp_path / "ws")


@pytest.fixture
async def client(place: Workspace) -> AsyncIterator[httpx.AsyncClient]:
    """A browser in which `root`, an admin of acme, has signed in."""
    async with served(place, roles=("http",)) as client:
        await client.post("/login", json={"token": token(place, "root")})
        yield client


async def csrf(client: httpx.AsyncClient) -> str:
    return csrf_of(client.cookies["hive_session"])


async def sent(client: httpx.AsyncClient, path: str, **fields: str | list[str]) -> httpx.Response:
    return await client.post(path, data={"csrf": await csrf(client), **fields})


async def written(client: httpx.AsyncClient, shown: httpx.Response, **typed: str) -> httpx.Response:
    """The form below a difference, sent with what is typed into it."""
    assert shown.status_code == 200, shown.text
    fields: dict[str, list[str]] = {name: [value] for name, value in typed.items()}
    for name, value in HIDDEN.findall(shown.text):
        fields.setdefault(name, []).append(html.unescape(value))
    return await client.post(shown.url.path, data=fields)


async def test_a_person_is_added_once_the_difference_was_read(place: Workspace, client: httpx.AsyncClient) -> None:
    file = place.root / "access" / "principals.json"
    before = file.read_text(encoding="utf-8")
    form = {"act": "write", "user": "nora", "groups": "qa, lab", "role": ["reader", "operator"]}
    shown = await sent(client, "/settings/person", **form)
    line = '"nora": {"tenant": "acme", "groups": ["qa", "lab"], "roles": ["reader", "operator"]}'
    assert f"+    {line}" in html.unescape(shown.text)
    assert file.read_text(encoding="utf-8") == before
    done = await written(client, shown)
    assert (done.status_code, done.headers["location"]) == (303, "/settings/people?done=written")
    nora = known_principal(place, "nora")
    assert (nora.tenant, nora.groups, nora.roles) == ("acme", {"qa", "lab"}, {"reader", "operator"})
    (entry,) = audit.recorded(place, "file_changed")
    assert (entry["by"], entry["file"]) == ("user:root", "access/principals.json")
    assert f"+    {line}" in entry["lines"]
    assert "nora" in (await client.get("/settings/people?done=written")).text


async def test_a_difference_that_is_another_by_now_is_shown_anew(place: Workspace, client: httpx.AsyncClient) -> None:
    shown = await sent(client, "/settings/person", act="write", user="nora", role=["reader"])
    file = place.root / "access" / "principals.json"
    file.write_text(file.read_text(encoding="utf-8").replace('"ines"', '"inez"'), encoding="utf-8")
    again = await written(client, shown)
    assert "changed since you looked" in again.text
    assert '+    "nora"' in html.unescape(again.text)
    assert "inez" not in again.text  # of another tenant
    assert "nora" not in file.read_text(encoding="utf-8")
    assert (await written(client, again)).status_code == 303
    assert known_principal(place, "nora").roles == {"reader"}


async def test_who_is_removed_is_ended_too(place: Workspace, client: httpx.AsyncClient) -> None:
    theirs = bearer(place, "dana")
    assert (await client.get("/api/session", headers=theirs)).status_code == 200
    shown = await sent(client, "/settings/person", act="remove", user="dana")
    assert (await written(client, shown)).headers["location"] == "/settings/people?done=removed"
    assert (await client.get("/api/session", headers=theirs)).status_code == 401
    assert "dana" not in (place.root / "access" / "principals.json").read_text(encoding="utf-8")


async def test_who_is_signed_out_everywhere_may_sign_in_again(place: Workspace, client: httpx.AsyncClient) -> None:
    theirs = bearer(place, "dana")
    assert (await sent(client, "/settings/person", act="end", user="dana")).status_code == 303
    assert (await client.get("/api/session", headers=theirs)).status_code == 401
    assert known_principal(place, "dana").tenant == "acme"


async def test_a_persons_page_says_whose_tokens_end_with_them(place: Workspace, client: httpx.AsyncClient) -> None:
    """Whoever made a colleague's token may have kept it; the page said nothing of it, and it went on."""
    made = mint(place, known_principal(place, "guest"), maker=known_principal(place, "dana"))
    assert "New ones are needed by: guest." in (await client.get("/settings/person?user=dana")).text
    assert "New ones are needed" not in (await client.get("/settings/person?user=guest")).text
    await sent(client, "/settings/person", act="end", user="dana")
    async with served(place, roles=("http",)) as other:
        answer = await other.get("/api/session", headers={"Authorization": f"Bearer {made.token}"})
    assert answer.status_code == 401


@needs_chromium
@pytest.mark.slow
async def test_what_ends_sessions_and_tokens_is_asked_first(place: Workspace) -> None:
    async with served(place, roles=("http",)) as server, chromium() as browser:
        async with signed_in(browser, str(server.base_url), place, "root", "admin") as page:
            asked: list[str] = []
            answers = iter((False, True))

            async def answer(dialog: Dialog) -> None:
                asked.append(dialog.message)
                await (dialog.accept() if next(answers) else dialog.dismiss())

            page.on("dialog", answer)
            await page.goto("/settings/person?user=dana")
            button = page.get_by_role("button", name="Sign them out everywhere")
            await button.click()
            assert page.url.endswith("/settings/person?user=dana")
            await button.press("Enter")
            await page.wait_for_url("**/settings/people?done=ended")
            assert asked == ["Sign dana out everywhere, and end what runs for them?"] * 2


async def test_a_group_is_made_changed_and_removed(place: Workspace, client: httpx.AsyncClient) -> None:
    await written(client, await sent(client, "/settings/group", act="write", name="night", members="dana, guest"))
    assert "night" in (await client.get("/settings/people")).text
    await written(client, await sent(client, "/settings/group", act="write", name="night", members="guest"))
    value = json.loads((place.root / "access" / "principals.json").read_text(encoding="utf-8"))
    assert value["groups"] == {"night": {"tenant": "acme", "members": ["guest"]}}
    await written(client, await sent(client, "/settings/group", act="remove", name="night"))
    assert (await client.get("/settings/group?name=night")).status_code == 404


async def test_an_admin_changes_nothing_of_another_tenant(place: Workspace, client: httpx.AsyncClient) -> None:
    assert "hana" not in (await client.get("/settings/people")).text
    for act in ("write", "remove", "end"):
        refused = await sent(client, "/settings/person", act=act, user="hana", tenant="globex", role=["admin"])
        assert refused.status_code == 404, act
    assert (await sent(client, "/settings/tokens", act="make", user="hana", lifetime="day")).status_code == 404
    shown = await sent(client, "/settings/person", act="write", user="nora", tenant="globex", role=["reader"])
    assert '"nora": {"tenant": "acme"' in html.unescape(shown.text)


async def test_a_difference_names_nobody_of_another_tenant(place: Workspace, client: httpx.AsyncClient) -> None:
    """Though the file is laid out anew, and the neighbour's line is beside one's own."""
    file = place.root / "access" / "principals.json"
    value = json.loads(file.read_text(encoding="utf-8"))
    value["groups"] = {"nora": {"tenant": "globex", "members": ["hana"]}, "empty": {"tenant": "globex", "members": []}}
    file.write_text(json.dumps(value, indent=4), encoding="utf-8")
    shown = await sent(client, "/settings/person", act="write", user="nora", role=["reader"])
    text = html.unescape(shown.text)
    assert '+    "nora": {"tenant": "acme", "roles": ["reader"]}' in text
    assert "hana" not in text
    assert "globex" not in text
    await written(client, shown)
    assert json.loads(file.read_text(encoding="utf-8"))["groups"] == value["groups"]
    for name in ("nora", "empty"):
        taken = await sent(client, "/settings/group", act="write", name=name, members="dana")
        assert taken.status_code == 404, taken.text


async def test_a_token_is_shown_once_and_revoked(place: Workspace, client: httpx.AsyncClient) -> None:
    made = await sent(client, "/settings/tokens", act="make", user="dana", lifetime="day")
    (text,) = re.findall(r"<textarea[^>]*>([^<]+)</textarea>", made.text)
    theirs = {"Authorization": f"Bearer {text}"}
    assert (await client.get("/api/session", headers=theirs)).json()["roles"] == ["approver", "reader"]
    listed = (await client.get("/settings/tokens")).text
    assert text not in listed
    assert "This server answers only on the machine that it runs on" in made.text
    assert "Who signs in with it opens" not in made.text
    jti = next(one["jti"] for one in audit.recorded(place, "token.made") if one["user"] == "dana")
    assert f'value="{jti}"' in listed
    assert (await sent(client, "/settings/tokens", act="revoke", jti=jti)).status_code == 303
    assert (await client.get("/api/session", headers=theirs)).status_code == 401


async def test_a_form_needs_its_own_page_and_an_admin(place: Workspace, client: httpx.AsyncClient) -> None:
    form = {"act": "end", "user": "dana"}
    assert (await client.post("/settings/person", data=form)).status_code == 403
    assert (await client.post("/settings/person", data=form | {"csrf": "0" * 64})).status_code == 403
    foreign = {"Origin": "https://elsewhere.example", "Sec-Fetch-Site": "cross-site"}
    own = form | {"csrf": await csrf(client)}
    assert (await client.post("/settings/person", data=own, headers=foreign)).status_code == 403
    assert (await client.post("/settings/person", json=form)).status_code == 415
    client.cookies.clear()
    for path in ("/settings", "/settings/people", "/settings/person?user=dana", "/settings/tokens"):
        assert (await client.get(path, headers=bearer(place, "dana", "reader", "approver"))).status_code == 403, path
    assert (await client.post("/settings/person", data=form, headers=bearer(place, "dana"))).status_code == 403


async def test_the_owner_of_an_empty_workspace_names_the_first_person(tmp_path: Path) -> None:
    (tmp_path / "ws" / "collections").mkdir(parents=True)
    toml = f'[access]\nmode = "open"\nuntil_named = true\n{SETTINGS}'
    (tmp_path / "ws" / "hive.toml").write_text(toml, encoding="utf-8")
    place = Workspace(tmp_path / "ws")
    async with served(place, roles=("http",)) as client:
        await client.get("/login", params={"code": login_code(place)})
        assert "You read every document here" in (await client.get("/settings/people")).text
        form = {"act": "write", "user": "ann", "tenant": "home", "role": ["reader", "admin"]}
        await written(client, await sent(client, "/settings/person", **form))
        assert json.loads((place.root / "access" / "people.json").read_text(encoding="utf-8")) == {
            "principals": {"ann": {"tenant": "home", "roles": ["reader", "admin"]}}
        }
        assert "ann" in (await client.get("/settings/people")).text
