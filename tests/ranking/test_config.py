import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from hive_agents import Workspace
from hive_agents.base.errors import Diagnostic, HiveError
from hive_agents.base.resources import json_schema
from hive_agents.ranking import find_config
from hive_agents.ranking.config import config_hash, parse_config
from tests.conftest import config_json, write_config

MINIMAL = {"name": "a", "collection": "kb", "retrieval": {"method": "hybrid", "top_k": 5}}


def faults(value: Any) -> list[Diagnostic]:
    text = value if isinstance(value, str) else json.dumps(value, indent=2)
    with pytest.raises(HiveError) as caught:
        parse_config(text, "configs/a.json")
    for diagnostic in caught.value.diagnostics:
        assert diagnostic.path
        assert diagnostic.file == "configs/a.json"
    return caught.value.diagnostics


def test_optional_keys_have_the_defaults_that_change_nothing() -> None:
    config = parse_config(json.dumps(MINIMAL), "configs/a.json").config
    assert config.model_dump(by_alias=True, exclude={"name", "collection", "schema_"}) == {
        "description": "",
        "parent": None,
        "retrieval": {
            "method": "hybrid",
            "top_k": 5,
            "rrf_k": 60,
            "candidates": 100,
            "weights": {"keyword": 1, "vector": 1},
            "per_document": None,
        },
        "boosts": {},
        "boilerplate": {"weight": 1.0},
        "dynamic_k": {"enabled": False, "gap_threshold_factor": 3.0, "min_results": 1, "max_results": None},
        "filters": {},
        "distraction_detection": {"enabled": False, "disagreement_threshold": 0.5},
        "lift": {"enabled": None, "weight": None},
        "abstain": {"enabled": False, "min_cosine": None, "unless_all_words": False},
        "bm25": {"k1": 1.2, "b": 0.75, "title_boost": 1.0},
        "rerank": {"enabled": False, "candidates": 50, "floor": None},
    }
    assert config.max_results == 5


@pytest.mark.parametrize(
    ("path", "bad", "good"),
    [
        ("retrieval.top_k", [0, 1001], [1, 1000]),
        ("retrieval.candidates", [0, 10_001], [1, 10_000]),
        ("retrieval.rrf_k", [0, 1001], [1, 1000]),
        ("retrieval.weights.keyword", [-0.1], [0, 2.5]),
        ("bm25.k1", [-1, 10.1], [0, 10]),
        ("retrieval.per_document", [0, 101], [None, 1, 100]),
        ("boosts.status", [{}], [{"draft": 10, "retired": 0.2}]),
        ("boosts.status.retired", [-0.1, 10.1], [0, 10]),
        ("boosts.effective", [{"half_life_days": 9, "x": 1}], [{"half_life_days": 0.5}]),
        ("boosts.effective.half_life_days", [0, -1], [0.5]),
        ("bm25.b", [-0.1, 1.1], [0, 1]),
        ("bm25.title_boost", [-1, 11], [0, 10]),
        ("dynamic_k.gap_threshold_factor", [0, -1], [0.01]),
        ("dynamic_k.min_results", [-1], [0]),
        ("distraction_detection.disagreement_threshold", [-0.1, 1.1], [0, 1]),
        ("retrieval.method", ["fuzzy"], ["keyword", "HYBRID"]),
    ],
)
def test_every_range_is_checked(path: str, bad: list[Any], good: list[Any]) -> None:
    for values, ok in ((bad, False), (good, True)):
        for value in values:
            config: Any = json.loads(json.dumps(MINIMAL))
            place = config
            *blocks, key = path.split(".")
            for block in blocks:
                place = place.setdefault(block, {})
            place[key] = value
            if ok:
                parse_config(json.dumps(config), "configs/a.json")
            else:
                assert [(found.code, found.path) for found in faults(config)] == [("HIVE-105", path)]


@pytest.mark.parametrize("name", ["", "Upper", "-a", "a b", "x" * 65, "active", "../a"])
def test_a_name_that_cannot_be_one_is_an_error(name: str) -> None:
    assert [(found.code, found.path) for found in faults(MINIMAL | {"name": name})] == [("HIVE-113", "name")]


def test_every_fault_is_reported_with_its_line() -> None:
    found = faults(
        {"name": "a", "retrieval": {"method": "hybrid", "top_k": "5", "topk": 3}, "dynamic-k": {"enabled": True}}
    )
    assert {(f.code, f.path, f.line) for f in found} == {
        ("HIVE-106", "collection", 1),
        ("HIVE-104", "retrieval.top_k", 5),
        ("HIVE-103", "retrieval.topk", 6),
        ("HIVE-103", "dynamic-k", 8),
    }
    assert 'did you mean "top_k"?' in [f.fix for f in found]
    assert 'did you mean "dynamic_k"?' in [f.fix for f in found]


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        ('{\n  "name": "a",\n}', "HIVE-101", 3),
        ('{\n  // why\n  "name": "a"\n}', "HIVE-102", 2),
        ('{"name": "a", "name": "b"}', "HIVE-101", 1),
        ('{"name": NaN}', "HIVE-101", 1),
        ("[]", "HIVE-104", 1),
    ],
)
def test_json_is_strict(text: str, code: str, line: int) -> None:
    assert [(found.code, found.line) for found in faults(text)] == [(code, line)]


