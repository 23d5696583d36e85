from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hive_agents import Workspace, evaluate
from hive_agents.access import known_principal
from hive_agents.base.errors import HiveError
from hive_agents.evaluation import GoldenSet, compare, load_golden
from hive_agents.evaluation.evaluate import evaluate_interleaved
from hive_agents.index import scope_of
from hive_agents.ranking import build_index
from tests.conftest import config_json, make_workspace, write_config
from tests.topics import write_golden

QUERY = "set the rotor"
DOCUMENTS = {
    "a.md": "---\ntenant: acme\nview: [tenant]\n---\nSet the rotor by hand.\n",
    "b.md": "---\ntenant: acme\nview: [group:qa]\nstatus: draft\n---\nSet the rotor, the rotor, the rotor.\n",
    "c.md": "---\ntenant: globex\nview: [tenant]\n---\nRotor rotor rotor rotor.\n",
    "d.md": "---\ntitle: Nobody's\n---\nSet set set the rotor.\n",
}
VISIBLE = {"dana": ["a.md", "b.md"], "guest": ["a.md"], "pete": ["c.md"]}


def golden(workspace: Workspace, *principals: str | None) -> GoldenSet:
    queries: list[dict[str, Any]] = []
    for number, user in enumerate(principals):
        entry = {"id": f"q{number}", "query": QUERY, "relevant": ["a.md"], "distractors": ["b.md", "c.md"]}
        queries.append(entry if user is None else entry | {"principal": user})
    return write_golden(workspace, queries)


@pytest.fixture
def shared(tmp_path: Path) -> Workspace:
    """Two tenants in one index; nobody but the index knows all four documents."""
    workspace = make_workspace(tmp_path / "shared", embedding=False, documents=DOCUMENTS)
    (workspace.root / "access").mkdir()
    principals = {
        "dana": {"tenant": "acme", "groups": ["qa"]},
        "guest": {"tenant": "acme"},
        "pete": {"tenant": "globex"},
    }
    access = {"tenants": {"acme": {}, "globex": {}}, "principals": principals}
    (workspace.root / "access" / "principals.json").write_text(json.dumps(access), encoding="utf-8")
    build_index(workspace)
    return workspace


def test_a_query_with_a_principal_is_measured_on_what_they_may_view(shared: Workspace, tmp_path: Path) -> None:
    """The same figures and hits as in a workspace that holds those documents alone; the other queries see all."""
    users = [None, "dana", "guest", "pete"]
    found = evaluate(shared, "words", golden=golden(shared, *users))
    assert {hit.doc_id for hit in found.queries[0].hits} == set(DOCUMENTS)
    for user, measured in zip(users[1:], found.queries[1:], strict=True):
        visible = VISIBLE[str(user)]
        alone = make_workspace(
            tmp_path / str(user), embedding=False, documents={doc_id: DOCUMENTS[doc_id] for doc_id in visible}
        )
        build_index(alone)
        hits = alone.engine().search(QUERY, "words").hits
        assert [(hit.rank, hit.doc_id, hit.chunk_id) for hit in measured.hits] == [
            (hit.rank, hit.doc_id, hit.chunk_id) for hit in hits
        ]
    assert [query.nudcg for query in found.queries[2:]] == [1.0, -1.0]


def test_several_configs_are_measured_in_the_same_scopes(shared: Workspace) -> None:
    engine, queries = shared.engine(), golden(shared, "guest", None, "guest")
    write_config(shared, "drafts", "keyword", filters={"status": "draft"})
    configs = [engine.resolve("words"), engine.resolve("drafts")]
    words, drafts = evaluate_interleaved(engine, configs, queries)
    assert [[hit.doc_id for hit in query.hits] for query in (words.queries[0], words.queries[2])] == [["a.md"]] * 2
    assert [len(query.hits) for query in drafts.queries] == [0, 1, 0]


def test_whoever_compares_within_what_they_may_view_gets_the_figures_of_those_documents_alone(
    shared: Workspace, tmp_path: Path
) -> None:
    write_config(shared, "drafts", "keyword", filters={"status": "draft"})
    engine, queries = shared.engine(), golden(shared, None, "dana")
    configs = [engine.resolve("words"), engine.resolve("drafts")]
    guest = known_principal(shared, "guest")
    alone = make_workspace(tmp_path / "alone", embedding=False, documents={"a.md": DOCUMENTS["a.md"]})
    build_index(alone)
    found = compare(engine, *configs, queries, reader=guest)
    for query in found.a.queries:
        assert [hit.chunk_id for hit in query.hits] == [
            hit.chunk_id for hit in alone.engine().search(QUERY, "words").hits
        ]
    assert [query.nudcg for query in found.a.queries] == [1.0, 1.0]
    assert [query.hits for query in found.b.queries] == [(), ()]
    everything = compare(engine, *configs, queries)
    assert everything.a.queries[0].nudcg < 1.0


def test_the_scope_is_that_of_the_access_files_now(shared: Workspace) -> None:
    index = shared.engine().index("kb")
    people = {user: known_principal(shared, user) for user in VISIBLE}
    assert {user: scope_of(shared, index, one).doc_ids() for user, one in people.items()} == VISIBLE
    assert scope_of(shared, index, people["dana"], people["guest"]).doc_ids() == ["a.md"]
    (shared.root / "access" / "grants.json").write_text(
        json.dumps({"grants": [{"tenant": "acme", "match": "b*", "view": ["user:guest"]}]}), encoding="utf-8"
    )
    assert scope_of(shared, index, people["guest"]).doc_ids() == ["a.md", "b.md"]
    (shared.root / "access" / "grants.json").write_text("{", encoding="utf-8")
    assert scope_of(shared, index, people["guest"]).doc_ids() == []
    with pytest.raises(HiveError, match=r"grants\.json"):
        evaluate(shared, "words", golden=golden(shared, "guest"))


def test_a_principal_whom_the_access_files_do_not_name_is_reported(shared: Workspace) -> None:
    with pytest.raises(HiveError) as caught:
        golden(shared, None, "danna", "dana", "nobody at all")
    found = caught.value.diagnostics
    assert [(d.code, d.path, d.file) for d in found] == [
        ("HIVE-107", "queries[1].principal", "evals/golden.json"),
        ("HIVE-107", "queries[3].principal", "evals/golden.json"),
    ]
    assert found[0].fix == 'did you mean "dana"?'
    assert "access/*.json" in (found[1].fix or "")
    assert found[0].line


def test_faulty_access_files_are_reported_where_a_query_needs_them(shared: Workspace) -> None:
    (shared.root / "access" / "grants.json").write_text('{"grants": [{}]}', encoding="utf-8")
    golden(shared, None)
    with pytest.raises(HiveError) as caught:
        golden(shared, "dana")
    assert {diagnostic.file for diagnostic in caught.value.diagnostics} == {"access/grants.json"}


def test_a_config_that_filters_on_a_hidden_value_is_measured_too(shared: Workspace) -> None:
    load = golden(shared, "guest")
    config = config_json("a", "keyword", filters={"status": {"not": ["draft"]}})
    (measured,) = evaluate(shared, config, golden=load).queries
    assert [hit.doc_id for hit in measured.hits] == ["a.md"]
    assert load_golden(shared).hash == load.hash
