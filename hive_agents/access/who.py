"""Authentication of askers: the holder of a token, the person of `--as`, or the local owner of the workspace.

A token in `HIVE_TOKEN` is proof, and excludes every other identity; an empty one is refused. A name is no proof: it
has no more rights than the local user.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from hive_agents.access.keys import require_owner
from hive_agents.access.logins import is_session, recognised
from hive_agents.access.principal import LOCAL_TENANT, OWNER, Principal, asked_by, local_user, named, owner
from hive_agents.access.rules import AccessRules, is_open, known_names, known_principal
from hive_agents.access.tokens import verify
from hive_agents.base import HiveError
from hive_agents.workspace import Workspace

_NAME = re.compile(r"user:[\w][\w.@+-]{0,63}")


def person(name: str) -> str:
    """Return `user:NAME` for a plain name. Raises: HIVE-409 where it is no person's, such as an agent's."""
    normalised = unicodedata.normalize("NFKC", name).strip()
    user = normalised if ":" in normalised else f"user:{normalised}"
    if not _NAME.fullmatch(user):
        fix = "name a person with letters, digits, '.', '_', '-', '+' and '@': --as dana"
        raise HiveError.of("HIVE-409", f'"{name}" is no person who can decide', fix=fix)
    return user


def same_person(a: str, b: str) -> bool:
    """Return whether names differ at most in case or Unicode form, and so count as one person for four-eyes rules."""
    return unicodedata.normalize("NFKC", a).casefold() == unicodedata.normalize("NFKC", b).casefold()


def same_hands(first: Sequence[str], second: Sequence[str]) -> bool:
    """Return whether one person may be behind both; each is as `Principal.hands`, and `first` asked or agreed before.

    >>> same_hands(["user:lee"], ["user:dana", "user:Lee", "owner:ann"]), same_hands(["user:lee"], ["user:dana"])
    (True, False)
    """
    others = [asked_by(one) for one in second]
    return any(same_person(asked_by(one), other) for one in first for other in others)


def people(hands: Sequence[str]) -> list[str]:
    """Return the hands without the workspace's owner, whose signature says nothing: they give a token to everybody."""
    return [one for one in hands if not one.startswith(OWNER)]


TOKEN = "HIVE_TOKEN"
DECIDERS = frozenset({"approver", "admin"})
OPERATORS = ("operator", "admin")
_SERVICE = "service:"


@dataclass(frozen=True)
class Caller:
    """Who acts, with their authentication: `authn` is "token" or "local", and `by` names them in rows and events.

    Of one who controls runs, `principal` is whose they reach, None the owner's. One who decides is a person: they
    decide requests of `tenant` and the workspace's own, None is the owner, who decides all; `principal` is that of a
    token or a session, who decides only what their gate shows them. `jti`, `maker` and `makers` are of the proof:
    `makers` as those of a `Principal`, none for a plain name of somebody else, which proves nothing. `again`, of one
    who decides, looks their rights up anew: a decision may wait for others to write, and they may have left meanwhile.
    """

    by: str
    authn: str
    tenant: str | None = None
    principal: Principal | None = field(default=None, compare=False)
    jti: str | None = field(default=None, compare=False)
    maker: str | None = field(default=None, compare=False)
    makers: tuple[str, ...] = field(default=(), compare=False)
    again: Callable[[], object] | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(cls, by: str, holder: Principal) -> Self:
        """Return the holder of a token."""
        return cls(by, "token", holder.tenant, holder, holder.token_id, holder.maker, holder.makers)

    def named(self) -> dict[str, Any]:
        """Return the arguments of `ApprovalStore.decide`."""
        names = ("by", "authn", "tenant", "jti", "maker", "makers", "again")
        return {name: getattr(self, name) for name in names} | {"holder": self.principal}

    def handing(self) -> dict[str, Any]:
        """Return the arguments of `ApprovalStore.delegate`."""
        return {name: getattr(self, name) for name in ("by", "authn", "tenant", "makers", "again")}


