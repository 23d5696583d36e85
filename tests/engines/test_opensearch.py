"""OpenSearch behind the seam, by a real server: what it finds, what it holds, and what is told when it fails."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hive_agents import Workspace
from hive_agents.access import known_principal
from hive_agents.base.errors import EngineFault, HiveError
from hive_agents.copilot import open_scope
from hive_agents.documents import load_collection
from hive_agents.evaluation import load_golden
from hive_agents.index import BM25Params, SqliteIndex
from hive_agents.ranking import build_index
from hive_agents.workspace.trusted import trust
from tests.conftest import config_json, write_document
from tests.readmes import readmes, summaries
from tests.real_engines import OpenSearch, opensearch
from tests.sample import copied_sample, hive
from tests.tls import Authority, ending_tls

pytestmark = pytest.mark.slow

KB = "knowledge-base"


@pytest.fixture(scope="module")
def cluster() -> Iterator[OpenSearch]:
    with opensearch() as server:
        yield server


@pytest.fixture
def place(cluster: OpenSearch, tmp_path: Path) -> Workspace:
    """A sample workspace with indexes of its own in the cluster, indexed."""
    return over(cluster, copied_sample(tmp_path / "ws", every=3))


def over(cluster: OpenSearch, workspace: Workspace, *more: str) -> Workspace:
    prefix = f"t{random.getrandbits(48):x}"
    lines = ["[search]", f'url = "{cluster.url(prefix)}"', "timeout_seconds = 60.0", *more]
    with (workspace.root / "hive.toml").open("a", encoding="utf-8") as file:
        file.write("\n" + "\n".join(lines) + "\n")
    found = Workspace(workspace.root)
    trust(found)
    found.index()
    return found


def copies(cluster: OpenSearch, workspace: Workspace) -> dict[str, bool]:
    """Whether each copy is the one that the collection's alias leads to."""
    prefix = workspace.settings.search.url.rpartition("/")[2]
    found = cluster.call("GET", f"/{prefix}.copy-*/_alias")
    return {name: any(alias == f"{prefix}.{KB}" for alias in one["aliases"]) for name, one in found.items()}


def questions(workspace: Workspace, most: int = 40) -> list[str]:
    return [one.query for one in load_golden(workspace, None)][:most]


def embedded(workspace: Workspace) -> SqliteIndex:
    return SqliteIndex(workspace, load_collection(workspace, KB))


def overlap(ours: SqliteIndex, theirs: SqliteIndex, asked: list[str], params: BM25Params) -> float:
    shares = []
    for query in asked:
        a, b = (set(index.keyword(query, 10, params, None).chunks.tolist()) for index in (ours, theirs))
        shares.append(len(a & b) / max(len(a), len(b)) if a | b else 1.0)
    return float(np.mean(shares))


def test_lists_agree_on_texts_that_nobody_here_wrote(cluster: OpenSearch, tmp_path: Path) -> None:
    place = over(cluster, Workspace(shutil.copytree(readmes().root, tmp_path / "ws", symlinks=True)))
    name = place.engine().resolve(None).collection
    theirs = place.engine().index(name)
    ours = SqliteIndex(place, load_collection(place, name))
    asked = summaries(place)
    assert len(asked) >= 50
    assert overlap(ours, theirs, asked, BM25Params()) >= 0.9
    assert overlap(ours, theirs, asked, BM25Params(0.9, 0.4, 2.5)) >= 0.9


@pytest.mark.parametrize("params", [BM25Params(), BM25Params(0.9, 0.4, 2.5), BM25Params(2.0, 0.3, 0.0)], ids=str)
def test_lists_of_words_agree_under_any_parameters(place: Workspace, params: BM25Params) -> None:
    ours, theirs = embedded(place), place.engine().index(KB)
    asked = questions(place)
    assert overlap(ours, theirs, asked, params) >= 0.95
    query = asked[0]
    mine, other = (index.keyword(query, 1, params, None).scores[0] for index in (ours, theirs))
    assert other == pytest.approx(mine, rel=0.1)


