"""Requests: the filing by a run or a command, and the stored request made of it."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from hive_agents.access import OWNER, Principal, asked_by, people, person, same_person
from hive_agents.base import UNSEEN, hides, schemas, sha256
from hive_agents.base.files import AnyCase, Format

_ANNOTATIONS = "title description default examples $schema $comment $defs definitions deprecated format readOnly"
_CONSTRAINTS = (
    "type enum const properties required additionalProperties minProperties maxProperties items prefixItems minItems"
    " maxItems uniqueItems minLength maxLength pattern minimum maximum exclusiveMinimum exclusiveMaximum multipleOf"
    " anyOf allOf oneOf $ref"
)
_KEYWORDS = frozenset(f"{_ANNOTATIONS} {_CONSTRAINTS}".split())
"""Others would be passed over where they are misspelt; `if` and `not` turn a closed object's refusal round."""


def check_schema(schema: Any) -> None:
    """Raise ValueError naming every keyword that couldn't be enforced."""
    found = schemas.defects(schema)
    if not found:
        unknown = {name for _, inner in schemas.subschemas(schema) for name in inner.keys() - _KEYWORDS}
        found = [f"uses {name}, which can't be checked here" for name in sorted(unknown)]
    if found:
        raise ValueError(f"args_schema: {'; '.join(found)}")


def faults(value: Any, schema: Mapping[str, Any]) -> list[str]:
    """Return the violations of the schema by `value`, each with its path; empty for a valid one.

    Arguments that the schema doesn't name would reach the tool unseen, so they need its explicit consent.

    >>> faults({"n": "3", "cc": ""}, {"type": "object", "properties": {"n": {"type": "integer"}}})
    ["n is '3', not integer", 'cc is not allowed']
    """
    return schemas.faults(value, schema, closed=True)


Kind = Literal["judgment", "deploy", "tool_call", "rule", "threshold", "question", "ticket", "audit"]
Status = Literal["pending", "approved", "rejected", "edited", "responded", "expired", "superseded"]
Verb = Literal["approve", "edit", "reject", "respond"]
Risk = Literal["low", "medium", "high"]
OnTimeout = Annotated[Literal["reject", "escalate"], AnyCase]

RESULT: Mapping[Verb, Status] = {"approve": "approved", "edit": "edited", "reject": "rejected", "respond": "responded"}
GOLDEN = "evals"
OWN_TENANT = "local"
"""The workspace itself: its requests may be decided by approvers of every tenant."""


class Approvers(Format):
    """`min` different people have to agree; `exclude_requester` excludes the requester and the person it works for."""

    min: Annotated[int, Field(ge=1)] = 1
    exclude_requester: bool = False


class Diff(Format):
    """The change that an approval makes: RFC 6902 operations between two contents, named by their hashes."""

    json_patch: list[dict[str, Any]]
    before_hash: str | None = None
    after_hash: str | None = None


class Decision(Format):
    """One person's answer, to one `version` of the content.

    `tenant` is the person's, None for the workspace's owner. `jti` is the id of their token or session, `maker` who
    made it, or who used a plain name; `makers` are as those of a `Principal`.
    """

    verb: Verb
    by: str
    authn: str
    at: str
    version: int
    tenant: str | None = None
    jti: str | None = None
    maker: str | None = None
    makers: list[str] = []
    reason: str | None = None
    message: str | None = None
    args: dict[str, Any] | None = None

    @property
    def hands(self) -> list[str]:
        """Those who may be behind it; the owner where they decided in person."""
        in_person = self.authn == "local" and self.maker is not None and same_person(self.by, self.maker)
        return [self.by, *([f"{OWNER}{self.by.removeprefix('user:')}"] if in_person else people(self.makers))]


class Delegation(Format):
    """`by` delegated a request to `to`, and may not decide it any more."""

    by: str
    to: str
    at: str


class Filing(Format):
    """A question to people, with who may answer and how. `context` has all that a person needs to decide.

    `on_behalf_of` is the person whom an agent that asks works for; `makers` made the token by which it is asked for
    (`filed_by`). `context["args"]` are what an edit changes, as `args_schema` allows. Rules and judgements may be
    decided in bulk by their `context["rule_id"]`.
    """

    kind: Kind
    title: str
    requester: str
    on_behalf_of: str | None = None
    makers: list[str] = []
    tenant: str = OWN_TENANT
    context: dict[str, Any] = {}
    signals: list[dict[str, Any]] = []
    diff: Diff | None = None
    risk: Risk = "medium"
    allowed_decisions: Annotated[list[Verb], Field(min_length=1)] = ["approve", "reject"]
    args_schema: dict[str, Any] | None = None
    approvers: Approvers = Approvers()
    on_timeout: OnTimeout | None = None
    idempotency_key: str | None = None
    run_id: str | None = None
    thread_id: str | None = None

    @field_validator("requester", "on_behalf_of")
    @classmethod
    def _known_person(cls, name: str | None) -> str | None:
        return None if name is None else asked_by(name)

    @field_validator("args_schema")
    @classmethod
    def _known_schema(cls, schema: dict[str, Any] | None, _: ValidationInfo) -> dict[str, Any] | None:
        if schema is not None:
            check_schema(schema)
        return schema

    @model_validator(mode="after")
    def _editable(self) -> Filing:
        if "edit" in self.allowed_decisions and (self.args_schema is None or "args" not in self.context):
            raise ValueError('a request that may be edited needs an args_schema and context["args"]')
        return self

    @property
    def key(self) -> str | None:
        """The idempotency key: its own key, else its run and kind."""
        if self.idempotency_key is not None:
            return self.idempotency_key
        return f"run:{self.run_id}:{self.kind}" if self.run_id is not None else None

    def asked_for_by(self, name: str) -> bool:
        """Return whether this person, or an agent that works for them, asked."""
        return any(same_person(name, one) for one in (self.requester, self.on_behalf_of) if one is not None)

    @property
    def hands(self) -> list[str]:
        """Those who may be behind it."""
        return [self.requester, *filter(None, [self.on_behalf_of]), *self.makers]

    @property
    def call_hash(self) -> str:
        """The identity of a tool's call: who calls what with which arguments, under which rules, from any node.

        What its goal's constraints read is not a part of it: outputs are set from call to call, and a call that
        violates one says so in a part of its own.
        """
        context = {name: value for name, value in self.context.items() if name not in ("node", "hard_constraints")}
        return _digest([self.kind, self.tenant, self.requester, self.run_id, context, self.args_schema])

    @property
    def hash(self) -> str:
        """The hash of the content and of the rules of who may approve it."""
        names = ("kind", "title", "requester", "tenant", "context", "signals", "diff", "risk", "allowed_decisions")
        value = self.model_dump(mode="json", include={*names, "args_schema", "approvers", "run_id", "thread_id"})
        if self.on_behalf_of is not None:
            value["on_behalf_of"] = self.on_behalf_of
        if self.makers:
            value["makers"] = self.makers
        return _digest(value)


