"""Endpoints over real HTTP on loopback, retrievers of other libraries' shapes, and configs."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from hive_agents import Workspace
from hive_agents.base.errors import HiveError
from hive_agents.evaluation import GoldenQuery, ask_both, open_source
from hive_agents.evaluation.outside import FoundList
from hive_agents.workspace.settings import Gate
from tests.conftest import make_workspace
from tests.evaluation.test_recorded import nowhere
from tests.listening import answering
from tests.topics import indexed_engine, make_topics, write_golden

ROOT = Path(__file__).parents[2]


class Search(BaseHTTPRequestHandler):
    """Answers with the query's words as documents; `seen` has (method, path, header, body)."""

    seen: list[tuple[str, str, str | None, Any]] = []

    def do_GET(self) -> None:
        self.answer(parse_qs(urlsplit(self.path).query).get("q", [""])[0], None)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.answer(body["query"], body)

    def answer(self, query: str, body: Any) -> None:
        self.seen.append((self.command, self.path, self.headers.get("X-Key"), body))
        status = 500 if "fail" in query else 200
        value = {"hits": {"hits": [{"_id": word, "_score": 1} for word in query.split()]}}
        data = b"<html>" if "html" in query else json.dumps(value).encode()
        self.send_response(status)
        if query == "packed":
            self.send_header("Content-Encoding", "gzip")
            data = gzip.compress(b" " * 30_000_000)
        self.end_headers()
        with suppress(OSError):  # whoever asks has enough
            self.wfile.write(b"[" * 200_000 if query == "deep" else data)
            while query in ("endless", "large"):
                self.wfile.write(b" " * (1 if query == "endless" else 100_000))

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def endpoint() -> Iterator[str]:
    Search.seen.clear()
    with answering(HTTPServer(("127.0.0.1", 0), Search)) as url:
        yield url


def asked(text: str) -> GoldenQuery:
    return GoldenQuery(id="q", query=text)


def failure(reference: str, query: str = "a") -> str:
    with pytest.raises(HiveError) as caught:
        open_source(reference, nowhere).rank(asked(query), 10)
    assert (caught.value.diagnostics[0].code, caught.value.exit_code) == ("HIVE-428", 3)
    return caught.value.diagnostics[0].message


def test_url_is_a_template_and_its_fragment_the_path_to_the_documents(endpoint: str) -> None:
    source = open_source(f"{endpoint}/s?q={{query}}&size={{k}}#$.hits.hits[*]._id", nowhere)
    assert source.live
    found = source.rank(asked("R&D = a?"), 7)
    assert found.documents == ("R&D", "=", "a?")
    assert found.seconds is not None
    assert Search.seen == [("GET", "/s?q=R%26D%20%3D%20a%3F&size=7", None, None)]


def test_endpoint_file_gives_body_and_secret_headers(
    endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEARCH_KEY", "hunter2")
    file = {
        "url": f"{endpoint}/s",
        "method": "POST",
        "body": {"query": "{query}", "size": "{k}", "note": "for {id}"},
        "headers_ref": {"X-Key": "env:SEARCH_KEY"},
        "documents": "$.hits.hits[*]",
    }
    (tmp_path / "e.json").write_text(json.dumps(file))
    assert open_source(f"{tmp_path}/e.json", nowhere).rank(asked("a b"), 5).documents == ("a", "b")
    assert Search.seen[0][2:] == ("hunter2", {"query": "a b", "size": 5, "note": "for q"})
    monkeypatch.delenv("SEARCH_KEY")
    with pytest.raises(HiveError, match="nothing behind env:SEARCH_KEY"):
        open_source(f"{tmp_path}/e.json", nowhere)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('{"url": "ftp://x"}', "HIVE-113"),
        ('{"url": "http://x", "documentz": "$"}', "HIVE-103"),
        ('{"url": "http://x", "documents": "$..id"}', "HIVE-105"),
        ('{"url": "http://x", "headers_ref": {"k": "hunter2"}}', "HIVE-409"),
    ],
)
def test_faults_of_an_endpoint_file_end_with_2(tmp_path: Path, text: str, code: str) -> None:
    (tmp_path / "e.json").write_text(text)
    with pytest.raises(HiveError) as caught:
        open_source(f"{tmp_path}/e.json", nowhere)
    assert (caught.value.diagnostics[0].code, caught.value.exit_code) == (code, 2)
    assert "hunter2" not in str(caught.value)


def test_endpoint_that_fails_says_for_which_query(endpoint: str) -> None:
    url = f"{endpoint}/s?q={{query}}"
    assert failure(f"{url}#hits.hits[*]._id", "fail").endswith('status 500 for query "q"')
    assert "JSONDecodeError" in failure(f"{url}#hits.hits[*]._id", "html")
    assert "is no doc_id" in failure(f"{url}#hits")
    assert "ConnectError" in failure("http://127.0.0.1:1/s?q={query}")
    with pytest.raises(HiveError, match=r"no \{query\}"):
        open_source(f"{endpoint}/s", nowhere)