def test_several_shards_rank_by_the_statistics_of_all(cluster: OpenSearch, tmp_path: Path) -> None:
    one = over(cluster, copied_sample(tmp_path / "one", every=3))
    three = over(cluster, copied_sample(tmp_path / "three", every=3), "shards = 3")
    for query in questions(one, 10):
        ours, theirs = (
            place.engine().index(KB).keyword(query, 20, BM25Params(), None).chunks.tolist() for place in (one, three)
        )
        assert ours == theirs


def test_a_cluster_behind_tls_is_filled_and_searched(
    cluster: OpenSearch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path, "ours")
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    place = copied_sample(tmp_path / "ws", every=3)
    with ending_tls(authority.issue("localhost"), cluster.port) as port:
        with (place.root / "hive.toml").open("a", encoding="utf-8") as file:
            url = f"opensearchs://localhost:{port}/t{random.getrandbits(48):x}"
            file.write(f'[search]\nurl = "{url}"\ntimeout_seconds = 60.0\n')
        trust(Workspace(place.root))
        place = Workspace(place.root)
        place.index()
        ours, theirs = embedded(place), place.engine().index(KB)
        assert overlap(ours, theirs, questions(place, 10), BM25Params()) >= 0.95


def test_the_doctor_says_where_words_and_vectors_are(cluster: OpenSearch, place: Workspace) -> None:
    told = [one for one in hive("doctor", "-w", place.root, "--json").json["checks"] if one["name"] == "search"]
    assert [one["status"] for one in told] == ["ok", "ok"]
    assert "counts over all documents" in told[0]["message"]
    assert "vectors stay local" in told[1]["message"]
    (name,) = copies(cluster, place)
    cluster.call("DELETE", f"/{name}")
    (missing,) = [one for one in hive("doctor", "-w", place.root, "--json").json["checks"] if one["name"] == "search"]
    assert missing["status"] == "fail"
    assert "HIVE-434: missing" in missing["message"]


def test_compare_engine_shows_what_differs(place: Workspace) -> None:
    ran = hive("compare", "--engine", "-w", place.root, "--json")
    assert ran.code == 0, ran.err
    told = ran.json
    assert told["engines"] == [f"OpenSearch at {place.settings.search.url.split('/')[2]}"]
    assert told["overlap"] >= 0.9
    assert told["lanes"]["keyword"] >= 0.9
    assert told["lanes"]["vector"] == 1.0
    listed = told["queries"]
    assert len(listed) < told["n"], "the holdout is not listed"
    assert all(one["reasons"] for one in listed if not one["identical"])
    assert all(len(one["embedded"]) == len(one["engine"]) for one in listed)
    assert "overlap at 10" in hive("compare", "--engine", "-w", place.root).out


def test_masks_of_every_density_hold_before_the_best_are_chosen(place: Workspace) -> None:
    index, rng = place.engine().index(KB), np.random.default_rng(7)
    every = index.keyword("the key of a device", index.n_chunks, BM25Params(), None)
    for share in (0.0, 0.01, 0.3, 0.99, 1.0):
        mask = rng.random(index.n_chunks) < share
        found = index.keyword("the key of a device", 25, BM25Params(), mask)
        wanted = [chunk for chunk in every.chunks.tolist() if mask[chunk]][:25]
        assert found.chunks.tolist() == wanted


def test_a_very_long_question_is_answered(place: Workspace) -> None:
    words = " ".join(f"word{number}" for number in range(3000))
    assert len(place.engine().index(KB).keyword(f"token {words}", 10, BM25Params(), None).chunks) == 10


def test_the_cluster_holds_index_terms_and_no_text(cluster: OpenSearch, place: Workspace) -> None:
    (name,) = copies(cluster, place)
    hits = cluster.call("GET", f"/{name}/_search?size=10")["hits"]["hits"]
    assert all("_source" not in hit for hit in hits)
    mappings = cluster.call("GET", f"/{name}/_mapping")[name]["mappings"]
    assert set(mappings["properties"]) == {"chunk", "words"}
    assert mappings["_source"] == {"enabled": False}


