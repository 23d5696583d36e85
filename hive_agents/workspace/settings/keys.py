"""What `hive.toml` may say: one class a section, one field a key; `docs/` says what each is for."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, PrivateAttr, model_validator
from pydantic_core import PydanticCustomError

from hive_agents.base.files import Amount, AnyCase, Count, FileFormat, Format

BUILT_IN = ("bedrock", "scripted", "local", "onnx")
"""Providers that no endpoint can be named after."""


def _not_built_in(name: str) -> str:
    if name in BUILT_IN:
        raise ValueError(f'"{name}" is a provider of its own: choose another name')
    return name


def _http_url(url: str) -> str:
    if url and not re.fullmatch(r"https?://[^\s/@?#]+(/[^\s?#]*)?", url):
        raise ValueError("write http://host/path or https://host/path; a key belongs in a reference")
    return url.rstrip("/")


def _postgres_url(url: str) -> str:
    name, host = r"[^\s:/@?#]+", r"(\[[0-9A-Fa-f:.%]+\]|[^\s:/@?#,\[\]]*)(:\d{0,5})?"
    is_one = re.fullmatch(rf"postgres(ql)?://({name}@)?({host}(,{host})*)(/[^\s/@?#]*)?(\?[^\s@#]*)?", url)
    ports = map(int, re.findall(r":(\d+)(?=,|$)", is_one[3])) if is_one else ()
    if url and (not is_one or re.search(r"%(?![0-9A-Fa-f]{2})", url) or any(not 0 < port < 65_536 for port in ports)):
        why = "write postgresql://user@host:5432/database; a password belongs in password_ref"
        raise PydanticCustomError("may_hold_secret", why)
    if re.search(r"[?&](ssl)?password=", url):
        raise PydanticCustomError("may_hold_secret", "take the password out: it belongs in password_ref")
    return url


def _opensearch_url(url: str) -> str:
    host = r"(\[[0-9A-Fa-f:.]+\]|[^\s:/@?#\[\]]+)(:\d{1,5})?"
    if url and not re.fullmatch(rf"opensearchs?://{host}/[a-z0-9][a-z0-9_-]{{0,63}}", url):
        told = "write opensearch://host:9200/prefix, with TLS opensearchs://…; a password belongs in login_ref"
        raise PydanticCustomError("may_hold_secret", told)
    return url


Positive = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0, le=1)]
Seconds = Annotated[float, Field(gt=0)]
ServerName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,31}$")]
EndpointName = Annotated[ServerName, AfterValidator(_not_built_in)]
Url = Annotated[str, AfterValidator(_http_url)]
PostgresUrl = Annotated[str, AfterValidator(_postgres_url)]


class Price(Format):
    """US dollars for a million tokens."""

    input: Amount
    output: Amount


class EndpointSettings(Format):
    """A server that speaks OpenAI's HTTP interface; `base_url` ends where `/chat/completions` begins.

    `api_key_ref` is a reference to a secret. Without `price` the price of its models is looked up by their names.
    """

    base_url: Annotated[Url, Field(min_length=1)]
    api_key_ref: str = ""
    price: Price | None = None


Role = Literal["chat", "planner", "answer", "judge", "stronger_judge", "queen", "optimizer"]
"""What a model is asked for."""


class Models(Format):
    """Names are `provider:model`, where a provider may be the name of an endpoint.

    A role has a list, tried in order; one without asks the models of `chat`, but `stronger_judge`, which is asked
    where `judge` isn't sure enough, is then none. A call may be silent for `deadline_seconds`. `embedding_path` and
    `reranker` name models in files, or of a provider; "" is none.
    """

    endpoints: dict[EndpointName, EndpointSettings] = {}
    chat: list[str] = []
    planner: list[str] = []
    answer: list[str] = []
    judge: list[str] = []
    stronger_judge: list[str] = []
    queen: list[str] = []
    optimizer: list[str] = []
    embedding: str = "local:all-MiniLM-L6-v2"
    embedding_path: str = ""
    reranker: str = ""
    deadline_seconds: Seconds = 8.0

    def of(self, role: Role) -> list[str]:
        """Return the models of a role; without its own those of `chat`, where the role has to have any."""
        own: list[str] = getattr(self, role)
        return own or ([] if role == "stronger_judge" else self.chat)


class ToolsSettings(Format):
    """`python`: files below the workspace (patterns) and modules that hold tools."""

    python: list[str] = []


class McpServer(Format):
    """A server of tools: a `command` to start, or the `url` of one that runs.

    Values of `env` may be references to secrets; those of `headers_ref` have to be. Its tools are *external*: what the
    server itself says of them isn't relied on. `read_only` names those that only read, `idempotent` those of which a
    second call has no further effect.
    """

    command: list[str] = []
    url: Url = ""
    env: dict[str, str] = {}
    headers_ref: dict[str, str] = {}
    read_only: list[str] = []
    idempotent: list[str] = []

    @model_validator(mode="after")
    def _one_way(self) -> McpServer:
        if bool(self.command) == bool(self.url):
            raise PydanticCustomError("may_hold_secret", "give a command or a url, one of them")
        return self


class Mcp(Format):
    """Servers of tools by name: an agent knows their tools as `NAME__tool`."""

    servers: dict[ServerName, McpServer] = {}


class Telemetry(Format):
    """Nothing leaves the machine by default; `otlp_endpoint` gets spans without what was said in them."""

    langsmith: bool = False
    otlp_endpoint: Url = ""


class StorageSettings(Format):
    """Where the records are: "" is with the index in `.hive`, `postgresql://user@host:5432/database` there.

    `namespace` is the schema of that database, `password_ref` a reference to its user's password. `workspace` is a name
    of this workspace, the same on all of its hosts: a schema belongs to the first that gives its name. With
    `synchronous` "normal" a power cut may lose the last transactions of files in `.hive`, and with "full" none.
    """

    url: PostgresUrl = ""
    password_ref: str = ""
    workspace: Annotated[str, Field(pattern=r"^([A-Za-z0-9][A-Za-z0-9._-]{0,63})?$")] = ""
    namespace: Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_]{0,39}$")] = "hive"
    synchronous: Annotated[Literal["normal", "full"], AnyCase] = "normal"


class Index(Format):
    """`language` is a Snowball stemmer's name, or `none`; with `auto_refresh` a query looks for changed documents."""

    language: str = "english"
    auto_refresh: bool = True