class Asker:
    """An asker as a reader of documents, a requester of changes, or a decider.

    `HIVE_TOKEN` of `environ` holds a token, or a session, which names its user itself. Every call authenticates anew,
    so that a revoked token, an ended session or a removed user ends a conversation in progress. Every method raises
    HIVE-417 for a refused token or session.
    """

    def __init__(
        self, workspace: Workspace, as_user: str | None = None, environ: Mapping[str, str] = os.environ
    ) -> None:
        self._workspace, self._named, self._environ = workspace, as_user, environ

    @classmethod
    def of(cls, workspace: Workspace, proof: str) -> Self:
        """Return the asker of a session or a token, which is verified at each use of the asker."""
        return cls(workspace, None, {TOKEN: proof})

    @property
    def authn(self) -> str:
        """The kind of authentication: "token" or "local"."""
        token = self._token
        by_token = token is not None and (not is_session(token) or self.token_holder() is not None)
        return "token" if by_token else "local"

    @property
    def is_named(self) -> bool:
        """Whether a token, a session or `--as` names the asker."""
        token = self._token
        by_token = token is not None and not is_session(token)
        return by_token or self._who()[:2] != (None, None)

    def _who(self) -> tuple[Principal | None, str | None, Principal | None]:
        """Return the token's holder, the user of `--as` or of a session, and whose session it is that no token began;
        neither of the first two for the owner."""
        token = self._token
        if token is None:
            return None, self._named, None
        if not is_session(token):
            return verify(self._workspace, token), self._named, None
        who, by_token = recognised(self._workspace, token)
        if by_token:
            return who, self._named, None
        if who.tenant == LOCAL_TENANT:
            return None, self._named, who
        if self._named is not None and not same_person(who.user, self._named):
            raise self._another(who.user)
        return None, who.user, who

    @property
    def _as_user(self) -> str | None:
        token = self._token
        return self._who()[1] if token is not None and is_session(token) else self._named

    def token_holder(self) -> Principal | None:
        """Return the principal of the token, or None where there is no token."""
        return self._who()[0]

    def asking(self) -> Principal | None:
        """Return the token's holder, the owner who asks in person, or None for a plain name, which proves nothing."""
        return self.token_holder() if self.is_named else owner()

    def require_role(self, what: str, *roles: str) -> None:
        """Raise HIVE-415 where the token's holder has none of the roles; without a token the asker is the owner."""
        _require_role(self.token_holder(), what, roles)

    # As a reader of documents

    def reader(self) -> Principal:
        """Return the token's holder, else the user of `--as` in `access/*.json`, else in open mode the owner.

        Only the workspace's owner can name somebody by `--as`.

        Raises: HIVE-409 (exit code 2, naming the principals) for an unknown user or without any; HIVE-415 for `--as`
        beside another's token; the diagnostics of `access/*.json` where a file is faulty.
        """
        reader = self.viewer()
        if reader is not None:
            return reader
        if is_open(self._workspace):
            return owner()
        fix = f"say who asks: --as USER, or set {TOKEN}. {known_names(AccessRules.load(self._workspace))}"
        raise HiveError.of("HIVE-409", "nobody asks: permissions are enforced here", fix=fix)

    def reader_if_named(self) -> Principal | None:
        """Return the reader, or None where nobody is named, who finds no documents. Raises: as `reader`."""
        return self.reader() if self.is_named or is_open(self._workspace) else None

    def reader_or_owner(self) -> Principal:
        """Return the reader, or the workspace's owner where nobody is named. Raises: as `reader`."""
        return self.viewer() or owner()

    def viewer(self) -> Principal | None:
        """Return the named reader, or None for the workspace's owner. Raises: as `reader`."""
        holder, user, session = self._who()
        if holder is not None:
            if user is not None and not same_person(user, holder.user):
                raise self._another(holder.user)
            return holder
        if user is None:
            return None
        require_owner(self._workspace)
        known = known_principal(self._workspace, user)
        return known if session is None else replace(known, makers=session.makers)

    def operating_viewer(self, what: str) -> Principal | None:
        """Return the viewer, if their roles allow it. Raises: as `reader`; HIVE-415 as `operator`."""
        viewer = self.viewer()
        _require_role(viewer, what, OPERATORS)
        return viewer

    # As one who asks for changes

    def requester(self) -> str:
        """Return the requester's name, authenticated as deciders are: else one person could ask and agree by two names.

        Raises: HIVE-415 for a local name where `approvals.require_token` holds, or `--as` beside another person's
        token; HIVE-409 where `--as` is no person's name.
        """
        holder = self.token_holder()
        if holder is not None:
            return self._not_another(holder.user if ":" in holder.user else f"user:{holder.user}")
        self._require_token()
        return person(self._as_user) if self._as_user is not None else local_user()

    def caller(self) -> Caller:
        """Return the caller who controls runs; where `access/*.json` names nobody, any local name is the owner's.

        Raises: as `requester`; HIVE-409 for a name that is no person's, or that `access/*.json` lacks while it names
        others, the faults of these files.
        """
        holder = self.token_holder()
        if holder is not None:
            return Caller.of(self.requester(), holder)
        caller = self._local()
        if self._as_user is None or not self._names_people:
            return caller
        principal = known_principal(self._workspace, caller.by.removeprefix("user:"))
        return replace(caller, tenant=principal.tenant, principal=principal)

    def operator(self, what: str, *others: str) -> str | None:
        """Return the token's holder, if their roles allow it; None for the workspace's owner, without a token.

        Raises: HIVE-415 for a holder who is neither operator nor admin, nor has one of the `others`' roles.
        """
        self.require_role(what, *OPERATORS, *others)
        return self.requester() if self.authn == "token" else None

    # As one who decides

    def decider(self) -> Caller:
        """Return the person of the token; without one that of `--as`, or else the local user.

        Where `access/*.json` names people, `--as` decides a tenant's requests as one of them who is its approver or
        admin; a name that is not there decides the workspace's own requests alone.

        Raises: HIVE-409 for a name or a token that is no person's, HIVE-415 for a token, or for somebody in
        `access/*.json`, without the role approver, or for `--as` beside another person's token.
        """
        return replace(self._decider(), again=self._decider)

    def _decider(self) -> Caller:
        holder = self.token_holder()
        if holder is None:
            return self._local_decider()
        if ":" in holder.user and not holder.user.startswith("user:"):
            fix = f"put the token of a person with the role approver into {TOKEN}"
            raise HiveError.of("HIVE-409", f"{holder.user} is no person, and only people decide", fix=fix)
        by = person(holder.user)
        if not DECIDERS & holder.roles:
            fix = f"decide with an approver's token in {TOKEN}: `hive token --roles approver` makes one"
            raise HiveError.of("HIVE-415", f"{by} is no approver: the token lacks that role", fix=fix)
        return Caller.of(self._not_another(by), holder)

    def reviewer(self) -> Caller:
        """Return the decider, for decisions that take effect without a request.

        Raises: as `decider`, and HIVE-415 for a local name where `approvals.require_token` holds.
        """
        decider = self.decider()
        self._require_token()
        return decider

    @property
    def _token(self) -> str | None:
        token = self._environ.get(TOKEN)
        return token.strip() if token is not None else None

    @property
    def _names_people(self) -> bool:
        rules = AccessRules.load(self._workspace)
        return bool(rules.principals or rules.faults)

    def _local(self) -> Caller:
        """Return the person of a plain name or of a session that no token began, as the owner."""
        _, user, session = self._who()
        by = person(local_user() if user is None else user)
        jti, makers = (session.token_id, session.makers) if session is not None else (None, ())
        if user is None:
            makers = makers or (f"{OWNER}{by.removeprefix('user:')}",)
        maker = named(makers[0]) if makers else local_user()
        return Caller(by, "local", jti=jti, maker=maker, makers=makers)

    def _local_decider(self) -> Caller:
        decider = self._local()
        if self._as_user is None or not self._names_people:
            return decider
        listed = AccessRules.load(self._workspace).principal(decider.by.removeprefix("user:"))
        if listed is None:
            return replace(decider, tenant=LOCAL_TENANT)
        if not DECIDERS & listed.roles:
            fix = "decide as somebody to whom access/*.json gives the role approver"
            raise HiveError.of("HIVE-415", f"{decider.by} is no approver", file="access", fix=fix)
        principal = replace(listed, makers=decider.makers) if decider.jti is not None else None
        return replace(decider, tenant=listed.tenant, principal=principal)

    def _require_token(self) -> None:
        require_proof(self.authn, require_token=self._workspace.settings.approvals.require_token)

    def _not_another(self, holder: str) -> str:
        """Return the holder's name. Raises: HIVE-415 where `--as` names somebody else."""
        if self._as_user is not None and not same_person(person(self._as_user), holder):
            raise self._another(holder)
        return holder

    def _another(self, holder: str) -> HiveError:
        fix = f"leave --as out, or put that person's token into {TOKEN}"
        return HiveError.of("HIVE-415", f"{TOKEN} is {holder}'s token, and --as names {self._named}", fix=fix)


