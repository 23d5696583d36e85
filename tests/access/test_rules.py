"""Who sees what: a table, and properties that hold for every set of rules."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from hive_agents import Workspace
from hive_agents.access import AccessLabels, AccessRules, Principal
from hive_agents.access.globs import Globs, translate
from hive_agents.access.rules import Grant, _File, _merged
from tests.access.conftest import write_access

DANA = Principal("acme", "dana", frozenset({"qa"}))
ROOT = Principal("acme", "root")
HANA = Principal("globex", "hana", frozenset({"qa"}))


def rules(**content: Any) -> AccessRules:
    return _merged((_File("access/a.json", json.dumps(content).encode()),))


TABLE = [
    # front matter, who sees it of dana, root (admin of acme), hana
    ({"tenant": "acme", "view": "tenant"}, (True, True, False)),
    ({"tenant": ["acme", "globex"], "view": ["tenant"]}, (True, True, True)),
    ({"tenant": ["acme", "globex"], "view": ["group:qa"]}, (True, True, True)),
    ({"tenant": "globex", "view": ["user:dana", "group:qa"]}, (False, False, True)),
    ({"tenant": "acme", "view": ["user:dana"]}, (True, True, False)),
    ({"tenant": "acme", "view": ["user:Dana", "group:QA"]}, (False, True, False)),
    ({"tenant": "acme", "view": ["group:dana", "user:qa"]}, (False, True, False)),
    ({"tenant": "acme", "view": []}, (False, True, False)),
    ({"tenant": "acme"}, (False, True, False)),
    ({"view": ["tenant", "user:dana"]}, (False, False, False)),
    ({"tenant": [], "view": ["tenant"]}, (False, False, False)),
    ({"tenant": "", "view": ["tenant"]}, (False, False, False)),
    ({"tenant": 7, "view": ["tenant"]}, (False, False, False)),
    ({"tenant": ["acme", 7], "view": ["tenant"]}, (False, False, False)),
    ({"tenant": {"acme": 1}, "view": ["tenant"]}, (False, False, False)),
    ({"tenant": "acme", "view": ["tenant", "qa"]}, (False, True, False)),
    ({"tenant": "acme", "view": ["tenant", "role:reader"]}, (False, True, False)),
    ({"tenant": "acme", "view": True}, (False, True, False)),
    ({"tenant": "acme", "view": ["tenant", None]}, (False, True, False)),
]


@pytest.mark.parametrize(("front_matter", "expected"), TABLE)
def test_who_sees_a_document(front_matter: dict[str, Any], expected: tuple[bool, ...]) -> None:
    found = rules(tenants={"acme": {"admins": ["user:root"]}})
    labels = AccessLabels.of(front_matter)
    assert tuple(found.may_view(who, "a.md", labels) for who in (DANA, ROOT, HANA)) == expected


def test_a_malformed_label_is_reported_and_takes_no_grant() -> None:
    found = rules(grants=[{"tenant": "acme", "match": "**", "view": ["tenant"]}])
    labels = AccessLabels.of({"tenant": "acme", "view": ["qa"]})
    assert labels.fault == 'view: "qa" is neither user:ID, group:ID nor tenant'
    assert not found.may_view(DANA, "a.md", labels)
    assert found.unseen([("a.md", labels)]).tolist() == [True]


def test_a_grant_adds_to_what_the_document_says() -> None:
    found = rules(grants=[{"tenant": "acme", "match": "sops/*.md", "view": ["group:qa"]}])
    labels = AccessLabels.of({"tenant": "acme", "view": ["user:alice"]})
    alice, guest = Principal("acme", "alice"), Principal("acme", "guest")
    assert [found.may_view(who, "sops/a.md", labels) for who in (DANA, alice, guest)] == [True, True, False]
    assert not found.may_view(DANA, "sops/deep/a.md", labels)
    assert not found.may_view(DANA, "Sops/a.md", labels)


def test_an_admin_of_one_tenant_is_nobody_in_another() -> None:
    found = rules(tenants={"acme": {"admins": ["user:root", "group:it"]}})
    labels = AccessLabels.of({"tenant": "globex", "view": []})
    assert not found.may_view(Principal("globex", "root", frozenset({"it"})), "a.md", labels)


NAMES = st.sampled_from(["acme", "globex", "initech"])
SUBJECTS = st.sampled_from(["tenant", "user:dana", "user:guest", "group:qa", "group:lab"])
VIEWS = st.lists(SUBJECTS, max_size=3)
DOC_IDS = st.sampled_from(["a.md", "sops/a.md", "sops/qa/b.md"])
GLOBS = st.sampled_from(["**", "*", "sops/**", "sops/*", "**/b.md", "a.md"])
GRANTS = st.lists(st.fixed_dictionaries({"tenant": NAMES, "match": GLOBS, "view": VIEWS}), max_size=4)
WHO = st.builds(
    Principal, NAMES, st.sampled_from(["dana", "guest", "root"]), st.frozensets(st.sampled_from(["qa", "lab"]))
)
LABELS = st.fixed_dictionaries({"tenant": st.lists(NAMES, max_size=2), "view": VIEWS})
ADMINS = st.dictionaries(NAMES, st.fixed_dictionaries({"admins": st.just(["user:root"])}))


def by_definition(who: Principal, doc_id: str, labels: Any, grants: Any, tenants: Any) -> bool:
    """The rules of the format page, as a sentence at a time."""
    if who.tenant not in labels["tenant"]:
        return False
    if who.subjects & set(tenants.get(who.tenant, {"admins": []})["admins"]):
        return True
    view = set(labels["view"])
    for grant in grants:
        if grant["tenant"] == who.tenant and re.fullmatch(translate(grant["match"]), doc_id):
            view |= set(grant["view"])
    return bool(view & who.subjects)


@given(WHO, st.lists(st.tuples(DOC_IDS, LABELS), max_size=8), GRANTS, ADMINS)
def test_in_bulk_as_one_by_one_as_by_definition(who: Principal, documents: Any, grants: Any, tenants: Any) -> None:
    found = rules(grants=grants, tenants=tenants)
    labelled = [(doc_id, AccessLabels.of(labels)) for doc_id, labels in documents]
    visible = found.visible(who, labelled).tolist()
    assert visible == [found.may_view(who, *one) for one in labelled]
    assert visible == [by_definition(who, doc_id, labels, grants, tenants) for doc_id, labels in documents]
    assert all(mine or not seen for mine, seen in zip(found.of_tenant(who, labelled).tolist(), visible, strict=True))


@given(WHO, DOC_IDS, LABELS, GRANTS, st.sampled_from(["user:stranger", "group:strange"]))
def test_a_subject_that_one_is_not_never_grants(
    who: Principal, doc_id: str, labels: Any, grants: Any, new: str
) -> None:
    found = rules(grants=grants)
    wider = {**labels, "view": [*labels["view"], new]}
    assert found.may_view(who, doc_id, AccessLabels.of(labels)) == found.may_view(who, doc_id, AccessLabels.of(wider))


@given(WHO, DOC_IDS, LABELS, GRANTS, ADMINS)
def test_without_a_tenant_nobody_sees_it(who: Principal, doc_id: str, labels: Any, grants: Any, tenants: Any) -> None:
    found = rules(grants=grants, tenants=tenants)
    for tenant in ([], None, "", 5):
        assert not found.may_view(who, doc_id, AccessLabels.of({**labels, "tenant": tenant}))


@given(WHO, DOC_IDS, LABELS, GRANTS)
def test_a_grant_never_crosses_tenants(who: Principal, doc_id: str, labels: Any, grants: Any) -> None:
    own = [grant for grant in grants if grant["tenant"] == who.tenant]
    found = AccessLabels.of(labels)
    assert rules(grants=grants).may_view(who, doc_id, found) == rules(grants=own).may_view(who, doc_id, found)


def naive(glob: str, text: str) -> bool:
    """A glob matcher that tries everything."""
    tokens = re.findall(r"(?:(?<=/)|\A)\*\*+/|\*\*+|.", glob)

    @lru_cache(None)
    def match(token: int, place: int) -> bool:
        if token == len(tokens):
            return place == len(text)
        one, rest = tokens[token], range(place, len(text))
        if one.startswith("**") and one.endswith("/"):
            return match(token + 1, place) or any(text[at] == "/" and match(token + 1, at + 1) for at in rest)
        if one.startswith("**"):
            return any(match(token + 1, at) for at in range(place, len(text) + 1))
        if one == "*":
            end = text.find("/", place)
            return any(match(token + 1, at) for at in range(place, (end if end >= 0 else len(text)) + 1))
        fits = place < len(text) and (text[place] != "/" if one == "?" else text[place] == one)
        return fits and match(token + 1, place + 1)

    return match(0, 0)


@given(
    st.lists(st.sampled_from(["a", "b", "/", "*", "**", "**/", "?"]), min_size=1, max_size=8),
    st.text("ab/", max_size=9),
)
def test_a_glob_matches_as_its_definition_says(parts: list[str], doc_id: str) -> None:
    glob = "".join(parts)
    assert Globs([glob, "no/match"]).match(doc_id) == naive(glob, doc_id)


@pytest.mark.parametrize("glob", ["*a" * 100 + "b", "**a" * 100 + "b", "**/a*" * 80 + "b", "**/" + "*a" * 90 + "*b"])
def test_no_glob_blows_up(glob: str) -> None:
    """A backtracking match of any of these would take years."""
    assert not Globs([glob]).match("a" * 500)
    assert not Globs([glob]).match("a/" * 250)


def test_brackets_and_braces_in_a_glob_are_themselves() -> None:
    assert Globs(["a[bc]{d}.md"]).match("a[bc]{d}.md")
    assert not Globs(["a[bc].md"]).match("ab.md")


def test_roles_of_a_file_are_read_in_any_case() -> None:
    found = rules(tenants={"acme": {}}, principals={"dana": {"tenant": "acme", "roles": ["Reader", "APPROVER"]}})
    assert (found.faults, found.principals["dana"].roles) == ((), {"reader", "approver"})


def test_files_are_merged(place: Workspace) -> None:
    found = AccessRules.load(place)
    assert (found.faults, sorted(found.principals)) == ((), ["dana", "guest", "hana", "root"])
    assert found.principal("dana") == Principal("acme", "dana", frozenset({"qa"}), frozenset({"reader", "approver"}))
    assert found.principal("nobody") is None
    assert len(found.grants) == 1


def test_the_digest_changes_with_every_byte(place: Workspace) -> None:
    first = AccessRules.load(place).digest
    assert AccessRules.load(place).digest == first
    path = place.root / "access" / "grants.json"
    path.write_text(path.read_text() + " ")
    assert AccessRules.load(place).digest != first


def _same_size_and_time(folder: Path) -> None:
    path = folder / "grants.json"
    status, text = path.stat(), path.read_text()
    path.write_text(text.replace("acme", "emca"))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert path.stat().st_size == status.st_size


def _renamed_over(folder: Path) -> None:
    (folder.parent / "other.json").write_text((folder / "grants.json").read_text().replace("acme", "emca"))
    (folder.parent / "other.json").rename(folder / "grants.json")


CHANGES: list[Callable[[Path], object]] = [
    _same_size_and_time,
    _renamed_over,
    lambda folder: (folder / "grants.json").unlink(),
    lambda folder: write_access(Workspace(folder.parent), "more.json", {"tenants": {"new": {}}}),
    lambda folder: (folder / "zz.json").symlink_to("grants.json"),
    lambda folder: folder.rename(folder.with_name("gone")),
]


@pytest.mark.parametrize("change", CHANGES)
def test_files_are_read_once_and_each_change_counts_at_the_next_look(
    change: Callable[[Path], object], place: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hive_agents.access.rules._SETTLED", 0.0)  # as if the files had been there for a while
    time.sleep(0.05)  # more than the steps of the file system's clock
    first = AccessRules.load(place)
    assert AccessRules.load(place) is first
    time.sleep(0.05)
    change(place.root / "access")
    assert AccessRules.load(place).digest != first.digest


FAULTS = [
    ("{", "HIVE-101"),
    ("[]", "HIVE-104"),
    ({"grant": []}, "HIVE-103"),
    ({"principals": {"dana": {"tenant": "acme"}}}, "HIVE-111"),
    ({"tenants": {"acme": {}}}, "HIVE-111"),
    ({"principals": {"new": {"tenant": ""}}}, "HIVE-105"),
    ({"principals": {"new": {"tenant": "local"}}}, "HIVE-105"),
    ({"principals": {"new": {"tenant": "acme", "roles": ["root"]}}}, "HIVE-105"),
    ({"principals": {"new": {"tenant": "acme", "groups": "qa"}}}, "HIVE-104"),
    ({"principals": {"a,b": {"tenant": "acme"}}}, "HIVE-105"),
    ({"tenants": {"new": {"admins": ["tenant"]}}}, "HIVE-105"),
    ({"grants": [{"tenant": "acme", "match": "**", "view": ["qa"]}]}, "HIVE-105"),
    ({"grants": [{"tenant": "acme", "match": "", "view": ["tenant"]}]}, "HIVE-105"),
    ({"grants": [{"tenant": "acme", "match": "documents/a.md", "view": ["tenant"]}]}, "HIVE-105"),
    ({"grants": [{"match": "**", "view": ["tenant"]}]}, "HIVE-106"),
]


@pytest.mark.parametrize(("content", "code"), FAULTS)
def test_a_faulty_file_denies_everything(place: Workspace, content: Any, code: str) -> None:
    write_access(place, "zz.json", content)
    found = AccessRules.load(place)
    assert {fault.code for fault in found.faults} == {code}
    assert found.faults[0].file == "access/zz.json"
    open_to_all = [("open.md", AccessLabels.of({"tenant": ["acme"], "view": ["tenant"]}))]
    for who in (DANA, ROOT):
        assert not found.visible(who, open_to_all).any()
        assert not found.of_tenant(who, open_to_all).any()
    assert found.principal("dana") is None


def test_an_unreadable_file_denies_everything(place: Workspace) -> None:
    os.mkfifo(place.root / "access" / "pipe.json")
    assert [fault.code for fault in AccessRules.load(place).faults] == ["HIVE-403"]
    (place.root / "access" / "pipe.json").unlink()
    (place.root / "access" / "gone.json").symlink_to("nowhere")
    assert [fault.code for fault in AccessRules.load(place).faults] == ["HIVE-403"]


def test_hidden_and_other_files_are_left_alone(place: Workspace) -> None:
    write_access(place, ".grants.json.x.tmp", "{")
    write_access(place, ".#grants.json", "{")
    write_access(place, "README.md", "{")
    assert AccessRules.load(place).faults == ()


def test_without_the_folder_front_matter_alone_decides(text_workspace: Workspace) -> None:
    found = AccessRules.load(text_workspace)
    assert found.faults == ()
    assert found.may_view(DANA, "a.md", AccessLabels.of({"tenant": "acme", "view": ["group:qa"]}))


def test_a_folder_that_is_a_file_denies_everything(tmp_path: Path, text_workspace: Workspace) -> None:
    (text_workspace.root / "access").write_text("")
    assert AccessRules.load(text_workspace).faults


def test_grants_have_a_type() -> None:
    assert Grant(tenant="acme", match="**", view=["tenant"]).tenant == "acme"


@pytest.mark.parametrize("glob", ["../documents/**", "sops//x.md", "sops/", "a/./b.md", "sops/.."])
def test_a_glob_that_can_match_nothing_is_reported(glob: str) -> None:
    found = rules(grants=[{"tenant": "acme", "match": glob, "view": ["tenant"]}])
    assert [fault.path for fault in found.faults] == ["grants[0].match"]
