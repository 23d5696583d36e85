"""The settings of models, trust, schedules, judge and records, by forms alone."""

from __future__ import annotations

import base64
import datetime as dt
import html
import json
import re
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from hive_agents import Workspace
from hive_agents.access.logins import login_code
from hive_agents.agents import workspace_tools
from hive_agents.agents.verify import sound_agent
from hive_agents.evaluation import load_golden
from hive_agents.gate import is_accepted
from hive_agents.goals import load_goal
from hive_agents.ranking import build_index
from hive_agents.store import audit
from hive_agents.triggers.files import parse_trigger, write_trigger
from hive_agents.workspace import is_trusted, trusted
from hive_agents.workspace.credentials import CredentialStore
from tests.agents.conftest import write_json
from tests.models.openai_server import KEY, model_server
from tests.pages.people import noting_agent
from tests.pages.test_settings import sent, written
from tests.server.provider import CLIENT, SECRET, open_id_provider
from tests.server.serving import bearer, sample, served, token
from tests.server.test_signin import signed_in

MCP_SERVER = Path(__file__).parents[1] / "agents" / "mcp_server.py"


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    return sample(tmp_path / "ws")


@pytest.fixture
async def owner(place: Workspace) -> AsyncIterator[httpx.AsyncClient]:
    """A browser in which the workspace's owner has signed in."""
    async with served(place, roles=("http",)) as client:
        await client.get("/login", params={"code": login_code(place)})
        yield client


async def test_a_part_is_trusted_as_it_was_read(place: Workspace, owner: httpx.AsyncClient) -> None:
    (place.root / "tools").mkdir()
    tool = place.root / "tools" / "mine.py"
    tool.write_text("WORD = 'one'\n", encoding="utf-8")
    toml = place.root / "hive.toml"
    toml.write_text(toml.read_text(encoding="utf-8") + '[tools]\npython = ["tools/*.py"]\n', encoding="utf-8")
    shown = (await owner.get("/settings/trust")).text
    assert "WORD = &#39;one&#39;" in shown
    both = parts(shown)
    assert {name for name, _ in both} >= {"hive.toml: tools.python", "tools/mine.py"}
    assert "Read them, and decide once." in shown
    tool.write_text("WORD = 'two'\n", encoding="utf-8")
    answer = await sent(owner, "/settings/trust", part=chosen(both, "hive.toml: tools.python", "tools/mine.py"))
    assert answer.headers["location"] == "/settings/trust?done=another"
    assert {status(place, name) for name in ("hive.toml: tools.python", "tools/mine.py")} == {"new"}
    again = parts((await owner.get("/settings/trust")).text)
    answer = await sent(owner, "/settings/trust", part=chosen(again, "hive.toml: tools.python", "tools/mine.py"))
    assert answer.headers["location"] == "/settings/trust?done=trusted"
    assert {status(place, name) for name in ("hive.toml: tools.python", "tools/mine.py")} == {"trusted"}
    (entry,) = audit.recorded(place, "trusted")
    assert entry["parts"] == ["hive.toml: tools.python", "tools/mine.py"]
    tool.write_text("WORD = 'three'\n", encoding="utf-8")
    alone = (await owner.get("/settings/trust")).text  # the line says what it said
    assert "decide once" not in alone
    await sent(owner, "/settings/trust", part=chosen(parts(alone), "tools/mine.py"))
    assert status(place, "tools/mine.py") == "trusted"


async def test_of_a_line_and_its_files_those_are_trusted_that_are_ticked(
    place: Workspace, owner: httpx.AsyncClient
) -> None:
    (place.root / "tools").mkdir()
    for name in ("mine", "other"):
        (place.root / "tools" / f"{name}.py").write_text(f"WORD = {name!r}\n", encoding="utf-8")
    toml = place.root / "hive.toml"
    toml.write_text(toml.read_text(encoding="utf-8") + '[tools]\npython = ["tools/*.py"]\n', encoding="utf-8")
    found = parts((await owner.get("/settings/trust")).text)
    await sent(owner, "/settings/trust", part=chosen(found, "hive.toml: tools.python", "tools/mine.py"))
    told = {one.name: one.status for one in trusted.parts(place)}
    assert (told["hive.toml: tools.python"], told["tools/mine.py"]) == ("trusted", "trusted")
    assert told["tools/other.py"] == "new"
    assert (await sent(owner, "/settings/trust")).headers["location"] == "/settings/trust"


