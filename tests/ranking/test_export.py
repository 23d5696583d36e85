"""Exports: what each engine is given, and what is said where it can't do what the config does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from pydantic import BaseModel

from hive_agents import Workspace
from hive_agents.access import AccessLabels, AccessRules, Principal, known_principal
from hive_agents.base.errors import HiveError
from hive_agents.documents import terms
from hive_agents.ranking import RetrievalConfig
from hive_agents.ranking.exports import ENGINES, export, filled, values_for
from hive_agents.ranking.exports.contents import readers_of
from hive_agents.ranking.exports.plan import ExportPlan, common
from hive_agents.ranking.factors import FACTORS
from tests.sample import hive, indexed_sample

WHOLE: dict[str, Any] = {
    "name": "whole",
    "collection": "knowledge-base",
    "retrieval": {"method": "hybrid", "top_k": 8, "weights": {"keyword": 1.0, "vector": 3.0}, "per_document": 2},
    "filters": {"status": {"not": ["retired"]}, "effective_date": {"gte": "2020-01-01"}},
    "boosts": {"category": {"faqs": 0.5}, "updated": {"half_life_days": 365}},
    "dynamic_k": {"enabled": True, "min_results": 2},
    "distraction_detection": {"enabled": True},
    "abstain": {"min_cosine": 0.2},
    "bm25": {"title_boost": 2.4},
    "rerank": {"enabled": True, "floor": 0.1},
}
LEFT_OUT = {
    "postgres": {"access", "boosts.updated", "rerank", "retrieval", "retrieval.method"},
    "qdrant": {
        "access",
        "abstain.min_cosine",
        "bm25",
        "boosts",
        "boosts.updated",
        "distraction_detection",
        "dynamic_k",
        "lift",
        "rerank",
        "retrieval",
        "retrieval.per_document",
    },
    "opensearch": {
        "access",
        "abstain.min_cosine",
        "bm25",
        "bm25.title_boost",
        "boosts.category",
        "boosts.updated",
        "distraction_detection",
        "dynamic_k",
        "lift",
        "rerank",
        "retrieval",
        "retrieval.per_document",
        "retrieval.weights",
    },
}


def sample() -> Workspace:
    return Workspace(indexed_sample())


def config(**parts: Any) -> RetrievalConfig:
    plain = {"name": "plain", "collection": "knowledge-base", "retrieval": {"method": "hybrid", "top_k": 10}}
    return RetrievalConfig.model_validate(plain | parts)


def exported(engine: str, program: RetrievalConfig) -> Any:
    place = sample()
    return export(place, place.engine().index("knowledge-base"), program, engine)


@pytest.mark.parametrize("engine", ENGINES)
def test_what_an_engine_cannot_do_is_said_by_its_place_in_the_config(engine: str) -> None:
    made = exported(engine, RetrievalConfig.model_validate(WHOLE))
    assert {one.path for one in made.differences} == LEFT_OUT[engine]


@pytest.mark.parametrize("engine", ENGINES)
def test_no_engine_knows_what_many_documents_repeat(engine: str) -> None:
    paths = [{one.path for one in exported(engine, config(boilerplate={"weight": w})).differences} for w in (0.5, 1.0)]
    assert paths[0] - paths[1] == {"boilerplate"}


LEVERS: dict[str, Any] = {
    "retrieval.method": "keyword",
    "retrieval.top_k": 7,
    "retrieval.rrf_k": 20,
    "retrieval.candidates": 50,
    "retrieval.weights.keyword": 2.0,
    "retrieval.weights.vector": 2.0,
    "retrieval.per_document": 1,
    "dynamic_k.enabled": True,
    "dynamic_k.gap_threshold_factor": 5.0,
    "dynamic_k.min_results": 3,
    "dynamic_k.max_results": 4,
    "filters": {"category": "faqs"},
    "boosts": {"category": {"faqs": 0.5}},
    "boilerplate.weight": 0.5,
    "lift.enabled": True,
    "lift.weight": 2.0,
    "distraction_detection.enabled": True,
    "distraction_detection.disagreement_threshold": 0.7,
    "abstain.enabled": True,
    "abstain.min_cosine": 0.2,
    "abstain.unless_all_words": True,
    "bm25.k1": 2.0,
    "bm25.b": 0.3,
    "bm25.title_boost": 3.0,
    "rerank.enabled": True,
    "rerank.candidates": 20,
    "rerank.floor": 0.3,
}
"""A value of each lever that isn't its default."""
WITHIN = {"abstain.unless_all_words": "abstain.min_cosine"}
"""The lever without which another has no effect, where it isn't `enabled` of the same block."""


