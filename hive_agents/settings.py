"""Settings: `hive.toml`, then environment `HIVE_<SECTION>__<KEY>`, then flags."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from hive_agents.errors import Diagnostic, HiveError
from hive_agents.formats import AnyCase, FileFormat, Format, load_value

FILE = "hive.toml"
Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
Amount = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]
Seconds = Annotated[float, Field(gt=0)]


class Models(Format):
    chat: list[str] = []
    planner: list[str] = []
    answer: list[str] = []
    judge: list[str] = []
    queen: list[str] = []
    optimizer: list[str] = []
    embedding: str = "local:all-MiniLM-L6-v2"
    embedding_path: str = ""
    reranker: str = ""
    deadline_seconds: Seconds = 8.0


class RelevanceFloor(Format):
    reranker: float = 0.0
    cosine: float = 0.0


class Copilot(Format):
    hybrid_threshold: Count = 1000
    relevance_floor: RelevanceFloor = RelevanceFloor()
    overfetch: Positive = 5
    top_k: Positive = 10
    rerank_before_gate: bool = False
    planner: str = "auto"


class Key(Format):
    kid: str
    alg: Literal["HS256", "RS256", "ES256"]
    secret_ref: str


class Access(Format):
    mode: Annotated[Literal["enforced", "open"], AnyCase] = "enforced"
    service_url: str = ""
    timeout_seconds: Seconds = 2.0
    issuer: str = "hive"
    audience: str = "hive"
    keys: list[Key] = []


class Gate(Format):
    alpha: Annotated[float, Field(gt=0, lt=1)] = 0.05
    tag_drop: Amount = 0.10
    latency_ratio: Annotated[float, Field(ge=1)] = 1.5
    latency_floor_ms: Amount = 50.0
    unjudged: Share = 0.20


class Optimizer(Format):
    iterations: Positive = 12
    patience: Positive = 3
    seconds: Seconds = 60.0
    evaluations: Positive = 20_000
    llm_calls: Count = 12
    max_usd: Amount = 0.0
    seed: int = 0
    share_text: bool = False


class Judge(Format):
    llm_confidence_threshold: Share = 0.7
    alpha: Annotated[float, Field(gt=0, lt=1)] = 0.05
    delta: Annotated[float, Field(gt=0, lt=1)] = 0.10
    audit_rate: Share = 0.05
    audit_rate_security: Share = 0.10
    tick_seconds: Seconds = 120.0


class Approvals(Format):
    due_hours: Amount = 72.0
    remind_hours: Amount = 24.0
    on_timeout: Annotated[Literal["reject", "escalate"], AnyCase] = "escalate"
    require_token: bool = False
    notify: list[str] = []


class Agents(Format):
    context_tokens: Positive = 100_000
    spillover_chars: Positive = 30_000


class Runs(Format):
    max_steps: Count = 200
    max_tokens: Count = 0
    max_usd: Amount = 0.0
    lease_seconds: Seconds = 30.0
    retention_days: Amount = 90.0


class Server(Format):
    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8787
    body_bytes: Positive = 1_000_000
    rate_per_minute: Positive = 120
    concurrent_runs: Positive = 4


class Settings(FileFormat):
    """All settings of a workspace; a limit `max_*` of 0 means none."""

    models: Models = Models()
    copilot: Copilot = Copilot()
    access: Access = Access()
    gate: Gate = Gate()
    optimizer: Optimizer = Optimizer()
    judge: Judge = Judge()
    approvals: Approvals = Approvals()
    agents: Agents = Agents()
    runs: Runs = Runs()
    server: Server = Server()


def load_settings(root: Path, environment: Mapping[str, str], flags: Mapping[str, Any] | None = None) -> Settings:
    """The workspace's settings; raises `HiveError` with every fault of file and environment."""
    data = _from_file(root / FILE)
    faults: list[Diagnostic] = []
    for name, keys, raw in _from_environment(environment):
        try:
            Settings.model_validate(_nest(keys, raw), strict=False)
        except ValidationError as error:
            first = error.errors()[0]
            code = {"extra_forbidden": "HIVE-103"}.get(first["type"], "HIVE-104")
            faults.append(Diagnostic(code, f"{name}: {first['msg']}", "environment", name, f"unset or mend {name}"))
        else:
            data = _merge(data, _nest(keys, raw))
    if faults:
        raise HiveError(faults)
    return Settings.model_validate(_merge(data, dict(flags or {})), strict=False)


def _from_file(path: Path) -> dict[str, Any]:
    import tomllib

    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except UnicodeDecodeError:
        raise HiveError.of("HIVE-112", "the file is not UTF-8", file=FILE, path="$", fix="save it as UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise HiveError.of("HIVE-101", f"not valid TOML: {error}", file=FILE, path="$", fix="mend the line") from None
    load_value(Settings, data, FILE)
    return data


def _from_environment(environment: Mapping[str, str]) -> Iterator[tuple[str, list[str], Any]]:
    import json

    for name in sorted(environment):
        section, _, key = name.removeprefix("HIVE_").lower().partition("__")
        if not name.startswith("HIVE_") or not key:
            continue
        raw: Any = environment[name]
        if raw.startswith(("[", "{")):
            with suppress(ValueError):
                raw = json.loads(raw)
        yield name, [section, *key.split("__")], raw


def _nest(keys: list[str], value: Any) -> dict[str, Any]:
    for key in reversed(keys):
        value = {key: value}
    return dict(value)


def _merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        inner = merged.get(key)
        merged[key] = _merge(inner, value) if isinstance(value, dict) and isinstance(inner, dict) else value
    return merged
