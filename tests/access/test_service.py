"""Permission services: what may be seen now, and nothing where anything is wrong."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.access import AccessLabels, PermissionFault, Principal, RemotePermissions, owner, permissions_of
from hive_agents.access.service import CurrentLabels, DocumentFiles, LocalPermissions, OpenPermissions
from tests.access.conftest import DOCUMENTS, write_access
from tests.conftest import settle, write_document
from tests.listening import answering

DANA = Principal("acme", "dana", frozenset({"qa"}))
GUEST = Principal("acme", "guest")
ROOT = Principal("acme", "root")
HANA = Principal("globex", "hana", frozenset({"qa"}))


def seen(place: Workspace, who: Principal, *doc_ids: str) -> set[str]:
    return set(LocalPermissions(place).view(who, doc_ids or list(DOCUMENTS)))


def test_each_sees_their_own(place: Workspace) -> None:
    assert seen(place, DANA) == {"open.md", "acme.md", "qa.md", "sops/granted.md"}
    assert seen(place, GUEST) == {"open.md", "acme.md"}
    assert seen(place, HANA) == {"open.md"}
    assert seen(place, ROOT) == {"open.md", "acme.md", "qa.md", "sops/granted.md", "malformed.md"}
    assert seen(place, Principal("initech", "dana", frozenset({"qa"}))) == set()


def test_what_changed_counts_at_once_even_with_the_same_size_and_time(place: Workspace) -> None:
    path = place.documents / "qa.md"
    before = path.stat()
    assert seen(place, GUEST, "qa.md") == set()
    assert seen(place, DANA, "qa.md") == {"qa.md"}
    path.write_bytes(path.read_bytes().replace(b"group:qa", b"group:xx"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size
    assert seen(place, DANA, "qa.md") == set()
    assert seen(place, DANA, "sops/granted.md")
    write_access(place, "grants.json", {"grants": []})
    assert not seen(place, DANA, "sops/granted.md")
    write_access(place, "grants.json", "{")
    assert not seen(place, DANA) | seen(place, ROOT)


ODD = [
    "", ".", "..", "/", "gone.md", "sops", "sops/", "open", "open.md/", "./open.md", "sops/../open.md", "../open.md",
    "../documents/open.md", "sops//granted.md", "/etc/passwd", ".hidden.md", ".git/x.md", "open.md\0", "\ud800.md",
    "sops\\granted.md", "x" * 5000 + ".md", "pipe.md", "out.md", "linked/granted.md", "away/secret.md", "note.txt",
    "loop.md", "folder.md",
]  # fmt: skip


@pytest.mark.parametrize("doc_id", ODD)
def test_only_documents_are_seen(place: Workspace, doc_id: str) -> None:
    """Every one of these would be visible to all, were it taken for a document."""
    open_to_all = DOCUMENTS["open.md"]
    outside = place.root / "outside"
    outside.mkdir()
    (outside / "secret.md").write_text(open_to_all)
    (place.documents / "out.md").symlink_to(outside / "secret.md")
    (place.documents / "away").symlink_to(outside)
    (place.documents / "linked").symlink_to(place.documents / "sops")
    (place.documents / "loop.md").symlink_to("loop.md")
    (place.documents / "folder.md").mkdir()
    os.mkfifo(place.documents / "pipe.md")
    for name in (".hidden.md", ".git/x.md", "note.txt"):
        write_document(place, name, open_to_all)
    write_access(place, "wide.json", {"grants": [{"tenant": "acme", "match": "**", "view": ["tenant"]}]})
    assert seen(place, ROOT, doc_id, "acme.md") == {"acme.md"}
    assert OpenPermissions(place, LocalPermissions(place)).view(owner(), [doc_id, "acme.md"]) == {"acme.md"}


def test_a_link_to_another_document_is_none(place: Workspace) -> None:
    (place.documents / "alias.md").symlink_to("acme.md")
    assert seen(place, GUEST, "alias.md", "acme.md") == {"acme.md"}


@pytest.mark.parametrize(
    "text",
    [
        "---\ntenant: acme\nview: [tenant]\n",
        "text\n---\ntenant: acme\nview: [tenant]\n---\n",
        "---\ntenant: &a acme\nview: [tenant]\nx: *a\n---\n",
        "---\ntenant: acme\nview: [tenant]\npad: " + "x" * 70_000 + "\n---\n",
        "---\n" + "# " + "x" * 300_000 + "\ntenant: acme\nview: [tenant]\n---\n",
        "---\n- tenant: acme\n---\n",
        "---\ntenant: acme\nview: [group:qa]\nview: [tenant]\n---\n",
    ],
)
def test_front_matter_that_cannot_be_read_shows_nothing(place: Workspace, text: str) -> None:
    write_document(place, "odd.md", text)
    assert seen(place, ROOT, "odd.md") == set()


def test_a_document_is_read_again_unless_it_surely_has_the_indexed_content(place: Workspace) -> None:
    as_indexed = [("qa.md", AccessLabels.of({"tenant": "acme", "view": ["tenant"]}))]
    for sure in (False, True):
        ((_, labels),) = CurrentLabels(place, as_indexed, lambda doc_id, status, sure=sure: sure).now()  # type: ignore[misc]
        assert (labels == as_indexed[0][1]) == sure


def test_labels_are_read_of_the_files_that_changed_since_the_index_read_them(
    place: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of one that was written just before, and of one that has its old times and size again."""
    place.index()
    read: list[str] = []
    labels = DocumentFiles.labels

    def noted(files: DocumentFiles, doc_id: str) -> AccessLabels | None:
        read.append(doc_id)
        return labels(files, doc_id)

    monkeypatch.setattr(DocumentFiles, "labels", noted)

    def current() -> CurrentLabels:
        index = place.engine().index("kb")
        indexed = [(doc_id, AccessLabels.of(front)) for doc_id, front in index.front_matter()]
        return CurrentLabels(place, indexed, index.is_as_indexed)

    def looked(labels: CurrentLabels | None = None) -> set[str]:
        read.clear()
        (labels or current()).now()
        return set(read)

    names = {doc_id for doc_id, _ in place.engine().index("kb").front_matter()}
    assert looked() == names, "written within the seconds before the index, they may have changed in the same tick"
    settle(place)
    assert looked() == set()
    changed, before = place.documents / "qa.md", current()
    assert looked(before) == set()
    status = changed.stat()
    changed.write_text(changed.read_text().replace("acme", "emca"))
    os.utime(changed, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert looked() == looked(before) == {"qa.md"}
    assert looked(before) == set(), "what was read is kept while the file stays as it is"
    settle(place)
    assert looked() == {"qa.md"}, "the file is known now, but what is indexed is what it was before"


def test_a_long_document_is_read_by_its_head(place: Workspace) -> None:
    write_document(place, "long.md", DOCUMENTS["acme.md"] + "Wörter in Zeilen.\n" * 30_000)
    assert seen(place, GUEST, "long.md") == {"long.md"}


def test_no_time_no_permission(place: Workspace) -> None:
    assert LocalPermissions(place, timeout=-1.0).view(DANA, ["acme.md"]) == frozenset()
    with pytest.raises(PermissionFault, match="no answer"):
        LocalPermissions(place, timeout=-1.0).ask(DANA, ["acme.md"])


def test_rules_that_cannot_be_read_are_no_silent_denial(place: Workspace, caplog: pytest.LogCaptureFixture) -> None:
    """What is wrong with them, and how many documents there are, is not for a reader."""
    write_access(place, "grants.json", "{")
    documents = [("acme.md", AccessLabels.of({"tenant": "acme", "view": "tenant"}))]
    assert LocalPermissions(place).scope(GUEST, documents).tolist() == [False]
    assert caplog.messages == ["permissions can't be read; nothing is shown"]


def test_open_mode_is_for_the_owner_alone(place: Workspace) -> None:
    (place.root / "hive.toml").write_text('[access]\nmode = "open"\n')
    service = permissions_of(Workspace(place.root))
    everything = set(DOCUMENTS) - {"broken.md"}
    assert service.view(owner(), [*DOCUMENTS, "gone.md"]) == everything
    assert service.lists
    impostor = Principal("local", owner().user, frozenset(), frozenset({"reader"}))
    for who in (impostor, Principal("local", "other", frozenset(), owner().roles)):
        assert service.view(who, list(DOCUMENTS)) == frozenset() == service.ask(who, list(DOCUMENTS))
        assert not service.scope(who, [("a.md", AccessLabels())]).any()
    assert service.view(GUEST, list(DOCUMENTS)) == {"open.md", "acme.md"}
    labelled = [("a.md", AccessLabels()), ("b.md", AccessLabels.of({"tenant": "acme", "view": "tenant"}))]
    assert service.scope(owner(), labelled).tolist() == [True, True]
    assert service.scope(GUEST, labelled).tolist() == [False, True]


def test_enforced_mode_knows_no_owner(place: Workspace) -> None:
    service = permissions_of(place)
    assert (type(service), service.lists) == (LocalPermissions, True)
    assert service.view(owner(), list(DOCUMENTS)) == frozenset()


Answer = Callable[[BaseHTTPRequestHandler, dict[str, Any]], None]


@contextmanager
def served(answer: Answer) -> Iterator[tuple[str, list[tuple[str, dict[str, Any]]]]]:
    """(URL, requests so far) of a permission service on loopback."""
    requests: list[tuple[str, dict[str, Any]]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            question = json.loads(self.rfile.read(int(self.headers["content-length"])))
            requests.append((self.path, question))
            answer(self, question)

        do_GET = do_POST

        def log_message(self, format: str, *args: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            pass  # clients that hang up are the point

    with answering(Server(("127.0.0.1", 0), Handler)) as url:
        yield url, requests


def replied(body: Any, status: int = 200, **headers: str) -> Answer:
    def answer(handler: BaseHTTPRequestHandler, question: dict[str, Any]) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        handler.send_response(status)
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        for name, value in ({"content-length": str(len(data))} | given).items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(data)

    return answer


def test_the_remote_service_is_asked_as_agreed() -> None:
    with served(replied({"allowed": ["b.md"]})) as (url, requests):
        service = RemotePermissions(url + "/acl/")
        assert service.view(DANA, ["a.md", "b.md", "a.md"]) == {"b.md"}
        assert not service.lists
    question = {"tenant": "acme", "user": "dana", "groups": ["qa"], "doc_ids": ["a.md", "b.md"]}
    assert requests == [("/acl/view", question)]


async def test_it_can_be_asked_inside_an_event_loop() -> None:
    with served(replied({"allowed": ["a.md"]})) as (url, _):
        assert RemotePermissions(url).view(DANA, ["a.md"]) == {"a.md"}


BAD_ANSWERS = {
    "server error": replied({"allowed": ["a.md"]}, 500),
    "created": replied({"allowed": ["a.md"]}, 201),
    "no content": replied(b"", 204),
    "not JSON": replied(b"a.md"),
    "not UTF-8": replied(b'{"allowed": ["\xff"]}'),
    "a list": replied(["a.md"]),
    "a number": replied(1),
    "another key": replied({"allow": ["a.md"]}),
    "a key more": replied({"allowed": ["a.md"], "denied": []}),
    "a key twice": replied(b'{"allowed": [], "allowed": ["a.md"]}'),
    "a text": replied({"allowed": "a.md"}),
    "an object": replied({"allowed": {"a.md": True}}),
    "true": replied({"allowed": True}),
    "numbers": replied({"allowed": [0]}),
    "not asked for": replied({"allowed": ["a.md", "other.md"]}),
    "too deep": replied(b'{"allowed": ' + b"[" * 100_000),
    "too large": replied(b'{"allowed": ["a.md"]' + b" " * 200_000 + b"}"),
    "compressed": replied(b"x", content_encoding="gzip"),
    "called compressed": replied({"allowed": ["a.md"]}, content_encoding="gzip"),
    "cut short": replied(b'{"allowed": ["a.md"]}', content_length="500"),
}


@pytest.mark.parametrize("answer", BAD_ANSWERS.values(), ids=BAD_ANSWERS.keys())
def test_any_other_answer_denies_all(answer: Answer) -> None:
    with served(answer) as (url, _):
        service = RemotePermissions(url, timeout=0.5)
        assert service.view(DANA, ["a.md"]) == frozenset()
        with pytest.raises(PermissionFault):
            service.ask(DANA, ["a.md"])


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_not_followed(status: int) -> None:
    with served(replied({"allowed": ["a.md"]})) as (good, requests):
        with served(replied(b"", status, location=good + "/view")) as (url, _):
            assert RemotePermissions(url).view(DANA, ["a.md"]) == frozenset()
    assert requests == []


def drip(in_head: bool) -> Answer:
    """A byte now and then, for longer than anybody should wait."""

    def answer(handler: BaseHTTPRequestHandler, question: dict[str, Any]) -> None:
        if not in_head:
            handler.send_response(200)
            handler.end_headers()
        else:
            handler.wfile.write(b"HTTP/1.1 200 OK\r\nx-slow: ")
        for _ in range(1000):
            handler.wfile.write(b" ")
            handler.wfile.flush()
            time.sleep(0.02)

    return answer


def silence(handler: BaseHTTPRequestHandler, question: dict[str, Any]) -> None:
    handler.connection.settimeout(5)
    handler.rfile.read(1)


@pytest.mark.parametrize("answer", [drip(in_head=False), drip(in_head=True), silence], ids=["body", "head", "silence"])
def test_the_time_is_for_the_whole_answer(answer: Answer) -> None:
    with served(answer) as (url, _), pytest.raises(PermissionFault, match=r"no answer within 0\.2 s"):
        RemotePermissions(url, timeout=0.2).ask(DANA, ["a.md"])


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "ftp://127.0.0.1", "nonsense", "http://", "https://127.0.0.1:1"])
def test_a_service_that_is_not_there_denies_all(url: str) -> None:
    assert RemotePermissions(url, timeout=1.0).view(DANA, ["a.md"]) == frozenset()


def test_the_proxies_of_the_environment_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{nobody.getsockname()[1]}")
        with served(replied({"allowed": ["a.md"]})) as (url, _):
            assert RemotePermissions(url).view(DANA, ["a.md"]) == {"a.md"}


def test_a_service_that_cannot_list_scopes_by_tenant(place: Workspace) -> None:
    (place.root / "hive.toml").write_text('[access]\nservice_url = "http://127.0.0.1:1"\n')
    service = permissions_of(Workspace(place.root))
    assert not service.lists
    labels = [{"tenant": "acme"}, {"tenant": ["globex", "acme"], "view": ["user:x"]}, {"tenant": "globex"}, {}]
    documents = [(f"{number}.md", AccessLabels.of(one)) for number, one in enumerate(labels)]
    assert service.scope(DANA, documents).tolist() == [True, True, False, False]