def _require_role(principal: Principal | None, what: str, roles: Sequence[str]) -> None:
    if principal is not None and not principal.roles & set(roles):
        fix = f"somebody with the role {' or '.join(roles)} may"
        raise HiveError.of("HIVE-415", f"{principal.user} may not {what}", fix=fix)


def require_proof(authn: str, *, require_token: bool) -> None:
    """Raise HIVE-415 for a plain local name where the workspace wants tokens."""
    if require_token and authn == "local":
        message = "this workspace wants a signed token (approvals.require_token), and a plain local name is none"
        fix = f"put an approver's token into {TOKEN}: `hive token --user NAME --tenant TENANT --roles approver`"
        raise HiveError.of("HIVE-415", message, fix=fix)


def service_principal(workspace: Workspace, service: str) -> Principal:
    """Return the principal that `access/*.json` has for `service:NAME`, else for NAME.

    Without one it is a service of the workspace without roles, which sees no tenant's documents.

    Raises: the diagnostics of `access/*.json` where a file is faulty.
    """
    rules = AccessRules.load(workspace)
    if rules.faults:
        raise HiveError(rules.faults, exit_code=1)
    name = service.removeprefix(_SERVICE)
    listed = rules.principal(_SERVICE + name) or rules.principal(name)
    return listed or Principal(LOCAL_TENANT, _SERVICE + name, frozenset(), frozenset())