async def test_a_server_of_tools_is_added_once_its_line_was_read(place: Workspace, owner: httpx.AsyncClient) -> None:
    folder = place.root / "notes"
    folder.mkdir()
    (folder / "plan").write_text("go slowly", encoding="utf-8")
    shutil.copy(MCP_SERVER, place.root / "notes.py")
    form = {"name": "notes", "command": f"'{sys.executable}' notes.py '{folder}'", "read_only": "read_note, secret"}
    shown = await sent(owner, "/settings/server", **form)
    assert '+read_only = ["read_note", "secret"]' in html.unescape(shown.text)
    assert "notes" not in (place.root / "hive.toml").read_text(encoding="utf-8")
    done = await written(owner, shown)
    assert done.headers["location"] == "/settings/trust?done=added"
    now = Workspace(place.root)
    assert now.settings.mcp.servers["notes"].command == [sys.executable, "notes.py", str(folder)]
    assert is_trusted(now, "mcp.servers.notes")
    waiting = (await owner.get("/settings/trust?done=added")).text
    assert "Begin again now" in waiting
    assert "notes__read_note" not in workspace_tools(now).names
    await sent(owner, "/settings/trust", part=chosen(parts(waiting), "notes.py"))
    known = workspace_tools(Workspace(place.root))
    assert known["notes__read_note"].side_effect == "read"
    assert known["notes__write_note"].side_effect == "external"
    assert [one["file"] for one in audit.recorded(place, "file_changed")] == ["hive.toml"]