class ApprovalRequest(Filing):
    """A filing in the store. `step` counts its entries in the audit log; `outcome` says what its decision did.

    `grant` is the `call_hash` of the calls that its approval lets through for the rest of its run. `version`
    grows with every change of the content; `due_at` and `remind_at` are null where nothing is due; `note` says why it
    was superseded.

    >>> import tempfile, pathlib
    >>> from hive_agents import Workspace
    >>> from hive_agents.approvals import ApprovalStore, Filing
    >>> folder = tempfile.TemporaryDirectory()
    >>> pathlib.Path(folder.name, "collections").mkdir()
    >>> store = ApprovalStore(Workspace(folder.name))
    >>> request = store.file(Filing(kind="question", title="Which one?", requester="agent:digest", tenant="local"))
    >>> request.status, request.version, request.decided
    ('pending', 1, False)
    >>> folder.cleanup()
    """

    id: str
    status: Status
    decisions: list[Decision] = []
    created_at: str
    due_at: str | None
    remind_at: str | None
    version: int
    content_hash: str
    delegations: list[Delegation] = []
    escalations: int = 0
    step: int = 1
    note: str | None = None
    grant: str | None = None
    outcome: dict[str, Any] | None = None

    @property
    def approvals(self) -> list[Decision]:
        """The people who agreed to the present content."""
        return [d for d in self.decisions if d.verb in ("approve", "edit") and d.version == self.version]

    @property
    def remaining_approvals(self) -> int:
        return max(0, self.approvers.min - len(self.approvals)) if self.status == "pending" else 0

    @property
    def decided(self) -> bool:
        return self.status != "pending"

    def answer_of(self, by: str) -> Decision:
        """Return the last decision of a person."""
        return next(one for one in reversed(self.decisions) if same_person(one.by, person(by)))

    def to_json(self) -> dict[str, Any]:
        """Return the whole request; with a `warning` where a text in it has signs that can't be seen."""
        return self.model_dump(mode="json") | self._warning | {"remaining_approvals": self.remaining_approvals}

    def summary(self) -> dict[str, Any]:
        """Return the row of a list; with a `warning` for the whole request, as `to_json`."""
        names = "id kind title tenant status risk requester created_at due_at allowed_decisions version"
        return self.model_dump(mode="json", include=set(names.split())) | self._warning

    @property
    def _warning(self) -> dict[str, str]:
        return {"warning": UNSEEN} if hides(self.model_dump(mode="json")) else {}


def filed_by(principal: Principal | None) -> dict[str, Any]:
    """Return the fields of a filing that a principal asks for, whose tenant decides it; None is a plain name.

    The owner stands among the makers only where they ask in person.
    """
    if principal is None:
        return {}
    if principal.tenant == OWN_TENANT:
        return {"makers": list(principal.hands)}
    return {"tenant": principal.tenant, "makers": people(principal.makers)}


def needs_four_eyes(filing: Filing) -> bool:
    """Return whether somebody other than the requester must decide, whatever the filing says.

    Deployments that the gate kept back, rules that reach security goals, thresholds not shown to rise, edits
    of a golden set. What can't be told from the context counts as one of them.
    """
    context = filing.context
    if filing.kind == "deploy":
        return True
    if filing.kind == "rule":
        types = context.get("goal_types") or ([context["goal_type"]] if context.get("goal_type") else [])
        return not types or not isinstance(types, list) or "security" in map(_folded, types)
    if filing.kind == "threshold":
        before, after = context.get("previous"), context.get("threshold")
        return not (isinstance(before, int | float) and isinstance(after, int | float) and after >= before)
    file = context.get("file") or ""
    parts = re.split(r"[\\/]", _folded(file))
    return bool(context.get("golden")) or not isinstance(file, str) or GOLDEN in map(_folded, parts)


def batch_hash(requests: Iterable[ApprovalRequest]) -> str:
    """Return a hash of the requests' present contents, which changes with any of them."""
    return _digest(sorted([one.id, one.content_hash] for one in requests))


def _digest(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    return sha256(text)


def _folded(text: Any) -> str:
    """Without case, form of Unicode, and spaces or dots at the ends, none of which make it another name."""
    return unicodedata.normalize("NFKC", str(text)).casefold().strip(" \t\r\n.")
