"""Who speaks on a command line, `hive token`, and what doctor and import say about readers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.access import (
    LOCAL_TENANT,
    AccessRules,
    Asker,
    Principal,
    mint,
    owner,
    proofs,
    revoke,
    service_principal,
)
from hive_agents.access.service import LocalPermissions
from hive_agents.access.tokens import verify
from hive_agents.base.errors import HiveError
from hive_agents.cli.sample import init_workspace
from hive_agents.ranking import build_index
from hive_agents.workspace.trusted import trust
from tests.access.conftest import write_access
from tests.sample import hive

DANA = Principal("acme", "dana", frozenset({"qa"}), frozenset({"reader", "approver"}))


def refused(workspace: Workspace, user: str | None, environ: dict[str, str]) -> str:
    with pytest.raises(HiveError) as caught:
        Asker(workspace, user, environ).reader()
    assert caught.value.exit_code == 2
    return str(caught.value)


def test_as_user_speaks_for_a_principal_of_the_files(place: Workspace) -> None:
    assert Asker(place, "dana", {}).reader() == DANA


def test_a_token_is_who_asks_whatever_name_stands_beside_it(place: Workspace) -> None:
    """Its holder is not the workspace's owner, and speaks for nobody else."""
    token = {"HIVE_TOKEN": mint(place, DANA).token}
    assert Asker(place, "Dana", token).reader() == DANA
    with pytest.raises(HiveError, match="HIVE-415"):
        Asker(place, "root", token).reader()
    assert "HIVE-417" in refused(place, "dana", {"HIVE_TOKEN": "no token"})


@pytest.mark.parametrize("empty", ["", " ", "\n"])
def test_an_empty_token_is_a_refused_one_and_not_none(place: Workspace, empty: str) -> None:
    """A secret that wasn't there when the environment was made turns nobody into the owner."""
    for as_user in (None, "dana"):
        asker = Asker(place, as_user, {"HIVE_TOKEN": empty})
        assert asker.is_named
        for ask in (asker.reader, asker.reader_or_owner, asker.requester, asker.caller, asker.decider, asker.reviewer):
            with pytest.raises(HiveError, match="HIVE-417"):
                ask()
        with pytest.raises(HiveError, match="HIVE-417"):
            asker.require_role("do it", "admin")


def test_an_identity_is_verified_whenever_it_is_asked(place: Workspace) -> None:
    token = mint(place, DANA)
    by_token, by_name = Asker(place, None, {"HIVE_TOKEN": token.token}), Asker(place, "dana", {})
    assert by_token.reader() == by_name.reader() == DANA
    write_access(place, "principals.json", {"tenants": {"acme": {}}, "principals": {"dana": {"tenant": "acme"}}})
    assert by_name.reader() == Principal("acme", "dana")
    revoke(place, token.jti)
    with pytest.raises(HiveError, match="revoked"):
        by_token.reader()


def test_an_unknown_user_is_told_who_is_known(place: Workspace) -> None:
    message = refused(place, "zoe", {})
    assert "HIVE-409" in message
    assert "dana, guest, hana, root" in message


def test_a_token_of_the_environment_speaks(place: Workspace) -> None:
    token = mint(place, DANA).token
    assert Asker(place, None, {"HIVE_TOKEN": f" {token}\n"}).reader() == DANA
    message = refused(place, None, {"HIVE_TOKEN": token[:-6]})
    assert "HIVE-417" in message
    assert token[:20] not in message


def test_nobody_speaks_where_permissions_are_enforced(place: Workspace) -> None:
    assert "dana, guest, hana, root" in refused(place, None, {})


def test_in_open_mode_the_owner_speaks(place: Workspace) -> None:
    (place.root / "hive.toml").write_text('[access]\nmode = "open"\n')
    opened = Workspace(place.root)
    assert Asker(opened, None, {}).reader() == owner()
    assert owner().tenant == "local"
    assert Asker(opened, "dana", {}).reader() == DANA
    assert "HIVE-417" in refused(opened, None, {"HIVE_TOKEN": "a.b.c"})


def test_as_user_needs_no_key_of_the_settings(place: Workspace) -> None:
    (place.root / "hive.toml").write_text('[[access.keys]]\nkid = "k"\nalg = "RS256"\nsecret_ref = "env:HIVE_NO"\n')
    assert Asker(Workspace(place.root), "dana", {}).reader() == DANA


def test_faulty_files_know_nobody(place: Workspace) -> None:
    write_access(place, "grants.json", "{")
    assert "HIVE-101" in refused(place, "dana", {})


