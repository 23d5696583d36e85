"""Other sites: they can neither send for a browser that is signed in here, nor frame a page, nor lead away from one."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from hive_agents import Workspace
from hive_agents.approvals import ApprovalStore
from hive_agents.server.meta import OPERATIONS
from hive_agents.server.pages.entrance import PARTS
from tests.listening import answering
from tests.pages.browser import chromium, needs_chromium, signed_in
from tests.pages.test_approvals import filed
from tests.server.serving import sample, served, token

ROLES = ("admin", "reader", "operator", "approver")
CHANGES = sorted((one.method, re.sub(r"\{\w+(:\w+)?\}", "x1", one.path)) for one in OPERATIONS if one.method != "GET")
CHANGES += [("POST", "/logout"), ("POST", "/mcp")]
VIEWS = [view for part in PARTS for view in part.pages.views]
PAGES = sorted({re.sub(r"\{\w+(:\w+)?\}", "x1", view.path) for view in VIEWS if view.method == "GET"} | {"/login"})
FORMS = sorted(view.path.replace("{request_id}", "x1") for view in VIEWS if view.method == "POST")


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    async with served(sample(tmp_path / "ws"), roles=("http",)) as client:
        yield client


def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path / "ws")


async def session(client: httpx.AsyncClient, place: Workspace, user: str, *roles: str) -> str:
    """Sign the client in, and return the session's CSRF token."""
    client.cookies.clear()
    signed = await client.post("/login", json={"token": token(place, user, *roles)})
    assert signed.status_code == 200, signed.text
    return str((await client.get("/api/session")).json()["csrf"])


@pytest.mark.slow
async def test_nothing_changes_without_the_csrf_token_of_ones_own_session(
    tmp_path: Path, client: httpx.AsyncClient
) -> None:
    place = workspace(tmp_path)
    theirs = await session(client, place, "alice", *ROLES)
    earlier = await session(client, place, "root", *ROLES)
    mine = await session(client, place, "root", *ROLES)
    assert len({theirs, earlier, mine}) == 3
    wrong = {"missing": {}, "empty": {"X-CSRF-Token": ""}, "wrong": {"X-CSRF-Token": mine[:-2] + "0g"},
             "another person's": {"X-CSRF-Token": theirs}, "an earlier session's": {"X-CSRF-Token": earlier},
             "cross-site": {"X-CSRF-Token": mine, "Sec-Fetch-Site": "cross-site"},
             "same-site": {"X-CSRF-Token": mine, "Sec-Fetch-Site": "same-site"},
             "cross-site Origin": {"X-CSRF-Token": mine, "Origin": "http://evil.example"},
             "no Origin": {"X-CSRF-Token": mine, "Origin": "null"}}  # fmt: skip
    for method, path in CHANGES:
        for name, headers in wrong.items():
            sent = await client.request(method, path, json={}, headers=headers)
            assert sent.status_code == 403, (name, method, path, sent.status_code, sent.text)
            assert sent.json()["code"] == "HIVE-415"
    for path in FORMS:
        for csrf in ("", mine[:-2] + "0g", theirs, earlier):
            assert (await client.post(path, data={"csrf": csrf})).status_code == 403, path
        foreign = {"Sec-Fetch-Site": "cross-site"}
        assert (await client.post(path, data={"csrf": mine}, headers=foreign)).status_code == 403, path
    origin = {"X-CSRF-Token": mine, "Origin": str(client.base_url).rstrip("/")}
    assert (await client.post("/api/query", json={"query": "token"}, headers=origin)).status_code == 200
    assert (await client.get("/api/session")).status_code == 200, "nobody was signed out"


async def test_nobody_is_signed_in_by_another_site(tmp_path: Path, client: httpx.AsyncClient) -> None:
    body = {"token": token(workspace(tmp_path))}
    for headers in ({"Origin": "http://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "same-site"}):
        sent = await client.post("/login", data=body, headers=headers)
        assert (sent.status_code, "set-cookie" in sent.headers) == (403, False)


@pytest.mark.slow
async def test_no_page_can_be_framed_cached_or_sniffed(tmp_path: Path, client: httpx.AsyncClient) -> None:
    await session(client, workspace(tmp_path), "root", *ROLES)
    for path in [*PAGES, "/api/session", "/api/approvals"]:
        for sent in ({}, {"HX-Request": "true"}):
            answer = await client.get(path, headers=sent)
            assert "no-store" in answer.headers["cache-control"], path
            assert answer.headers["x-content-type-options"] == "nosniff", path
            if not path.startswith("/api"):
                policy = answer.headers["content-security-policy"]
                assert answer.headers["x-frame-options"] == "DENY"
                assert {"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'"} <= set(policy.split("; "))
                assert "unsafe" not in policy


@pytest.mark.parametrize(
    "wanted",
    ["//evil.example", "/\\evil.example", "https://evil.example", "/\t/evil.example", "/\n/evil.example",
     "\t//evil.example", "/\r\\evil.example", "javascript:alert(1)", "/\x00/evil.example", " //evil.example", ""],
)  # fmt: skip
async def test_signing_in_leads_to_a_page_of_this_server(client: httpx.AsyncClient, wanted: str) -> None:
    form = (await client.get("/login", params={"next": wanted})).text
    assert 'data-then="/"' in form
    kept = (await client.get("/login", params={"next": "/chat?about=a b"})).text
    assert 'data-then="/chat?about=a b"' in kept


@contextmanager
def another_site(html: str) -> Iterator[str]:
    """A server of the same host with another port, which browsers count as the same site: cookies go along."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = html.encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    with answering(server) as url:
        yield f"{url}/"


@pytest.mark.slow
@needs_chromium
async def test_another_site_neither_frames_a_page_nor_sends_for_who_is_signed_in(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    (id,) = filed(place, 1)
    stranger = token(place, "alice", "approver")
    async with served(place, roles=("http",)) as client, chromium() as browser:
        url = str(client.base_url).rstrip("/")
        frames = "".join(
            f'<iframe src="{url}{path}"></iframe>' for path in ("/", "/approvals", f"/approvals/{id}", "/login")
        )
        forms = [
            f'<form action="{url}/api/approvals/{id}/decide" method="post" enctype="text/plain">'
            "<input name='{\"verb\": \"approve\", \"reason\": \"' value='\"}'></form>",
            f'<form action="{url}/logout" method="post"></form>',
            f'<form action="{url}/login" method="post"><input name="token" value="{stranger}"></form>',
        ]  # fmt: skip
        async with signed_in(browser, url, place) as mine:
            page = await mine.context.new_page()
            with another_site(f"<!doctype html><title>evil</title>{frames}") as evil:
                await page.goto(evil)
                await page.wait_for_load_state("load")
                for frame in page.frames[1:]:
                    assert frame.url.startswith("chrome-error:") or await frame.locator("main").count() == 0
            for form in forms:
                page = await mine.context.new_page()  # the answer to the one before may still be loading
                with another_site(f"<!doctype html>{form}") as evil:
                    await page.goto(evil)
                    async with page.expect_response(lambda answer: answer.request.method == "POST") as sent:
                        await page.evaluate("document.forms[0].submit()")
                    assert (await sent.value).status in (403, 415)
            await mine.goto("/approvals")
            await mine.locator("details.account > summary").click()
            assert await mine.get_by_text("dana of acme").is_visible(), "still signed in, and as oneself"
        assert ApprovalStore(place).get(id).status == "pending"
