"""What is told of a server that answers otherwise than an OpenSearch should: played by a server of the test's own."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.base.errors import EngineFault, HiveError
from hive_agents.engines.opensearch_client import ClusterConnection
from hive_agents.workspace.trusted import trust
from tests.tls import Authority, ending_tls


class Server:
    """Answers every request with `status` and `body`, bytes as they are, or with `endless` again and again.

    With `most_searches` a request has the body for each of its searches, and one of more searches gets `endless`. It
    keeps the headers of the last, and how many searches each had.
    """

    def __init__(self) -> None:
        self.status: int = 200
        self.body: Any = {}
        self.endless: bytes | None = None
        self.headers: dict[str, str] = {}
        self.most_searches: int | None = None
        self.searches: list[int] = []
        played = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                asked = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                played.headers = {name.lower(): value for name, value in self.headers.items()}
                is_many = "_msearch" in self.path
                count = len(asked.splitlines()) // 2 if is_many else 1
                played.searches.append(count)
                if played.endless is not None and count > (played.most_searches or 0):
                    self.send_response(200)
                    self.send_header("Content-Type", "application/json")
                    self.end_headers()
                    with suppress(OSError):  # the client has enough
                        while True:
                            self.wfile.write(played.endless)
                    return
                body = played.body
                if is_many and played.most_searches is not None:
                    body = {"responses": [body] * count}
                text = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(played.status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = do_PUT = do_HEAD = answer

            def log_message(self, *_: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.http.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self.http.shutdown()
        self.http.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    found = Server()
    yield found
    found.close()


def connected(place: Workspace, server: Server, *more: str) -> ClusterConnection:
    return at(place, f"opensearch://127.0.0.1:{server.http.server_address[1]}/kb", *more)


def at(place: Workspace, url: str, *more: str) -> ClusterConnection:
    with (place.root / "hive.toml").open("a", encoding="utf-8") as file:
        file.write("\n".join(["", "[search]", f'url = "{url}"', *more, ""]))
    found = Workspace(place.root)
    trust(found)
    return ClusterConnection(found)


def failure(work: Callable[[], object]) -> str:
    with pytest.raises(EngineFault) as caught:
        work()
    assert caught.value.exit_code == 3
    return caught.value.diagnostics[0].message


@pytest.mark.parametrize(
    ("version", "word"),
    [
        ({"number": "8.11.0"}, "another server 8.11.0"),
        ({"distribution": "opensearch", "number": "2.9.0"}, "opensearch 2.9.0"),
        ({"distribution": "opensearch", "number": "1.3.20"}, "opensearch 1.3.20"),
        ({"distribution": "opensearch", "number": "beta"}, "opensearch beta"),
    ],
)
def test_a_server_that_is_none_or_too_old_is_told_as_unsupported(
    text_workspace: Workspace, server: Server, version: dict[str, str], word: str
) -> None:
    server.body = {"version": version}
    told = failure(connected(text_workspace, server).require_able)
    assert f"unsupported: it is {word}" in told


@pytest.mark.parametrize("number", ["2.17.0", "2.19.1", "3.1.0"])
def test_releases_that_take_bitmaps_are_able(text_workspace: Workspace, server: Server, number: str) -> None:
    server.body = {"version": {"distribution": "opensearch", "number": number}}
    connected(text_workspace, server).require_able()


@pytest.mark.parametrize(
    ("status", "word"), [(401, "refused"), (403, "refused"), (429, "busy"), (503, "busy"), (500, "failed")]
)
def test_what_happened_is_told_by_a_word(text_workspace: Workspace, server: Server, status: int, word: str) -> None:
    server.status, server.body = status, {"error": {"type": "some_exception"}}
    told = failure(connected(text_workspace, server).require_able)
    assert f"; {word}: status {status}" in told


def test_a_body_that_is_no_object_is_a_failure(text_workspace: Workspace, server: Server) -> None:
    server.body = ["surprise"]
    assert "another form" in failure(connected(text_workspace, server).require_able)


def test_the_login_comes_from_its_reference_and_stands_in_no_message(
    text_workspace: Workspace, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEARCH_LOGIN", "hive:hunter2")
    server.status = 401
    connection = connected(text_workspace, server, 'login_ref = "env:SEARCH_LOGIN"')
    told = failure(connection.require_able)
    assert server.headers["authorization"] == "Basic aGl2ZTpodW50ZXIy"
    assert "hunter2" not in told
    assert "aGl2ZTpodW50ZXIy" not in told


def test_nothing_is_asked_in_a_workspace_that_is_not_trusted(text_workspace: Workspace, server: Server) -> None:
    connected(text_workspace, server)
    (text_workspace.root / "hive.toml").write_text('[search]\nurl = "opensearch://127.0.0.1:9/x"\n')
    with pytest.raises(HiveError, match="HIVE-431"):
        ClusterConnection(Workspace(text_workspace.root))


@pytest.fixture(scope="module")
def authorities(tmp_path_factory: pytest.TempPathFactory) -> tuple[Authority, Authority]:
    folder = tmp_path_factory.mktemp("certificates")
    return Authority(folder, "ours"), Authority(folder, "other")


@pytest.mark.parametrize(
    ("case", "told", "fix"),
    [
        ("in order", None, None),
        ("another host", "not valid for '127.0.0.1'", "name the cluster in search.url as its certificate does"),
        ("expired", "expired", "renew the cluster's certificate"),
        ("unknown authority", "issuer certificate", "SSL_CERT_FILE"),
        ("no TLS", "", "write opensearch:// in search.url"),
    ],
)
def test_a_cluster_is_known_by_its_certificate(
    text_workspace: Workspace,
    server: Server,
    authorities: tuple[Authority, Authority],
    monkeypatch: pytest.MonkeyPatch,
    case: str,
    told: str | None,
    fix: str | None,
) -> None:
    ours, other = authorities
    server.body = {"version": {"distribution": "opensearch", "number": "2.19.1"}}
    monkeypatch.setenv("SSL_CERT_FILE", str((other if case == "unknown authority" else ours).file))
    certificate = ours.issue("localhost", days=-1 if case == "expired" else 30)
    host = "127.0.0.1" if case == "another host" else "localhost"
    with ending_tls(certificate, server.http.server_address[1]) as port:
        shown = server.http.server_address[1] if case == "no TLS" else port
        connection = at(text_workspace, f"opensearchs://{host}:{shown}/kb")
        if told is None:
            connection.require_able()
            return
        with pytest.raises(EngineFault) as refused:
            connection.require_able()
    (found,) = refused.value.diagnostics
    assert (found.code, found.file, found.path) == ("HIVE-434", "hive.toml", "search.url")
    assert f"{host}:{shown}" in found.message
    assert ("untrusted: " in found.message, told in found.message, fix in str(found.fix)) == (True, True, True), found


def test_an_answer_without_an_end_is_cut(
    text_workspace: Workspace, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hive_agents.engines.opensearch_client.MOST_BYTES", 3_000_000)
    server.endless = b" " * 65_536
    assert "more than 3 MB" in failure(connected(text_workspace, server).require_able)


def test_an_answer_that_never_comes_to_its_end_is_a_timeout(text_workspace: Workspace, server: Server) -> None:
    """Each of its bytes comes in time."""
    server.endless = b" "
    assert "; timeout" in failure(connected(text_workspace, server, "timeout_seconds = 0.3").require_able)