def test_hive_token_prints_what_scripts_take(place: Workspace) -> None:
    made = hive("token", "--user", "kim", "--tenant", "acme", "--groups", "qa, lab", "-w", place.root, "--json")
    assert set(made.json) == {"token", "jti", "expires_at", "principal"}
    kim = {"tenant": "acme", "user": "kim", "groups": ["lab", "qa"], "roles": ["reader"]}
    assert made.json["principal"] == kim
    assert verify(place, made.json["token"]).to_json() == kim
    shown = hive("token", "--user", "dana", "-w", place.root)
    assert verify(place, shown.out.removesuffix("\n")) == DANA, "no more than the token"
    assert "expires at" in shown.err
    assert verify(place, hive("token", "--user", "dana", "-w", place.root, "--quiet").out.strip()) == DANA


def test_hive_token_revokes(place: Workspace) -> None:
    token = mint(place, DANA)
    assert hive("token", "--revoke", token.jti, "-w", place.root, "--json").json == {"revoked": token.jti}
    assert "revoked" in refused(place, None, {"HIVE_TOKEN": token.token})


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--user", "zoe"),
        ("--user", "dana", "--roles", "root"),
        ("--user", "dana", "--tenant", ""),
        ("--user", "dana", "--tenant", "local"),
        ("--user", "dana", "--ttl", "0"),
    ],
)
def test_hive_token_refuses_what_is_no_principal(place: Workspace, options: tuple[str, ...]) -> None:
    ran = hive("token", *options, "-w", place.root, "--json")
    assert (ran.code, ran.codes) == (2, {"HIVE-409"})


def permissions(workspace: Workspace) -> list[tuple[str, str]]:
    checks = hive("doctor", "-w", workspace.root, "--json").json["checks"]
    return [(check["status"], check["message"]) for check in checks if check["name"] == "permissions"]


def test_doctor_counts_documents_that_nobody_sees(place: Workspace) -> None:
    (place.documents / "broken.md").unlink()
    write_access(place, "odd.json", {"principals": {"kim": {"tenant": "acmee"}}})
    build_index(place)
    found = permissions(place)
    assert ("warn", "nobody can see 1 of 6 documents: nobody.md") in found
    assert any("malformed.md" in message and "HIVE-108" in message for _, message in found)
    assert any('"acmee"' in message for _, message in found)


def test_doctor_shows_faulty_files_a_dead_service_and_a_lost_key(place: Workspace) -> None:
    write_access(place, "grants.json", '{"grants": [{"tenant": "acme", "match": "**", "views": []}]}')
    (place.root / "hive.toml").write_text(
        'models.embedding = "none"\naccess.service_url = "http://127.0.0.1:1"\n'
        '[[access.keys]]\nkid = "k"\nalg = "HS256"\nsecret_ref = "env:HIVE_NOT_SET"\n'
    )
    trust(place)
    failed = [message for status, message in permissions(Workspace(place.root)) if status == "fail"]
    assert any("HIVE-103: access/grants.json" in message for message in failed)
    assert any("permission service" in message for message in failed)
    assert any("HIVE-417" in message and '"k"' in message for message in failed)


def test_import_says_when_nobody_will_see_it(place: Workspace, tmp_path: Path) -> None:
    source = tmp_path / "note.md"
    source.write_text("# Note\n")
    assert "nobody but a tenant's admins will see it" in hive("import", source, "-w", place.root).out
    labelled = ("--to", "documents/mine", "--tenant", "acme", "--view", "group:qa,user:kim")
    ran = hive("import", source, *labelled, "-w", place.root)
    assert "nobody" not in ran.out
    assert LocalPermissions(place).view(Principal("acme", "kim"), ["mine/note.md"])
    by_grant = hive("import", source, "--to", "documents/sops", "--tenant", "acme", "-w", place.root)
    assert "nobody" not in by_grant.out


@pytest.mark.parametrize("options", [("--view", "qa"), ("--view", ""), ("--tenant", " ,acme")])
def test_import_refuses_labels_that_nobody_could_read(
    place: Workspace, tmp_path: Path, options: tuple[str, ...]
) -> None:
    (tmp_path / "note.md").write_text("# Note\n")
    ran = hive("import", tmp_path / "note.md", *options, "-w", place.root, "--json")
    assert (ran.code, ran.codes) == (2, {"HIVE-409"})
    assert not (place.documents / "note.md").exists()