def test_an_answer_of_any_size_depth_and_length_is_a_diagnostic(
    endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"{endpoint}/s?q={{query}}"
    assert "RecursionError" in failure(url, "deep")
    monkeypatch.setattr("hive_agents.evaluation.ranking_endpoint.MOST_BYTES", 2_000_000)
    assert "is compressed" in failure(url, "packed")
    assert "more than 2 MB" in failure(url, "large")
    (tmp_path / "e.json").write_text(json.dumps({"url": url, "timeout_seconds": 0.3}))
    assert "no end within 0.3 s" in failure(f"{tmp_path}/e.json", "endless")


RETRIEVERS = """
from types import SimpleNamespace as Thing
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

class Chain(BaseRetriever):
    def _get_relevant_documents(self, query, *, run_manager):
        return [Document(page_content="x", metadata={"source": word, "page": word + "!"}) for word in query.split()]

class Nodes:
    def retrieve(self, query):
        return [Thing(node=Thing(metadata={}, ref_doc_id=word), score=1.0) for word in query.split()]

chain, nodes, ids = Chain(), Nodes(), str.split
unnamed = lambda query: [Thing(metadata={})]
number = 7
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "mine_for_the_gate.py").write_text(RETRIEVERS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    yield
    sys.modules.pop("mine_for_the_gate", None)


@pytest.mark.parametrize(
    ("attribute", "documents"),
    [("chain", ("a", "b")), ("chain#page", ("a!", "b!")), ("nodes", ("a", "b")), ("ids", ("a", "b"))],
)
def test_retrievers_of_all_shapes_answer(mine: None, attribute: str, documents: tuple[str, ...]) -> None:
    source = open_source(f"mine_for_the_gate:{attribute}", nowhere)
    assert (source.rank(asked("a b"), 10).documents, source.live) == (documents, True)


def test_retrievers_that_fail_are_told_and_not_traced(mine: None) -> None:
    assert "ModuleNotFoundError" in failure("not_there_at_all:x")
    assert "AttributeError" in failure("mine_for_the_gate:x")
    assert "can't be called" in failure("mine_for_the_gate:number")
    assert "no doc_id in its metadata" in failure("mine_for_the_gate:unnamed")
    assert "no doc_id in its metadata" in failure("mine_for_the_gate:chain#isbn")


def test_config_finds_what_the_engine_finds(tmp_path: Path) -> None:
    place = make_topics(tmp_path / "topics")
    golden, engine = write_golden(place), indexed_engine(place)
    source = open_source("naive", lambda: place)
    for query in golden:
        expected = tuple(hit.doc_id for hit in engine.search(query.query, "naive").hits)
        assert source.rank(query, 10).documents == expected
    assert (source.name, source.live) == ("naive", True)


def test_config_is_found_by_its_path_too(tmp_path: Path) -> None:
    place = make_workspace(tmp_path / "ws", embedding=False)
    place = Workspace(place.root)
    place.index()
    assert open_source(f"{place.root}/configs/words.json", lambda: place).name == "words"


class Timed:
    """A source whose times are given, call by call."""

    live = True

    def __init__(self, name: str, *seconds: float) -> None:
        self.name, self.seconds, self.calls = name, seconds, 0

    def rank(self, query: GoldenQuery, k: int) -> FoundList:
        self.calls += 1
        return FoundList((query.id,), self.seconds[min(self.calls, len(self.seconds)) - 1])


def test_sources_that_are_slow_once_are_asked_again(tmp_path: Path) -> None:
    golden = write_golden(make_topics(tmp_path / "topics"))
    stalled, steady = Timed("b", *[0.9] * 11, 0.01), Timed("a", 0.01)
    old, new = ask_both(steady, stalled, golden, Gate())
    assert ({one.seconds for one in old}, {one.seconds for one in new}) == ({0.01}, {0.01})
    assert stalled.calls == 21


def test_times_of_a_file_and_of_a_live_source_are_not_compared(tmp_path: Path) -> None:
    golden = write_golden(make_topics(tmp_path / "topics"))
    recorded = Timed("a", 0.001)
    recorded.live = False  # type: ignore[misc]
    old, new = ask_both(recorded, Timed("b", 0.9), golden, Gate())
    assert {one.seconds for one in (*old, *new)} == {None}


def test_a_strangers_folder_gives_the_module_that_was_named_and_no_other(tmp_path: Path) -> None:
    """Somebody stands in it, and names a retriever of their own."""
    theirs, mine = tmp_path / "theirs", tmp_path / "mine"
    for folder in (theirs, mine):
        folder.mkdir()
        (folder / "both.py").write_text(f"import beside\ndef find(query): return ['{folder.name}']\n")
        (folder / "beside.py").write_text("")
    (mine / "installed.py").write_text("def find(query): return ['installed']\n")
    for name in ("installed_later", "colorsys"):
        (theirs / f"{name}.py").write_text("open('owned', 'w')\n")
    (mine / "installed_later.py").write_text("")
    program = (
        f"import sys; sys.path[:] = [{str(ROOT)!r}, {str(mine)!r}, *(one for one in sys.path if one)]\n"
        "from hive_agents.evaluation import GoldenQuery\nfrom hive_agents.evaluation import open_source\n"
        "for name in ('installed:find', 'both:find'):\n"
        "    print(*open_source(name, None).rank(GoldenQuery(id='q', query='x'), 3).documents)\n"
        "import colorsys, installed_later\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=theirs, check=True)
    assert done.stdout.split() == ["installed", "theirs"]
    assert not (theirs / "owned").exists()
