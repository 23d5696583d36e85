"""Every diagnostic of levels 1 and 2: a config, golden set or workspace that has it, and one that hasn't."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.base.errors import Diagnostic, HiveError
from hive_agents.evaluation import load_golden
from hive_agents.ranking import build_index, check_config, named_config, require_sound
from hive_agents.ranking.deployed import find_active
from tests.conftest import COLLECTION, write_config, write_document
from tests.topics import query, write_golden

CONFIG = """{
  "name": "c",
  "collection": "kb",
  "retrieval": {
    "method": "hybrid",
    "top_k": 10
  }
}
"""
KEYWORD = ('"hybrid"', '"keyword"')
LAST = "\n  }\n}"


def block(text: str) -> tuple[str, str]:
    """An edit of `CONFIG`: one more block, in line 8."""
    return (LAST, f"\n  }},\n  {text}\n}}")


def edited(*edits: tuple[str, str]) -> str:
    text = CONFIG
    for old, new in edits:
        assert text.count(old) == 1
        text = text.replace(old, new)
    return text


def findings(workspace: Workspace, text: str | bytes, **options: Any) -> list[Diagnostic]:
    """All that levels 1 and 2 say of a config with this text."""
    (workspace.configs / "c.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    try:
        return check_config(workspace, named_config(workspace, "c"), **options)
    except HiveError as error:
        return error.diagnostics


# code, JSON path, line, edits with the fault, edits without it
CONFIG_CASES = [
    ("HIVE-101", "$", 4, [('"kb",', '"kb"')], []),
    ("HIVE-101", "$", 6, [("10", "NaN")], []),
    ("HIVE-101", "$", 6, [("10", "1e999")], []),
    ("HIVE-101", "$", 3, [('"collection": "kb"', '"name": "d"')], []),
    ("HIVE-102", "$", 6, [("10", "10 // few")], [block('"description": "// no comment"')]),
    ("HIVE-102", "$", 1, [('{\n  "name"', '# mine\n{\n  "name"')], []),
    ("HIVE-103", "retrieval.rrfk", 7, [("10", '10,\n    "rrfk": 60')], [("10", '10, "rrf_k": 60')]),
    ("HIVE-103", "schema_", 8, [block('"schema_": "x"')], [block('"$schema": "x"')]),
    (
        "HIVE-103",
        "filters.version",
        8,
        [block('"filters": {"version": {"above": 1}}')],
        [block('"filters": {"version": {"gt": 1}}')],
    ),
    ("HIVE-104", "retrieval.top_k", 6, [("10", '"10"')], []),
    ("HIVE-104", "retrieval", 4, [('{\n    "method": "hybrid",\n    "top_k": 10\n  }', "7")], []),
    ("HIVE-104", "filters.status", 8, [block('"filters": {"status": [null]}')], [block('"filters": {}')]),
    ("HIVE-105", "retrieval.method", 5, [('"hybrid"', '"semantic"')], [('"hybrid"', '"Hybrid"')]),
    ("HIVE-105", "filters.status", 8, [block('"filters": {"status": []}')], [block('"filters": {"status": "draft"}')]),
    ("HIVE-106", "retrieval.top_k", 4, [(',\n    "top_k": 10', "")], []),
    ("HIVE-107", "parent", 8, [block('"parent": "v0"')], [block('"parent": "v1"')]),
    ("HIVE-113", "name", 2, [('"c"', '"My Config"')], [('"c"', '"my.config-1_b"')]),
    ("HIVE-113", "name", 2, [('"c"', '"active"')], [('"c"', '"activated"')]),
    ("HIVE-113", "name", 2, [('"c"', '"' + "a" * 65 + '"')], [('"c"', '"' + "a" * 64 + '"')]),
    (
        "HIVE-201",
        "dynamic_k.min_results",
        8,
        [block('"dynamic_k": {"enabled": true, "min_results": 6, "max_results": 5}')],
        [block('"dynamic_k": {"enabled": true, "min_results": 5, "max_results": 5}')],
    ),
    (
        "HIVE-201",
        "dynamic_k.min_results",
        8,
        [block('"dynamic_k": {"enabled": true, "min_results": 11}')],
        [block('"dynamic_k": {"enabled": true, "min_results": 10}')],
    ),
    (
        "HIVE-202",
        "dynamic_k.max_results",
        8,
        [block('"dynamic_k": {"enabled": true, "max_results": 11}')],
        [block('"dynamic_k": {"enabled": true, "max_results": 10}')],
    ),
    (
        "HIVE-203",
        "retrieval.method",
        5,
        [KEYWORD, block('"distraction_detection": {"enabled": true}')],
        [block('"distraction_detection": {"enabled": true}')],
    ),
    (
        "HIVE-204",
        "retrieval.method",
        5,
        [KEYWORD, block('"dynamic_k": {"enabled": true}')],
        [block('"dynamic_k": {"enabled": true}')],
    ),
    ("HIVE-205", "retrieval.top_k", 6, [("10", '10, "candidates": 9')], [("10", '10, "candidates": 10')]),
    (
        "HIVE-206",
        "filters.statu",
        8,
        [block('"filters": {"statu": "draft"}')],
        [block('"filters": {"status": "draft"}')],
    ),
    ("HIVE-207", "filters.owner", 8, [block('"filters": {"owner": "dana"}')], []),
    ("HIVE-206", "boosts.statu", 8, [block('"boosts": {"statu": {"draft": 2}}')], []),
    (
        "HIVE-207",
        "boosts.effective",
        8,
        [block('"boosts": {"effective": {"2025": 2}}')],
        [block('"boosts": {"effective": {"half_life_days": 90}}')],
    ),
    (
        "HIVE-208",
        "boosts.status",
        8,
        [block('"boosts": {"status": {"draft": 0.5, "drafted": 2}}')],
        [block('"boosts": {"status": {"draft": 0.5}, "version": {"3": 2}, "public": {"true": 2}}')],
    ),
    (
        "HIVE-207",
        "filters.status",
        8,
        [block('"filters": {"status": {"gte": "draft"}}')],
        [block('"filters": {"effective": {"gte": "2024-01-01"}}')],
    ),
    (
        "HIVE-208",
        "filters.status",
        8,
        [block('"filters": {"status": "drafted"}')],
        [block('"filters": {"status": ["draft", "effective"]}')],
    ),
    (
        "HIVE-208",
        "filters.status",
        8,
        [block('"filters": {"status": {"not": ["gone"]}}')],
        [block('"filters": {"status": {"not": ["draft"]}}')],
    ),
    (
        "HIVE-209",
        "filters",
        8,
        [block('"filters": {"category": "faqs", "status": "retired"}')],
        [block('"filters": {"category": "guides", "status": "retired"}')],
    ),
    (
        "HIVE-210",
        "rerank.candidates",
        8,
        [block('"rerank": {"enabled": true, "candidates": 9}')],
        [block('"rerank": {"enabled": true, "candidates": 10}')],
    ),
    ("HIVE-211", "collection", 3, [('"kb"', '"kbase"')], []),
    (
        "HIVE-212",
        "retrieval.weights",
        6,
        [("10", '10, "weights": {"keyword": 0, "vector": 0}')],
        [("10", '10, "weights": {"keyword": 0, "vector": 0.1}')],
    ),
    ("HIVE-214", "rerank.enabled", 8, [block('"rerank": {"enabled": true}')], [block('"rerank": {"enabled": false}')]),
]


@pytest.mark.parametrize(("code", "path", "line", "faulty", "sound"), CONFIG_CASES)
def test_config_fault_is_reported_where_it_is_and_not_elsewhere(
    text_workspace: Workspace,
    code: str,
    path: str,
    line: int,
    faulty: list[tuple[str, str]],
    sound: list[tuple[str, str]],
) -> None:
    found = [diagnostic for diagnostic in findings(text_workspace, edited(*faulty)) if diagnostic.code == code]
    assert [(d.file, d.path, d.line, d.severity) for d in found] == [("configs/c.json", path, line, "error")]
    assert found[0].fix
    assert found[0].level == int(code[5])
    assert code not in {diagnostic.code for diagnostic in findings(text_workspace, edited(*sound))}


def test_sound_config_has_no_finding(text_workspace: Workspace) -> None:
    assert findings(text_workspace, CONFIG) == []


RANGES = [
    ("retrieval.top_k", [1, 1000], [0, 1001]),
    ("retrieval.candidates", [1, 10_000], [0, 10_001]),
    ("retrieval.rrf_k", [1, 1000], [0, 1001]),
    ("retrieval.weights.keyword", [0, 0.5], [-0.1]),
    ("retrieval.weights.vector", [0, 7], [-1]),
    ("bm25.k1", [0, 10], [-0.1, 10.1]),
    ("bm25.b", [0, 1], [-0.1, 1.1]),
    ("bm25.title_boost", [0, 10], [-0.1, 10.1]),
    ("dynamic_k.gap_threshold_factor", [0.001], [0, -1]),
    ("dynamic_k.min_results", [0], [-1]),
    ("distraction_detection.disagreement_threshold", [0, 1], [-0.1, 1.1]),
    ("rerank.candidates", [1, 10_000], [0, 10_001]),
    ("abstain.min_cosine", [-1, 1, None], [-1.1, 1.1]),
]


@pytest.mark.parametrize(("path", "inside", "outside"), RANGES)
def test_ranges_hold_at_both_ends(text_workspace: Workspace, path: str, inside: list[Any], outside: list[Any]) -> None:
    section, *keys = path.split(".")
    for value in [*inside, *outside]:
        config: dict[str, Any] = json.loads(CONFIG)
        place = config.setdefault(section, {})
        for key in keys[:-1]:
            place = place.setdefault(key, {})
        place[keys[-1]] = value
        found = findings(text_workspace, json.dumps(config))
        level1 = [(d.code, d.path) for d in found if d.level == 1]
        assert level1 == ([] if value in inside else [("HIVE-105", path)])


def test_all_faults_of_a_level_are_collected(text_workspace: Workspace) -> None:
    level1 = findings(text_workspace, edited(('"c"', '"C"'), ('"kb"', "5"), ("10", '0, "rrfk": 1')))
    assert {d.code for d in level1} == {"HIVE-113", "HIVE-104", "HIVE-105", "HIVE-103"}
    level2 = findings(
        text_workspace,
        edited(
            KEYWORD,
            ("10", '10, "candidates": 5, "weights": {"keyword": 0, "vector": 0}'),
            block('"parent": "v0", "dynamic_k": {"enabled": true, "min_results": 30, "max_results": 20}'),
        ),
    )
    assert {d.code for d in level2} == {"HIVE-107", "HIVE-201", "HIVE-202", "HIVE-204", "HIVE-205", "HIVE-212"}


def test_every_wrong_filter_is_reported(text_workspace: Workspace) -> None:
    filters = block('"filters": {"statu": "draft", "owner": "kim", "category": "faq", "status": "draft"}')
    assert [d.code for d in findings(text_workspace, edited(filters))] == ["HIVE-206", "HIVE-207", "HIVE-208"]


def test_disabled_block_is_checked_at_level_1_only(text_workspace: Workspace) -> None:
    sensible = edited(
        KEYWORD,
        block(
            '"dynamic_k": {"enabled": false, "min_results": 30, "max_results": 20}, "rerank": {"candidates": 2},'
            ' "distraction_detection": {"enabled": false}'
        ),
    )
    assert findings(text_workspace, sensible) == []
    assert [d.code for d in findings(text_workspace, edited(block('"dynamic_k": {"min_results": -1}')))] == ["HIVE-105"]


def test_reranker_makes_214_go_away(text_workspace: Workspace) -> None:
    text = edited(block('"rerank": {"enabled": true}'))
    assert [d.code for d in findings(text_workspace, text)] == ["HIVE-214"]
    assert findings(text_workspace, text, reranker=True) == []


def test_encoding_fault_names_the_line(text_workspace: Workspace) -> None:
    latin = CONFIG.replace('"kb"', '"k\xfc"').encode("latin-1")
    marked = b"\xef\xbb\xbf" + CONFIG.encode()
    for text, line in ((latin, 3), (marked, 1)):
        (found,) = findings(text_workspace, text)
        assert (found.code, found.file, found.path, found.line) == ("HIVE-112", "configs/c.json", "$", line)
        assert found.fix
    assert findings(text_workspace, CONFIG.replace('"c"', '"c", "description": "k\xfc"')) == []


def test_unknown_config_is_a_reference_and_wrong_usage(text_workspace: Workspace) -> None:
    with pytest.raises(HiveError) as raised:
        named_config(text_workspace, "wrods")
    (found,) = raised.value.diagnostics
    assert (found.code, found.path, found.fix) == ("HIVE-107", "$", 'did you mean "words"?')
    assert raised.value.exit_code == 2


def test_name_of_two_configs_is_an_error_only_where_it_is_asked_for(text_workspace: Workspace) -> None:
    write_config(text_workspace, "one").write_text(CONFIG.replace('"c"', '"twin"'))
    write_config(text_workspace, "two").write_text(CONFIG.replace('"c"', '"twin"'))
    with pytest.raises(HiveError) as raised:
        named_config(text_workspace, "twin")
    (found,) = raised.value.diagnostics
    assert (found.code, found.file, found.path, found.line) == ("HIVE-111", "configs/two.json", "name", 2)
    assert found.fix
    assert named_config(text_workspace, "one").name == "twin"
    assert named_config(text_workspace, "words").name == "words"


def test_active_that_leaves_configs_is_refused(text_workspace: Workspace) -> None:
    outside = text_workspace.root / "v9.json"
    outside.write_text(CONFIG)
    link = text_workspace.configs / "active.json"
    link.symlink_to("../v9.json")
    with pytest.raises(HiveError) as raised:
        find_active(text_workspace)
    (found,) = raised.value.diagnostics
    assert (found.code, found.file, found.path) == ("HIVE-114", "configs/active.json", "$")
    assert found.fix
    link.unlink()
    link.symlink_to("words.json")
    active = find_active(text_workspace)
    assert active is not None
    assert active.stored.name == "words"


def test_broken_front_matter_is_skipped_with_its_line(text_workspace: Workspace) -> None:
    write_document(text_workspace, "faqs/broken.md", "---\ntitle: Fine\nstatus: [draft\n---\nText.\n")
    skipped = build_index(text_workspace).skipped
    assert [(entry["file"], entry["line"] in (3, 4, 5)) for entry in skipped] == [("documents/faqs/broken.md", True)]
    write_document(text_workspace, "faqs/broken.md", "---\ntitle: Fine\nstatus: [draft]\n---\nText.\n")
    assert build_index(text_workspace).skipped == []


def other_golden(workspace: Workspace) -> None:
    other = COLLECTION | {"name": "other"}
    (workspace.root / "collections" / "other.json").write_text(json.dumps(other))
    write_golden(workspace, [query("webhooks", relevant=["guides/webhooks.md"], distractors=[])], collection="other")


def test_golden_set_of_another_collection_does_not_fit_a_config(text_workspace: Workspace) -> None:
    other_golden(text_workspace)
    golden = load_golden(text_workspace)
    (found,) = findings(text_workspace, CONFIG, judged=golden.collection)
    assert (found.code, found.file, found.path, found.line) == ("HIVE-213", "configs/c.json", "collection", 3)
    assert found.fix
    assert findings(text_workspace, CONFIG.replace('"kb"', '"other"'), judged=golden.collection) == []


def test_require_sound_raises_all_findings_with_exit_code_1(text_workspace: Workspace) -> None:
    write_config(text_workspace, "c", "keyword", dynamic_k={"enabled": True, "max_results": 50})
    with pytest.raises(HiveError) as raised:
        require_sound(text_workspace, named_config(text_workspace, "c"))
    assert [d.code for d in raised.value.diagnostics] == ["HIVE-204", "HIVE-202"]
    assert raised.value.exit_code == 1
    require_sound(text_workspace, named_config(text_workspace, "words"))


def test_text_form_reads_as_a_compilers(text_workspace: Workspace) -> None:
    (found,) = findings(text_workspace, edited(KEYWORD, block('"distraction_detection": {"enabled": true}')))
    assert str(found) == (
        'error[HIVE-203]: distraction detection compares two rankings; "keyword" makes one\n'
        "  --> configs/c.json: retrieval.method (line 5)\n"
        '  fix: set retrieval.method to "hybrid", or disable distraction_detection'
    )


def test_active_is_known_by_every_way_to_write_it(text_workspace: Workspace) -> None:
    (text_workspace.configs / "active.json").symlink_to("words.json")
    folder = text_workspace.root
    for reference in ("active", "active.json", "configs/active.json", f"{folder}/configs/../configs/active.json"):
        assert named_config(text_workspace, reference).file == "configs/words.json"