class VectorSettings(Format):
    """Where vectors are searched: "" is here, the URL of a PostgreSQL with pgvector there.

    `namespace` is the schema of this workspace's tables. `search` "hnsw" is faster, and finds nearly the nearest.
    `keep` states of the index before the current one stay, for hosts that haven't indexed yet. A request has
    `timeout_seconds`; an engine that is away isn't asked again for `rest_seconds`.
    """

    url: PostgresUrl = ""
    password_ref: str = ""
    namespace: Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_]{0,39}$")] = "hive_vectors"
    search: Annotated[Literal["exact", "hnsw"], AnyCase] = "exact"
    keep: Annotated[int, Field(ge=0, le=100)] = 0
    timeout_seconds: Seconds = 10.0
    rest_seconds: Seconds = 15.0


class SearchSettings(Format):
    """Where words are searched: "" is here, `opensearch://host:9200/prefix` (with TLS `opensearchs://`) there.

    `prefix` begins the names of this workspace's indexes. `login_ref` is a reference to "user:password". `keep` states
    of a collection before the current one stay, for hosts that haven't indexed yet. `timeout_seconds` and
    `rest_seconds` are as in `[vectors]`.
    """

    url: Annotated[str, AfterValidator(_opensearch_url)] = ""
    login_ref: str = ""
    shards: Annotated[int, Field(ge=1, le=1024)] = 1
    replicas: Annotated[int, Field(ge=0, le=100)] = 0
    keep: Annotated[int, Field(ge=0, le=100)] = 0
    timeout_seconds: Seconds = 10.0
    rest_seconds: Seconds = 15.0


class RelevanceFloor(Format):
    """Results whose `reranker` score, or where none reranked whose `cosine`, is lower aren't shown."""

    reranker: float = 0.0
    cosine: float = 0.0


class Copilot(Format):
    """How readers' questions are answered: `top_k` results at most, planned by a model ("auto") or by rules alone.

    Where a filter leaves up to `hybrid_threshold` documents, the search is within them; above, it looks `overfetch`
    times as deep. With `rerank_before_gate` a reranker is sent passages before each document was asked about.
    """

    hybrid_threshold: Count = 1000
    relevance_floor: RelevanceFloor = RelevanceFloor.model_construct()
    overfetch: Positive = 5
    top_k: Positive = 10
    rerank_before_gate: bool = False
    planner: Annotated[str, AnyCase] = "auto"


