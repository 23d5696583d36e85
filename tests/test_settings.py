from __future__ import annotations

from pathlib import Path

import pytest

from hive_agents import Workspace
from hive_agents.base.errors import Diagnostic, HiveError
from hive_agents.base.resources import json_schema
from hive_agents.workspace.settings import Settings, load_settings

DEFAULTS = """
[models]
chat = []
planner = []
answer = []
judge = []
stronger_judge = []
queen = []
optimizer = []
embedding = "local:all-MiniLM-L6-v2"
embedding_path = ""
reranker = ""
deadline_seconds = 8.0
[models.endpoints]
[tools]
python = []
[mcp.servers]
[telemetry]
langsmith = false
otlp_endpoint = ""
[storage]
url = ""
password_ref = ""
namespace = "hive"
synchronous = "normal"
workspace = ""
[index]
language = "english"
auto_refresh = true
[search]
url = ""
login_ref = ""
shards = 1
replicas = 0
keep = 0
timeout_seconds = 10.0
rest_seconds = 15.0
[vectors]
url = ""
password_ref = ""
namespace = "hive_vectors"
search = "exact"
keep = 0
timeout_seconds = 10.0
rest_seconds = 15.0
[copilot]
hybrid_threshold = 1000
relevance_floor.reranker = 0.0
relevance_floor.cosine = 0.0
overfetch = 5
top_k = 10
rerank_before_gate = false
planner = "auto"
[access]
mode = "enforced"
until_named = false
service_url = ""
timeout_seconds = 2.0
issuer = "hive"
audience = "hive"
unlisted = "admit"
keys = []
[gate]
alpha = 0.05
answered_drop = 0.05
recall_drop = 0.10
first_drop = 0.05
reach_drop = 0.03
hidden = 0
tag_drop = 0.10
tag_evidence = "proven"
latency_ratio = 1.5
latency_floor_ms = 50
unjudged = 0.20
[canary]
share = 0.0
settle_minutes = 30
[optimizer]
iterations = 12
patience = 3
seconds = 60
evaluations = 20000
llm_calls = 12
max_usd = 0.0
seed = 0
share_text = false
[judge]
llm_confidence_threshold = 0.7
alpha = 0.05
delta = 0.10
audit_rate = 0.05
audit_rate_security = 0.10
tick_seconds = 120
retention_days = 365
[approvals]
due_hours = 72
remind_hours = 24
on_timeout = "escalate"
require_token = false
notify = []
[agents]
context_tokens = 100000
spillover_chars = 30000
loop_repeats = 3
[health]
[runs]
max_steps = 200
max_tokens = 0
max_usd = 0.0
max_tool_calls = 0
max_seconds = 0.0
patience_seconds = 3600.0
lease_seconds = 30
retention_days = 90
[server]
host = "127.0.0.1"
hosts = []
origins = []
port = 8787
body_bytes = 1000000
upload_bytes = 64000000
bodies_bytes = 128000000
connections = 2048
connections_per_address = 1024
header_seconds = 10.0
body_seconds = 30.0
read_seconds = 30.0
rate_per_minute = 120
concurrent_runs = 4
streams_per_caller = 100
kept_per_caller = 20000
[signin]
issuer = ""
client_id = ""
secret_ref = ""
scopes = []
groups_claim = "groups"
tenant = ""
groups = {}

[sources]
"""


def settings(folder: Path, text: str | bytes = "", **environment: str) -> Settings:
    (folder / "hive.toml").write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_settings(folder, environment)


def faults(folder: Path, text: str | bytes = "", **environment: str) -> list[Diagnostic]:
    with pytest.raises(HiveError) as raised:
        settings(folder, text, **environment)
    for found in raised.value.diagnostics:
        assert found.path
        assert found.fix
    return raised.value.diagnostics


def test_every_key_is_optional(tmp_path: Path) -> None:
    assert load_settings(tmp_path, {}) == Settings()
    assert settings(tmp_path, "") == Settings()


