"""Documents over HTTP: uploads, their imports, the list, changes and deletions, each within the caller's rights."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from hive_agents import Workspace
from hive_agents.access import owner as local_owner
from hive_agents.access.logins import login_code
from hive_agents.cli.sample import init_workspace
from hive_agents.host import DocumentImports, Host, imports as host_imports
from hive_agents.store import audit, connected
from tests.server.serving import SETTINGS, bearer, followed, served

LAMP = b"# The lamp\n\nTurn the lamp off before you open the housing.\n"


async def sent(
    client: httpx.AsyncClient, headers: dict[str, str], *files: tuple[str, bytes], **values: Any
) -> httpx.Response:
    parts = [("file", (name, data)) for name, data in files]
    data = {name: value if isinstance(value, str) else json.dumps(value) for name, value in values.items()}
    return await client.post("/api/documents", files=parts, data=data, headers=headers)


async def imported(
    client: httpx.AsyncClient, headers: dict[str, str], *files: tuple[str, bytes], **values: Any
) -> dict[str, Any]:
    """The import of these files, when it is over."""
    found = await sent(client, headers, *files, **values)
    assert found.status_code == 202, found.text
    frames = await followed(client, found.json()["events"], headers)
    assert frames[-1].value["ended_at"] is not None
    return frames[-1].value


async def listed(client: httpx.AsyncClient, headers: dict[str, str], **query: Any) -> dict[str, dict[str, Any]]:
    found = await client.get("/api/documents", params=query, headers=headers)
    assert found.status_code == 200, found.text
    return {one["doc_id"]: one for one in found.json()["documents"]}


async def pieces(data: bytes) -> AsyncIterator[bytes]:
    """A body without a Content-Length, so that the server has to count."""
    for start in range(0, len(data), 1000):
        yield data[start : start + 1000]


def without_documents(folder: Path) -> Workspace:
    """An empty workspace in open mode, whose questions look for words alone."""
    place = Workspace(init_workspace(folder, empty=True))
    config = json.loads((place.configs / "v1.json").read_text())
    for name in ("abstain", "lift"):
        config.pop(name, None)
    config["retrieval"] = {"method": "keyword", "top_k": 10}
    (place.configs / "v1.json").write_text(json.dumps(config))
    toml = place.root / "hive.toml"
    toml.write_text(f'{toml.read_text()}\n[models]\nembedding = "none"\n{SETTINGS}')
    return Workspace(place.root)


@pytest.fixture
def empty(tmp_path: Path) -> Workspace:
    return without_documents(tmp_path / "ws")


async def owner(client: httpx.AsyncClient, place: Workspace) -> dict[str, str]:
    """Signed in by a link, as the person at the machine."""
    await client.get("/login", params={"code": login_code(place)})
    return {"X-CSRF-Token": (await client.get("/api/session")).json()["csrf"]}


async def test_uploaded_files_become_documents_that_answer(empty: Workspace) -> None:
    async with served(empty) as client:
        headers = await owner(client, empty)
        assert await listed(client, headers) == {}
        done = await imported(
            client, headers, ("Lamp.md", LAMP), ("Übersicht 2.txt", b"The pump has three valves.\n"),
            folder="lab/tools", fields={"department": "lab"},
        )  # fmt: skip
        assert done["status"] == "indexed"
        assert [(one["name"], one["doc_id"], one["status"]) for one in done["files"]] == [
            ("Lamp.md", "lab/tools/lamp.md", "indexed"),
            ("Übersicht 2.txt", "lab/tools/übersicht-2.md", "indexed"),
        ]
        rows = await listed(client, headers)
        lamp = rows["lab/tools/lamp.md"]
        shown = [lamp[name] for name in ("title", "source", "status", "message")]
        assert shown == ["The lamp", "upload", "indexed", None]
        assert lamp["fields"]["department"] == "lab"
        assert lamp["updated_at"].startswith("20")
        found = await client.post("/api/query", json={"query": "valves of the pump"}, headers=headers)
        assert found.json()["results"][0]["doc_id"] == "lab/tools/übersicht-2.md"


async def test_a_file_that_cannot_be_read_says_why_and_can_be_dismissed(empty: Workspace) -> None:
    async with served(empty) as client:
        headers = await owner(client, empty)
        done = await imported(client, headers, ("a.pdf", b"no pdf"), ("cat.xyz", b"\x00\x01"), ("lamp.md", LAMP))
        assert [one["status"] for one in done["files"]] == ["failed", "skipped", "indexed"]
        assert done["status"] == "indexed"
        rows = await listed(client, headers)
        assert rows["a.md"]["status"] == "failed"
        assert rows["a.md"]["message"]
        assert set(await listed(client, headers, status="failed")) == {"a.md"}
        assert (await client.delete("/api/documents/a.md", headers=headers)).json() == {"deleted": "a.md"}
        assert set(await listed(client, headers)) == {"cat.md", "lamp.md"}


async def test_a_folder_lists_what_is_in_it_and_not_what_begins_like_it(empty: Workspace) -> None:
    async with served(empty) as client:
        headers = await owner(client, empty)
        for folder in ("lab", "laboratory"):
            await imported(client, headers, ("Lamp.md", LAMP + folder.encode()), folder=folder)
        for folder in ("lab", "lab/"):
            assert set(await listed(client, headers, folder=folder)) == {"lab/lamp.md"}


async def test_a_name_never_leaves_the_folder(empty: Workspace) -> None:
    async with served(empty) as client:
        headers = await owner(client, empty)
        names = ("../../evil.md", "/etc/passwd.md", "..\\..\\win.md", "a/../../b.md", ".hidden.md", "C:\\x\\y.md",
                 "s*?[x].md", "~root.md", "ok/in/it.md", "deep/" * 1500 + "end.md")  # fmt: skip
        done = await imported(client, headers, *((name, LAMP + name.encode()) for name in names), folder="in")
        assert {one["status"] for one in done["files"]} == {"indexed"}
        assert all(one["doc_id"].startswith("in/") and ".." not in one["doc_id"] for one in done["files"])
        assert {"in/evil.md", "in/passwd.md", "in/ok/in/it.md", "in/end.md"} <= set(await listed(client, headers))
        assert [path.name for path in empty.root.parent.iterdir()] == ["ws"]
        for folder in ("../x", "/etc", "a/../b", ".git", "a\\b", "a/" * 300):
            refused = await sent(client, headers, ("lamp.md", LAMP), folder=folder)
            assert (refused.status_code, refused.json()["code"]) == (400, "HIVE-105"), folder


async def test_a_file_and_a_folder_of_one_name_are_told_apart(empty: Workspace) -> None:
    async with served(empty) as client:
        headers = await owner(client, empty)
        both = await imported(client, headers, ("a/lamp.md", LAMP), ("a", LAMP))
        assert [one["doc_id"] for one in both["files"]] == ["a/lamp.md", "a-2.md"]
        await imported(client, headers, ("notes", LAMP))
        refused = await sent(client, headers, ("other.md", LAMP), ("notes/lamp.md", LAMP))
        assert (refused.status_code, refused.json()["code"]) == (409, "HIVE-409")
        assert not list((empty.root / "uploads").rglob("other.md"))


async def test_what_is_no_form_of_files_is_refused_with_a_reason(empty: Workspace) -> None:
    async with served(empty) as client:
        headers = await owner(client, empty)
        as_json = await client.post("/api/documents", json={"folder": "x"}, headers=headers)
        assert as_json.status_code == 415
        nothing = await client.post("/api/documents", data={"folder": "x"}, files={"other": b""}, headers=headers)
        assert nothing.status_code == 400, nothing.text
        broken = headers | {"Content-Type": "multipart/form-data; boundary=x"}
        for body in (b"", b"--x\r\n\r\nhello", b"--x\r\nContent-Disposition: form-data\r\n\r\nv\r\n--x--\r\n"):
            refused = await client.post("/api/documents", content=body, headers=broken)
            assert (refused.status_code, refused.headers["content-type"]) == (400, "application/problem+json")
        for values in ({"fields": "{"}, {"fields": {"view": "tenant"}}, {"grants": ["qa"]}, {"fields": {"a b": 1}}):
            refused = await sent(client, headers, ("lamp.md", LAMP), **values)
            assert refused.status_code == 400, values
        assert await listed(client, headers) == {}


async def test_uploads_have_a_limit_of_their_own(empty: Workspace) -> None:
    toml = empty.root / "hive.toml"
    toml.write_text(toml.read_text() + "body_bytes = 2000\nupload_bytes = 20000\n")
    place = Workspace(empty.root)
    async with served(place) as client:
        headers = await owner(client, place)
        assert (await sent(client, headers, ("lamp.md", LAMP * 100))).status_code == 202
        form = headers | {"Content-Type": "multipart/form-data; boundary=x"}
        refused = await client.post("/api/documents", content=pieces(LAMP * 1000), headers=form)
        assert (refused.status_code, refused.json()["code"]) == (413, "HIVE-115")
        asked = await client.post("/api/query", json={"query": "x" * 3000}, headers=headers)
        assert asked.status_code == 413


async def test_a_newer_file_replaces_the_document_and_keeps_its_fields(empty: Workspace) -> None:
    async with served(empty) as client:
        headers = await owner(client, empty)
        await imported(client, headers, ("lamp.txt", LAMP), fields={"department": "lab"})
        changed = await client.patch("/api/documents/lamp.md", json={"fields": {"owner": "mei"}}, headers=headers)
        assert changed.json()["fields"] == {"department": "lab", "owner": "mei", "source_file": "lamp.txt"}
        await imported(client, headers, ("lamp.txt", b"The lamp is a laser now.\n"))
        rows = await listed(client, headers)
        assert list(rows) == ["lamp.md"]
        assert rows["lamp.md"]["fields"] == changed.json()["fields"]
        opened = await client.get("/api/documents/lamp.md", headers=headers)
        assert "laser" in opened.json()["text"]
        removed = await client.patch("/api/documents/lamp.md", json={"fields": {"owner": None}}, headers=headers)
        assert "owner" not in removed.json()["fields"]


async def test_an_import_is_forgotten_a_month_after_its_end_with_its_lease(empty: Workspace) -> None:
    async with served(empty) as client:
        headers = await owner(client, empty)
        old = (await imported(client, headers, ("lamp.md", LAMP)))["import_id"]
        with connected(empty.records) as connection:
            connection.execute("UPDATE document_imports SET ended_at = '2020-01-01T00:00:00+00:00'")
        new = (await imported(client, headers, ("fuse.md", b"# The fuse\n\nIt is behind the lamp.\n")))["import_id"]
        codes = [(await client.get(f"/api/imports/{one}", headers=headers)).status_code for one in (old, new)]
        assert codes == [404, 200]
    with connected(empty.records) as connection:
        found = connection.execute("SELECT run_id FROM leases WHERE thread_id LIKE 'import:%'").fetchall()
    assert [tuple(row) for row in found] == [(new,)]


async def test_a_deleted_document_is_gone_with_its_original(empty: Workspace) -> None:
    async with served(empty) as client:
        headers = await owner(client, empty)
        await imported(client, headers, ("lamp.md", LAMP), ("pump.md", b"# The pump\n\nIt has valves.\n"))
        assert (await client.delete("/api/documents/lamp.md", headers=headers)).json() == {"deleted": "lamp.md"}
        assert list(await listed(client, headers)) == ["pump.md"]
        assert (await client.get("/api/documents/lamp.md", headers=headers)).status_code == 404
        assert (await client.delete("/api/documents/lamp.md", headers=headers)).status_code == 404
        assert [path.name for path in (empty.root / "uploads").rglob("*.md")] == ["pump.md"]
        entries = [json.loads(line) for line in (empty.root / audit.FILE).read_text().splitlines()]
        told = [one["kind"] for one in entries]
        assert told == ["documents.uploaded", "document.deleted"]
        events = (await client.get("/api/events", headers=headers)).json()["events"]
        seen = [one["type"] for one in events if one["type"].startswith("document")]
        assert seen == ["documents.uploaded", "documents.imported", "document.deleted"]


async def test_the_list_has_pages_and_finds_parts_of_names(empty: Workspace) -> None:
    for number in range(7):
        (empty.documents / f"n{number}.md").write_text(f"# Note {number}\n\nWords of {number}.\n")
    async with served(empty) as client:
        headers = await owner(client, empty)
        assert {one["status"] for one in (await listed(client, headers)).values()} == {"waiting"}
        await client.post("/api/query", json={"query": "words"}, headers=headers)
        pages, cursor = [], None
        while True:
            query = {"limit": 3} | ({"cursor": cursor} if cursor else {})
            page = (await client.get("/api/documents", params=query, headers=headers)).json()
            pages.append([one["doc_id"] for one in page["documents"]])
            if (cursor := page["next_cursor"]) is None:
                break
        assert pages == [["n0.md", "n1.md", "n2.md"], ["n3.md", "n4.md", "n5.md"], ["n6.md"]]
        assert list(await listed(client, headers, search="note 4")) == ["n4.md"]
        assert list(await listed(client, headers, search="N4 (.md")) == ["n4.md"]
        assert list(await listed(client, headers, search="(!)")) == []
        assert {one["status"] for one in (await listed(client, headers)).values()} == {"indexed"}


async def test_an_import_that_was_cut_off_goes_on_with_the_next_host(empty: Workspace) -> None:
    async with served(empty) as client:
        headers = await owner(client, empty)
        session = dict(client.cookies)
    waiting = DocumentImports(empty)
    made = waiting.add(local_owner(), "user:me", [("lamp.md", LAMP), ("pump.md", b"# Pump\n\nValves.\n")])
    assert [one.import_id for one in waiting.open()] == [made.import_id]  # no host is there
    async with served(empty) as client:
        client.cookies.update(session)
        frames = await followed(client, f"/api/imports/{made.import_id}/events", headers)
        assert [one["status"] for one in frames[-1].value["files"]] == ["indexed", "indexed"]
    assert waiting.open() == []


async def test_a_fault_of_the_program_costs_its_file_alone(empty: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    import_documents = host_imports.importing.import_documents

    def faulty(workspace: Workspace, path: Path, **options: Any) -> Any:
        if path.name == "lamp.md":
            raise KeyError("what the file says")
        return import_documents(workspace, path, **options)

    monkeypatch.setattr(host_imports.importing, "import_documents", faulty)
    async with served(empty) as client:
        headers = await owner(client, empty)
        done = await imported(client, headers, ("lamp.md", LAMP), ("pump.md", b"# Pump\n\nValves.\n"))
        lamp, pump = done["files"]
        assert (lamp["status"], pump["status"]) == ("failed", "indexed")
        assert "KeyError" in lamp["message"]
        assert "what the file says" not in lamp["message"]


async def test_readers_see_theirs_and_only_operators_write(place: Workspace) -> None:
    async with served(place) as client:
        dana = bearer(place, "dana", "operator", "reader")
        reader = bearer(place, "dana", "reader")
        done = await imported(client, dana, ("lamp.md", LAMP), folder="mine")
        assert done["files"][0]["status"] == "indexed"
        doc_id = done["files"][0]["doc_id"]
        assert doc_id in await listed(client, reader, search="mine/")
        assert doc_id not in await listed(client, bearer(place, "guest"), search="mine/")
        for method, path in (("POST", "/api/documents"), ("PATCH", f"/api/documents/{doc_id}"),
                             ("DELETE", f"/api/documents/{doc_id}"), ("GET", "/api/imports")):  # fmt: skip
            body = {"json": {}} if method == "PATCH" else {}
            assert (await client.request(method, path, headers=reader, **body)).status_code == 403, (method, path)
        as_hana = bearer(place, "hana", "operator")
        other = await imported(client, as_hana, ("lamp.md", b"# Another lamp\n"), folder="mine")
        assert other["files"][0]["doc_id"] != doc_id  # another tenant's file replaces nothing
        hana = bearer(place, "hana", "operator", "reader")
        for method, body in (("PATCH", {"json": {"fields": {"a": 1}}}), ("DELETE", {})):
            assert (await client.request(method, f"/api/documents/{doc_id}", headers=hana, **body)).status_code == 404
        assert (await client.get(f"/api/imports/{done['import_id']}", headers=hana)).status_code == 404
        shared = await client.patch(f"/api/documents/{doc_id}", json={"grants": ["tenant"]}, headers=dana)
        assert shared.status_code == 200, shared.text
        assert doc_id in await listed(client, bearer(place, "alice"), search="mine/")


async def test_an_operator_is_told_of_no_upload_that_they_may_not_view(place: Workspace) -> None:
    """Its name was shown to every operator of the tenant for a month, whoever it was for."""
    async with served(place) as client:
        dana = bearer(place, "dana", "operator", "reader")
        alice = bearer(place, "alice", "operator", "reader")
        mine = await imported(client, dana, ("takeover.md", b"# Takeover of Zandrel"), ("takeover.xyz", b"\0\1"))
        assert {one["status"] for one in mine["files"]} == {"indexed", "skipped"}
        both = await imported(client, dana, ("lamp.md", LAMP), grants=["user:alice"])
        path, seen = f"/api/imports/{mine['import_id']}", []
        for shown in (path, f"{path}/events", "/api/imports", "/api/documents", "/documents"):
            answer = await client.get(shown, headers=alice)
            assert "takeover" not in answer.text, shown
            seen.append(answer.status_code)
        assert seen == [404, 404, 200, 200, 200]
        assert (await client.get("/documents/takeover.xyz", headers=alice)).status_code == 404
        missing = await client.get("/api/imports/i0000000000", headers=alice)
        assert (await client.get(path, headers=alice)).text == missing.text.replace("i0000000000", mine["import_id"])
        assert (await client.delete("/api/documents/takeover.xyz", headers=alice)).status_code == 404
        listed_to = (await client.get("/api/imports", headers=alice)).json()["imports"]
        assert [one["import_id"] for one in listed_to] == [both["import_id"]]
        assert (
            await client.patch("/api/documents/takeover.md", json={"grants": ["user:alice"]}, headers=dana)
        ).is_success
        assert [one["name"] for one in (await client.get(path, headers=alice)).json()["files"]] == ["takeover.md"]
        assert len((await client.get(path, headers=dana)).json()["files"]) == 2


async def test_a_host_serves_while_it_converts(empty: Workspace) -> None:
    async with served(empty) as client:
        headers = await owner(client, empty)
        files = [(f"n{number}.md", f"# N{number}\n\n{'word ' * 2000}\n".encode()) for number in range(30)]
        found = await sent(client, headers, *files)
        alive = 0
        path = f"/api/imports/{found.json()['import_id']}"
        while (await client.get(path, headers=headers)).json()["ended_at"] is None:
            assert (await client.get("/healthz")).status_code == 200
            alive += 1
            await asyncio.sleep(0.01)
        assert alive
        assert len(await listed(client, headers)) == 30


def test_a_host_without_http_takes_no_uploads(empty: Workspace) -> None:
    assert "imports" not in Host(empty, roles=["runs"]).roles