_UpperCase = BeforeValidator(lambda value: value.upper() if isinstance(value, str) else value)


class Key(Format):
    """A key that signs tokens: the `kid` in their header, and `secret_ref`, a reference to it."""

    kid: str
    alg: Annotated[Literal["HS256", "RS256", "ES256"], _UpperCase]
    secret_ref: str


class Access(Format):
    """In mode "open" the local owner reads everything; with `until_named` only until `access/` names principals.

    `service_url` is a service that is asked who may view what, and has `timeout_seconds`. `issuer`, `audience` and
    `keys` are those of tokens; without keys the workspace has one of its own. With `unlisted` "admit" a token of
    somebody whom `access/` doesn't name counts as it says, with "refuse" it is refused.
    """

    mode: Annotated[Literal["enforced", "open"], AnyCase] = "enforced"
    until_named: bool = False
    service_url: str = ""
    timeout_seconds: Seconds = 2.0
    issuer: Annotated[str, Field(min_length=1)] = "hive"
    audience: Annotated[str, Field(min_length=1)] = "hive"
    unlisted: Annotated[Literal["admit", "refuse"], AnyCase] = "admit"
    keys: list[Key] = []


def _issuer(url: str) -> str:
    # As it is written: an ID token names its issuer to the letter, also by a slash at the end.
    if url and not re.fullmatch(r"https://[^\s@?#]+|http://(localhost|127\.0\.0\.1|\[::1\])(:\d+)?(/[^\s@?#]*)?", url):
        raise ValueError("write https://host/path; plain http is for a provider on this machine alone")
    return url


class MappedGroup(Format):
    """What a group of the provider gives here."""

    groups: list[str] = []
    roles: list[Annotated[Literal["reader", "approver", "operator", "admin"], AnyCase]] = []


class SignIn(Format):
    """An OpenID Connect provider, at which people sign in to the pages: `issuer` as its own description names it,
    `client_id`, and `secret_ref`, a reference to the client's secret, "" for a public client. `scopes` are asked for
    beside `openid`: some providers give a refresh token for `offline_access` alone.

    Whoever signs in is of `tenant`, by the name of their `sub`, and a reader. What else they may is by the groups in
    the claim `groups_claim`: `groups` maps one of theirs to groups and roles here; others give nothing.
    """

    issuer: Annotated[str, AfterValidator(_issuer)] = ""
    client_id: str = ""
    secret_ref: str = ""
    scopes: list[Annotated[str, Field(pattern=r"^[\x21\x23-\x5b\x5d-\x7e]+$")]] = []
    groups_claim: Annotated[str, Field(min_length=1)] = "groups"
    tenant: str = ""
    groups: dict[str, MappedGroup] = {}

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.issuer and not (self.client_id and self.tenant):
            raise ValueError("an issuer needs a client_id and the tenant of those who sign in")
        return self


class Gate(Format):
    """A tag that falls by more than `tag_drop` blocks where the loss is shown, or with `tag_evidence` "any" always.

    `alpha` is the level of its tests, shared by all looks at a holdout. Latency (p95) blocks above both
    `latency_floor_ms` and `latency_ratio` times what it was, and so does a share of `unjudged` documents above that. So
    does what readers lose where it is more than its budget: shares of questions `answered`, answered `first`, of
    relevant documents found, of documents in `reach` of their title, and the number of documents `hidden`.
    """

    alpha: Annotated[float, Field(gt=0, lt=1)] = 0.05
    answered_drop: Amount = 0.05
    recall_drop: Amount = 0.10
    first_drop: Amount = 0.05
    reach_drop: Amount = 0.03
    hidden: Count = 0
    tag_drop: Amount = 0.10
    tag_evidence: Annotated[Literal["proven", "any"], AnyCase] = "proven"
    latency_ratio: Annotated[float, Field(ge=1)] = 1.5
    latency_floor_ms: Amount = 50.0
    unjudged: Share = 0.20


class CanarySettings(Format):
    """A `share` of live searches is drafted with the config before; 0 is off. After `settle_minutes` one is decided."""

    share: Share = 0.0
    settle_minutes: Annotated[float, Field(gt=0, le=10_080)] = 30.0