def leaves(model: type[BaseModel], before: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from leaves(kind, f"{before}{name}.")
        else:
            yield before + name


def test_every_lever_of_a_config_has_a_value_to_export() -> None:
    described = {"schema_", "name", "collection", "description", "parent"}
    assert {*leaves(RetrievalConfig)} - described == LEVERS.keys()


def valued(values: dict[str, Any]) -> RetrievalConfig:
    data = config().model_dump(exclude_unset=True)
    for path, value in values.items():
        *parents, key = path.split(".")
        place = data
        for parent in parents:
            place = place.setdefault(parent, {})
        place[key] = value
    return RetrievalConfig.model_validate(data)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("lever", LEVERS)
def test_a_lever_is_in_an_export_or_refused_by_its_name(engine: str, lever: str) -> None:
    block = lever.partition(".")[0]
    on = WITHIN.get(lever, f"{block}.enabled")
    before = {"lift.enabled": False} | ({on: LEVERS[on]} if on in LEVERS and on != lever else {})
    plain, moved = (exported(engine, valued(values)) for values in (before, before | {lever: LEVERS[lever]}))
    if (plain.texts, plain.request) == (moved.texts, moved.request):
        rows = [[next(one.data[name]()) for name in one.data] for one in (plain, moved)]
        told = {one.path for one in moved.differences}
        named = {lever, block} - {"retrieval"}
        assert rows[0] != rows[1] or any(path in named or path.startswith(f"{lever}.") for path in told)


def test_a_factor_that_an_engine_does_not_claim_is_refused_by_its_name() -> None:
    place = sample()
    index = place.engine().index("knowledge-base")
    on = config(boosts={"category": {"faqs": 0.5}}, boilerplate={"weight": 0.5}, lift={"weight": 2.0})
    for done in ((), ("boosts",), tuple(factor.block for factor in FACTORS)):
        told = {one.path: one.message for one in common(place, ExportPlan.of(index, on), done)}
        left = {factor.block: factor.lost for factor in FACTORS if factor.block not in done}
        assert {factor.block: told[factor.block] for factor in FACTORS if factor.block in told} == left


@pytest.mark.parametrize("engine", ENGINES)
def test_a_plain_config_differs_in_nothing_that_it_names(engine: str) -> None:
    made = exported(engine, config(retrieval={"method": "vector", "top_k": 10}))
    assert {one.path for one in made.differences} <= {"access", "retrieval", "retrieval.method"}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("method", ["keyword", "vector", "hybrid"])
def test_every_lane_of_every_request_is_for_a_reader(engine: str, method: str) -> None:
    made = exported(engine, config(retrieval={"method": method, "top_k": 10}))
    assert made.parameters[0].name == "reader"
    if engine == "postgres":
        assert "chunk.readers && reader" in made.texts["query.sql"]
        assert made.texts["query.sql"].count("hive.chunk") == 1  # everything else is read from what the reader may see
        assert "reader => " in made.request
    else:
        values: dict[str, Any] = {one.name: [0.5] for one in made.parameters[1:]}
        with pytest.raises(KeyError, match="reader"):
            filled(made.request, values)
        asked = json.dumps(filled(made.request, values | {"reader": ["acme,user:dana"]}))
        assert asked.count("acme,user:dana") == (2 if method == "hybrid" else 1)


def test_a_filters_value_is_text_in_sql_whatever_it_says() -> None:
    place = sample()
    evil = "x' OR true $hive0$; DROP TABLE hive.chunk; --"
    program = config(retrieval={"method": "keyword", "top_k": 10}, boosts={"owner": {evil: 2.0}})
    text = export(place, place.engine().index("knowledge-base"), program, "postgres").texts["query.sql"]
    assert "AS $hive1$\n" in text
    assert text.rstrip().endswith("$hive1$;")
    assert "ARRAY['x'' OR true $hive0$; DROP TABLE hive.chunk; --']" in text


def test_a_filter_that_no_document_can_meet_is_refused_as_by_a_search() -> None:
    with pytest.raises(HiveError) as raised:
        exported("qdrant", config(filters={"nothing": "x"}))
    assert raised.value.diagnostics[0].code == "HIVE-206"


def test_a_config_with_vectors_needs_an_index_that_has_some(tmp_path: Path) -> None:
    assert hive("init", tmp_path / "w", "--empty").code == 0
    place = Workspace(tmp_path / "w")
    (place.root / "hive.toml").write_text('[models]\nembedding = "none"\n')
    (place.documents / "a.md").write_text("# A\n\nText.\n")
    place.index()
    engine = place.engine()
    program = engine.resolve(None)
    with pytest.raises(HiveError) as raised:
        export(place, engine.index(program.collection), program, "postgres")
    assert raised.value.diagnostics[0].code == "HIVE-401"


def test_each_chunk_is_stored_with_the_words_that_it_is_found_by() -> None:
    index = sample().engine().index("knowledge-base")
    stored = list(index.stored())
    assert [chunk.chunk_id for chunk in stored] == index.chunk_ids(np.arange(index.n_chunks))
    for chunk in stored:
        of_text = terms(chunk.text, index.language)
        assert list(chunk.words) == [*terms(chunk.ancestors, index.language), *of_text]
        assert list(chunk.title_words) == terms(chunk.title, index.language)


NAMES = st.sampled_from(["dana", "alice", "qa", "lab"])
SUBJECTS = st.one_of(st.just("tenant"), NAMES.map("user:{}".format), NAMES.map("group:{}".format))
TENANTS = st.sampled_from(["acme", "globex"])


@given(
    tenants=st.frozensets(TENANTS),
    view=st.frozensets(SUBJECTS),
    grants=st.lists(st.tuples(TENANTS, st.sampled_from(["sops/*", "**", "faqs/a.md"]), st.lists(SUBJECTS))),
    admins=st.dictionaries(TENANTS, st.lists(SUBJECTS.filter(lambda one: one != "tenant"))),
    fault=st.booleans(),
    who=st.builds(Principal, TENANTS, NAMES, st.frozensets(NAMES)),
    doc_id=st.sampled_from(["sops/a.md", "faqs/a.md"]),
)
@settings(max_examples=60, deadline=None)
def test_who_may_view_a_document_is_who_has_one_of_its_readers(
    tmp_path_factory: pytest.TempPathFactory,
    tenants: frozenset[str],
    view: frozenset[str],
    grants: list[tuple[str, str, list[str]]],
    admins: dict[str, list[str]],
    fault: bool,
    who: Principal,
    doc_id: str,
) -> None:
    folder = tmp_path_factory.getbasetemp() / "rules"
    (folder / "collections").mkdir(parents=True, exist_ok=True)
    (folder / "access").mkdir(exist_ok=True)
    rules = {
        "tenants": {tenant: {"admins": names} for tenant, names in admins.items()},
        "grants": [{"tenant": tenant, "match": match, "view": subjects} for tenant, match, subjects in grants],
    }
    (folder / "access" / "rules.json").write_text(json.dumps(rules))
    known = AccessRules.load(Workspace(folder))
    assert known.faults == ()
    labels = AccessLabels(tenants, frozenset() if fault else view, "unreadable" if fault else None)
    readers = {f"{tenant},{subject}" for tenant, subject in known.readers(doc_id, labels)}
    assert bool(readers & set(readers_of(who))) == known.may_view(who, doc_id, labels)


def test_the_owner_of_an_open_workspace_reads_everything_and_nobody_else_does(tmp_path: Path) -> None:
    assert hive("init", tmp_path / "w", "--empty").code == 0
    place = Workspace(tmp_path / "w")
    (place.documents / "a.md").write_text("---\ntenant: acme\nview: [tenant]\n---\n# A\n\nText.\n")
    (place.documents / "b.md").write_text("# B\n\nText.\n")
    (place.root / "hive.toml").write_text('[models]\nembedding = "none"\n[access]\nmode = "open"\n')
    place.index()
    engine = place.engine()
    name = engine.resolve(None).collection
    program = RetrievalConfig.model_validate(
        {"name": "words", "collection": name, "retrieval": {"method": "keyword", "top_k": 5}}
    )
    made = export(place, engine.index(name), program, "qdrant")
    points = [json.loads(line)["payload"] for line in made.data["points.jsonl"]()]
    assert {point["doc_id"]: point["readers"] for point in points} == {
        "a.md": ["acme,tenant", "local,tenant"],
        "b.md": ["local,tenant"],
    }


def test_the_command_writes_all_files_and_says_what_differs(tmp_path: Path) -> None:
    ran = hive("export", "v1-naive", "--to", "qdrant", "-o", tmp_path / "out", "-w", indexed_sample(), "--json")
    assert ran.code == 0
    assert ran.json["files"] == ["collection.json", "query.json", "points.jsonl", "export.json"]
    kept = json.loads((tmp_path / "out" / "export.json").read_text())
    assert kept["differences"] == ran.json["differences"]
    assert all(one["message"] in ran.err for one in kept["differences"])
    assert "HIVE-219" in ran.err
    index = sample().engine().index("knowledge-base")
    assert len((tmp_path / "out" / "points.jsonl").read_text().splitlines()) == index.n_chunks


def test_the_command_fills_a_question_in_for_who_asks() -> None:
    asked = ("export", "v1-naive", "--to", "opensearch", "--query", "rotate a key", "-w", indexed_sample(), "--json")
    ran = hive(*asked, "--as", "dana")
    assert ran.code == 0
    assert ran.json["values"]["reader"] == ["acme,group:qa", "acme,tenant", "acme,user:dana"]
    words, nearest = ran.json["request"]["query"]["hybrid"]["queries"]
    assert words["bool"]["filter"] == [{"terms": {"readers": ran.json["values"]["reader"]}}]
    assert words["bool"]["must"] == [{"match": {"words": {"query": "rotate a key"}}}]
    assert len(nearest["script_score"]["script"]["params"]["query_value"]) == 384
    assert hive(*asked, "--as", "nobody-known").code == 2


def test_an_engine_that_is_none_is_a_wrong_usage_with_the_nearest_name() -> None:
    ran = hive("export", "v1-naive", "--to", "postgresql", "-w", indexed_sample())
    assert ran.code == 2
    assert "use --to postgres" in ran.err


def test_values_are_only_those_that_the_config_needs() -> None:
    place = sample()
    index = place.engine().index("knowledge-base")
    made = export(place, index, config(retrieval={"method": "keyword", "top_k": 3}), "qdrant")
    values = values_for(made, index, "rotate a key", known_principal(place, "dana"))
    assert set(values) == {"reader", "terms"}
    assert len(values["terms"]["indices"]) == 3