def test_a_schema_reference_is_allowed() -> None:
    parse_config(json.dumps({"$schema": "config.schema.json", **MINIMAL}), "configs/a.json")


@pytest.mark.parametrize(
    ("key", "sound", "values"),
    [
        ("filters", True, ["draft", 3, True, ["a", 1], {"not": "a"}, {"not": ["a"]}, {"gte": "2025-01-01", "lt": 5}]),
        (
            "filters",
            False,
            [None, [], [None], {}, {"not": []}, {"not": {}}, {"gte": True}, {"eq": 1}, {"not": "a", "gte": 1}],
        ),
        ("boosts", True, [{"half_life_days": 0.5}, {"draft": 0, "retired": 10}]),
        (
            "boosts",
            False,
            [{}, 2, {"half_life_days": 0}, {"half_life_days": 5, "draft": 1}, {"draft": 11}, {"draft": "x"}],
        ),
    ],
)
def test_the_schema_for_editors_says_what_level_1_says_of_filters_and_boosts(
    key: str, sound: bool, values: list[Any]
) -> None:
    editor = Draft202012Validator(json_schema("config"))
    for value in values:
        config = MINIMAL | {key: {"status": value}}
        assert editor.is_valid(config) == sound, value
        if sound:
            parse_config(json.dumps(config), "configs/a.json")
        else:
            assert {found.path.split(".")[0] for found in faults(config) if found.path} == {key}


def test_the_hash_is_of_what_a_config_says() -> None:
    turned = {key: MINIMAL[key] for key in reversed(MINIMAL)}
    assert config_hash(json.dumps(MINIMAL, indent=4)) == config_hash(json.dumps(turned))
    assert config_hash(json.dumps(MINIMAL)) != config_hash(json.dumps(MINIMAL | {"description": "x"}))


def test_a_config_is_found_by_path_file_name_and_name(text_workspace: Workspace) -> None:
    path = write_config(text_workspace, "v7")
    path.write_text(json.dumps(config_json("seven")), encoding="utf-8")
    for reference in (str(path), "configs/v7.json", "v7.json", "v7", "seven"):
        stored = find_config(text_workspace, reference)
        assert (stored.name, stored.file) == ("seven", "configs/v7.json")


def test_a_file_name_comes_before_a_name(text_workspace: Workspace) -> None:
    write_config(text_workspace, "v7").write_text(json.dumps(config_json("words")), encoding="utf-8")
    assert find_config(text_workspace, "words").file == "configs/words.json"


def test_a_config_outside_the_workspace_is_found_by_its_path(
    text_workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = text_workspace.root.parent / "mine.json"
    outside.write_text(json.dumps(config_json("mine")), encoding="utf-8")
    assert find_config(text_workspace, str(outside)).name == "mine"
    monkeypatch.chdir(outside.parent)
    assert find_config(text_workspace, "mine.json").name == "mine"


def test_two_files_with_one_name_are_an_error_only_when_it_is_asked_for(text_workspace: Workspace) -> None:
    for file in ("x", "y"):
        write_config(text_workspace, file).write_text(json.dumps(config_json("twin")), encoding="utf-8")
    assert find_config(text_workspace, "words").name == "words"
    assert find_config(text_workspace, "x").name == "twin"
    with pytest.raises(HiveError) as caught:
        find_config(text_workspace, "twin")
    assert caught.value.diagnostics[0].code == "HIVE-111"
    assert "configs/x.json" in caught.value.diagnostics[0].message


def test_another_configs_fault_never_matters(text_workspace: Workspace) -> None:
    (text_workspace.configs / "broken.json").write_bytes(b'{"name": "\xff')
    write_config(text_workspace, "v7").write_text(json.dumps(config_json("seven")), encoding="utf-8")
    assert find_config(text_workspace, "seven").file == "configs/v7.json"
    with pytest.raises(HiveError) as caught:
        find_config(text_workspace, "broken")
    assert caught.value.diagnostics[0].code == "HIVE-112"


@pytest.mark.parametrize(("reference", "fix"), [("word", 'did you mean "words"?'), ("zzz", "use one of: ")])
def test_an_unknown_config_is_wrong_usage_with_a_guess(text_workspace: Workspace, reference: str, fix: str) -> None:
    with pytest.raises(HiveError) as caught:
        find_config(text_workspace, reference)
    found = caught.value.diagnostics[0]
    assert (found.code, caught.value.exit_code) == ("HIVE-107", 2)
    assert fix in str(found.fix)