def test_defaults_are_the_documented_ones(tmp_path: Path) -> None:
    assert settings(tmp_path, DEFAULTS).model_dump() == Settings().model_dump()
    listed = settings(tmp_path, DEFAULTS).model_dump(exclude_unset=True)
    assert listed == Settings().model_dump(exclude_none=True), "a limit of [health] that is not set is the judge's own"


def test_file_then_environment_then_flags(tmp_path: Path) -> None:
    (tmp_path / "hive.toml").write_text("[gate]\nalpha = 0.1\nunjudged = 0.3\n[server]\nport = 1\n")
    environment = {"HIVE_GATE__ALPHA": "0.2", "HIVE_SERVER__PORT": "2"}
    found = load_settings(tmp_path, environment, {"server": {"port": 3}})
    assert (found.gate.alpha, found.gate.unjudged, found.server.port) == (0.2, 0.3, 3)


def test_each_look_is_at_the_present_file_and_environment(tmp_path: Path) -> None:
    for n, environment in ((1, {}), (2, {}), (1, {"HIVE_RUNS__MAX_STEPS": "3"}), (1, {"UNKNOWN": "4"})):
        (tmp_path / "hive.toml").write_text(f"[runs]\nmax_steps = {n}\n")
        expected = int(environment.get("HIVE_RUNS__MAX_STEPS", n))
        assert load_settings(tmp_path, environment).runs.max_steps == expected
    (tmp_path / "hive.toml").write_text("[runs]\nmax_step = 1\n")
    for _ in range(2):
        with pytest.raises(HiveError):
            load_settings(tmp_path, {})


def test_environment_holds_every_type(tmp_path: Path) -> None:
    found = settings(
        tmp_path,
        HIVE_MODELS__CHAT='["bedrock:a", "bedrock:b"]',
        HIVE_ACCESS__MODE="OPEN",
        HIVE_COPILOT__RELEVANCE_FLOOR__COSINE="0.4",
        HIVE_OPTIMIZER__SHARE_TEXT="true",
        HIVE_RUNS__MAX_STEPS="5",
        HIVE_TOKEN="not a setting",
        HIVE_AUDIT_KEY="neither",
        OTHER__THING="nor this",
    )
    assert found.models.chat == ["bedrock:a", "bedrock:b"]
    assert found.access.mode == "open"
    assert found.copilot.relevance_floor.cosine == 0.4
    assert found.optimizer.share_text is True
    assert found.runs.max_steps == 5


@pytest.mark.parametrize(
    ("text", "code", "path", "line"),
    [
        ("[gate]\nalhpa = 0.1\n", "HIVE-103", "gate.alhpa", 2),
        ("\n[gaet]\nalpha = 0.1\n", "HIVE-103", "gaet", 2),
        ("[gate]\ntag_drop = 0.1\nalpha = 7\n", "HIVE-105", "gate.alpha", 3),
        ("[gate]\nalpha = nan\n", "HIVE-105", "gate.alpha", 2),
        ('[server]\nhost = "h"\nport = "80"\n', "HIVE-104", "server.port", 3),
        ("gate.alpha = 2\n", "HIVE-105", "gate.alpha", 1),
        ("[copilot]\nrelevance_floor.cosin = 1.0\n", "HIVE-103", "copilot.relevance_floor.cosin", 2),
        ("[copilot.relevance_floor]\ncosin = 1.0\n", "HIVE-103", "copilot.relevance_floor.cosin", 2),
        ('[access]\nkeys = [{kid = "k", alg = "HS256"}]\n', "HIVE-106", "access.keys[0].secret_ref", 2),
        ('[[access.keys]]\nkid = "k"\nalg = "HS256"\n', "HIVE-106", "access.keys[0].secret_ref", 1),
        ("[server]\nhost = 2020-01-01\n", "HIVE-104", "server.host", 2),
        ("gate = 1\n", "HIVE-104", "gate", 1),
        ("\n[gate]\nalpha = 0.1\nalpha = 0.2\n", "HIVE-101", "$", 4),
        ("[gate]\nalpha = \n", "HIVE-101", "$", 2),
        ("[gate\n", "HIVE-101", "$", 1),
        ('x = """', "HIVE-101", "$", 1),
        ("a = " + "[" * 5000 + "\n", "HIVE-101", "$", 2),
        ("a = " + "9" * 5000 + "\n", "HIVE-101", "$", 2),
        (b"\xff = 1\n", "HIVE-112", "$", 1),
        ("\ufeff[gate]\n", "HIVE-112", "$", 1),
    ],
)
def test_fault_in_the_file_is_reported_where_it_is(
    tmp_path: Path, text: str | bytes, code: str, path: str, line: int
) -> None:
    (found,) = faults(tmp_path, text)
    assert (found.code, found.file, found.path, found.line) == (code, "hive.toml", path, line)


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("HIVE_GATE__ALPHA", "7", "HIVE-105"),
        ("HIVE_GATE__ALPHA", "much", "HIVE-104"),
        ("HIVE_GATE__ALHPA", "0.1", "HIVE-103"),
        ("HIVE_GAET__ALPHA", "0.1", "HIVE-103"),
        ("HIVE_GATE__ALPHA__X", "1", "HIVE-104"),
        ("HIVE_MODELS__CHAT", "bedrock:a", "HIVE-104"),
        ("HIVE_MODELS__CHAT", '["unclosed', "HIVE-104"),
        ("HIVE_MODELS__CHAT", "[" * 5000, "HIVE-104"),
        ("HIVE_ACCESS__MODE", "closed", "HIVE-105"),
        ("HIVE___X", "1", "HIVE-103"),
    ],
)
def test_fault_in_the_environment_names_the_variable(tmp_path: Path, name: str, value: str, code: str) -> None:
    (found,) = faults(tmp_path, **{name: value})
    assert (found.code, found.file, found.path) == (code, "environment", name)
    assert found.message.startswith(name)


