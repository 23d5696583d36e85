"""A stranger's workspace acts, reaches out and is believed only once its owner here says so."""

from __future__ import annotations

import json
import shutil
import tarfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from hive_agents import Principal, Workspace
from hive_agents.access import mint, permissions_of
from hive_agents.access.tokens import verify
from hive_agents.approvals import ApprovalStore, notify
from hive_agents.base.errors import HiveError
from hive_agents.triggers import all_triggers
from hive_agents.workspace import machine
from hive_agents.workspace.trusted import parts, require_trust, trust, trusted_bytes, untrusted_notice
from tests.approvals.asking import filing
from tests.conftest import make_workspace
from tests.listening import answering
from tests.sample import copied_sample, hive

WEBHOOK = {"id": "hook", "type": "webhook", "agent": "optimizer", "secret_ref": "env:HOOK", "run_as": "service:hook"}
STREAM = {"id": "hook", "type": "SSE", "agent": "optimizer", "url": "http://127.0.0.1:9/inside"}


@contextmanager
def listening() -> Iterator[tuple[str, list[bytes]]]:
    """(url, bodies that came) of a server on loopback."""
    heard: list[bytes] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            heard.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with answering(HTTPServer(("127.0.0.1", 0), Hook)) as url:
        yield url, heard


def all_trusted(place: Workspace) -> bool:
    return untrusted_notice(place) is None


def settings(place: Workspace, text: str) -> Workspace:
    with (place.root / "hive.toml").open("a") as file:
        file.write(text)
    return Workspace(place.root)


