"""Servers of mails, files and objects that lie: of sizes, of ends, of places, and of where to ask instead."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from hive_agents.sources import add_source, from_imap, from_obstore, from_s3, http_answer, running as running_module
from hive_agents.sources.running import SourceReport, run_source
from hive_agents.workspace import Workspace, trust

TEXT = b"# Roof\n\nThe roof of the shed is tin.\n"
ENDLESS = b"without an end"
Says = Callable[[str, str], tuple[int, bytes, dict[str, str]]]


@contextmanager
def web(says: Says) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield the address of a server, and what it was asked."""
    asked: list[tuple[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("content-length") or 0))
            asked.append((self.command, self.path))
            status, body, headers = says(self.command, self.path)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(1 << 40 if body is ENDLESS else len(body)))
            self.end_headers()
            with suppress(OSError):
                self.wfile.write(body)
                while body is ENDLESS:
                    self.wfile.write(b" " * 65_536)

        do_GET = do_HEAD = do_PROPFIND = answer

        def log_message(self, *arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    server.server_close()


def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, url: str, **options: Any) -> SourceReport:
    monkeypatch.setenv("HIVE_LYING", "dana:a-password-of-it")
    (tmp_path / "collections").mkdir()
    add_source(
        Workspace(tmp_path), "office", {"kind": kind, "url": url, "secret_ref": "env:HIVE_LYING", "options": options}
    )
    trust(Workspace(tmp_path))
    return run_source(Workspace(tmp_path), "office")


def documents(tmp_path: Path) -> list[str]:
    return sorted(path.relative_to(tmp_path / "documents/office").as_posix() for path in tmp_path.rglob("*.md"))


def folder(*hrefs: str, size: object = len(TEXT), first: str = "") -> bytes:
    """Return the listing of a WebDAV folder."""
    told = f"<propstat><prop><getcontentlength>{size}</getcontentlength><getetag>e</getetag></prop></propstat>"
    listed = "".join(f"<response><href>{href}</href>{told}</response>" for href in hrefs)
    return f'<?xml version="1.0"?>{first}<multistatus xmlns="DAV:">{listed}</multistatus>'.encode()


def test_a_folder_below_a_servers_root_is_read_from_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    below = folder("/files/dana/sub/roof.md")
    top = folder("/files/dana/").replace(b"<getetag>", b"<resourcetype><collection/></resourcetype><getetag>")
    sub = folder("/files/dana/sub/").replace(b"<getetag>", b"<resourcetype><collection/></resourcetype><getetag>")
    both = top.replace(b"</multistatus>", sub[sub.index(b"<response>") :])
    pages = {"/files/dana/": both, "/files/dana/sub/": below}
    with web(lambda method, path: (207, pages[path], {}) if method == "PROPFIND" else (200, TEXT, {})) as (url, asked):
        report = run(tmp_path, monkeypatch, "webdav", f"{url}/files/dana", tls=False)
    assert (report.status, documents(tmp_path)) == ("done", ["sub/roof.md"])
    assert asked[-1] == ("GET", "/files/dana/sub/roof.md")


@pytest.mark.parametrize("lies_of", ["the file", "the listing"])
@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_file_server_sends_nobody_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, lies_of: str
) -> None:
    with web(lambda method, path: (200, TEXT, {})) as (inner, reached):

        def says(method: str, path: str) -> tuple[int, bytes, dict[str, str]]:
            if (method == "PROPFIND") == (lies_of == "the listing"):
                return status, b"", {"location": f"{inner}/latest/meta-data"}
            return 207, folder("/roof.md"), {}

        with web(says) as (url, _):
            report = run(tmp_path, monkeypatch, "webdav", url, tls=False)
    assert report.status in ("partial", "failed")
    assert (reached, documents(tmp_path)) == ([], [])


@pytest.mark.parametrize(
    "href",
    ["/docs/../up.md", "/docs/%2e%2e/up.md", "/other/x.md", "/docs/..%2fup.md", "/docs//x.md", "/docs/a%00.md",
     "/docs/./x.md", "/docsmore/x.md", "/docs/a%0A.md"],
)  # fmt: skip
def test_what_a_file_server_lists_outside_of_the_folder_is_not_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, href: str
) -> None:
    listing = folder(href, "/docs/roof.md")
    with web(lambda method, _: (207, listing, {}) if method == "PROPFIND" else (200, TEXT, {})) as (url, asked):
        run(tmp_path, monkeypatch, "webdav", f"{url}/docs/", tls=False)
    assert asked == [("PROPFIND", "/docs/"), ("GET", "/docs/roof.md")]
    assert documents(tmp_path) == ["roof.md"]


LISTINGS = {
    "entities": folder("/&a;.md", first='<!DOCTYPE m [<!ENTITY a "aaa">]>'),
    "no xml": b"\xff\xfe<<<",
    "nothing": b"",
    "a size below zero": folder("/roof.md", size=-5),
    "a size of thirty digits": folder("/roof.md", size=10**30),
    "a name without an end": folder("/" + "n" * 20_000 + ".md"),
    "without an end": ENDLESS,
}