class Optimizer(Format):
    """What a run may spend: rounds, `patience` rounds without a gain, seconds, measured configs, calls of a model, US
    dollars. The same `seed` and inputs give the same run; with `share_text` a model is sent passages of documents."""

    iterations: Positive = 12
    patience: Positive = 3
    seconds: Seconds = 60.0
    evaluations: Positive = 20_000
    llm_calls: Count = 12
    max_usd: Amount = 0.0
    seed: int = 0
    share_text: bool = False


class Judge(Format):
    """Below `llm_confidence_threshold` a model's judgement goes to a person. Calibration lets at most `alpha` disagree
    above the threshold that it learns, at confidence 1 - `delta`; a share of decisions is drawn for audit, of those
    about security `audit_rate_security`, and false alarms of drift are `average_run` audits apart, 1,000 where it
    isn't set. Runs are looked after each `tick_seconds`. `weights`, {rule, llm, evidence} by goal type or for all, "*",
    stand in place of learned ones. A model is asked as often as `prompts` says, and its verdicts are averaged; labelled
    decisions up to number `examples_until` are shown to it as examples, and certify it no more. Decisions that prove
    nothing, since no person has to do with them and they have no outcome, are forgotten after `retention_days`, and
    with 0 never."""

    llm_confidence_threshold: Share = 0.7
    alpha: Annotated[float, Field(gt=0, lt=1)] = 0.05
    delta: Annotated[float, Field(gt=0, lt=1)] = 0.10
    average_run: Annotated[float, Field(gt=0)] | None = None
    audit_rate: Share = 0.05
    audit_rate_security: Share = 0.10
    prompts: Annotated[int, Field(ge=1, le=15)] | None = None
    examples_until: Annotated[int, Field(ge=1, lt=2**63)] | None = None
    weights: dict[str, dict[Literal["rule", "llm", "evidence"], Amount]] | None = None
    tick_seconds: Seconds = 120.0
    retention_days: Annotated[float, Field(ge=0, le=36_500)] = 365.0


class Health(Format):
    """From where on the health judge finds that a run isn't well, where that isn't the judge's own `Thresholds`.

    An agent's file may have the same, for its own runs.
    """

    loop_times: Annotated[int, Field(ge=2)] | None = None
    loop_seconds: Seconds | None = None
    stall_seconds: Seconds | None = None
    stall_high_seconds: Seconds | None = None
    retries: Positive | None = None
    retries_high: Positive | None = None
    errors: Positive | None = None
    errors_high: Positive | None = None
    budget: Share | None = None
    budget_high: Share | None = None
    breaks_critical: Positive | None = None
    lease_seconds: Seconds | None = None


class Approvals(Format):
    """Requests that wait for people; time rejects one or asks again, and approves none."""

    due_hours: Annotated[Amount, Field(description="Hours until a request is due; 0 is never.")] = 72.0
    remind_hours: Annotated[Amount, Field(description="Hours between reminders; 0 is none.")] = 24.0
    on_timeout: Annotated[
        Literal["reject", "escalate"], AnyCase, Field(description="A due request expires, or is told of again.")
    ] = "escalate"
    require_token: Annotated[bool, Field(description="Who decides or asks for changes needs a signed token.")] = False
    notify: Annotated[
        list[str], Field(description='http(s) addresses that get {"occasion", "request"} by POST, once trusted.')
    ] = []


class Agents(Format):
    """A conversation above `context_tokens` is compacted, a tool's result above `spillover_chars` becomes a file, and
    `loop_repeats` equal turns are a loop."""

    context_tokens: Positive = 100_000
    spillover_chars: Positive = 30_000
    loop_repeats: Annotated[int, Field(ge=2, le=100)] = 3


class Runs(Format):
    """The most that a run of an agent may spend; 0 is no limit. A run of a host whose model is away waits up to
    `patience_seconds`; a worker that isn't heard of for `lease_seconds` has lost its run; what ended is forgotten after
    `retention_days`, and with 0 never."""

    max_steps: Count = 200
    max_tokens: Count = 0
    max_usd: Amount = 0.0
    max_tool_calls: Count = 0
    max_seconds: Amount = 0.0
    patience_seconds: Amount = 3_600.0
    lease_seconds: Seconds = 30.0
    retention_days: Annotated[float, Field(ge=0, le=36_500)] = 90.0


def _origin(text: str) -> str:
    if text != "*" and not re.fullmatch(r"https?://[^/?#@\s*]+", text):
        raise ValueError('name a site as its browser does, without a path: https://example.org, or "*"')
    return text


