from __future__ import annotations

from typing import Any

import pytest

from hive_agents.access import Principal
from hive_agents.base.errors import HiveError


def test_a_principal_is_a_value() -> None:
    one = Principal("acme", "dana", frozenset({"qa"}), frozenset({"reader"}))
    assert {one: 1}[Principal("acme", "dana", frozenset({"qa"}))] == 1
    assert one.subjects == {"tenant", "user:dana", "group:qa"}
    assert one.to_json() == {"tenant": "acme", "user": "dana", "groups": ["qa"], "roles": ["reader"]}
    assert Principal("acme", "service:nightly").subjects == {"tenant", "user:service:nightly"}


def test_roles_are_read_in_any_case() -> None:
    assert Principal("acme", "dana", roles=frozenset({"Reader", "APPROVER"})).roles == {"reader", "approver"}


BAD: list[dict[str, Any]] = [
    {"tenant": ""},
    {"user": ""},
    {"user": " dana"},
    {"user": "da\nna"},
    {"user": "x" * 257},
    {"tenant": None},
    {"groups": "qa"},
    {"groups": frozenset({""})},
    {"groups": frozenset({5})},
    {"roles": frozenset({"root"})},
    {"roles": "reader"},
]


@pytest.mark.parametrize("fields", BAD)
def test_no_principal_is_half_made(fields: dict[str, Any]) -> None:
    with pytest.raises(HiveError) as caught:
        Principal(**{"tenant": "acme", "user": "dana"} | fields)
    assert (caught.value.diagnostics[0].code, caught.value.exit_code) == ("HIVE-409", 2)