@pytest.mark.parametrize("lie", LISTINGS)
def test_a_listing_that_lies_fails_its_source_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lie: str) -> None:
    monkeypatch.setattr(http_answer, "MAX_BYTES", 1_000_000)
    with web(lambda method, _: (207, LISTINGS[lie], {})) as (url, _):
        report = run(tmp_path, monkeypatch, "webdav", url, tls=False)
    assert report.status == "failed"


def test_folders_without_an_end_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def says(method: str, path: str) -> tuple[int, bytes, dict[str, str]]:
        listing = folder(f"{path}a/").replace(b"<getetag>", b"<resourcetype><collection/></resourcetype><getetag>")
        return 207, listing, {}

    monkeypatch.setattr("hive_agents.sources.from_webdav._MOST_FOLDERS", 20)
    with web(says) as (url, asked):
        report = run(tmp_path, monkeypatch, "webdav", url, tls=False)
    assert (report.status, len(asked)) == ("partial", 20)


def bucket(more: bool = False, token: str = "t", **changed: object) -> bytes:
    """Return a page of a bucket's listing; what is None is left out."""
    told = {"Key": "docs/roof.md", "Size": len(TEXT), "ETag": '"e"', "LastModified": "2026-01-12T09:25:56.000Z"}
    values = {**told, **changed}.items()
    object = "".join(f"<{name}>{value}</{name}>" for name, value in values if value is not None)
    after = f"<NextContinuationToken>{token}</NextContinuationToken>" if more else f"<Contents>{object}</Contents>"
    return f"<ListBucketResult><IsTruncated>{str(more).lower()}</IsTruncated>{after}</ListBucketResult>".encode()


BUCKETS = {
    "no revision": bucket(ETag=None),
    "no size": bucket(Size=None),
    "no name": bucket(Key=None),
    "a size that is none": bucket(Size="abc"),
    "a time that is none": bucket(LastModified="yesterday"),
    "without an end": ENDLESS,
}


@pytest.mark.parametrize("lie", BUCKETS)
def test_a_bucket_that_lies_fails_its_source_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lie: str) -> None:
    monkeypatch.setattr(from_s3, "MAX_BYTES", 1_000_000)
    with web(lambda *_: (200, BUCKETS[lie], {})) as (url, _):
        report = run(tmp_path, monkeypatch, "s3", "s3://b/docs", endpoint=url)
    assert report.status == "failed"


def test_an_object_without_an_end_costs_itself_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(from_s3, "MAX_BYTES", 1_000_000)

    def says(method: str, path: str) -> tuple[int, bytes, dict[str, str]]:
        return (200, bucket(), {}) if "list-type" in path else (200, ENDLESS, {"ETag": '"e"'})

    with web(says) as (url, _):
        report = run(tmp_path, monkeypatch, "s3", "s3://b/docs", endpoint=url)
    assert (report.status, [each["key"] for each in report.failed]) == ("partial", ["roof.md"])


def test_pages_without_an_end_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(from_s3, "_MOST_PAGES", 5)
    tokens = iter(range(1_000))
    with web(lambda *_: (200, bucket(True, str(next(tokens))), {})) as (url, asked):
        report = run(tmp_path, monkeypatch, "s3", "s3://b/docs", endpoint=url)
    assert (report.status, len(asked)) == ("failed", 6)


def blobs(*names: str, size: object = len(TEXT), after: str = "") -> bytes:
    """Return a page of a container's listing, as Azure has it."""
    time = "Mon, 12 Jan 2026 09:25:56 GMT"
    told = f"<Last-Modified>{time}</Last-Modified><Content-Length>{size}</Content-Length>"
    told += "<Content-Type>text/plain</Content-Type><Etag>e</Etag>"
    listed = "".join(f"<Blob><Name>{name}</Name><Properties>{told}</Properties></Blob>" for name in names)
    return f"<EnumerationResults><Blobs>{listed}</Blobs><NextMarker>{after}</NextMarker></EnumerationResults>".encode()


CONTAINERS = {
    "a name that leads outside": blobs("docs/../../roof.md"),
    "a size that is none": blobs("docs/roof.md", size="abc"),
    "a name twice": blobs("docs/roof.md", "docs/roof.md"),
    "the same page again": blobs("docs/roof.md", after="again"),
    "empty pages without an end": blobs(after="again"),
}


@pytest.mark.parametrize("lie", CONTAINERS)
def test_a_container_that_lies_fails_its_source_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lie: str
) -> None:
    monkeypatch.setattr(from_obstore, "_SECONDS", 1.0)
    monkeypatch.setattr(from_obstore, "_AT_ONCE", 5)
    with web(lambda *_: (200, CONTAINERS[lie], {})) as (url, _):
        config = {"account_name": "a", "endpoint": url, "skip_signature": "true"}
        report = run(tmp_path, monkeypatch, "azure", "az://c/docs", config=config, secret_key="token", tls=False)
    assert report.status == "failed"
    assert documents(tmp_path) == []