async def test_the_key_of_a_server_stays_out_of_the_file(
    place: Workspace, owner: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIVE_CREDENTIAL_KEY", base64.urlsafe_b64encode(b"k" * 32).decode())
    form = {"name": "desk", "url": "https://tools.example/mcp", "keyed": "1"}
    shown = await sent(owner, "/settings/server", **form)
    assert (await written(owner, shown, key=f"Bearer {KEY}")).status_code == 303
    assert KEY not in (place.root / "hive.toml").read_text(encoding="utf-8")
    server = Workspace(place.root).settings.mcp.servers["desk"]
    assert server.headers_ref == {"Authorization": "credential:mcp-desk"}
    assert CredentialStore(place).get("mcp-desk").reveal() == f"Bearer {KEY}"


STRANGERS = """
[mcp.servers.notes]
command = ["false"]
# one
# two

[mcp.servers.notes.env]
PYTHONPATH = "evil"

[models]
chat = ["lab:small", "bedrock:large"]

[models.endpoints.lab]
base_url = "http://127.0.0.1:9/v1"
"""
"""What a stranger's file says under names that an owner may choose."""


@pytest.mark.parametrize(
    ("path", "form", "unseen", "keys"),
    [
        (
            "/settings/server",
            {"name": "notes", "command": "python -m notes"},
            '"PYTHONPATH": "evil"',
            ["mcp.servers.notes"],
        ),
        (
            "/settings/model",
            {"name": "lab", "url": "http://127.0.0.1:9/v1", "model": "small"},
            "bedrock:large",
            ["models.chat", "models.endpoints.lab"],
        ),
    ],
)
async def test_lines_that_a_change_leaves_as_they_are_are_shown_before_they_are_trusted_with_it(
    place: Workspace, owner: httpx.AsyncClient, path: str, form: dict[str, str], unseen: str, keys: list[str]
) -> None:
    toml = place.root / "hive.toml"
    toml.write_text(toml.read_text(encoding="utf-8") + STRANGERS, encoding="utf-8")
    shown = await sent(owner, path, **form)
    assert unseen in html.unescape(shown.text)
    toml.write_text(toml.read_text(encoding="utf-8") + "# another\n", encoding="utf-8")
    assert "changed since you looked" in (await written(owner, shown)).text
    assert not any(is_trusted(Workspace(place.root), key) for key in keys)
    assert (await written(owner, await sent(owner, path, **form))).status_code == 303
    assert is_trusted(Workspace(place.root), *keys)


@pytest.mark.parametrize(
    "wrong",
    [{"name": ""}, {"name": "a.b"}, {"name": "lab]\nx"}, {"url": ""}, {"url": "ftp://x"}, {"command": "echo 'a"},
     {"command": "echo a"}],
)  # fmt: skip
async def test_what_is_no_server_is_not_written(
    place: Workspace, owner: httpx.AsyncClient, wrong: dict[str, str]
) -> None:
    before = (place.root / "hive.toml").read_bytes()
    form = {"name": "desk", "url": "https://tools.example/mcp"} | wrong
    assert (await sent(owner, "/settings/server", **form)).status_code in (400, 409, 422)
    assert (place.root / "hive.toml").read_bytes() == before


def parts(shown: str) -> list[tuple[str, str]]:
    """The name of each part that waits, and what is sent to trust it as it was shown."""
    sent = [html.unescape(one) for one in re.findall(r'name="part" value="([^"]*)"', shown)]
    return [(one.partition(" ")[2], one) for one in sent]


def chosen(found: list[tuple[str, str]], *names: str) -> list[str]:
    return [sent for name, sent in found if name in names]


def status(place: Workspace, name: str) -> str:
    return next(one.status for one in trusted.parts(place) if one.name == name)


async def test_what_reaches_elsewhere_is_the_owner_s_to_change(place: Workspace, owner: httpx.AsyncClient) -> None:
    owner.cookies.clear()
    await owner.post("/login", json={"token": token(place, "root")})
    for path in ("/settings/models", "/settings/trust", "/settings/judge"):
        assert (await owner.get(path)).status_code == 200, path
    model = {"name": "lab", "url": "http://127.0.0.1:9/v1", "model": "m"}
    assert (await sent(owner, "/settings/model", **model)).status_code == 403
    assert (await sent(owner, "/settings/trust", part="0 hive.toml: server.port")).status_code == 403
    server = {"name": "desk", "url": "https://tools.example/mcp"}
    assert (await sent(owner, "/settings/server", **server)).status_code == 403
    assert (await sent(owner, "/settings/restart", back="models")).status_code == 403
    named = {"issuer": "https://login.example", "client_id": "c", "tenant": "acme", "groups_claim": "groups"}
    assert (await sent(owner, "/settings/signin", **named)).status_code == 403
    assert (await sent(owner, "/settings/signin-group", name="quality", role=["admin"])).status_code == 403
    for path in ("signin", "records"):
        assert (await owner.get(f"/settings/{path}")).status_code == 403, path
    agent = {"name": "helper", "purpose": "help", "instructions": "Help.", "outputs": "result"}
    assert (await sent(owner, "/settings/agents", **agent)).status_code == 403
    assert "<form" not in (await owner.get("/settings/agents")).text.partition("<main")[2].partition("</main>")[0]
    operator = bearer(place, "dana", "reader", "operator")
    assert (await owner.post("/settings/agents", headers=operator, data=agent)).status_code == 403
    for path in ("signin", "models", "trust", "agents", "schedules", "schedule", "judge", "records"):
        assert (await owner.get(f"/settings/{path}", headers=operator)).status_code == 403, path


async def test_a_model_is_connected_and_its_key_stays_out_of_the_file(
    place: Workspace, owner: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIVE_CREDENTIAL_KEY", base64.urlsafe_b64encode(b"k" * 32).decode())
    with model_server() as server:
        model = {"name": "lab", "url": server.url, "model": "small", "keyed": "1"}
        shown = await sent(owner, "/settings/model", **model)
        assert '+chat = ["lab:small"]' in html.unescape(shown.text)
        assert (await written(owner, shown)).status_code == 400  # without the key
        assert CredentialStore(place).names() == []
        done = await written(owner, shown, key=KEY)
        assert done.headers["location"] == "/settings/models?done=connected"
        text = (place.root / "hive.toml").read_text(encoding="utf-8")
        assert KEY not in text
        now = Workspace(place.root)
        assert now.settings.models.endpoints["lab"].api_key_ref == "credential:model-lab"
        assert is_trusted(now, "models.chat", "models.endpoints.lab")
        listed = (await owner.get("/settings/models")).text
        assert "lab:small" in listed
        assert "since this server began" in listed
        tested = (await sent(owner, "/settings/models", act="test")).text
        assert "lab:small" in tested
        assert "answers in" in tested
        renewed = await written(owner, await sent(owner, "/settings/model", **model), key="another")
        assert renewed.status_code == 303
        assert CredentialStore(place).get("model-lab").reveal() == "another"


async def test_no_key_is_kept_of_a_model_that_was_only_looked_at(
    place: Workspace, owner: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIVE_CREDENTIAL_KEY", base64.urlsafe_b64encode(b"k" * 32).decode())
    model = {"name": "lab", "url": "http://127.0.0.1:9/v1", "model": "small", "keyed": "1"}
    shown = await sent(owner, "/settings/model", **model, key=KEY)
    assert KEY not in shown.text
    assert CredentialStore(place).names() == []
    toml = place.root / "hive.toml"
    toml.write_text(toml.read_text(encoding="utf-8") + '[models]\nchat = ["scripted:x.jsonl"]\n', encoding="utf-8")
    again = await written(owner, shown, key=KEY)
    assert "changed since you looked" in again.text
    assert KEY not in again.text
    assert CredentialStore(place).names() == []


@pytest.mark.parametrize("wrong", [{"name": "a.b"}, {"name": "lab]\nx"}, {"url": "ftp://x"}, {"url": ""}])
async def test_what_is_no_endpoint_is_not_written(
    place: Workspace, owner: httpx.AsyncClient, wrong: dict[str, str]
) -> None:
    before = (place.root / "hive.toml").read_bytes()
    model = {"name": "lab", "url": "http://127.0.0.1:9/v1", "model": "m"} | wrong
    assert (await sent(owner, "/settings/model", **model)).status_code in (400, 409, 422)
    assert (place.root / "hive.toml").read_bytes() == before


async def test_a_schedule_is_made_rests_and_goes(place: Workspace, owner: httpx.AsyncClient) -> None:
    noting_agent(place)
    agent = place.root / "agents" / "writer.json"
    value = json.loads(agent.read_text(encoding="utf-8"))
    value["nodes"][0]["input_keys"] = ["task"]
    agent.write_text(json.dumps(value), encoding="utf-8")
    assert 'name="input.task"' in (await owner.get("/settings/schedule?agent=writer")).text
    form = {"id": "morning", "agent": "writer", "often": "workday", "at": "08:30", "timezone": "Europe/Berlin"}
    shown = await sent(owner, "/settings/schedule", act="write", **form, **{"input.task": "look"})
    assert (await written(owner, shown)).status_code == 303
    file = place.root / "triggers" / "morning.json"
    value = json.loads(file.read_text(encoding="utf-8"))
    assert (value["schedule"], value["timezone"]) == ("30 8 * * 1-5", "Europe/Berlin")
    assert value["input"] == {"task": "look"}
    listed = (await owner.get("/settings/schedules")).text
    ticks = [dt.datetime.fromisoformat(one) for one in times(listed)]
    assert len(ticks) == 5
    assert ticks == sorted(ticks)
    await written(owner, await sent(owner, "/settings/schedule", act="pause", id="morning"))
    assert not json.loads(file.read_text(encoding="utf-8"))["enabled"]
    assert times((await owner.get("/settings/schedules")).text) == []
    await written(owner, await sent(owner, "/settings/schedule", act="resume", id="morning"))
    await written(owner, await sent(owner, "/settings/schedule", act="remove", id="morning"))
    assert not file.exists()
    assert [one["file"] for one in audit.recorded(place, "file_changed")] == ["triggers/morning.json"] * 4


DRAFT = {"name": "minutes", "purpose": "Keep minutes", "instructions": "List what was said.\r\nPrices are in $. \u200d",
         "inputs": "meeting, day", "outputs": "minutes", "good": "every speaker is named"}  # fmt: skip


async def test_an_agent_and_its_goal_are_made_once_both_were_read(place: Workspace, owner: httpx.AsyncClient) -> None:
    assert 'value="search_documents"' in (await owner.get("/settings/agents")).text
    shown = await sent(owner, "/settings/agents", **DRAFT, tool=["search_documents", "web_search"])
    for file in ("goals/minutes.json", "agents/minutes.json"):
        assert file in shown.text
        assert not (place.root / file).exists()
    done = await written(owner, shown)
    assert done.headers["location"] == "/settings/agents?done=made"
    spec = sound_agent(place, "minutes")
    (node,) = spec.nodes
    assert (node.input_keys, node.output_keys) == (["meeting", "day"], ["minutes"])
    assert "said.\nPrices are in $$. \u200d" in node.system_prompt
    decided = workspace_tools(place).view(node.tools, policy=spec.tool_policy)
    assert [decided.decide(name) for name in ("search_documents", "web_search")] == ["allow", "ask"]
    assert [one.description for one in load_goal(place, "minutes").success_criteria] == ["every speaker is named"]
    assert "minutes" in (await owner.get("/settings/agents?done=made")).text
    changed = [one["file"] for one in audit.recorded(place, "file_changed")]
    assert changed == ["goals/minutes.json", "agents/minutes.json"]
    assert (await sent(owner, "/settings/agents", **DRAFT)).status_code == 400  # there is one of that name


async def test_an_agent_is_changed_as_it_was_made_and_removed(place: Workspace, owner: httpx.AsyncClient) -> None:
    await written(owner, await sent(owner, "/settings/agents", **DRAFT, tool=["web_search"]))
    page = (await owner.get("/settings/agent?name=minutes")).text
    assert "List what was said.\nPrices are in $. \\u200d</textarea>" in page
    assert 'value="web_search" checked' in page
    form = DRAFT | {"instructions": "List who spoke.", "act": "write"}
    done = await written(owner, await sent(owner, "/settings/agent", **form, tool=["search_documents"]))
    assert done.headers["location"] == "/settings/agents?done=written"
    spec = sound_agent(place, "minutes")
    assert (spec.version, spec.nodes[0].tools) == (2, ["search_documents"])
    trigger = {"id": "morning", "type": "cron", "agent": "minutes", "schedule": "0 8 * * *", "timezone": "UTC"}
    write_json(place, "triggers/morning.json", trigger)
    assert "morning starts this agent" in (await sent(owner, "/settings/agent", act="remove", name="minutes")).text
    (place.root / "triggers" / "morning.json").unlink()
    done = await written(owner, await sent(owner, "/settings/agent", act="remove", name="minutes"))
    assert done.headers["location"] == "/settings/agents?done=removed"
    assert not [*place.root.glob("*/minutes.json")]
    assert (await owner.get("/settings/agent?name=minutes")).status_code == 404
    assert (await sent(owner, "/settings/agent", **form)).status_code == 404


async def test_an_agent_that_was_written_by_hand_is_changed_as_its_text(
    place: Workspace, owner: httpx.AsyncClient
) -> None:
    noting_agent(place)
    file = place.root / "agents" / "writer.json"
    assert 'name="text"' in (await owner.get("/settings/agent?name=writer")).text
    value = json.loads(file.read_text(encoding="utf-8"))
    wrong = json.dumps(value | {"entry": "nowhere"})
    assert (await sent(owner, "/settings/agent", act="text", name="writer", text=wrong)).status_code in (400, 422)
    right = json.dumps(value | {"version": 7}, indent=2)
    await written(owner, await sent(owner, "/settings/agent", act="text", name="writer", text=right))
    assert sound_agent(place, "writer").version == 7
    assert (await sent(owner, "/settings/agent", **(DRAFT | {"name": "writer"}))).status_code == 404
    await written(owner, await sent(owner, "/settings/agent", act="remove", name="writer"))
    assert not file.exists()
    assert (place.root / "goals" / "digest.json").exists(), "a goal may be another agent's, too"


@pytest.mark.parametrize(
    "wrong", [{"name": "../x"}, {"instructions": ""}, {"outputs": "two words"}, {"tool": ["*"]}, {"purpose": ""}]
)
async def test_what_is_no_agent_is_not_written(
    place: Workspace, owner: httpx.AsyncClient, wrong: dict[str, str]
) -> None:
    there = sorted(place.root.glob("*/*.json"))
    assert (await sent(owner, "/settings/agents", **(DRAFT | wrong))).status_code in (400, 422)
    assert sorted(place.root.glob("*/*.json")) == there


@pytest.mark.parametrize("id", ["ines", "unlisted"])
async def test_no_schedule_of_a_tenants_admin_acts_as_another_tenants_people_or_the_workspace(
    place: Workspace, id: str
) -> None:
    noting_agent(place)
    nightly = {"id": "nightly", "type": "cron", "agent": "writer", "schedule": "0 2 * * *", "input": {}}
    write_trigger(place, parse_trigger(json.dumps(nightly), "triggers/nightly.json"))
    there = sorted((place.root / "triggers").iterdir())
    async with served(place, roles=("http",)) as client:
        await client.post("/login", json={"token": token(place, "root")})
        form = {"id": id, "agent": "writer", "often": "day", "at": "08:30", "timezone": "UTC"}
        assert (await sent(client, "/settings/schedule", act="write", **form)).status_code == 403
        for act in ("pause", "remove"):
            assert (await sent(client, "/settings/schedule", act=act, id="nightly")).status_code == 403
        listed = (await client.get("/settings/schedules")).text
        assert "nightly" in listed
        assert 'value="pause"' not in listed
        assert 'value="remove"' not in listed
    assert sorted((place.root / "triggers").iterdir()) == there


@pytest.mark.parametrize("name", ["nightly", "service:nightly"])
async def test_no_name_that_a_tenants_admin_gives_takes_the_workspaces_schedule(place: Workspace, name: str) -> None:
    noting_agent(place)
    nightly = {"id": "nightly", "type": "cron", "agent": "writer", "schedule": "0 2 * * *", "input": {}}
    write_trigger(place, parse_trigger(json.dumps(nightly), "triggers/nightly.json"))
    before = {file.name: file.read_text(encoding="utf-8") for file in (place.root / "access").iterdir()}
    form = {"act": "write", "user": name, "role": ["admin"]}
    async with served(place, roles=("http",)) as client:
        await client.post("/login", json={"token": token(place, "root")})
        assert (await sent(client, "/settings/person", **form)).status_code == 403
        assert {file.name: file.read_text(encoding="utf-8") for file in (place.root / "access").iterdir()} == before
        shown = await sent(client, "/settings/person", **form | {"user": f"{name}ly"})
        assert (await written(client, shown)).status_code == 303
    async with served(place, roles=("http",)) as client:
        await client.get("/login", params={"code": login_code(place)})
        shown = await sent(client, "/settings/person", **form, tenant="acme")
        assert (await written(client, shown)).status_code == 303


def times(shown: str) -> list[str]:
    return re.findall(r'<time datetime="([^"]*)"', shown)


async def test_thresholds_and_records_are_shown(place: Workspace, owner: httpx.AsyncClient) -> None:
    judged = (await owner.get("/settings/judge")).text
    assert "as set, not proved" in judged
    kept = (await owner.get("/settings/records")).text
    assert "This host can work." in kept
    assert ".hive/" in kept


async def test_everything_is_examined_and_says_where_it_is_mended(place: Workspace, owner: httpx.AsyncClient) -> None:
    assert "Audit log" not in (await owner.get("/settings/records")).text
    write_json(place, "goals/broken.json", {"id": "broken"})
    (place.documents / "lost.md").write_text("---\ntenant: acme\nview: {}\n---\n# Lost\n", encoding="utf-8")
    build_index(place)
    shown = (await sent(owner, "/settings/records")).text
    found = re.findall(r'<li class="line"><p><strong>([^<]*)</strong> <span class="badge (\w+)', shown)
    badges = [badge for _, badge in found]
    assert badges == sorted(badges, key=["bad", "warn", "good"].index)
    assert ("Goals of agents", "bad") in found
    assert ("Audit log", "good") in found
    assert "HIVE-108: a document" in shown
    assert "lost.md" not in shown  # whoever runs the server isn't thereby one of its readers
    assert 'href="/settings/people"' in shown
    for user in ("root", "dana"):
        refused = await owner.post("/settings/records", headers=bearer(place, user))
        assert refused.status_code in (403, 415), refused.text


async def test_what_is_examined_is_told_in_german_too(place: Workspace, owner: httpx.AsyncClient) -> None:
    owner.headers["Accept-Language"] = "de"
    shown = (await sent(owner, "/settings/records")).text
    assert "Prüfprotokoll" in shown
    assert "settings.check" not in shown


async def test_a_provider_is_named_and_whoever_signs_in_there_has_what_their_groups_give(
    place: Workspace, owner: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIVE_CREDENTIAL_KEY", base64.urlsafe_b64encode(b"k" * 32).decode())
    with open_id_provider() as provider:
        provider.claims["groups"] = ["the quality people"]
        form = {"issuer": provider.issuer, "client_id": CLIENT, "tenant": "acme", "groups_claim": "groups"}
        shown = await sent(owner, "/settings/signin", **form, keyed="1")
        assert CredentialStore(place).names() == []
        done = await written(owner, shown, key=SECRET)
        assert done.headers["location"] == "/settings/signin?done=written"
        group = {"name": "the quality people", "groups": "qa", "role": ["approver"]}
        assert (await written(owner, await sent(owner, "/settings/signin-group", **group))).status_code == 303
        assert SECRET not in (place.root / "hive.toml").read_text(encoding="utf-8")
        listed = (await owner.get("/settings/signin")).text
        assert "the quality people" in listed
        assert "since this server began" in listed
        assert f"{owner.base_url}/signin/back" in listed
        async with served(Workspace(place.root), roles=("http",)) as client:
            assert (await signed_in(client)).status_code == 200
            me = (await client.get("/api/session")).json()
    assert (me["tenant"], me["user"], me["groups"], me["roles"]) == ("acme", "7", ["qa"], ["approver", "reader"])


async def test_groups_that_came_with_the_workspace_are_trusted_by_no_change_of_another(
    place: Workspace, owner: httpx.AsyncClient
) -> None:
    toml = place.root / "hive.toml"
    foreign = '\n[signin]\nscopes = ["offline_access"]\n[signin.groups.everybody]\nroles = ["admin"]\n'
    toml.write_text(toml.read_text(encoding="utf-8") + foreign, encoding="utf-8")
    group = {"name": "quality", "groups": "qa", "role": ["approver"]}
    assert (await written(owner, await sent(owner, "/settings/signin-group", **group))).status_code == 303
    form = {"issuer": "https://login.example", "client_id": CLIENT, "tenant": "acme", "groups_claim": "groups"}
    assert (await written(owner, await sent(owner, "/settings/signin", **form))).status_code == 303
    now = Workspace(place.root)
    assert is_trusted(now, "signin.issuer", "signin.tenant")
    assert not is_trusted(now, "signin.groups")
    assert "until these settings are trusted" in (await owner.get("/settings/signin")).text


@pytest.mark.parametrize("wrong", [{"issuer": "http://elsewhere.example"}, {"issuer": ""}, {"tenant": ""}])
async def test_what_is_no_provider_is_not_written(
    place: Workspace, owner: httpx.AsyncClient, wrong: dict[str, str]
) -> None:
    before = (place.root / "hive.toml").read_bytes()
    form = {"issuer": "https://login.example", "client_id": CLIENT, "tenant": "acme", "groups_claim": "groups"} | wrong
    assert (await sent(owner, "/settings/signin", **form)).status_code in (400, 422)
    assert (place.root / "hive.toml").read_bytes() == before


async def test_the_owner_stands_behind_labels_that_were_changed_elsewhere(
    place: Workspace, owner: httpx.AsyncClient
) -> None:
    golden = place.root / "evals" / "golden.json"
    assert is_accepted(place, load_golden(place))
    queries = json.loads(golden.read_text(encoding="utf-8"))
    golden.write_text(json.dumps(queries | {"k": 5}), encoding="utf-8")
    shown = (await owner.get("/golden")).text
    assert "hive evaluate" not in shown
    (read,) = re.findall(r'name="read" value="([^"]*)"', shown)
    golden.write_text(json.dumps(queries | {"k": 7}), encoding="utf-8")
    answer = await sent(owner, "/golden", read=read, reason="I read them")
    assert answer.headers["location"] == "/golden?done=another"
    assert not is_accepted(place, load_golden(place))
    (again,) = re.findall(r'name="read" value="([^"]*)"', (await owner.get("/golden")).text)
    await sent(owner, "/golden", read=again, reason="I read them")
    assert is_accepted(place, load_golden(place))
    assert audit.recorded(place, "golden_accepted")[-1]["reason"] == "I read them"
    assert 'name="read"' not in (await owner.get("/golden")).text


async def test_nobody_but_the_owner_stands_behind_labels(place: Workspace) -> None:
    async with served(place, roles=("http",)) as client:
        await client.post("/login", json={"token": token(place, "root", "admin", "operator")})
        assert is_accepted(place, load_golden(place))
        golden = place.root / "evals" / "golden.json"
        golden.write_text(json.dumps(json.loads(golden.read_text(encoding="utf-8")) | {"k": 5}), encoding="utf-8")
        assert 'name="read"' not in (await client.get("/golden")).text
        refused = await sent(client, "/golden", read=load_golden(place).hash, reason="mine")
        assert refused.status_code == 403
        assert not is_accepted(place, load_golden(place))


async def test_the_settings_lead_to_what_can_be_opened(place: Workspace, owner: httpx.AsyncClient) -> None:
    async with served(place, roles=("http",)) as client:
        await client.post("/login", json={"token": token(place, "root", "admin")})
        for browser, least in ((client, 8), (owner, 10)):
            cards = re.findall(r'<h2><a href="(/settings/\w+)">', (await browser.get("/settings")).text)
            assert len(cards) >= least
            assert {(await browser.get(one)).status_code for one in cards} == {200}
