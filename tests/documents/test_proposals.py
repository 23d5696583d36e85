"""What could be declared of fields: nothing of persons, and nothing of a field that says one thing everywhere."""

from __future__ import annotations

from hive_agents.documents.documents import Collection
from hive_agents.documents.proposals import proposed_declarations

STATES = [{"state": "retired"}, {"state": "effective"}]


def proposed(said: list[dict[str, str]], **declared: bool) -> list[str]:
    fields = {name: {"type": "keyword", "filterable": True, **declared} for name in said[0]}
    return [one.name for one in proposed_declarations(Collection(name="kb", fields=fields), [], said)]


def test_what_holds_may_come_first_unless_the_field_is_of_persons() -> None:
    assert proposed(STATES) == ["state.ranks", "state.may_hide"]
    assert proposed(STATES, person=True) == []


def test_a_field_with_one_value_says_nothing() -> None:
    assert proposed([{"state": "retired"}, {"state": "retired"}]) == []


def test_names_of_persons_are_declared_so_once() -> None:
    assert proposed([{"author": "ann"}, {"author": "bo"}]) == ["author.person"]
    assert proposed([{"author": "ann"}, {"author": "bo"}], person=True) == []
