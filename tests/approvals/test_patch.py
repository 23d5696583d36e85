"""RFC 6902 by its own examples (appendix A), and faults in words that name the place and quote nothing."""

from __future__ import annotations

from typing import Any

import pytest

from hive_agents.approvals.patch import PatchError, json_patch, patched


@pytest.mark.parametrize(
    ("value", "operation", "expected"),
    [
        ({"foo": "bar"}, {"op": "add", "path": "/baz", "value": "qux"}, {"baz": "qux", "foo": "bar"}),
        ({"foo": ["bar", "baz"]}, {"op": "add", "path": "/foo/1", "value": "qux"}, {"foo": ["bar", "qux", "baz"]}),
        ({"foo": ["bar"]}, {"op": "add", "path": "/foo/-", "value": ["abc"]}, {"foo": ["bar", ["abc"]]}),
        ({"baz": "qux", "foo": "bar"}, {"op": "remove", "path": "/baz"}, {"foo": "bar"}),
        ({"foo": ["bar", "qux", "baz"]}, {"op": "remove", "path": "/foo/1"}, {"foo": ["bar", "baz"]}),
        ({"baz": "qux"}, {"op": "replace", "path": "/baz", "value": "boo"}, {"baz": "boo"}),
        ({"baz": "qux"}, {"op": "replace", "path": "", "value": [1]}, [1]),
        (
            {"foo": {"bar": "baz", "waldo": "fred"}, "qux": {"corge": "grault"}},
            {"op": "move", "from": "/foo/waldo", "path": "/qux/thud"},
            {"foo": {"bar": "baz"}, "qux": {"corge": "grault", "thud": "fred"}},
        ),
        ({"a": [1]}, {"op": "copy", "from": "/a", "path": "/b"}, {"a": [1], "b": [1]}),
        ({"/": 9, "~1": 10}, {"op": "test", "path": "/~01", "value": 10}, {"/": 9, "~1": 10}),
    ],
)
def test_an_operation_changes_a_copy(value: Any, operation: dict[str, Any], expected: Any) -> None:
    before = repr(value)
    assert patched(value, [operation]) == expected
    assert repr(value) == before


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        ({"op": "remove", "path": "/nope"}, "there is no /nope"),
        ({"op": "replace", "path": "/secret/x", "value": 1}, "there is no /secret/x"),
        ({"op": "copy", "from": "/nope/x", "path": "/a"}, "there is no /nope/x or /a"),
        ({"op": "test", "path": "/secret", "value": 1}, "/secret is not what the patch expects"),
        ({"op": "test", "path": "/n", "value": True}, "/n is not what the patch expects"),
        ({"op": "add", "path": "/a"}, "add /a has no value"),
        ({"op": "add", "path": "/list/9", "value": 1}, "add /list/9: can't insert outside of list"),
        ({"op": "add", "path": "/list/01", "value": 1}, "there is no /list/01"),
        ({"op": "remove", "path": ""}, "can't remove the whole document"),
        ({"op": "move", "from": "/list", "path": "/list/0"}, "move /list/0: .*own children"),
        ({"op": "swap", "path": "/a"}, "swap"),
        ({"op": "remove"}, "path"),
        ("remove", "operations"),
    ],
)
def test_a_fault_names_the_place_and_quotes_nothing(operation: Any, message: str) -> None:
    with pytest.raises(PatchError, match=message) as raised:
        patched({"secret": "hunter2", "n": 1, "list": []}, [operation])
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize("patch", [None, "[]", 5])
def test_what_is_neither_a_list_nor_an_object_is_no_patch(patch: Any) -> None:
    with pytest.raises(PatchError, match="a list of operations, or an object to merge"):
        patched({}, patch)


def test_an_object_is_merged_and_null_removes() -> None:
    assert patched({"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"b": None}, "e": [1]}) == {"a": {"c": 2}, "d": 3, "e": [1]}


def test_the_operations_between_two_values_lead_from_one_to_the_other() -> None:
    before, after = {"k": 1, "a/b": [1, 2], "old": None}, {"k": True, "a/b": [2], "new": {"x": 1}}
    assert patched(before, json_patch(before, after)) == after