def test_the_schema_of_access_files_is_printed() -> None:
    schema = hive("schema", "access").json
    assert set(schema["properties"]) >= {"tenants", "principals", "grants"}
    assert schema["additionalProperties"] is False


def test_the_sample_shows_the_gate_at_work(tmp_path: Path) -> None:
    sample = Workspace(init_workspace(tmp_path / "w"))
    rules = AccessRules.load(sample)
    assert rules.faults == ()
    doc_ids = [path.relative_to(sample.documents).as_posix() for path in sample.documents.rglob("*.md")]
    seen = {user: LocalPermissions(sample).view(who, doc_ids) for user, who in rules.principals.items()}
    assert seen["guest"] < seen["alice"] < seen["dana"] <= seen["root"]
    assert seen["alice"] - seen["guest"] >= {"sops/change-approval.md", "sops/pipette-head-calibration-draft.md"}
    assert seen["dana"] - seen["alice"] == {"sops/deviation-closure.md"}
    assert seen["hana"] - seen["ines"] == {"sops/carrow-sample-retention.md"}
    assert not {one for one in seen["root"] if one.startswith("sops/carrow-")}


def test_an_empty_workspace_has_no_principals(tmp_path: Path) -> None:
    assert AccessRules.load(Workspace(init_workspace(tmp_path / "w", empty=True))).principals == {}


def test_a_run_works_for_nobody_where_nobody_is_named(place: Workspace) -> None:
    assert Asker(place, None, {}).reader_if_named() is None
    assert Asker(place, "dana", {}).reader_if_named() == DANA
    with pytest.raises(HiveError, match="HIVE-409"):
        Asker(place, "zoe", {}).reader_if_named()


def test_where_nobody_is_named_the_owner_speaks_to_the_queen(place: Workspace) -> None:
    assert Asker(place, None, {}).reader_or_owner() == owner()
    assert Asker(place, None, {"HIVE_TOKEN": mint(place, DANA).token}).reader_or_owner() == DANA


def test_a_role_is_asked_of_tokens_only(place: Workspace) -> None:
    Asker(place, None, {}).require_role("use the credential store", "admin")
    with pytest.raises(HiveError, match="dana may not use the credential store"):
        Asker(place, None, {"HIVE_TOKEN": mint(place, DANA).token}).require_role("use the credential store", "admin")


def test_a_service_that_the_files_do_not_name_has_no_roles(place: Workspace) -> None:
    found = service_principal(place, "service:nightly")
    assert (found.tenant, found.user, found.groups, found.roles) == (
        LOCAL_TENANT,
        "service:nightly",
        frozenset(),
        frozenset(),
    )


def test_who_may_decide_nothing_decides_in_no_tenant(place: Workspace) -> None:
    assert [Asker(place, name, {}).decider().tenant for name in ("dana", "nobody")] == ["acme", LOCAL_TENANT]
    with pytest.raises(HiveError, match="HIVE-415") as caught:
        Asker(place, "guest", {}).decider()
    assert caught.value.exit_code == 1
    assert Asker(place, "guest", {}).caller().by == "user:guest"


def test_hive_token_lists_revokes_and_ends(place: Workspace) -> None:
    made = hive("token", "--user", "dana", "-w", place.root, "--json").json
    (row,) = hive("token", "list", "-w", place.root, "--json").json["tokens"]
    assert set(row) == {"jti", "user", "tenant", "roles", "made_by", "made_at", "expires_at", "revoked_at"}
    assert (row["user"], row["tenant"], row["expires_at"]) == ("dana", "acme", made["expires_at"])
    assert hive("token", "revoke", row["jti"], "-w", place.root, "--json").json == {"revoked": row["jti"]}
    assert "revoked" in refused(place, None, {"HIVE_TOKEN": made["token"]})
    again = hive("token", "--user", "dana", "-w", place.root, "--json").json["token"]
    ended = hive("people", "end", "dana", "-w", place.root, "--json").json
    assert ended == {"tokens": 1, "sessions": 0, "streams": 0, "runs": 0, "made_for": []}
    assert "revoked" in refused(place, None, {"HIVE_TOKEN": again})


