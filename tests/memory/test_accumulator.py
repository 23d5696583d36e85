from __future__ import annotations

import pytest

from hive_agents import Workspace
from hive_agents.base.errors import HiveError
from hive_agents.memory import ConversationStore, OutputAccumulator


def test_outputs_survive_their_process(store: ConversationStore, bare: Workspace) -> None:
    chat = store.create("digest", "r1")
    outputs = OutputAccumulator(store, chat, ["items", "note"])
    outputs.set("items", [1, {"é": None}])
    outputs.set("note", "a")
    outputs.set("items", [2])
    again = OutputAccumulator(ConversationStore(bare, tenant="acme"), chat, ["items", "note"])
    assert again.values == {"items": [2], "note": "a"}


def test_an_undeclared_key_is_refused_by_name(store: ConversationStore) -> None:
    outputs = OutputAccumulator(store, store.create("digest", "r1"), ["items"])
    with pytest.raises(HiveError, match=r'HIVE-103.*"itmes"') as failure:
        outputs.set("itmes", 1)
    assert failure.value.diagnostics[0].fix == 'did you mean "items"?'
    assert outputs.values == {}


@pytest.mark.parametrize(
    ("value", "code"), [(float("nan"), 104), ({1: 2}, 104), ({"a": {3}}, 104), (b"x", 104), ("x" * 1_000_001, 105)]
)
def test_a_value_that_is_no_json_or_too_long_is_refused(store: ConversationStore, value: object, code: int) -> None:
    outputs = OutputAccumulator(store, store.create("digest", "r1"), ["items"])
    with pytest.raises(HiveError, match=f"HIVE-{code}.*items"):
        outputs.set("items", value)
    assert outputs.values == {}


def test_a_value_that_contains_itself_is_refused(store: ConversationStore) -> None:
    outputs = OutputAccumulator(store, store.create("digest", "r1"), ["items"])
    items: list[object] = []
    items.append(items)
    with pytest.raises(HiveError, match="HIVE-104"):
        outputs.set("items", items)


def test_missing_names_what_is_required_and_not_set(store: ConversationStore) -> None:
    outputs = OutputAccumulator(store, store.create("digest", "r1"), ["a", "b", "c"])
    outputs.set("a", 0)
    outputs.set("b", None)
    assert outputs.missing() == ["b", "c"]
    assert outputs.missing(nullable=["b", "c"]) == []
    assert outputs.missing(["a", "c"]) == ["c"]


def test_nodes_of_one_conversation_see_their_own_outputs(store: ConversationStore) -> None:
    chat = store.create("digest", "r1")
    OutputAccumulator(store, chat, ["items"]).set("items", 1)
    assert OutputAccumulator(store, chat, ["text"]).values == {}
