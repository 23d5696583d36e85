import json
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.base.errors import Diagnostic, HiveError
from hive_agents.documents import Collection, collection_names, load_collection
from tests.conftest import COLLECTION


def write(workspace: Workspace, file: str, value: Any) -> None:
    text = value if isinstance(value, str) else json.dumps(value)
    (workspace.root / "collections" / file).write_text(text, encoding="utf-8")


def refused(workspace: Workspace, name: str | None) -> Diagnostic:
    with pytest.raises(HiveError) as caught:
        load_collection(workspace, name)
    return caught.value.diagnostics[0]


def test_the_only_collection_needs_no_name(text_workspace: Workspace) -> None:
    assert load_collection(text_workspace).name == "kb"
    assert load_collection(text_workspace).filterable == [
        "category",
        "status",
        "labels",
        "effective",
        "version",
        "public",
    ]


def test_chunking_has_defaults() -> None:
    chunking = Collection.model_validate({"name": "a", "fields": {}}).chunking
    assert chunking.model_dump() == {"strategy": "by_heading", "max_tokens": 512, "heading_level": 2}


def test_a_collection_is_found_by_name_and_by_file(text_workspace: Workspace) -> None:
    write(text_workspace, "other.json", COLLECTION | {"name": "handbook"})
    assert collection_names(text_workspace) == ["kb", "other"]
    assert load_collection(text_workspace, "handbook").name == "handbook"
    assert load_collection(text_workspace, "other").name == "handbook"


def test_several_collections_need_a_name(text_workspace: Workspace) -> None:
    write(text_workspace, "other.json", COLLECTION | {"name": "handbook"})
    found = refused(text_workspace, None)
    assert (found.code, found.fix) == ("HIVE-409", "name one of: kb, other")


def test_a_missing_collection_is_an_error_with_a_guess(text_workspace: Workspace) -> None:
    found = refused(text_workspace, "kbb")
    assert (found.code, found.path, found.fix) == ("HIVE-211", "collection", 'did you mean "kb"?')


def test_another_collections_fault_never_matters(text_workspace: Workspace) -> None:
    write(text_workspace, "a.json", '{"name": "kb" oops')
    assert load_collection(text_workspace, "kb").name == "kb"
    assert refused(text_workspace, "a").code == "HIVE-101"


@pytest.mark.parametrize(
    ("change", "code", "path"),
    [
        ({"fields": {"a": {"type": "blob"}}}, "HIVE-105", "fields.a.type"),
        ({"fields": {"a": {"type": "text", "filtrable": True}}}, "HIVE-103", "fields.a.filtrable"),
        ({"chunking": {"max_tokens": 0}}, "HIVE-105", "chunking.max_tokens"),
        ({"chunking": {"heading_level": 7}}, "HIVE-105", "chunking.heading_level"),
        ({"chunking": {"strategy": "by_vibe"}}, "HIVE-105", "chunking.strategy"),
        ({"name": "K B"}, "HIVE-113", "name"),
        ({"fieldz": {}}, "HIVE-103", "fieldz"),
    ],
)
def test_a_broken_collection_says_where(text_workspace: Workspace, change: Any, code: str, path: str) -> None:
    write(text_workspace, "kb.json", COLLECTION | change)
    found = refused(text_workspace, "kb")
    assert (found.code, found.path, found.file) == (code, path, "collections/kb.json")


def test_the_digest_is_of_what_decides_the_index() -> None:
    kb = Collection.model_validate(COLLECTION)
    assert kb.digest() == Collection.model_validate(COLLECTION | {"description": "ours"}).digest()
    assert kb.digest() != Collection.model_validate(COLLECTION | {"chunking": {"max_tokens": 100}}).digest()