def elsewhere(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setenv("HIVE_HOME", str(folder / "another machine"))


@pytest.mark.sqlite_file  # `hive runs` asks a server, and not the state
def test_a_state_from_another_machine_is_refused_by_every_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = copied_sample(tmp_path / "ws")
    elsewhere(monkeypatch, tmp_path)
    for arguments in (("index",), ("query", "a key"), ("evaluate",), ("runs",), ("chat", "a key", "--as", "dana")):
        told = hive(*arguments, "-w", place.root, "--json")
        assert (told.code, told.codes) == (3, {"HIVE-430"}), arguments
    assert "hive trust --rebuild" in told.json["diagnostics"][0]["fix"]


def test_a_mark_is_of_one_state_and_one_machine_and_no_other_text_is_one(tmp_path: Path) -> None:
    first, second = (make_workspace(tmp_path / name, embedding=False) for name in ("a", "b"))
    forged = json.loads((first.state / "origin").read_text()) | {"id": "0" * 32}
    (second.state / "hive.db").write_text("")
    for text in (json.dumps(forged), "[]", '{"id": 1, "mark": 2}', "", "[" * 100_000, '{"id": "é", "mark": "é"}'):
        (second.root / ".hive" / "origin").write_text(text)
        assert machine.origin(second.root / ".hive") is None
        with pytest.raises(HiveError, match="HIVE-430"):
            Workspace(second.root).state  # noqa: B018
    (second.root / ".hive" / "origin").unlink()
    with pytest.raises(HiveError, match="HIVE-430"):
        Workspace(second.root).state  # noqa: B018


def test_a_foreign_state_is_set_aside_and_built_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = copied_sample(tmp_path / "ws")
    elsewhere(monkeypatch, tmp_path)
    told = hive("trust", "--diff", "-w", place.root, "--json")
    assert (told.code, told.json["state"]) == (1, "foreign")
    aside = hive("trust", "--rebuild", "-w", place.root, "--json").json["set_aside"]
    assert (place.root / aside / "hive.db").exists()
    assert hive("index", "-w", place.root).code == 0
    assert hive("query", "rotate an API key", "-w", place.root).code == 0
    assert hive("trust", "--rebuild", "-w", place.root, "--json").json["set_aside"] is None


@pytest.mark.sqlite_file
def test_a_state_that_comes_from_elsewhere_after_trust_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = copied_sample(tmp_path / "ws")
    foreign = shutil.copytree(place.root / ".hive", tmp_path / "foreign")
    elsewhere(monkeypatch, tmp_path)
    for command in (("trust", "--rebuild"), ("trust",), ("index",), ("query", "rotate an API key")):
        assert hive(*command, "-w", place.root).code == 0
    own = (place.root / ".hive").rename(tmp_path / "own")
    shutil.copytree(foreign, place.root / ".hive")
    for command in (("query", "rotate an API key"), ("runs",), ("index",), ("chat", "a key", "--as", "dana")):
        told = hive(*command, "-w", place.root, "--json")
        assert (told.code, told.codes) == (3, {"HIVE-430"}), command
    shutil.rmtree(place.root / ".hive")
    own.rename(place.root / ".hive")
    assert hive("query", "rotate an API key", "-w", place.root).code == 0


def test_ones_own_state_of_before_is_taken_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = copied_sample(tmp_path / "ws")
    elsewhere(monkeypatch, tmp_path)
    assert hive("trust", "-w", place.root).code == 0
    assert hive("query", "rotate an API key", "-w", place.root).code == 0


def test_a_state_that_is_copied_or_moved_on_this_machine_stays_own(tmp_path: Path) -> None:
    place = copied_sample(tmp_path / "ws")
    moved = place.root.rename(tmp_path / "moved")
    shutil.copytree(moved, tmp_path / "copy", symlinks=True)
    for root in (moved, tmp_path / "copy"):
        assert hive("query", "rotate an API key", "-w", root).code == 0


def test_a_local_key_that_came_with_a_stranger_s_files_signs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pull adds `.hive/local.key` to a workspace that is trusted and never signed anything."""
    place = copied_sample(tmp_path / "ws")
    with monkeypatch.context() as there:
        elsewhere(there, tmp_path)
        stranger = make_workspace(tmp_path / "stranger", embedding=False)
        (stranger.state / "local.key").write_text("42" * 32)
        forged = mint(stranger, Principal("acme", "root", roles=frozenset({"admin"}))).token
    shutil.copy(stranger.root / ".hive" / "local.key", place.state / "local.key")
    with pytest.raises(HiveError, match="HIVE-417"):
        verify(place, forged)
    assert verify(place, mint(place, Principal("acme", "root")).token).user == "root"


HANDS: dict[str, tuple[str, dict[str, str]]] = {
    "a link in place of the database": ("HIVE-114", {".hive/hive.db": "victim.db"}),
    "a link in place of vectors": ("HIVE-114", {".hive/vectors": "victims"}),
    "a link in place of the state": ("HIVE-114", {".hive": "victims"}),
    "a link in place of a run's files": ("HIVE-114", {".hive/runs": "victims"}),
}


@pytest.mark.sqlite_file
@pytest.mark.parametrize("name", HANDS)
def test_an_archive_of_a_stranger_writes_nowhere_else(tmp_path: Path, name: str) -> None:
    """Unpacked as a backup is, refused before it is trusted, and confined after."""
    code, links = HANDS[name]
    made = copied_sample(tmp_path / "made")
    (tmp_path / "victims").mkdir()
    (tmp_path / "victim.db").write_bytes(b"")
    (made.state / "origin").unlink()
    for place, target in links.items():
        path = made.root / place
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        path.symlink_to(tmp_path / target)
    archive, root = tmp_path / "backup.tar.gz", tmp_path / "restored"
    with tarfile.open(archive, "w:gz") as packing:
        packing.add(made.root, ".")
    with tarfile.open(archive) as packed:
        packed.extractall(root, filter="fully_trusted")
    assert hive("index", "-w", root, "--json").codes <= {"HIVE-430", "HIVE-114"}
    hive("trust", "-w", root)
    told = [hive(*does, "-w", root, "--json") for does in (("index",), ("query", "a key"), ("history",))]
    refused = {found for one in told if one.code for found in one.codes}
    assert refused == (set() if ".hive/runs" in links else {code})
    assert list((tmp_path / "victims").iterdir()) == []
    assert (tmp_path / "victim.db").read_bytes() == b""


def test_of_many_who_make_the_state_at_once_all_get_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere(monkeypatch, tmp_path)
    place = make_workspace(tmp_path / "ws", embedding=False)
    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda _: machine.origin(Workspace(place.root).state), range(64)))
    assert len(set(found)) == 1
    assert found[0]
    assert [path.name for path in place.root.iterdir() if path.name.startswith(".")] == [".hive"]
    assert [path.name for path in machine.home().iterdir()] == ["key"]


def test_a_home_that_cannot_be_written_is_a_diagnostic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HIVE_HOME", str(tmp_path / "file" / "below"))
    place = make_workspace(tmp_path / "ws", embedding=False)
    told = hive("index", "-w", place.root, "--json")
    assert (told.code, told.codes) == (3, {"HIVE-403"})
    assert "HIVE_HOME" in told.json["diagnostics"][0]["fix"]
    assert not (place.root / ".hive").exists()


def test_nobody_is_told_of_requests_before_trust_nor_after_a_change(tmp_path: Path) -> None:
    place = copied_sample(tmp_path / "ws")
    with listening() as (url, heard):
        place = settings(place, f'[approvals]\nnotify = ["{url}/a"]\n')

        def file(title: str) -> None:
            ApprovalStore(Workspace(place.root)).file(filing(title=title))

        file("one")
        trust(place)
        file("two")
        text = (place.root / "hive.toml").read_text().replace(f'"{url}/a"', f'"{url}/a", "{url}/b"')
        (place.root / "hive.toml").write_text(text)
        file("three")
        for told in list(notify._telling.values()):
            told.result()
    assert [json.loads(one)["request"]["title"] for one in heard] == ["two"]


def test_a_permission_service_of_a_stranger_is_not_asked_and_denies(tmp_path: Path) -> None:
    place = copied_sample(tmp_path / "ws")
    doc_id = "faqs/rotate-api-key.md"
    dana = Principal("acme", "dana", frozenset({"qa"}))
    with listening() as (url, heard):
        place = settings(place, f'[access]\nservice_url = "{url}"\n')
        assert permissions_of(place).view(dana, [doc_id]) == frozenset()
        assert heard == []
        trust(place)
        permissions_of(place).view(dana, [doc_id])
        assert len(heard) == 1


@pytest.mark.parametrize("trigger", [WEBHOOK, STREAM])
def test_a_trigger_that_reaches_out_is_left_out_until_it_is_trusted(tmp_path: Path, trigger: dict[str, str]) -> None:
    place = copied_sample(tmp_path / "ws")
    (place.root / "triggers").mkdir(exist_ok=True)
    (place.root / "triggers" / "hook.json").write_text(json.dumps(trigger))
    told = hive("trigger", "list", "-w", place.root, "--json")
    assert "HIVE-431" in told.out + told.err
    assert all_triggers(place)[0] == []
    assert hive("trust", "-w", place.root).code == 0
    assert [one["id"] for one in hive("trigger", "list", "-w", place.root, "--json").json["triggers"]] == ["hook"]


@pytest.mark.parametrize("how", [("--webhook", "--secret-ref", "env:HOOK"), ("--sse", "http://127.0.0.1:9/inside")])
def test_a_trigger_that_its_owner_adds_here_is_trusted_with_the_rest(tmp_path: Path, how: tuple[str, ...]) -> None:
    place = copied_sample(tmp_path / "ws")
    told = hive("trigger", "add", "hook", *how, "--agent", "optimizer", "-w", place.root)
    assert told.code == 0, told.err
    assert all_trusted(place)


ACTING = """
[tools]
python = ["tools/*.py"]
[mcp.servers.notes]
command = ["python", "server.py"]
[models.endpoints.mine]
base_url = "http://127.0.0.1:1/v1"
[telemetry]
langsmith = true
otlp_endpoint = ""
"""


def test_all_that_can_act_is_named_and_every_change_of_it_is_seen(text_workspace: Workspace) -> None:
    root = text_workspace.root
    (root / "tools" / "deep").mkdir(parents=True)
    for name in ("tools/rotate.py", "tools/deep/part.py", "server.py", "other.py"):
        (root / name).write_text("pass\n")
    (root / "hive.toml").write_text(ACTING)
    names = [part.name for part in parts(text_workspace)]
    assert names == [
        "hive.toml: mcp.servers.notes",
        "hive.toml: models.endpoints.mine",
        "hive.toml: telemetry.langsmith",
        "hive.toml: tools.python",
        "other.py",
        "server.py",
        "tools/deep/part.py",
        "tools/rotate.py",
    ]
    assert {part.status for part in parts(text_workspace)} == {"new"}
    acting = Workspace(root)
    for section in ("tools", "mcp", "models", "telemetry"):
        with pytest.raises(HiveError, match="HIVE-431"):
            require_trust(acting, section)
    with pytest.raises(HiveError, match="HIVE-431"):
        trusted_bytes(text_workspace, root / "tools" / "rotate.py")
    trust(text_workspace)
    require_trust(acting, "tools", "mcp", "models", "telemetry")
    assert trusted_bytes(text_workspace, root / "tools" / "rotate.py") == b"pass\n"
    assert untrusted_notice(text_workspace) is None
    for name in ("tools/deep/part.py", "server.py", "tools/new.py"):
        before = (root / name).read_text() if (root / name).exists() else None
        (root / name).write_text("import os\n")
        notice = untrusted_notice(text_workspace)
        assert notice is not None
        assert name in notice.message
        assert "hive trust --diff" in str(notice.fix)
        (root / name).unlink() if before is None else (root / name).write_text(before)
        assert all_trusted(text_workspace)
    (root / "hive.toml").write_text(ACTING.replace("127.0.0.1", "example.org"))
    assert [part.name for part in parts(text_workspace) if part.status == "changed"] == [
        "hive.toml: models.endpoints.mine"
    ]
    (root / "hive.toml").write_text("")
    assert {part.status for part in parts(text_workspace)} == {"gone"}


SERVERS = {
    "storage": ["url", "password_ref", "namespace"],
    "vectors": ["url", "password_ref", "namespace"],
    "search": ["url", "login_ref"],
}


@pytest.mark.parametrize(("section", "key"), [(section, key) for section, keys in SERVERS.items() for key in keys])
def test_a_change_of_where_records_and_lists_come_from_is_seen(
    text_workspace: Workspace, section: str, key: str
) -> None:
    """Another secret for a server that was trusted, or the records of another workspace there."""
    before = {"url": "postgresql://127.0.0.1:1/kb", "password_ref": "env:MINE", "namespace": "mine"}
    if section == "search":
        before = {"url": "opensearch://127.0.0.1:1/kb", "login_ref": "env:MINE"}
    assert sorted(before) == sorted(SERVERS[section])
    for value in (before[key], before[key].replace("MINE", "AWS_SECRET").replace("kb", "it").replace("mine", "its")):
        lines = [f'{name} = "{text}"' for name, text in (before | {key: value}).items()]
        settings(text_workspace, "\n".join([f"[{section}]", *lines, ""]))
        assert not all_trusted(text_workspace)
        assert f"hive.toml: {section}.{key}" in {
            part.name for part in parts(text_workspace) if part.status != "trusted"
        }
        trust(text_workspace)


def test_trust_is_of_one_place_and_one_machine(
    text_workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings(text_workspace, '[approvals]\nnotify = ["http://127.0.0.1:1"]\n')
    trust(text_workspace)
    copy = Workspace(shutil.copytree(text_workspace.root, tmp_path / "copy", symlinks=True))
    assert (all_trusted(text_workspace), all_trusted(copy)) == (True, False)
    elsewhere(monkeypatch, tmp_path)
    assert not all_trusted(text_workspace)


def test_settings_of_the_environment_need_no_trust(text_workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIVE_APPROVALS__NOTIFY", '["http://127.0.0.1:1"]')
    assert all_trusted(Workspace(text_workspace.root))


def test_an_untrusted_workspace_can_be_searched_evaluated_and_validated(tmp_path: Path) -> None:
    place = settings(copied_sample(tmp_path / "ws"), '[approvals]\nnotify = ["http://x.example"]\n')
    for arguments in (("query", "rotate an API key"), ("evaluate",), ("validate", "v1")):
        told = hive(*arguments, "-w", place.root)
        assert told.code == 0, told.err
        assert told.err.count("HIVE-431") == 1
        assert "hive trust --diff" in told.err
    told = hive("trust", "--diff", "-w", place.root)
    assert told.code == 1
    assert "http://x.example" in told.out


def test_a_new_workspace_is_trusted(tmp_path: Path) -> None:
    assert hive("init", tmp_path / "new").code == 0
    assert all_trusted(Workspace(tmp_path / "new"))
