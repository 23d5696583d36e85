"""Sign-in at an OpenID Connect provider, over real HTTP on loopback."""

from __future__ import annotations

import gzip
import hmac
import json
import ssl
import threading
import time
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.utils import base64url_encode

from hive_agents import Workspace
from hive_agents.access import logins
from hive_agents.base import HiveError
from hive_agents.runs import control
from hive_agents.server import signin
from hive_agents.server.auth import COOKIE
from tests.pages.browser import chromium, needs_chromium, reached, window
from tests.server.provider import CLIENT, SECRET, OpenIdProvider, open_id_provider
from tests.server.serving import SETTINGS, sample, served

WITH_SECRET = {"secret_ref": '"env:HIVE_PROVIDER"'}


@pytest.fixture
def provider() -> Iterator[OpenIdProvider]:
    with open_id_provider() as provider:
        yield provider


@pytest.fixture
def place(tmp_path: Path, provider: OpenIdProvider, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.setenv("HIVE_PROVIDER", SECRET)
    return sample(tmp_path / "ws", SETTINGS + provider.settings(**WITH_SECRET))


@pytest.fixture
async def client(place: Workspace) -> AsyncIterator[httpx.AsyncClient]:
    async with served(place, roles=("http",)) as client:
        yield client


async def signed_in(client: httpx.AsyncClient, then: str = "/", **changes: str) -> httpx.Response:
    """The answer to a browser that went to the provider and came back."""
    sent = await client.get("/signin", params={"next": then})
    assert sent.status_code == 303, sent.text
    came = await client.get(sent.headers["location"])
    assert came.status_code == 302
    url = urlsplit(came.headers["location"])
    given = {name: values[0] for name, values in parse_qs(url.query).items()} | changes
    return await client.get(url.path, params=given)


async def who(client: httpx.AsyncClient) -> dict[str, Any]:
    found: dict[str, Any] = (await client.get("/api/session")).json()
    return found


async def test_whoever_signs_in_is_known_by_their_subject_with_what_their_groups_give(
    client: httpx.AsyncClient, provider: OpenIdProvider
) -> None:
    provider.claims["groups"] = ["quality", "admins", "everybody"]
    entered = await signed_in(client, "/documents")
    assert entered.status_code == 200
    assert 'content="0; url=/documents"' in entered.text, "a redirect would be followed without the session"
    cookie = next(value for value in entered.headers.get_list("set-cookie") if value.startswith(COOKIE))
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    me = await who(client)
    assert (me["tenant"], me["user"], me["groups"], me["roles"]) == ("acme", "7", ["qa"], ["approver", "reader"])
    asked = provider.asked[0]
    assert (asked["scope"], asked["code_challenge_method"]) == ("openid", "S256")
    assert asked["redirect_uri"] == f"{client.base_url}/signin/back".replace("//signin", "/signin")


async def test_they_see_what_they_may_and_no_more(client: httpx.AsyncClient, provider: OpenIdProvider) -> None:
    await signed_in(client)
    by_quality = {row["doc_id"] for row in (await client.get("/api/documents?limit=200")).json()["documents"]}
    client.cookies.clear()
    provider.claims = {"sub": "8", "groups": ["others"]}
    await signed_in(client)
    by_anybody = {row["doc_id"] for row in (await client.get("/api/documents?limit=200")).json()["documents"]}
    assert by_anybody < by_quality


async def test_an_entry_of_the_workspace_bounds_what_a_provider_gives(
    client: httpx.AsyncClient, provider: OpenIdProvider
) -> None:
    provider.claims["sub"] = "guest"
    await signed_in(client)
    me = await who(client)
    assert (me["groups"], me["roles"]) == ([], ["reader"])


async def test_the_groups_may_come_from_the_users_own_page(client: httpx.AsyncClient, provider: OpenIdProvider) -> None:
    provider.claims, provider.userinfo = {"sub": "7"}, {"sub": "7", "groups": ["quality"]}
    await signed_in(client)
    assert (await who(client))["groups"] == ["qa"]
    client.cookies.clear()
    provider.userinfo = {"sub": "9", "groups": ["quality"]}
    assert (await signed_in(client)).status_code == 401


async def test_a_person_who_leaves_is_signed_out_and_signing_out_ends_at_the_provider_too(
    client: httpx.AsyncClient, place: Workspace, provider: OpenIdProvider
) -> None:
    await signed_in(client)
    me = await who(client)
    ended = await client.post("/logout", headers={"X-CSRF-Token": me["csrf"], "Sec-Fetch-Site": "same-origin"})
    assert ended.json()["leave"].startswith(f"{provider.issuer}/leave?client_id=hive-pages&post_logout_redirect_uri=")
    assert (await client.get("/api/session")).status_code == 401
    await signed_in(client)
    assert control.end_person(place, "7", "acme", "user:root")["sessions"] == 1
    assert (await client.get("/api/session")).status_code == 401


@pytest.fixture
async def asking(
    place: Workspace, provider: OpenIdProvider, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[httpx.AsyncClient, signin.Provider]]:
    """A browser of somebody who signed in, and the server's side of a provider that gives refresh tokens."""
    made: list[signin.Provider] = []

    class Kept(signin.Provider):
        def __init__(self, workspace: Workspace) -> None:
            super().__init__(workspace)
            made.append(self)

    monkeypatch.setattr(signin, "Provider", Kept)
    provider.refreshes = True
    async with served(place, roles=("http",)) as client:
        await signed_in(client)
        yield client, made[0]


def later(monkeypatch: pytest.MonkeyPatch, minutes: int) -> None:
    now = logins.time.time()
    monkeypatch.setattr(logins, "time", SimpleNamespace(time=lambda: now + 60 * minutes))


async def is_known(client: httpx.AsyncClient) -> bool:
    return (await client.get("/api/session")).status_code == 200


Asking = tuple[httpx.AsyncClient, signin.Provider]


async def test_a_session_holds_an_hour_by_the_word_of_its_provider_and_no_longer(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    await signed_in(client)
    later(monkeypatch, 59)
    assert await is_known(client)
    later(monkeypatch, 2)
    assert not await is_known(client)
    assert (await client.get("/documents")).headers["location"].startswith("/login")


@pytest.mark.parametrize("identifies", [True, False])
async def test_a_session_that_its_provider_confirms_goes_on(
    asking: Asking, provider: OpenIdProvider, monkeypatch: pytest.MonkeyPatch, identifies: bool
) -> None:
    client, side = asking
    provider.identifies, provider.userinfo = identifies, dict(provider.claims)
    for _ in range(3):
        later(monkeypatch, 50)
        await side.ask_again()
        assert await is_known(client)
    assert sum(form["grant_type"] == "refresh_token" for form in provider.redeemed) == 3


@pytest.mark.parametrize(
    "claims", [{"sub": "7", "groups": []}, {"sub": "7"}, {"sub": "8", "groups": ["quality"]}], ids=str
)
async def test_a_group_that_is_taken_away_at_the_provider_ends_the_session(
    asking: Asking, provider: OpenIdProvider, claims: dict[str, Any]
) -> None:
    client, side = asking
    provider.claims, provider.userinfo = claims, {"sub": claims["sub"]}
    await side.ask_again()
    assert not await is_known(client)
    provider.claims = {"sub": "7", "groups": ["quality"]}
    before = len(provider.redeemed)
    await side.ask_again()
    assert (await is_known(client), len(provider.redeemed)) == (False, before), "it is asked no more"


async def test_who_is_locked_out_at_the_provider_is_signed_out(asking: Asking, provider: OpenIdProvider) -> None:
    client, side = asking
    provider.refresh_token = "of somebody else"
    await side.ask_again()
    assert not await is_known(client)


@pytest.mark.parametrize("what", ["silent", "another issuer", "another key"])
async def test_what_is_no_word_of_the_provider_lengthens_no_session(
    asking: Asking, provider: OpenIdProvider, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    client, side = asking
    if what == "silent":
        provider.server.shutdown()
        provider.server.server_close()
    elif what == "another key":
        provider.signs_with = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    else:
        provider.changes = FALSE[what]
    later(monkeypatch, 59)
    await side.ask_again()
    assert await is_known(client), "a provider that is away for a while signs nobody out"
    later(monkeypatch, 2)
    assert not await is_known(client)


async def test_who_signed_out_here_is_asked_about_no_more(asking: Asking, provider: OpenIdProvider) -> None:
    client, side = asking
    me = await who(client)
    await client.post("/logout", headers={"X-CSRF-Token": me["csrf"], "Sec-Fetch-Site": "same-origin"})
    await side.ask_again()
    asked = len(provider.redeemed)
    await side.ask_again()
    assert (await is_known(client), len(provider.redeemed)) == (False, asked)


async def test_the_provider_is_asked_for_the_scopes_of_the_settings(tmp_path: Path, provider: OpenIdProvider) -> None:
    provider.public = True
    settings = SETTINGS + provider.settings(scopes='["offline_access"]')
    async with served(sample(tmp_path / "scopes", settings), roles=("http",)) as client:
        await signed_in(client)
    assert provider.asked[0]["scope"] == "openid offline_access"


FALSE: dict[str, dict[str, Any]] = {
    "another audience": {"aud": "others"},
    "another client of several": {"aud": ["hive-pages", "others"], "azp": "others"},
    "no client of several": {"aud": ["hive-pages", "others"]},
    "another client of one": {"azp": "others"},
    "no audience": {"aud": None},
    "another issuer": {"iss": "http://127.0.0.1:1"},
    "no issuer": {"iss": None},
    "an issuer that others may be, too": {"iss": ["http://127.0.0.1:1"]},
    "another sign-in": {"nonce": "old"},
    "no nonce": {"nonce": None},
    "expired": {"iat": 1, "exp": 2},
    "no expiry": {"exp": None},
    "no time": {"iat": None},
    "a time that is none": {"iat": "now"},
    "nobody": {"sub": None},
    "no name": {"sub": "a\nb"},
}


async def test_an_id_token_that_does_not_fit_signs_nobody_in(
    client: httpx.AsyncClient, provider: OpenIdProvider
) -> None:
    for what, changes in [*FALSE.items(), ("the issuer by another spelling", {"iss": f"{provider.issuer}/"})]:
        provider.changes = changes
        refused = await signed_in(client)
        assert (refused.status_code, "HIVE-417" in refused.text) == (401, True), what
        assert COOKIE not in client.cookies, what


async def test_clocks_differ_by_a_minute_and_no_more(client: httpx.AsyncClient, provider: OpenIdProvider) -> None:
    now = int(time.time())
    for issued, expires, status in [
        (300, 360, 401),
        (-400, -300, 401),
        (-90_000, 60, 401),
        (30, 90, 200),
        (-90, -30, 200),
    ]:
        provider.changes = {"iat": now + issued, "exp": now + expires}
        assert (await signed_in(client)).status_code == status, (issued, expires)


async def test_an_id_token_for_several_may_name_this_client(
    client: httpx.AsyncClient, provider: OpenIdProvider
) -> None:
    provider.changes = {"aud": ["others", CLIENT], "azp": CLIENT}
    assert (await signed_in(client)).status_code == 200


@pytest.mark.parametrize("signed_by", ["nothing", "the public key", "the client's secret"])
async def test_an_algorithm_that_others_can_compute_signs_nobody_in(
    client: httpx.AsyncClient, provider: OpenIdProvider, monkeypatch: pytest.MonkeyPatch, signed_by: str
) -> None:
    public = provider.key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    key = {"nothing": b"", "the public key": public, "the client's secret": SECRET.encode()}[signed_by]
    tokens = provider._tokens

    def forged(**more: str) -> dict[str, str]:
        body = tokens(**more)["id_token"].split(".")[1]
        header = json.dumps({"alg": "HS256" if key else "none", "kid": provider.kid}).encode()
        signed = f"{base64url_encode(header).decode()}.{body}"
        proof = base64url_encode(hmac.digest(key, signed.encode(), "sha256")).decode() if key else ""
        return {"access_token": "access", "id_token": f"{signed}.{proof}"}

    monkeypatch.setattr(provider, "_tokens", forged)
    assert (await signed_in(client)).status_code == 401
    assert COOKIE not in client.cookies


async def test_a_foreign_key_signs_nobody_in_and_a_new_key_of_the_provider_does(
    client: httpx.AsyncClient, provider: OpenIdProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider.signs_with = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    assert (await signed_in(client)).status_code == 401
    provider.new_key("second")
    assert (await signed_in(client)).status_code == 401, "its keys were looked at a moment ago"
    monkeypatch.setattr(signin, "_KEYS_SECONDS", 0.0)
    assert (await signed_in(client)).status_code == 200


async def test_a_key_that_the_provider_took_back_counts_until_it_is_described_anew(
    client: httpx.AsyncClient, provider: OpenIdProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await signed_in(client)).status_code == 200
    stolen = provider.key
    provider.new_key("second")
    provider.signs_with, provider.signs_as = stolen, "first"
    monkeypatch.setattr(signin, "_DESCRIBED_SECONDS", 0.0)
    assert (await signed_in(client)).status_code == 401


async def test_a_sign_in_belongs_to_the_browser_that_began_it_and_counts_once(
    client: httpx.AsyncClient, place: Workspace
) -> None:
    assert (await signed_in(client, state="another")).status_code == 401
    assert (await client.get("/signin/back?code=code-1&state=x")).status_code == 401
    sent = await client.get("/signin")
    begun = client.cookies.get("hive_signin", path="/signin/back")
    back = urlsplit((await client.get(sent.headers["location"])).headers["location"])
    assert (await client.get(f"{back.path}?{back.query}")).status_code == 200
    client.cookies.clear()
    again = await client.get(f"{back.path}?{back.query}", headers={"Cookie": f"hive_signin={begun}"})
    assert (again.status_code, "used before" in again.text) == (401, True)


async def test_what_a_browser_keeps_of_a_sign_in_is_no_session(client: httpx.AsyncClient) -> None:
    await client.get("/signin")
    begun = client.cookies.get("hive_signin", path="/signin/back")
    assert begun
    assert (await client.get("/api/session", headers={"Authorization": f"Bearer {begun}"})).status_code == 401
    assert (await client.get("/api/session", headers={"Cookie": f"{COOKIE}={begun}"})).status_code == 401


@pytest.mark.parametrize("wanted", ["https://elsewhere.example/", "//elsewhere.example", "/\\elsewhere.example"])
async def test_nobody_is_sent_elsewhere_afterwards(client: httpx.AsyncClient, wanted: str) -> None:
    assert 'content="0; url=/"' in (await signed_in(client, wanted)).text


async def test_a_provider_that_says_no_or_nothing_is_told_on_the_page(
    client: httpx.AsyncClient, provider: OpenIdProvider
) -> None:
    sent = await client.get("/signin")
    state = parse_qs(urlsplit(sent.headers["location"]).query)["state"][0]
    denied = await client.get("/signin/back", params={"error": "access_denied", "state": state})
    assert (denied.status_code, "sent nobody back" in denied.text) == (401, True)
    provider.server.shutdown()
    provider.server.server_close()
    sent = await client.get("/signin")
    unreachable = await client.get("/signin/back", params={"code": "x", "state": "y"})
    assert (sent.status_code, unreachable.status_code) == (303, 401)


async def test_what_a_certificate_is_checked_with_is_read_once_and_beside_the_thread_that_serves_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes a tenth of a second, and eight sign-ins a second, which anybody may begin, held up everybody."""
    settings = '[signin]\nissuer = "https://127.0.0.1:1"\nclient_id = "c"\ntenant = "acme"\n'
    place = sample(tmp_path / "ws", SETTINGS + settings)
    real, threads = ssl.create_default_context, []

    def read() -> ssl.SSLContext:
        threads.append(threading.current_thread())
        return real()

    async with served(place, roles=("http",)) as client:
        monkeypatch.setattr(ssl, "create_default_context", read)
        for _ in range(3):
            answer = await client.get("/signin")
            assert answer.status_code == 401
            assert "can&#39;t be asked" in answer.text
    assert len(threads) == 1
    assert threads[0] is not threading.main_thread()


async def test_a_packed_answer_of_a_provider_is_refused(
    client: httpx.AsyncClient, provider: OpenIdProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    def packed(asked: BaseHTTPRequestHandler, value: Any, status: int = 200) -> None:
        assert asked.headers["Accept-Encoding"] == "identity"
        body = gzip.compress(gzip.compress(json.dumps(value).encode()))
        asked.send_response(status)
        asked.send_header("Content-Encoding", "gzip, gzip")
        asked.send_header("Content-Length", str(len(body)))
        asked.end_headers()
        asked.wfile.write(body)

    monkeypatch.setattr(provider, "_answer", packed)
    assert (await client.get("/signin")).status_code == 401


ABOUT: dict[str, dict[str, Any]] = {
    "another issuer": {"issuer": "https://elsewhere.example"},
    "no endpoint": {"authorization_endpoint": None},
    "a file": {"authorization_endpoint": "file:///etc/passwd"},
    "no address": {"authorization_endpoint": "http://[::1"},
}


@pytest.mark.parametrize("what", ABOUT)
async def test_a_description_that_cannot_be_used_sends_nobody_there(
    client: httpx.AsyncClient, provider: OpenIdProvider, what: str
) -> None:
    provider.about = ABOUT[what]
    sent = await client.get("/signin")
    assert (sent.status_code, "HIVE-417" in sent.text) == (401, True)


@pytest.mark.parametrize(
    ("about", "changes"),
    [
        ({"token_endpoint": "http://[::1"}, {}),
        ({"token_endpoint_auth_methods_supported": 5}, {}),
        ({}, {"nonce": "\ud800"}),
    ],
)
async def test_what_a_provider_spells_wrongly_is_its_refusal_and_no_fault_of_ours(
    client: httpx.AsyncClient, provider: OpenIdProvider, about: dict[str, Any], changes: dict[str, Any]
) -> None:
    provider.about, provider.changes = about, changes
    came = await signed_in(client)
    assert (came.status_code, "HIVE-417" in came.text) == (401, True)


async def test_a_public_client_has_no_secret(tmp_path: Path, provider: OpenIdProvider) -> None:
    provider.public = True
    async with served(sample(tmp_path / "public", SETTINGS + provider.settings()), roles=("http",)) as client:
        assert (await signed_in(client)).status_code == 200


async def test_untrusted_settings_send_nobody_anywhere(tmp_path: Path, provider: OpenIdProvider) -> None:
    place = sample(tmp_path / "ws")
    toml = place.root / "hive.toml"
    toml.write_text(toml.read_text() + provider.settings())
    async with served(Workspace(place.root), roles=("http",)) as client:
        sent = await client.get("/signin")
        assert (sent.status_code >= 400, "HIVE-431" in sent.text, provider.asked) == (True, True, [])


async def test_without_a_provider_the_page_offers_none(tmp_path: Path) -> None:
    async with served(sample(tmp_path / "ws"), roles=("http",)) as client:
        assert "/signin" not in (await client.get("/login")).text
        assert (await client.get("/signin")).status_code == 401


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ('issuer = "http://elsewhere.example"\nclient_id = "a"\ntenant = "acme"', "plain http"),
        ('issuer = "https://elsewhere.example"\nclient_id = "a"', "tenant"),
    ],
)
def test_settings_that_are_no_provider_are_refused(tmp_path: Path, settings: str, told: str) -> None:
    place = sample(tmp_path / "ws")
    toml = place.root / "hive.toml"
    toml.write_text(f"{toml.read_text()}\n[signin]\n{settings}\n")
    with pytest.raises(HiveError, match=told):
        Workspace(place.root).settings  # noqa: B018


@pytest.mark.slow
@needs_chromium
async def test_a_person_signs_in_from_the_page_by_keys_and_out_again(place: Workspace) -> None:
    async with served(place) as client, chromium() as browser:
        page = await (await window(browser, str(client.base_url))).new_page()
        await page.goto("/login?next=/documents")
        await reached(page, 'a[href^="/signin"]', most=10)
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/documents")
        await page.locator(".account summary").click()
        await page.locator("button[data-api='POST /logout']").click()
        await page.wait_for_url("**/leave?*")
        await page.goto("/documents")
        await page.wait_for_url("**/login?*")