def test_variables_complete_a_table_of_the_file_or_of_each_other(tmp_path: Path) -> None:
    text = (
        '[models.endpoints.own]\nbase_url = "http://127.0.0.1:1/v1"\n[mcp.servers.desk]\nurl = "http://127.0.0.1:2"\n'
    )
    found = settings(
        tmp_path,
        text,
        HIVE_MODELS__ENDPOINTS__OWN__API_KEY_REF="env:OWN_KEY",
        HIVE_MODELS__ENDPOINTS__NEW__PRICE__INPUT="1",
        HIVE_MODELS__ENDPOINTS__NEW__PRICE__OUTPUT="2",
        HIVE_MODELS__ENDPOINTS__NEW__BASE_URL="http://127.0.0.1:3/v1",
        HIVE_MCP__SERVERS__DESK__HEADERS_REF='{"Authorization": "env:DESK"}',
    )
    own, new = found.models.endpoints["own"], found.models.endpoints["new"]
    assert (own.base_url, own.api_key_ref) == ("http://127.0.0.1:1/v1", "env:OWN_KEY")
    assert (new.base_url, new.price and new.price.output) == ("http://127.0.0.1:3/v1", 2.0)
    assert found.mcp.servers["desk"].headers_ref == {"Authorization": "env:DESK"}


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("HIVE_MCP__SERVERS__DESK__COMMAND", '["serve"]', "HIVE-105"),
        ("HIVE_MCP__SERVERS__OTHER__ENV__TOKEN", "hunter2", "HIVE-105"),
        ("HIVE_MODELS__ENDPOINTS__OTHER__API_KEY_REF", "env:KEY", "HIVE-106"),
    ],
)
def test_a_variable_that_leaves_a_table_faulty_is_named(tmp_path: Path, name: str, value: str, code: str) -> None:
    text = '[mcp.servers.desk]\nurl = "http://127.0.0.1:2"\n'
    (found,) = faults(tmp_path, text, HIVE_GATE__ALPHA="0.2", **{name: value})
    assert (found.code, found.file, found.path) == (code, "environment", name)
    assert "hunter2" not in str(found)


def test_a_server_that_cannot_be_used_is_told_without_its_environment(tmp_path: Path) -> None:
    (found,) = faults(tmp_path, '[mcp.servers.desk]\nenv = {TOKEN = "hunter2"}\n')
    assert (found.code, found.path, found.fix) == (
        "HIVE-105", "mcp.servers.desk", "give a command or a url, one of them",
    )  # fmt: skip
    assert "hunter2" not in str(found)