class ServerSettings(Format):
    """`header_seconds`, `body_seconds` and `read_seconds` are what a client has to send the head and the body of a
    request and to read an answer; `upload_bytes` bounds a body of documents, and `bodies_bytes` all that are being
    received. `kept_per_caller` is the most conversations, questions and unreviewed opinions that the records keep of
    one caller. `hosts` are its names, such as that of a proxy, beside the machine's own on loopback; elsewhere none
    means any. `origins` are the sites whose scripts may call with a token, "*" for all."""

    host: Annotated[str, Field(min_length=1)] = "127.0.0.1"
    hosts: list[str] = []
    origins: list[Annotated[str, AfterValidator(_origin)]] = []
    port: Annotated[int, Field(ge=0, le=65535)] = 8787
    body_bytes: Positive = 1_000_000
    upload_bytes: Positive = 64_000_000
    bodies_bytes: Positive = 128_000_000
    connections: Positive = 2048
    connections_per_address: Positive = 1024
    header_seconds: Seconds = 10.0
    body_seconds: Seconds = 30.0
    read_seconds: Seconds = 30.0
    rate_per_minute: Positive = 120
    concurrent_runs: Positive = 4
    streams_per_caller: Positive = 100
    kept_per_caller: Positive = 20_000


def _source_url(url: str) -> str:
    if re.search(r"://[^/@?#:]*:[^/@?#]*@", url):
        raise PydanticCustomError("may_hold_secret", "take the password out: it belongs in secret_ref")
    return url


def _cron(text: str) -> str:
    from cronsim import CronSim, CronSimError

    fields = "use five fields: minute hour day month weekday, as 0 2 * * *"
    try:
        start = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
        if text and (len(text.split()) != 5 or next(CronSim(text, start), None) is None):
            raise ValueError(fields)
    except CronSimError as error:
        raise ValueError(f"{error}; {fields}") from None
    return text


class SourceSettings(Format):
    """A source of documents, which are kept below `documents/` in the folder `to`, by default of the source's name.

    `url` says where it is, and `secret_ref` refers to what it is reached with. A host runs it at the times of the cron
    `schedule`, in UTC. Its documents are of the `tenant`; where the source knows no access of its own, `view` may see
    them, and where that is empty the `owner` alone. `options` are those of its kind.
    """

    kind: Annotated[
        Literal["folder", "git", "s3", "azure", "gcs", "webdav", "sftp", "imap", "web", "loader", "mcp"], AnyCase
    ]
    url: Annotated[str, Field(min_length=1), AfterValidator(_source_url)]
    secret_ref: str = ""
    schedule: Annotated[str, AfterValidator(_cron)] = ""
    tenant: str = ""
    view: list[str] = []
    owner: str = ""
    to: str = ""
    options: dict[str, Any] = {}


class Settings(FileFormat):
    """All settings of a workspace; a limit `max_*` of 0 means none.

    Sections' defaults are constructed: `Models()` would build a validator that nothing else needs.
    """

    _in_file: dict[str, Any] = PrivateAttr(default_factory=dict)

    models: Models = Models.model_construct()
    tools: ToolsSettings = ToolsSettings.model_construct()
    mcp: Mcp = Mcp.model_construct()
    telemetry: Telemetry = Telemetry.model_construct()
    storage: StorageSettings = StorageSettings.model_construct()
    index: Index = Index.model_construct()
    search: SearchSettings = SearchSettings.model_construct()
    vectors: VectorSettings = VectorSettings.model_construct()
    copilot: Copilot = Copilot.model_construct()
    access: Access = Access.model_construct()
    gate: Gate = Gate.model_construct()
    canary: CanarySettings = CanarySettings.model_construct()
    optimizer: Optimizer = Optimizer.model_construct()
    judge: Judge = Judge.model_construct()
    health: Health = Health.model_construct()
    approvals: Approvals = Approvals.model_construct()
    agents: Agents = Agents.model_construct()
    runs: Runs = Runs.model_construct()
    sources: dict[ServerName, SourceSettings] = {}
    server: ServerSettings = ServerSettings.model_construct()
    signin: SignIn = SignIn.model_construct()

    @property
    def in_file(self) -> Mapping[str, Any]:
        """What `hive.toml` said when it was read, without what the environment or flags replaced."""
        return self._in_file

    def read_from(self, values: dict[str, Any]) -> Settings:
        """Return these settings with `in_file`."""
        self._in_file = values
        return self