def test_who_is_ended_takes_the_tokens_of_colleagues_along_that_they_made(
    place: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may have kept a copy; the colleagues are told apart from those whose tokens somebody else made."""
    ruth = Principal("acme", "ruth", frozenset(), frozenset({"admin"}))
    monkeypatch.setenv("HIVE_TOKEN", mint(place, ruth).token)
    kept = hive("token", "--user", "dana", "-w", place.root, "--json").json["token"]
    monkeypatch.delenv("HIVE_TOKEN")
    of_owner = hive("token", "--user", "guest", "-w", place.root, "--json").json["token"]
    ended = hive("people", "end", "ruth", "--tenant", "acme", "-w", place.root)
    assert "2 tokens" in ended.out
    assert "they had made tokens for dana: `hive token --user NAME` makes new ones" in ended.err
    assert "revoked" in refused(place, None, {"HIVE_TOKEN": kept})
    assert verify(place, of_owner).user == "guest"


def test_the_holder_of_a_token_makes_tokens_as_an_admin_of_their_tenant_alone(
    place: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    for holder in (DANA, Principal("acme", "kim", frozenset(), frozenset({"operator"}))):
        monkeypatch.setenv("HIVE_TOKEN", mint(place, holder).token)
        assert hive("token", "--user", "dana", "-w", place.root, "--json").codes == {"HIVE-415"}, holder.user
    ruth = Principal("acme", "ruth", frozenset(), frozenset({"admin"}))
    monkeypatch.setenv("HIVE_TOKEN", mint(place, ruth).token)
    assert hive("token", "--user", "dana", "-w", place.root, "--json").json["principal"]["user"] == "dana"
    foreign = hive("token", "--user", "hana", "--tenant", "globex", "-w", place.root, "--json")
    assert foreign.codes == {"HIVE-415"}


def test_a_token_made_on_the_command_line_counts_by_its_makers_rights_of_when_it_is_made(
    place: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for others to write; as over HTTP, its maker may be ended meanwhile."""
    ruth = Principal("acme", "ruth", frozenset(), frozenset({"admin"}))
    monkeypatch.setenv("HIVE_TOKEN", mint(place, ruth).token)
    real = proofs.begin

    def meanwhile(*given: Any, **named: Any) -> None:
        proofs.end_all(place, "ruth", "acme", "user:amy")
        real(*given, **named)

    monkeypatch.setattr(proofs, "begin", meanwhile)
    assert hive("token", "--user", "ghost", "--tenant", "acme", "-w", place.root, "--json").codes == {"HIVE-417"}
    assert [row for row in proofs.issued_tokens(place) if row["user"] == "ghost"] == []


def test_who_left_the_files_is_ended_in_the_tenant_that_they_name(place: Workspace) -> None:
    """`docs/access.md` has the entry taken out first, so that nobody signs in again in between."""
    token = hive("token", "--user", "dana", "-w", place.root, "--json").json["token"]
    write_access(place, "principals.json", {"tenants": {"acme": {}}})
    assert hive("people", "end", "dana", "-w", place.root, "--json").json["tokens"] == 1
    write_access(place, "principals.json", {"tenants": {"acme": {}}, "principals": {"dana": {"tenant": "acme"}}})
    assert "revoked" in refused(place, None, {"HIVE_TOKEN": token})
    write_access(place, "principals.json", {"tenants": {"acme": {}, "globex": {}}})
    failed = hive("people", "end", "dana", "-w", place.root, "--json")
    assert failed.codes == {"HIVE-409"}
    assert "acme, globex" in failed.json["diagnostics"][0]["fix"]
    assert hive("people", "end", "dana", "--tenant", "acme", "-w", place.root, "--json").json["tokens"] == 0


def test_a_token_has_no_more_than_the_entry_of_its_user(place: Workspace) -> None:
    asked = ("token", "--user", "guest", "--roles", "reader,admin", "--groups", "qa", "-w", place.root)
    made = hive(*asked, "--json")
    assert (made.json["principal"]["roles"], made.json["principal"]["groups"]) == (["reader"], [])
    assert "the group qa and the role admin" in made.err


def test_a_token_without_a_user_is_the_owners_while_the_mode_is_open(
    place: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    toml = place.root / "hive.toml"
    toml.write_text('[access]\nmode = "open"\n')
    token = hive("token", "-w", place.root, "--json").json["token"]
    asker = Asker(Workspace(place.root), None, {"HIVE_TOKEN": token})
    assert (asker.reader(), asker.token_holder(), asker.authn) == (owner(), None, "local")
    ruth = Principal("acme", "ruth", frozenset(), frozenset({"admin"}))
    monkeypatch.setenv("HIVE_TOKEN", mint(place, ruth).token)
    assert hive("token", "-w", place.root, "--json").codes == {"HIVE-409"}
    toml.write_text("")
    assert "enforced" in refused(Workspace(place.root), None, {"HIVE_TOKEN": token})