def test_a_change_switches_the_alias_and_the_old_copy_goes(cluster: OpenSearch, place: Workspace) -> None:
    (old,) = copies(cluster, place)
    write_document(place, "faqs/zwiebelfisch.md", "# Zwiebelfisch\n\nA zwiebelfisch is a wrong letter.\n")
    engine = place.engine()
    engine.index(KB)
    place.index()
    (new,) = copies(cluster, place)
    assert new != old
    assert engine.search("zwiebelfisch", words_config()).hits[0].doc_id == "faqs/zwiebelfisch.md"


def test_states_before_the_current_one_stay_where_the_settings_keep_them(cluster: OpenSearch, tmp_path: Path) -> None:
    place = over(cluster, copied_sample(tmp_path / "ws", every=3), "keep = 1")
    (first,) = copies(cluster, place)
    for number in range(3):
        write_document(place, "faqs/new.md", f"# New\n\nText number {number}.\n")
        place.index()
    found = copies(cluster, place)
    assert len(found) == 2
    assert list(found.values()).count(True) == 1
    assert first not in found


def words_config() -> dict[str, Any]:
    return {"name": "w", "collection": KB, "retrieval": {"method": "keyword", "top_k": 10}}


def test_hosts_with_the_same_documents_use_one_copy_and_each_is_answered_from_its_own_state(
    cluster: OpenSearch, tmp_path: Path
) -> None:
    first = over(cluster, copied_sample(tmp_path / "one", every=3), "keep = 1")
    second = Workspace(shutil.copytree(first.root, tmp_path / "two", symlinks=True, ignore=without_state))
    trust(second)
    sent: list[str] = []
    build_index(second, lambda what, done, total: sent.append(what))
    assert not [what for what in sent if what.startswith("sending")]
    assert len(copies(cluster, first)) == 1

    write_document(first, "faqs/new.md", "# New\n\nA zwiebelfisch.\n")
    first.index()
    assert first.engine().search("zwiebelfisch", words_config()).hits
    assert second.engine().search("key", words_config()).hits, "the state before is kept for it"
    assert not second.engine().search("zwiebelfisch", words_config()).hits


def without_state(folder: str, names: list[str]) -> set[str]:
    return {".hive"} & set(names)


# What fails.


def failing(work: Callable[[], object]) -> str:
    with pytest.raises(EngineFault) as caught:
        work()
    (found,) = caught.value.diagnostics
    assert (found.code, found.path, caught.value.exit_code) == ("HIVE-434", "search.url", 3)
    assert found.fix
    return found.message


def test_a_copy_that_is_gone_is_told_as_missing_and_sent_again(cluster: OpenSearch, place: Workspace) -> None:
    (name,) = copies(cluster, place)
    engine = place.engine()
    engine.index(KB).keyword("key", 3, BM25Params(), None)
    cluster.call("DELETE", f"/{name}")
    assert "missing" in failing(lambda: engine.search("key", words_config()))
    assert "missing" in failing(lambda: place.engine().search("key", words_config()))
    place.index()
    assert place.engine().search("key", words_config()).hits


def test_a_reader_of_a_replaced_state_gets_the_new_one(place: Workspace) -> None:
    engine = place.engine()
    before = engine.index(KB)
    before.keyword("key", 3, BM25Params(), None)
    write_document(place, "faqs/new.md", "# New\n\nA zwiebelfisch.\n")
    place.index()
    with pytest.raises(HiveError, match="HIVE-402"):
        before.keyword("key", 3, BM25Params(), None)
    assert engine.search("zwiebelfisch", words_config()).hits[0].doc_id == "faqs/new.md"