def test_a_list_in_the_environment_is_said_to_be_json(tmp_path: Path) -> None:
    (found,) = faults(tmp_path, HIVE_MODELS__CHAT="bedrock:a")
    assert found.fix == 'write it as JSON, such as ["one", "two"]'


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://hive:hunter2@db/hive",
        "postgresql://db/hive?password=hunter2",
        "postgresql://db/hive?sslmode=require&password=hunter2",
        "mysql://db/hunter2",
        "postgresql://hive@db/hive#hunter2",
    ],
)
def test_a_password_in_the_url_of_the_vectors_is_refused_and_not_repeated(tmp_path: Path, url: str) -> None:
    (found,) = faults(tmp_path, f'[vectors]\nurl = "{url}"\n')
    assert (found.code, found.path, found.line) == ("HIVE-105", "vectors.url", 2)
    assert "hunter2" not in str(found)


@pytest.mark.parametrize(
    "url",
    ["postgresql://db/hive", "postgres://hive@[::1]:5433/hive?sslmode=require", "postgresql:///hive?host=/run/pg"],
)
def test_the_url_of_the_vectors_may_name_a_host_a_user_or_a_socket(tmp_path: Path, url: str) -> None:
    assert settings(tmp_path, f'[vectors]\nurl = "{url}"\n').vectors.url == url


@pytest.mark.parametrize(
    "url",
    [
        "opensearch://hive:hunter2@db:9200/kb",
        "opensearch://db:9200/kb?password=hunter2",
        "http://db/hunter2",
        "opensearch://db:9200",
        "opensearch://db:9200/HUNTER2",
    ],
)
def test_a_password_in_the_url_of_the_search_is_refused_and_not_repeated(tmp_path: Path, url: str) -> None:
    (found,) = faults(tmp_path, f'[search]\nurl = "{url}"\n')
    assert (found.code, found.path, found.line) == ("HIVE-105", "search.url", 2)
    assert "hunter2" not in str(found).lower()


@pytest.mark.parametrize(
    "url", ["opensearch://db/kb", "opensearchs://search.example:9200/k_b-2", "opensearch://[::1]:9200/x"]
)
def test_the_url_of_the_search_names_a_host_and_a_prefix(tmp_path: Path, url: str) -> None:
    assert settings(tmp_path, f'[search]\nurl = "{url}"\n').search.url == url


def test_misspelt_key_gets_a_proposal(tmp_path: Path) -> None:
    assert faults(tmp_path, "[gate]\nalhpa = 1\n")[0].fix == 'did you mean "alpha"?'
    assert faults(tmp_path, "[gaet]\n")[0].fix == 'did you mean "gate"?'
    assert faults(tmp_path, HIVE_GATE__ALHPA="1")[0].fix == 'did you mean "alpha"?'


def test_faults_of_file_and_environment_are_collected(tmp_path: Path) -> None:
    found = faults(tmp_path, "[gate]\nalpha = 3\nunjudged = 3\n", HIVE_SERVER__PORT="x", HIVE_RUNS__STEPS="1")
    assert sorted(d.code for d in found) == ["HIVE-103", "HIVE-104", "HIVE-105", "HIVE-105"]


def test_settings_file_that_cannot_be_read_is_an_environment_failure(tmp_path: Path) -> None:
    (tmp_path / "hive.toml").mkdir()
    with pytest.raises(HiveError) as raised:
        load_settings(tmp_path, {})
    assert (raised.value.diagnostics[0].code, raised.value.exit_code) == ("HIVE-403", 3)


def test_workspace_reads_its_own_file_and_the_environment(
    text_workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIVE_GATE__ALPHA", "0.2")
    assert text_workspace.settings.models.embedding == "none"
    assert text_workspace.settings.gate.alpha == 0.2


def test_the_schema_says_what_each_section_is_and_who_is_told_of_a_request() -> None:
    sections = json_schema("settings")["$defs"]
    assert {name for name, section in sections.items() if not section.get("description")} == set()
    assert {name for name, key in sections["Approvals"]["properties"].items() if not key.get("description")} == set()
