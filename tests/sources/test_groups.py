"""Who is in a source's groups is synced apart from its documents."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from hive_agents.access import AccessLabels, AccessRules, Principal
from hive_agents.base import HiveError
from hive_agents.base.files import frontmatter
from hive_agents.sources import add_source, remove_source, sync_groups
from hive_agents.sources.running import run_source
from hive_agents.workspace import Workspace, trust
from tests.sources.remotes import S3, Sftp

LOADER = """
import json, pathlib
from langchain_core.documents import Document

STATE = pathlib.Path(__file__).parent / "state.json"

class Wiki:
    def lazy_load(self):
        for name in json.loads(STATE.read_text())["documents"]:
            yield Document("The text of " + name, metadata={"source": name, "readers": ["group:staff"]})

    def members(self):
        return json.loads(STATE.read_text())["members"]
"""
SUBJECTS = {"user:d.doe": ["user:dana"], "user:l.lee": ["user:lee", "group:qa"]}
DANA, LEE, MAX = (Principal("acme", name) for name in ("dana", "lee", "max"))
OTHER = Principal("globex", "dana")


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    for folder in ("collections", "loaders"):
        (tmp_path / folder).mkdir()
    (tmp_path / "loaders" / "wiki.py").write_text(LOADER)
    add_source(
        Workspace(tmp_path),
        "wiki",
        {
            "kind": "loader",
            "url": "loaders/wiki.py:Wiki",
            "tenant": "acme",
            "options": {"access_key": "readers", "groups": "members", "subjects": SUBJECTS},
        },
    )
    trust(Workspace(tmp_path))
    state(tmp_path, {"staff": ["d.doe", "stranger"]})
    return Workspace(tmp_path)


def state(root: Path, members: object) -> None:
    (root / "loaders" / "state.json").write_text(json.dumps({"documents": ["a"], "members": members}))


def viewers(place: Workspace) -> list[str]:
    (path,) = (place.documents / "wiki").rglob("*.md")
    labels = AccessLabels.of(frontmatter.values(frontmatter.split(path.read_text(), "")[0], ""))
    rules = AccessRules.load(place)
    assert rules.faults == ()
    found = [who for who in (DANA, LEE, MAX, OTHER) if rules.may_view(who, "wiki/a.md", labels)]
    readers = rules.readers("wiki/a.md", labels)
    assert [(each.tenant, f"user:{each.user}") in readers for each in (DANA, LEE)] == [DANA in found, LEE in found]
    return [f"{who.user} of {who.tenant}" for who in found]


def test_a_change_of_members_needs_no_look_at_a_document(place: Workspace) -> None:
    run_source(place, "wiki")
    (path,) = (place.documents / "wiki").rglob("*.md")
    before = (path.read_bytes(), path.stat().st_mtime_ns)
    assert viewers(place) == ["dana of acme"]
    state(place.root, {"staff": ["l.lee"]})
    assert sync_groups(place, "wiki") == {"wiki/staff": ["lee"]}
    assert viewers(place) == ["lee of acme"]
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
    assert run_source(place, "wiki").counts["unchanged"] == 1
    state(place.root, {})
    sync_groups(place, "wiki")
    assert viewers(place) == []


def test_members_that_cannot_be_told_stay_and_those_that_are_not_told_go(place: Workspace) -> None:
    run_source(place, "wiki")
    state(place.root, "nobody knows")
    with pytest.raises(HiveError, match="HIVE-437"):
        sync_groups(place, "wiki")
    report = run_source(place, "wiki")
    assert (report.status, report.counts["unchanged"], viewers(place)) == ("partial", 1, ["dana of acme"])
    settings = place.root / "hive.toml"
    settings.write_text(settings.read_text().replace('"groups" = "members", ', ""))
    trust(Workspace(place.root))
    run_source(Workspace(place.root), "wiki")
    assert viewers(place) == []


def test_a_group_of_a_source_gives_no_role_and_no_administrators_view(place: Workspace) -> None:
    (place.root / "access").mkdir()
    tenants = {"acme": {"admins": ["group:wiki/staff"]}}
    (place.root / "access" / "tenants.json").write_text(json.dumps({"tenants": tenants}))
    run_source(place, "wiki")
    rules = AccessRules.load(place)
    assert not rules.may_view(DANA, "other.md", AccessLabels.of({"tenant": "acme"}))
    assert rules.principal("dana") is None


def test_a_removed_source_takes_its_groups_along(place: Workspace) -> None:
    run_source(place, "wiki")
    assert viewers(place) == ["dana of acme"]
    remove_source(place, "wiki", delete=False, by="user:dana")
    assert viewers(place) == []
    assert os.listdir(place.root / "access") == []


def test_the_groups_of_a_server_are_those_that_it_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remote = Sftp(tmp_path)
    users, groups = remote.home / "passwd", remote.home / "group"
    users.write_text("# people\ndana:x:7:65534::/:\nlee:x:8:9::/:\nstranger:x:6:65534::/:\n+::::::\n")
    groups.write_text("nogroup:x:65534:lee,nobody-knows\nqa:x:9:\n")
    monkeypatch.setattr("hive_agents.sources.from_sftp._USERS", str(users))
    monkeypatch.setattr("hive_agents.sources.from_sftp._GROUPS", str(groups))
    try:
        remote.put("a.md", "# A\n\nThe text.\n")
        remote.permit("a.md", staff=True)
        (tmp_path / "ws" / "collections").mkdir(parents=True)
        place = Workspace(tmp_path / "ws")
        subjects = {"user:7": ["user:dana"], "user:8": ["user:lee"]}
        options = remote.settings["options"] | {"access": "posix", "subjects": subjects}
        add_source(place, "wiki", remote.settings | {"tenant": "acme", "options": options})
        trust(place)
        place = Workspace(place.root)
        assert run_source(place, "wiki").status == "done"
        assert viewers(place) == ["dana of acme", "lee of acme"]
        groups.write_text("nogroup:x:65534:\nqa:x:9:\n")
        assert sync_groups(place, "wiki") == {"wiki/65534": ["dana"], "wiki/9": ["lee"]}
        assert viewers(place) == ["dana of acme"]
        groups.unlink()  # it shows them to nobody any more
        assert (sync_groups(place, "wiki"), viewers(place)) == ({}, [])
    finally:
        remote.close()


def test_a_tag_of_an_object_says_who_reads_it_and_without_one_nobody_does(tmp_path: Path) -> None:
    remote = S3(tmp_path)
    try:
        remote.put("a.md", "# A\n\nThe text.\n")
        (tmp_path / "ws" / "collections").mkdir(parents=True)
        place = Workspace(tmp_path / "ws")
        subjects = {"user:d.doe": ["user:dana"], "group:qa": ["user:lee"]}
        options = remote.settings["options"] | {"access": "tags", "readers_tag": "who", "subjects": subjects}
        settings = {"tenant": "acme", "view": ["group:everybody"], "options": options}
        add_source(place, "wiki", remote.settings | settings)
        trust(place)
        place = Workspace(place.root)
        tags = {"TagSet": [{"Key": "who", "Value": "group:qa user:d.doe user:max"}, {"Key": "x", "Value": "everyone"}]}
        for told, expected in ((tags, ["dana of acme", "lee of acme"]), ({"TagSet": tags["TagSet"][1:]}, [])):
            remote._client.put_object_tagging(Bucket=remote._bucket, Key="docs/a.md", Tagging=told)
            assert run_source(place, "wiki").status == "done"
            assert viewers(place) == expected
    finally:
        remote.close()
