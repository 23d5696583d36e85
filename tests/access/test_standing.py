"""Who began something is looked up again: what was taken away since counts, what was given doesn't."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.access import Principal, Standing, mint, revoke
from hive_agents.access.tokens import verify
from hive_agents.base.errors import HiveError, RightsWithdrawn
from tests.agents.conftest import write_json


def lists(place: Workspace, **principals: dict[str, Any]) -> None:
    write_json(place, "access/people.json", {"principals": principals})


@pytest.fixture
def place(tmp_path: Any) -> Workspace:
    (tmp_path / "collections").mkdir()
    place = Workspace(tmp_path)
    lists(place, dana={"tenant": "acme", "groups": ["qa", "lab"], "roles": ["reader", "operator"]})
    return place


DANA = Principal("acme", "dana", frozenset({"qa", "lab"}), frozenset({"reader", "operator"}))


def test_nothing_changed_is_the_same_principal(place: Workspace) -> None:
    assert Standing.of(place, DANA).now(place) == DANA


def test_groups_and_roles_that_were_taken_away_are_gone(place: Workspace) -> None:
    standing = Standing.of(place, DANA)
    lists(place, dana={"tenant": "acme", "groups": ["lab"], "roles": ["reader"]})
    now = standing.now(place)
    assert (now.groups, now.roles) == ({"lab"}, {"reader"})


def test_a_group_of_elsewhere_is_none_where_the_files_name_somebody(place: Workspace) -> None:
    """Also of one who came with it before they did."""
    of_idp = replace(DANA, groups=DANA.groups | {"idp"})
    assert Standing.of(place, of_idp).now(place) == DANA
    lists(place)
    standing = Standing.of(place, of_idp)
    assert standing.now(place) == of_idp
    lists(place, dana={"tenant": "acme", "groups": ["qa", "lab"], "roles": ["reader", "operator"]})
    assert standing.now(place) == DANA


def test_who_is_not_named_is_nobody_where_the_settings_say_so(place: Workspace) -> None:
    (place.root / "hive.toml").write_text('[access]\nunlisted = "refuse"\n')
    with pytest.raises(RightsWithdrawn, match="doesn't name kim"):
        Standing.of(place, Principal("acme", "kim")).now(Workspace(place.root))


def test_a_standing_of_an_earlier_release_counts(place: Workspace) -> None:
    old = {**DANA.to_json(), "token_id": None, "listed": {"groups": [], "roles": []}}
    assert Standing.model_validate(old).now(place) == DANA
    lists(place)
    with pytest.raises(RightsWithdrawn, match="no longer names dana"):
        Standing.model_validate(old).now(place)


def test_what_is_given_later_is_not_gained(place: Workspace) -> None:
    standing = Standing.of(place, DANA)
    more = {"tenant": "acme", "groups": ["qa", "lab", "board"], "roles": ["reader", "operator", "admin"]}
    lists(place, dana=more)
    assert standing.now(place) == DANA


@pytest.mark.parametrize("left", [{}, {"dana": {"tenant": "globex", "groups": ["qa"]}}])
def test_who_was_removed_goes_no_further(place: Workspace, left: Any) -> None:
    standing = Standing.of(place, DANA)
    lists(place, **left)
    with pytest.raises(RightsWithdrawn, match="no longer names dana"):
        standing.now(place)


def test_files_that_cannot_be_read_vouch_for_nobody(place: Workspace) -> None:
    standing = Standing.of(place, DANA)
    write_json(place, "access/people.json", "{")
    with pytest.raises(HiveError):
        standing.now(place)


def test_who_was_never_named_is_not_removed(place: Workspace) -> None:
    kim = Principal("acme", "kim")
    assert Standing.of(place, kim).now(place) == kim


def test_a_revoked_token_goes_no_further(place: Workspace) -> None:
    token = mint(place, DANA, 60)
    standing = Standing.of(place, verify(place, token.token))
    kept = Standing.model_validate_json(standing.model_dump_json())
    assert kept.now(place) == DANA
    revoke(place, token.jti)
    with pytest.raises(RightsWithdrawn, match="revoked"):
        kept.now(place)


def test_whoever_made_the_token_stays_behind_what_it_began(place: Workspace) -> None:
    kim = Principal("acme", "kim")
    signed = verify(place, mint(place, DANA, maker=kim).token)
    standing = Standing.model_validate_json(Standing.of(place, signed).model_dump_json())
    assert signed.makers == ("user:kim",)
    assert (standing.principal.makers, standing.now(place).makers) == (signed.makers, signed.makers)
    assert standing.of_today(replace(signed, makers=("user:eve",))).principal.makers == ("user:eve",)
