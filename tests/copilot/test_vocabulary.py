"""The words that filter."""

from __future__ import annotations

from typing import Any

import pytest

from hive_agents.copilot.vocabulary import FieldWords, Vocabulary
from hive_agents.documents.analysis import words
from hive_agents.documents.documents import Collection

FIELDS: dict[str, Any] = {
    "category": {
        "type": "keyword",
        "filterable": True,
        "synonyms": {"sops": ["work instructions"], "memos": ["notes"]},
    },
    "status": {"type": "keyword", "filterable": True},
    "updated": {"type": "date", "filterable": True},
    "owner": {"type": "keyword"},
}
VALUES = {"category": [("api-docs", 2), ("sops", 9)], "status": [("effective", 3), ("retired", 1)]}


def collection(fields: dict[str, Any] = FIELDS) -> Collection:
    return Collection.model_validate({"name": "kb", "fields": fields})


def vocabulary() -> Vocabulary:
    return Vocabulary.of(collection(), lambda field: VALUES.get(field, []))


def test_it_holds_filterable_fields_with_the_commonest_values_first():
    """A synonym of a value that no visible document has isn't there either."""
    assert vocabulary() == Vocabulary(
        {
            "category": FieldWords("keyword", ("sops", "api-docs"), {"sops": ("work instructions",)}),
            "status": FieldWords("keyword", ("effective", "retired")),
            "updated": FieldWords("date"),
        }
    )


@pytest.mark.parametrize(
    ("field", "word", "value"),
    [
        ("category", "SOP", "sops"),
        ("category", "work instruction", "sops"),
        ("category", "standard operating procedures", "sops"),
        ("category", "API documentation", "api-docs"),
        ("category", "api doc", "api-docs"),
        ("category", "note", None),
        ("status", "in force", "effective"),
        ("status", "efective", "effective"),
        ("status", "effect", None),
        ("status", "retire", None),
        ("owner", "dana", None),
        ("category", "effective", None),
        ("category", "", None),
    ],
)
def test_a_value_is_known_by_its_inflections_and_synonyms_only(field: str, word: str, value: str | None):
    meanings = vocabulary().meanings(words(word))
    assert next((meaning.value for meaning in meanings if meaning.field == field), None) == value


def test_a_synonym_leaves_the_index_as_it_is():
    plain = {name: {k: v for k, v in field.items() if k != "synonyms"} for name, field in FIELDS.items()}
    assert collection().digest() == collection(plain).digest()
