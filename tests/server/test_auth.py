"""Every route asks who calls: tokens that are no good, missing roles, sessions of browsers and their CSRF token."""

from __future__ import annotations

import re

import httpx
import jwt
import pytest

from hive_agents import Workspace
from hive_agents.access import ROLES, local_key, revoke
from hive_agents.access.logins import login_code
from hive_agents.access.tokens import verify
from hive_agents.server.meta import OPERATIONS
from tests.server.serving import bearer, token


def path_of(template: str) -> str:
    return re.sub(r"\{[^}]*\}", "x1", template)


def bad_tokens(place: Workspace) -> dict[str, str]:
    claims = {"iss": "hive", "aud": "hive", "sub": "root", "tenant": "acme", "exp": 4_000_000_000}
    claims["roles"] = sorted(ROLES)
    key = local_key(place)
    revoked = token(place, "root", *ROLES)
    revoke(place, str(verify(place, revoked).token_id))
    code = login_code(place)
    return {
        "none": "",
        "garbage": "x.y.z",
        "forged": jwt.encode(claims, "another secret of enough length, say", "HS256"),
        "unsigned": jwt.encode(claims, None, "none"),
        "expired": jwt.encode(claims | {"exp": 1_000_000_000}, key, "HS256"),
        "of another audience": jwt.encode(claims | {"aud": "elsewhere"}, key, "HS256"),
        "of another issuer": jwt.encode(claims | {"iss": "elsewhere"}, key, "HS256"),
        "of the reserved tenant": jwt.encode(claims | {"tenant": "local"}, key, "HS256"),
        "revoked": revoked,
        "a sign-in code": code,
    }


async def test_every_route_refuses_whoever_has_no_good_token(place: Workspace, client: httpx.AsyncClient) -> None:
    tokens = bad_tokens(place)
    for operation in OPERATIONS:
        for why, bad in tokens.items():
            headers = {"Authorization": f"Bearer {bad}"} if bad else {}
            found = await client.request(operation.method, path_of(operation.path), headers=headers)
            assert found.status_code == 401, (operation.path, why, found.text)
            assert found.headers["content-type"] == "application/problem+json"
            assert found.headers["www-authenticate"] == "Bearer"
            assert found.json()["code"] == "HIVE-417"
            assert bad[:20] not in found.text or not bad


async def test_every_route_refuses_a_caller_without_one_of_its_roles(
    place: Workspace, client: httpx.AsyncClient
) -> None:
    for operation in OPERATIONS:
        for role in ROLES - operation.roles:
            found = await client.request(
                operation.method, path_of(operation.path), headers=bearer(place, "dana", role)
            )  # fmt: skip
            assert found.status_code == 403, (operation.path, role, found.text)
            assert found.json()["code"] == "HIVE-415"


async def test_no_header_but_the_token_says_who_asks(place: Workspace, client: httpx.AsyncClient) -> None:
    claimed = {"X-Forwarded-User": "root", "X-OpenWebUI-User-Email": "root", "X-Remote-User": "root", "X-User": "root"}
    found = await client.get("/api/session", headers=bearer(place, "guest") | claimed)
    assert found.json()["user"] == "guest"
    assert (await client.get("/api/session", headers=claimed)).status_code == 401


async def test_several_authorizations_are_refused(place: Workspace, client: httpx.AsyncClient) -> None:
    """A proxy may have checked another one than the server would take."""
    dana, root = (bearer(place, user)["Authorization"] for user in ("dana", "root"))
    for second in (root, dana, ""):
        for path in ("/api/session", "/chat", "/nowhere"):
            sent = [("Authorization", dana), ("Authorization", second), ("Accept", "text/html")]
            found = await client.get(path, headers=sent)
            assert found.status_code == (404 if path == "/nowhere" else 400), found.text
    found = await client.post("/mcp", json={}, headers=[("Authorization", dana), ("Authorization", root)])
    assert found.status_code == 400


async def test_a_sign_in_link_works_once_and_makes_the_owners_session(
    place: Workspace, client: httpx.AsyncClient
) -> None:
    code = login_code(place)
    first = await client.get("/login", params={"code": code})
    assert (first.status_code, first.headers["location"]) == (303, "/")
    cookie = first.headers["set-cookie"].lower()
    assert all(part in cookie for part in ("httponly", "samesite=strict", "path=/"))
    me = (await client.get("/api/session")).json()
    assert me["tenant"] == "local"
    assert set(me["roles"]) == ROLES
    client.cookies.clear()
    assert (await client.get("/login", params={"code": code})).status_code == 401
    assert "Sign in" in (await client.get("/login")).text