def test_a_container_that_says_what_it_has_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    head = {"ETag": "e", "Last-Modified": "Mon, 12 Jan 2026 09:25:56 GMT"}

    def says(method: str, path: str) -> tuple[int, bytes, dict[str, str]]:
        return (200, blobs("docs/roof.md", "docs/shed/floor.md"), {}) if "comp=list" in path else (200, TEXT, head)

    with web(says) as (url, _):
        config = {"account_name": "a", "endpoint": url, "skip_signature": "true"}
        report = run(tmp_path, monkeypatch, "azure", "az://c/docs", config=config, secret_key="token", tls=False)
    assert (report.status, documents(tmp_path)) == ("done", ["roof.md", "shed/floor.md"])


def test_a_source_of_more_items_than_any_has_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_module, "MOST_ITEMS", 10)
    listing = folder(*(f"/{number}.zzz" for number in range(11)))
    with web(lambda *_: (207, listing, {})) as (url, _):
        assert run(tmp_path, monkeypatch, "webdav", url, tls=False).status == "failed"


def test_a_name_that_no_path_may_have_ends_no_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listing = folder("/" + "deep/" * 900 + "roof.md", "/roof.md")
    with web(lambda method, _: (207, listing, {}) if method == "PROPFIND" else (200, TEXT, {})) as (url, _):
        run(tmp_path, monkeypatch, "webdav", url, tls=False)
    assert documents(tmp_path) == ["roof.md"]


MAIL = b"Subject: Roof\r\nMessage-ID: <a@example.org>\r\n\r\nThe roof of the shed is tin.\r\n"


@contextmanager
def mailbox(lies: dict[str, bytes]) -> Iterator[str]:
    """Yield the address of a mail server; `lies` are answers to commands, repeated for good where they have no tag."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:

        def serve() -> None:
            with suppress(OSError), server.accept()[0] as client, client.makefile("rwb", buffering=0) as file:
                answers = {
                    "CAPABILITY": b"* CAPABILITY IMAP4rev1\r\n",
                    "EXAMINE": b"* 1 EXISTS\r\n* OK [UIDVALIDITY 7] it\r\n",
                    "SEARCH": b"* SEARCH 1\r\n",
                    "SIZE": b"* 1 FETCH (UID 1 RFC822.SIZE 60)\r\n",
                    "PEEK": b"* 1 FETCH (UID 1 BODY[] {%d}\r\n" % len(MAIL) + MAIL + b")\r\n",
                }
                file.write(b"* OK IMAP4rev1\r\n")
                for line in file:
                    tag, command = line.split(b" ", 1)
                    name = next((name for name in (*lies, *answers) if name.encode() in command), "")
                    answer = lies.get(name, answers.get(name, b""))
                    while name in lies and not answer.endswith(b"TAG\r\n"):
                        file.write(answer * 1_000)
                    file.write(answer.removesuffix(b"TAG\r\n") + tag + b" OK done\r\n")

        threading.Thread(target=serve, daemon=True).start()
        yield f"imap://127.0.0.1:{server.getsockname()[1]}"


LETTERS = {
    "a greeting of capabilities": {"CAPABILITY": b"* CAPABILITY \xff\r\nTAG\r\n"},
    "lines at the sign-in": {"LOGIN": b"* 1 EXISTS\r\n"},
    "continuations": {"LOGIN": b"+ go on\r\n"},
    "a line": {"SEARCH": b"* SEARCH 1 2 3 4 5 6 7 8 9"},
    "numbers": {"SEARCH": b"* SEARCH 1 2 3 4 5 6 7 8 9\r\n"},
    "a mail of a terabyte": {"PEEK": b"* 1 FETCH (UID 1 BODY[] {1000000000000}\r\nTAG\r\n"},
    "a mail of a number without an end": {"PEEK": b"* 1 FETCH (UID 1 BODY[] {" + b"9" * 5_000 + b"}\r\nTAG\r\n"},
    "a mail that is none": {"PEEK": b"TAG\r\n"},
}


@pytest.mark.parametrize("lie", LETTERS)
def test_a_mail_server_that_lies_costs_its_source_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lie: str
) -> None:
    monkeypatch.setattr(from_imap, "_MOST_LISTED", 500_000)
    monkeypatch.setattr(from_imap, "_LINE", 100_000)
    with mailbox(LETTERS[lie]) as url:
        report = run(tmp_path, monkeypatch, "imap", url, tls=False)
    assert report.status in ("failed", "partial")
    assert documents(tmp_path) == []


def test_a_mail_server_that_says_what_it_has_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with mailbox({}) as url:
        report = run(tmp_path, monkeypatch, "imap", url, tls=False)
    assert (report.status, documents(tmp_path)) == ("done", ["inbox/7-1.md"])


def test_a_git_server_whose_answer_has_no_end_fills_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it says first is kept by git's own process, which grew by 170 MB a second for ten minutes."""
    monkeypatch.setattr("hive_agents.sync.git.GIT_MEMORY", 300_000_000)
    kind = {"content-type": "application/x-git-upload-pack-advertisement"}
    with web(lambda *_: (200, ENDLESS, kind)) as (url, asked):
        report = run(tmp_path, monkeypatch, "git", f"{url}/x.git")
    assert (report.status, len(asked)) == ("failed", 1)