def test_a_server_that_isn_t_there_is_told(tmp_path: Path) -> None:
    place = copied_sample(tmp_path / "ws", every=3)
    with (place.root / "hive.toml").open("a", encoding="utf-8") as file:
        file.write('\n[search]\nurl = "opensearch://127.0.0.1:9/x"\n')
    place = Workspace(place.root)
    with pytest.raises(HiveError, match="HIVE-431"):
        place.engine().search("key", words_config())
    trust(place)
    assert "unreachable" in failing(lambda: place.engine().search("key", words_config()))
    assert "unreachable" in failing(place.index)
    ran = hive("query", "key", "-w", place.root, "--json")
    assert (ran.code, ran.codes) == (3, {"HIVE-434"})


def test_a_server_stopped_in_mid_query_is_told_and_serves_again_when_it_is_back(tmp_path: Path) -> None:
    with opensearch() as server:
        place = over(server, copied_sample(tmp_path / "ws", every=3), "rest_seconds = 0.1")
        engine, asked = place.engine(), questions(place)
        before = [hit.chunk_id for hit in engine.search(asked[0], words_config()).hits]
        searches = iter(asked * 200)

        def ask_until_it_is_killed() -> None:
            for number, query in enumerate(searches):
                if number == 5:
                    server.signal(signal.SIGKILL)
                engine.search(query, words_config())

        assert "unreachable" in failing(ask_until_it_is_killed)
        ran = hive("query", "key", "-w", place.root, "--json")
        assert (ran.code, ran.codes) == (3, {"HIVE-434"})
        server.start()
        assert [hit.chunk_id for hit in engine.search(asked[0], words_config()).hits] == before

        # Frozen, it accepts connections and says nothing.
        os.environ["HIVE_SEARCH__TIMEOUT_SECONDS"] = "1"
        try:
            hasty = Workspace(place.root).engine()
            hasty.search(asked[1], words_config())
            server.signal(signal.SIGSTOP)
            assert "timeout" in failing(lambda: hasty.search(asked[0], words_config()))
        finally:
            del os.environ["HIVE_SEARCH__TIMEOUT_SECONDS"]
            server.signal(signal.SIGCONT)


def test_a_question_is_answered_by_the_own_index_while_the_cluster_is_away(tmp_path: Path) -> None:
    """Killed, then frozen, which costs one timeout and not each question's; when it is back, it is asked again."""
    with opensearch() as server:
        place = over(server, copied_sample(tmp_path / "ws", every=3), "rest_seconds = 0.1")
        place.index()
        ask = ("chat", "How long does an API token last?", "--as", "dana", "-w", place.root, "--json")
        whole = hive(*ask).json
        assert "own index" not in (whole["notice"] or "")
        server.signal(signal.SIGKILL)
        told = hive(*ask)
        assert (told.code, told.json["status"]) == (0, whole["status"])
        assert "own index" in told.json["notice"]
        assert {one["doc_id"] for one in told.json["results"]} & {one["doc_id"] for one in whole["results"]}
        server.start()
        assert hive(*ask).json["notice"] == whole["notice"]
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("HIVE_SEARCH__TIMEOUT_SECONDS", "2")
            patch.setenv("HIVE_SEARCH__REST_SECONDS", "60")
            engine = Workspace(place.root).engine()
            engine.search("key", words_config())
            server.signal(signal.SIGSTOP)
            try:
                assert "no answer within 2 s" in failing(lambda: engine.search("token", words_config()))
                assert "isn't asked" in failing(lambda: engine.search("token", words_config()))
                assert "own index" in hive(*ask).json["notice"]
            finally:
                server.signal(signal.SIGCONT)


def many(place: Workspace) -> None:
    """Enough documents that a copy is sent in several parts."""
    for number in range(1500):
        write_document(place, f"more/d{number}.md", f"# Document {number}\n\nSome words about the zwiebelfisch.\n")


