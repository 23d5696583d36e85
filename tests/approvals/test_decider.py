"""Who decides: a token's person where there is one, and nobody by a mere name where tokens are wanted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hive_agents import Workspace
from hive_agents.access import Asker, Principal, mint
from hive_agents.access.who import Caller
from hive_agents.approvals import ApprovalStore
from hive_agents.base.errors import HiveError
from tests.approvals.asking import filing, refused
from tests.sample import Ran, hive


def token(place: Workspace, user: str, *roles: str, tenant: str = "acme") -> dict[str, str]:
    principal = Principal(tenant, user, roles=frozenset(roles or {"approver"}))
    return {"HIVE_TOKEN": mint(place, principal).token}


def approve(place: Workspace, request: str, *arguments: str) -> Ran:
    return hive("approvals", "approve", request, *arguments, "-w", place.root, "--json")


def test_a_token_says_who_decides(place: Workspace) -> None:
    assert Asker(place, None, token(place, "dana")).decider() == Caller("user:dana", "token", "acme")
    assert Asker(place, "Dana", token(place, "dana", "reader", "admin")).decider().by == "user:dana"
    assert Asker(place, "dana", {}).decider() == Caller("user:dana", "local")


def test_who_asks_is_who_the_token_names(place: Workspace) -> None:
    assert Asker(place, "Dana", token(place, "dana", "reader")).requester() == "user:dana"
    assert Asker(place, "bob", {}).requester() == "user:bob"
    with refused("HIVE-415"):
        Asker(place, "bob", token(place, "dana")).requester()
    with refused("HIVE-409", 2):
        Asker(place, "agent:queen", {}).requester()


@pytest.mark.parametrize("roles", [("reader",), ("operator", "reader")])
def test_a_token_without_the_role_decides_nothing(place: Workspace, roles: tuple[str, ...]) -> None:
    with refused("HIVE-415"):
        Asker(place, None, token(place, "dana", *roles)).decider()


def test_a_token_is_no_cover_for_another_name(place: Workspace) -> None:
    with refused("HIVE-415"):
        Asker(place, "eve", token(place, "dana")).decider()
    with refused("HIVE-417", 2):
        Asker(place, "dana", {"HIVE_TOKEN": "dana"}).decider()
    with refused("HIVE-409", 2):
        Asker(place, None, token(place, "service:nightly")).decider()


def test_a_services_token_is_told_what_would_help(place: Workspace) -> None:
    with pytest.raises(HiveError) as caught:
        Asker(place, None, token(place, "service:nightly")).reviewer()
    told = caught.value.diagnostics[0]
    assert "service:nightly is no person" in told.message
    assert "token of a person with the role approver into HIVE_TOKEN" in str(told.fix)


def test_where_tokens_are_wanted_a_name_is_not_enough(place: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    with (place.root / "hive.toml").open("a") as settings:
        settings.write("[approvals]\nrequire_token = true\n")
    place = Workspace(place.root)
    request = ApprovalStore(place).file(filing()).id
    monkeypatch.delenv("HIVE_TOKEN", raising=False)
    ran = approve(place, request, "--as", "dana")
    assert (ran.code, ran.codes) == (1, {"HIVE-415"})
    assert all(word in ran.json["diagnostics"][0]["fix"] for word in ("HIVE_TOKEN", "`hive token"))
    with refused("HIVE-415"):
        Asker(place, None, {}).requester()
    monkeypatch.setenv("HIVE_TOKEN", token(place, "dana")["HIVE_TOKEN"])
    assert approve(place, request, "--as", "eve").codes == {"HIVE-415"}
    ran = approve(place, request)
    assert (ran.code, ran.json["by"], ran.json["authn"]) == (0, "user:dana", "token")
    assert Asker(place).requester() == "user:dana"


def test_requests_of_a_tenant_are_decided_in_it(place: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """The workspace's own requests are open to approvers of every tenant."""
    acme, own = (ApprovalStore(place).file(filing(tenant=tenant)).id for tenant in ("acme", "local"))
    monkeypatch.setenv("HIVE_TOKEN", token(place, "gil", tenant="globex")["HIVE_TOKEN"])
    assert approve(place, acme).codes == {"HIVE-415"}
    assert hive("approvals", "delegate", acme, "--to", "dana", "-w", place.root, "--json").codes == {"HIVE-415"}
    assert approve(place, own).code == 0
    monkeypatch.setenv("HIVE_TOKEN", token(place, "dana")["HIVE_TOKEN"])
    assert approve(place, acme).json["status"] == "approved"


def test_a_person_known_by_a_token_can_not_approve_their_own_override(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The token's name asks and decides: the local name beside it gives nobody a second pair of eyes."""
    from tests.sample import copied_sample, write_config

    place = copied_sample(tmp_path / "w")
    write_config(place, "same")
    monkeypatch.setenv("HIVE_TOKEN", token(place, "dana", "reader", "approver")["HIVE_TOKEN"])
    asked = hive("deploy", "same", "--override", "--reason", "we know", "-w", place.root, "--json")
    assert approve(place, asked.json["approval_id"]).codes == {"HIVE-415"}
    monkeypatch.setenv("HIVE_TOKEN", token(place, "eve")["HIVE_TOKEN"])
    assert approve(place, asked.json["approval_id"]).code == 0
    newest = json.loads(hive("history", "-w", place.root, "--json").out)["versions"][0]
    assert (newest["by"], newest["authn"], newest["via"]) == ("user:eve", "token", "override")