async def test_a_link_of_another_person_names_them_and_nobody_unknown(
    place: Workspace, client: httpx.AsyncClient
) -> None:
    await client.get("/login", params={"code": login_code(place, "alice")})
    me = (await client.get("/api/session")).json()
    assert (me["user"], me["tenant"], me["groups"], me["roles"]) == ("alice", "acme", ["lab"], ["reader"])
    with pytest.raises(Exception, match="there is no principal"):
        login_code(place, "nobody")


async def test_a_browser_signs_in_with_a_token_and_out_again(place: Workspace, client: httpx.AsyncClient) -> None:
    assert (await client.post("/login", json={"token": "x.y.z"})).status_code == 401
    assert (await client.post("/login", data={"token": token(place, "guest")})).status_code == 200
    me = (await client.get("/api/session")).json()
    assert me["user"] == "guest"
    assert (await client.post("/logout")).status_code == 403
    assert (await client.post("/logout", headers={"X-CSRF-Token": me["csrf"]})).status_code == 200
    assert (await client.get("/api/session")).status_code == 401


async def test_a_session_that_was_ended_is_refused(place: Workspace, client: httpx.AsyncClient) -> None:
    await client.get("/login", params={"code": login_code(place)})
    kept = client.cookies["hive_session"]
    csrf = (await client.get("/api/session")).json()["csrf"]
    await client.post("/logout", headers={"X-CSRF-Token": csrf})
    assert "hive_session" not in client.cookies
    client.cookies.set("hive_session", kept)
    assert (await client.get("/api/session")).status_code == 401


async def test_what_a_browser_changes_needs_the_csrf_token_of_its_session(
    place: Workspace, client: httpx.AsyncClient
) -> None:
    await client.get("/login", params={"code": login_code(place, "dana")})
    csrf = (await client.get("/api/session")).json()["csrf"]
    body = {"query": "token"}
    good = {"X-CSRF-Token": csrf}
    assert (await client.post("/api/query", json=body)).status_code == 403
    assert (await client.post("/api/query", json=body, headers={"X-CSRF-Token": csrf[:-1] + "0x"})).status_code == 403
    foreign = good | {"Sec-Fetch-Site": "cross-site"}
    assert (await client.post("/api/query", json=body, headers=foreign)).status_code == 403
    assert (await client.post("/api/query", json=body, headers=good)).status_code == 200
    other = good | bearer(place, "guest")  # a header says who asks before a cookie does
    assert (await client.get("/api/session", headers=other)).json()["user"] == "guest"


async def test_another_site_cannot_sign_a_browser_in(place: Workspace, client: httpx.AsyncClient) -> None:
    sent = {"token": token(place, "guest")}
    found = await client.post("/login", data=sent, headers={"Sec-Fetch-Site": "cross-site"})
    assert found.status_code == 403
    assert "set-cookie" not in found.headers


async def test_an_admin_makes_and_ends_tokens_of_their_own_tenant(place: Workspace, client: httpx.AsyncClient) -> None:
    admin = bearer(place, "root", "admin")
    made = await client.post("/api/tokens", json={"user": "newcomer", "groups": ["lab"]}, headers=admin)
    assert made.status_code == 201
    value = made.json()
    assert value["principal"]["tenant"] == "acme"
    theirs = {"Authorization": f"Bearer {value['token']}"}
    assert (await client.get("/api/session", headers=theirs)).json()["user"] == "newcomer"
    elsewhere = bearer(place, "hana", "admin")  # of another tenant
    await client.delete(f"/api/tokens/{value['jti']}", headers=elsewhere)
    assert (await client.get("/api/session", headers=theirs)).status_code == 200
    assert (await client.delete(f"/api/tokens/{value['jti']}", headers=admin)).status_code == 200
    assert (await client.get("/api/session", headers=theirs)).status_code == 401
    foreign = await client.post("/api/tokens", json={"user": "x", "tenant": "globex"}, headers=admin)
    assert foreign.status_code == 403