def test_a_server_stopped_in_mid_index_leaves_the_old_state_whole(tmp_path: Path) -> None:
    with opensearch() as server:
        place = over(server, copied_sample(tmp_path / "ws", every=3))
        (old,) = copies(server, place)
        config = words_config()
        before = [hit.chunk_id for hit in place.engine().search("a key", config).hits]
        many(place)

        def kill_it_once_a_part_is_there(what: str, done: int, total: int) -> None:
            if what.startswith("sending") and done < total:
                server.signal(signal.SIGKILL)

        assert "unreachable" in failing(lambda: build_index(place, kill_it_once_a_part_is_there))
        server.start()
        assert [name for name, current in copies(server, place).items() if current] == [old]
        assert [hit.chunk_id for hit in place.engine().search("a key", config).hits] == before
        assert not place.engine().search("zwiebelfisch", config).hits

        sent: list[int] = []
        build_index(place, lambda what, done, _: sent.append(done) if what.startswith("sending") else None)
        assert sent[0] > 500, "what was there already isn't sent again"
        (new,) = copies(server, place)
        assert new != old
        assert place.engine().search("zwiebelfisch", config).hits


KILLED = """
import os, signal, sys
from hive_agents import Workspace
from hive_agents.ranking import build_index

def die(what, done, total):
    if what.startswith("sending") and done < total:
        os.kill(os.getpid(), signal.SIGKILL)

build_index(Workspace(sys.argv[1]), die)
"""


def test_an_index_killed_while_it_sends_is_finished_by_the_next(cluster: OpenSearch, place: Workspace) -> None:
    (old,) = copies(cluster, place)
    many(place)
    ran = subprocess.run([sys.executable, "-c", KILLED, str(place.root)], check=False)
    assert ran.returncode == -signal.SIGKILL
    assert [name for name, current in copies(cluster, place).items() if current] == [old]
    assert not place.engine().search("zwiebelfisch", words_config()).hits
    place.index()
    (new,) = copies(cluster, place)
    assert cluster.call("GET", f"/{new}/_count")["count"] == place.engine().index(KB).n_chunks
    assert cluster.call("GET", f"/{new}/_stats/docs")["indices"][new]["primaries"]["docs"]["deleted"] == 0


# Readers.


def test_no_reader_gets_a_document_of_others_and_the_filter_stands_before_the_best(place: Workspace) -> None:
    for user in ("dana", "guest"):
        reader = known_principal(place, user)
        scope = open_scope(place, place.engine(), reader, KB)
        allowed = set(scope.doc_ids())
        assert allowed < set(place.engine().index(KB).doc_ids())
        for query in questions(place, 25):
            lane = scope.keyword(query, 10, BM25Params(), None)
            assert set(scope.documents_of(lane.chunks)) <= allowed
            every = scope.keyword(query, scope.n_chunks, BM25Params(), None)
            assert len(lane.chunks) == min(10, len(every.chunks))


# What stands above the seam.


def test_optimizer_gate_and_copilot_complete_over_it(cluster: OpenSearch, place: Workspace) -> None:
    asked_before = searches(cluster)
    optimized = hive("optimize", "--iterations", "1", "--seconds", "10", "--no-deploy", "-w", place.root, "--json")
    assert optimized.code in (0, 1), optimized.err
    better = config_json("better", bm25={"k1": 0.9, "b": 0.4, "title_boost": 2.0}) | {"collection": KB}
    (place.configs / "better.json").write_text(json.dumps(better))
    gated = hive("deploy", "better", "-w", place.root, "--json")
    assert gated.code in (0, 1), gated.err
    assert gated.json["decision"] in ("passed", "blocked", "inconclusive")
    assert gated.json["evaluation"]["n"] >= 40
    told = hive("chat", "How long does an API token last?", "--as", "dana", "-w", place.root, "--json")
    assert told.code == 0, told.err
    assert told.json["results"]
    assert searches(cluster) > asked_before + 200


def searches(cluster: OpenSearch) -> int:
    """How many searches the cluster answered so far."""
    found: int = cluster.call("GET", "/_nodes/stats/indices/search")["nodes"].popitem()[1]["indices"]["search"][
        "query_total"
    ]
    return found
