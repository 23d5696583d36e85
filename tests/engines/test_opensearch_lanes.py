"""Lists of a server that lies: refused as a whole, with a diagnostic, whatever stands in them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hive_agents.documents import load_collection
from hive_agents.engines.opensearch import OpenSearch
from hive_agents.engines.opensearch_lanes import CopyReader, VectorsThere
from hive_agents.index.generation_reader import GenerationReader
from hive_agents.index.vectors import VectorIndex
from hive_agents.ranking import build_index
from tests.conftest import make_workspace
from tests.engines.test_opensearch_client import Server, connected, failure

QUERY: dict[str, Any] = {"match": {"words": "keys"}}


@pytest.fixture(scope="module")
def played() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@pytest.fixture
def server(played: Server) -> Server:
    played.status, played.body, played.endless, played.most_searches = 200, {}, None, None
    played.searches.clear()
    return played


@pytest.fixture(scope="module")
def copy(played: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CopyReader]:
    """The reader of a copy that the server plays."""
    place = make_workspace(tmp_path_factory.mktemp("lies") / "ws", embedding=False)
    build_index(place)
    index = GenerationReader(place, load_collection(place, "kb"))
    yield CopyReader(connected(place, played), "kb.copy-1", index, 1)
    index.close()


@pytest.fixture
def engine(copy: CopyReader) -> OpenSearch:
    return OpenSearch(copy._connection, "owner", vectors=True)


def hits(*found: Any) -> dict[str, Any]:
    return {"hits": {"hits": [{"sort": one} for one in found]}}


LIES: dict[str, Any] = {
    "a number that no machine holds": hits([1.0, 2**70]),
    "an endless number": hits([1.0, float("inf")]),
    "half a chunk": hits([1.0, 1.5]),
    "a chunk in letters": hits([1.0, "1"]),
    "a truth": hits([1.0, True]),
    "a score in letters": hits(["1.0", 1]),
    "a score that is no number": hits([float("nan"), 1]),
    "a score without end": hits([float("inf"), 1]),
    "no score": hits([None, 1]),
    "a chunk twice": hits([2.0, 1], [1.0, 1]),
    "a list that isn't in order": hits([1.0, 1], [2.0, 0]),
    "more than was asked for": hits([3.0, 0], [2.0, 1], [1.0, 2]),
    "a hit that is none": {"hits": {"hits": [None]}},
    "hits that are none": {"hits": {"hits": {"a": 1}}},
    "a number of hits": {"hits": 7},
    "an error in words": {"error": "no"},
    "an error that is a list": {"error": ["no"]},
    "shards that are a list": {"_shards": [1]},
    "a list": [1],
    "text": "surprise",
    "nothing": None,
}


@pytest.mark.parametrize("lie", LIES)
def test_a_list_that_lies_is_refused(copy: CopyReader, server: Server, lie: str) -> None:
    server.body = LIES[lie]
    assert "failed" in failure(lambda: copy.best([QUERY], 2, None))


@pytest.mark.parametrize("lie", LIES)
def test_one_list_of_several_that_lies_is_refused(copy: CopyReader, server: Server, lie: str) -> None:
    server.body = {"responses": [hits([1.0, 1]), LIES[lie]]}
    assert "failed" in failure(lambda: copy.best([QUERY, QUERY], 2, None))


@pytest.fixture
def hasty(copy: CopyReader, server: Server, tmp_path: Path) -> CopyReader:
    place = make_workspace(tmp_path / "ws", embedding=False)
    return CopyReader(connected(place, server, "timeout_seconds = 2.0"), "kb.copy-1", copy.generation, 1)


@pytest.mark.slow
@pytest.mark.parametrize("most", [1, 8])
def test_what_a_cluster_is_too_slow_for_at_once_is_asked_in_smaller_parts(
    hasty: CopyReader, server: Server, most: int
) -> None:
    server.body, server.endless, server.most_searches = hits([1.0, 1]), b" ", most
    lanes = hasty.best([QUERY] * 20, 2, None)
    assert [lane.chunks.tolist() for lane in lanes] == [[1]] * 20
    assert max(server.searches[2:]) <= most  # what was too much once isn't tried again
    hasty.best([QUERY] * 20, 2, None)
    assert max(server.searches[2:]) <= most


@pytest.mark.slow
def test_a_cluster_that_is_too_slow_for_one_search_is_a_timeout(hasty: CopyReader, server: Server) -> None:
    server.endless = b" "
    assert "; timeout" in failure(lambda: hasty.best([QUERY] * 20, 2, None))
    assert server.searches == [20, 2, 1]


@pytest.mark.parametrize("answers", [[hits([1.0, 1])], [hits([1.0, 1])] * 3, [], None, {"a": 1}, 3])
def test_answers_to_other_questions_are_refused(copy: CopyReader, server: Server, answers: Any) -> None:
    server.body = {"responses": answers}
    assert "failed" in failure(lambda: copy.best([QUERY, QUERY], 2, None))


def test_a_chunk_outside_of_a_readers_scope_is_refused(copy: CopyReader, server: Server) -> None:
    server.body = hits([2.0, 1], [1.0, 0])
    mask = np.zeros(copy.generation.n_chunks, np.bool_)
    mask[1] = True
    assert "outside of the filter" in failure(lambda: copy.best([QUERY], 2, mask))
    assert copy.best([QUERY], 2, None)[0].chunks.tolist() == [1, 0]


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 200_000,
        b'{"a":' * 200_000,
        b"\xff\xfe",
        b"{",
        b'{"hits":{"hits":[{"sort":[1e999,1]}]}}',
        b'{"hits":{"hits":[{"sort":[1,1e999]}]}}',
    ],
)
def test_an_answer_that_cant_be_read_is_a_failure(copy: CopyReader, server: Server, body: bytes) -> None:
    server.body = body
    assert failure(lambda: copy.best([QUERY], 2, None))


def test_what_a_server_says_of_its_failure_is_cut(copy: CopyReader, server: Server) -> None:
    server.status, server.body = 500, {"error": {"type": "x" * 100_000}}
    assert len(failure(lambda: copy.best([QUERY], 2, None))) < 1_000
    server.status, server.body = 200, {"error": {"type": "y" * 100_000}}
    assert len(failure(lambda: copy.best([QUERY], 2, None))) < 1_000


def told_copy(engine: OpenSearch, index: GenerationReader, **more: Any) -> dict[str, Any]:
    """What a cluster tells of a complete copy."""
    name = engine._copy(index.collection.name, index.index_hash)
    about = {"collection": index.collection.name, "index_hash": index.index_hash, "owner": "owner"}
    about |= {"factor": 1.0, "vectors": True, "shards": 1} | more
    settings = {"index": {"creation_date": "1"}}
    return {name: {"mappings": {"_meta": about}, "settings": settings, "aliases": {f"{name}.complete": {}}}}


@pytest.mark.parametrize(
    "more",
    [
        {"factor": "much"},
        {"factor": None},
        {"factor": 0},
        {"factor": float("nan")},
        {"factor": -1.0},
        {"factor": True},
        {"shards": "several"},
        {"shards": [1]},
        {"vectors": "yes"},
        {"collection": []},
    ],
    ids=str,
)
def test_a_copy_that_is_told_of_wrongly_is_refused(
    engine: OpenSearch, copy: CopyReader, server: Server, more: dict[str, Any]
) -> None:
    server.body = told_copy(engine, copy.generation)
    assert engine.words(copy.generation) is not None
    server.body = told_copy(engine, copy.generation, **more)
    assert failure(lambda: engine.words(copy.generation))


@pytest.mark.parametrize("found", [hits(), hits([1.0, 1]), hits([0.0, 0]), {"hits": None}], ids=str)
def test_scores_that_are_missing_are_a_failure(copy: CopyReader, server: Server, found: Any) -> None:
    server.body = found
    there = VectorsThere(copy, 2)
    there.__dict__["_half"] = np.float32(0.5)
    assert failure(lambda: there.scores(np.ones(2, np.float32), np.array([0, 1])))


@pytest.mark.parametrize("found", [hits(), hits([0.0, 0]), hits([-1.0, 0])], ids=str)
def test_a_scale_of_scores_that_is_none_is_a_failure(
    copy: CopyReader, server: Server, found: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.body = found
    monkeypatch.setitem(
        vars(copy.generation), "local_vectors", VectorIndex(np.eye(copy.generation.n_chunks, 2, dtype=np.float32))
    )
    assert failure(lambda: VectorsThere(copy, 2).top(np.ones(2, np.float32), 2))
