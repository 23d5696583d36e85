"""Signed tokens, and the present rights of their holders and of principals of long runs.

A right is looked up when it is used: a revoked token, a removed principal, and groups and roles that `access/*.json` no
longer grants count from the next use on. Of somebody whom these files name, a token or a run never has more rights than
their entry; rights that are added later count only for later tokens and runs.
"""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import json
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Annotated, Any, Self

from pydantic import BeforeValidator

from hive_agents.access import proofs
from hive_agents.access.keys import SigningKey, keys_of
from hive_agents.access.principal import LOCAL_TENANT, OWNER, Principal, is_name, local_user, named
from hive_agents.access.rules import AccessRules
from hive_agents.base import HiveError, RightsWithdrawn
from hive_agents.base.files import Format
from hive_agents.store import audit
from hive_agents.workspace import Workspace

MAX_TOKEN = 8192
MAX_TTL = 366 * 86_400
LEEWAY = 10
"""Seconds by which the clocks of signer and verifier may differ."""

FOREVER = 2**53
"""The first second that can't be a token's expiry."""

_REQUIRED = ["iss", "aud", "sub", "tenant", "exp"]
# Instead of PyJWT's messages, so that no part of a token reaches an error.
_REASONS = {
    "ExpiredSignatureError": "it has expired",
    "ImmatureSignatureError": "it is not valid yet",
    "InvalidAudienceError": "it is for another audience",
    "InvalidIssuerError": "it has another issuer",
    "InvalidSignatureError": "its signature is wrong",
    "InvalidAlgorithmError": "its algorithm is not that of the key",
    "MissingRequiredClaimError": f"it lacks one of {', '.join(_REQUIRED)}",
}


@dataclass(frozen=True)
class Token:
    """`expires_at` is ISO 8601 in UTC; `jti` is what `hive token revoke` takes."""

    token: str = field(repr=False)
    expires_at: str
    principal: Principal
    jti: str

    def to_json(self) -> dict[str, Any]:
        principal = self.principal.to_json()
        return {"token": self.token, "jti": self.jti, "expires_at": self.expires_at, "principal": principal}


def mint(
    workspace: Workspace,
    principal: Principal,
    ttl: int = 3600,
    *,
    maker: Principal | None = None,
    require: Callable[[], object] = lambda: None,
) -> Token:
    """Return a token of `ttl` seconds for the principal, signed with the first key of the settings.

    It grants no more than `access/*.json` does, if that names the principal. It names its `maker`, by default the
    workspace's owner, and the makers of the maker's token; the records and the audit log know of it. `require` raises
    where the maker may no longer make one: others' writing may be waited for.

    Raises: HIVE-409 for a ttl out of range or the reserved tenant; HIVE-411 or HIVE-417 for a key that can't sign;
    HIVE-415 for a maker of another tenant.
    """
    import jwt

    require_ttl(ttl)
    if principal.tenant == LOCAL_TENANT:
        message = f'no token can name the tenant "{LOCAL_TENANT}": it means the owner in open mode'
        raise HiveError.of("HIVE-409", message, fix="name the tenant otherwise", exit_code=2)
    if maker is not None and maker.tenant not in (LOCAL_TENANT, principal.tenant):
        fix = "an admin of that tenant may"
        raise HiveError.of("HIVE-415", "tokens are made for one's own tenant", fix=fix, exit_code=1)
    signing, principal = next(iter(keys_of(workspace).values())), as_granted(workspace, principal)
    listed = _entry(AccessRules.load(workspace), principal) is not None
    access = workspace.settings.access
    now = dt.datetime.now(dt.UTC).replace(microsecond=0)
    ends = now + dt.timedelta(seconds=ttl)
    jti = secrets.token_hex(12)
    makers = maker.hands if maker is not None else (OWNER + local_user().removeprefix("user:"),)
    claims = {
        "iss": access.issuer,
        "aud": access.audience,
        "sub": principal.user,
        "tenant": principal.tenant,
        "groups": sorted(principal.groups),
        "roles": sorted(principal.roles),
        "iat": int(now.timestamp()),
        "exp": int(ends.timestamp()),
        "jti": jti,
        "maker": named(makers[0]),
        "makers": list(makers),
        "listed": listed,
    }
    token = jwt.encode(claims, signing.to_sign(), signing.alg, headers={"kid": signing.kid})
    if len(token) > MAX_TOKEN:
        message = f"the token would be over {MAX_TOKEN} characters"
        raise HiveError.of("HIVE-409", message, fix="name fewer groups", exit_code=2)
    proofs.begin(workspace, "token", jti, principal, int(ends.timestamp()), makers, require=require)
    return Token(token, ends.isoformat(), principal, jti)


def require_ttl(ttl: int) -> None:
    """Raises: HIVE-409 for a time that no token may live."""
    if not 1 <= ttl <= MAX_TTL:
        raise HiveError.of("HIVE-409", f"a token can't live {ttl} s", fix=f"use 1 to {MAX_TTL} seconds", exit_code=2)


def verify(workspace: Workspace, token: str) -> Principal:
    """Return the principal that a token names, with the rights that `access/*.json` still grants; errors never quote
    the token.

    The key, found by the token's `kid`, decides the algorithm. Issuer, audience, subject, tenant and expiry are
    required; clocks may differ by `LEEWAY`.

    Raises: HIVE-417 for every invalid token, with exit code 2.
    """
    return holder_of(workspace, claims_of(workspace, token))


def holder_of(workspace: Workspace, claims: Mapping[str, Any]) -> Principal:
    """Return the principal of a verified token's claims, as far as they hold now. Raises: as `verify`."""
    jti, makers, listed = claims.get("jti"), claims.get("makers", []), claims.get("listed")
    if jti is not None and not is_name(jti):
        raise refused("its jti is no printable text")
    if not isinstance(makers, list) or not all(map(is_name, makers)):
        raise refused("its makers are no list of printable texts")
    principal = _principal(claims, jti, tuple(makers))
    state = proofs.state(workspace, "token", jti, principal.tenant, principal.user)
    if state.ended:
        raise refused("it was revoked")
    if listed is not None and not state.made:
        raise refused("the records don't know it")
    if listed is None:
        require_since_end(state, claims, LEEWAY)
    rules = AccessRules.load(workspace)
    if rules.faults:
        raise refused("access/*.json can't be read", fix="mend access/*.json: `hive doctor` says what is wrong")
    return _present(workspace, rules, principal, listed is True, refused)


def require_since_end(state: proofs.ProofState, claims: Mapping[str, Any], leeway: int = 0) -> None:
    """Raises: HIVE-417 for what was made before all that its user had was ended."""
    if state.all_ended_at is not None and _issued(claims) <= _seconds(state.all_ended_at) + leeway:
        raise refused("all that its user had was ended")


def _issued(claims: Mapping[str, Any]) -> float:
    """Return the time when a token was made, 0 where it doesn't tell."""
    issued = claims.get("iat")
    return issued if isinstance(issued, (int, float)) and abs(issued) < FOREVER else 0


def _seconds(at: str) -> float:
    return dt.datetime.fromisoformat(at).timestamp()


def refused(why: str, *, fix: str = "get a new one: `hive token`") -> HiveError:
    return HiveError.of("HIVE-417", f"the token is refused: {why}", fix=fix, exit_code=2)


def header_of(token: str) -> Mapping[str, Any]:
    """Return a token's unverified header. Raises: ValueError where there is none."""
    return _header(token.partition(".")[0])


@lru_cache(maxsize=256)
def _header(encoded: str) -> Mapping[str, Any]:
    first = encoded.encode("ascii")
    header = json.loads(base64.urlsafe_b64decode(first + b"=" * (-len(first) % 4)))
    if not isinstance(header, dict):
        raise ValueError("no header")
    return MappingProxyType(header)


class _VerifiedClaims:
    """A cache of the claims of verified tokens, by a digest of token, key, issuer and audience.

    A caller sends the same token with each request: its signature is checked once, its expiry each time. Neither tokens
    nor keys are stored.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._claims: OrderedDict[bytes, dict[str, Any]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, digest: bytes) -> dict[str, Any] | None:
        with self._lock:
            if digest not in self._claims:
                return None
            self._claims.move_to_end(digest)
            return self._claims[digest]

    def keep(self, digest: bytes, claims: dict[str, Any]) -> None:
        with self._lock:
            self._claims[digest] = claims
            while len(self._claims) > self._most:
                self._claims.popitem(last=False)


_verified = _VerifiedClaims(4096)


def claims_of(workspace: Workspace, token: object) -> dict[str, Any]:
    """Return the claims of a token whose signature, audience, issuer and expiry are good. Raises: as `verify`."""
    keys = keys_of(workspace)
    if not isinstance(token, str) or len(token) > MAX_TOKEN or not token.isascii() or token.count(".") != 2:
        raise refused("it is no token")
    access = workspace.settings.access
    try:
        kid = header_of(token).get("kid")
    except (ValueError, RecursionError):
        raise refused("it is no token") from None
    if kid is None and len(keys) == 1:
        kid = next(iter(keys))
    signing = keys.get(kid) if isinstance(kid, str) else None
    if signing is None:
        fix = "get a new one by `hive token` on a host with the same access.keys; after a rotation restart each host"
        raise refused("no key here has its kid", fix=fix)
    return decoded(token, signing, access.audience, issuer=access.issuer, require=_REQUIRED)


def decoded(
    token: str, signing: SigningKey, audience: str, *, issuer: str | None = None, require: list[str]
) -> dict[str, Any]:
    """Return the claims of a token that the key has signed. Raises: HIVE-417."""
    parts = (signing.secret(), signing.alg.encode(), (issuer or "").encode(), audience.encode(), token.encode())
    digest = hashlib.sha256(b"".join(len(part).to_bytes(8, "big") + part for part in parts)).digest()
    claims = _verified.get(digest)
    if claims is None:
        claims = _decoded(token, signing, audience, issuer, require)
        _verified.keep(digest, claims)
    elif int(claims["exp"]) <= time.time() - LEEWAY:  # as PyJWT has it
        raise refused(_REASONS["ExpiredSignatureError"])
    return claims


def _decoded(token: str, signing: SigningKey, audience: str, issuer: str | None, require: list[str]) -> dict[str, Any]:
    import jwt

    material = signing.to_check()
    try:
        jwt.get_unverified_header(token)
    except Exception:  # whatever the parser's error, an unreadable token is refused
        raise refused("it is no token") from None
    try:
        claims: dict[str, Any] = jwt.decode(
            token,
            material,
            algorithms=[signing.alg],
            issuer=issuer,
            audience=audience,
            leeway=LEEWAY,
            options={"require": require},
        )
    except Exception as error:  # as above: fail closed
        raise refused(_REASONS.get(type(error).__name__, "it is not valid")) from None
    return claims


def _principal(claims: Mapping[str, Any], jti: str | None, makers: tuple[str, ...]) -> Principal:
    expires = claims["exp"]
    # A bound, since JSON numbers can be too large for a float; NaN fails it, too.
    if isinstance(expires, bool) or not isinstance(expires, (int, float)) or not abs(expires) < FOREVER:
        raise refused("its exp is no time")
    groups, roles = claims.get("groups", []), claims.get("roles", ["reader"])
    if not isinstance(groups, list) or not isinstance(roles, list):
        raise refused("its groups and roles are no lists")
    if claims["tenant"] == LOCAL_TENANT:
        raise refused("its tenant is reserved")
    try:
        return Principal(claims["tenant"], claims["sub"], frozenset(groups), frozenset(roles), jti, makers)
    except (HiveError, TypeError):
        raise refused("its tenant, sub, groups or roles are not what they must be") from None


def revoke(workspace: Workspace, jti: str, *, by: str | None = None, tenant: str | None = None) -> bool:
    """Revoke the token of this id on all hosts; return whether it was valid until now.

    With a `tenant` only a token of that tenant is revoked. `by` is who does it, the local user by default.

    Raises: HIVE-409 for an invalid `jti`.
    """
    if not is_name(jti):
        fix = "`hive token list` shows the ids"
        raise HiveError.of("HIVE-409", "that is no token's id", fix=fix, exit_code=2)
    return proofs.end(workspace, "token", jti, by or local_user(), tenant=tenant)


def as_granted(workspace: Workspace, principal: Principal) -> Principal:
    """Return the principal with those groups and roles that `access/*.json` grants, if it names them.

    Raises: the faults of these files.
    """
    rules = AccessRules.load(workspace)
    if rules.faults:
        raise HiveError(rules.faults, exit_code=2)
    entry = _entry(rules, principal)
    return principal if entry is None else _within(principal, entry)


class Standing(Format):
    """A principal at the start of a run or a conversation; JSON, stored with the run.

    `listed` is whether `access/*.json` named them, `since` the time of the start.
    """

    tenant: str
    user: str
    groups: list[str] = []
    roles: list[str] = []
    token_id: str | None = None
    makers: list[str] = []
    listed: Annotated[bool, BeforeValidator(bool)] = False  # earlier releases wrote the entry
    since: str = ""

    @classmethod
    def of(cls, workspace: Workspace, principal: Principal) -> Self:
        """Return the standing of a principal at this moment."""
        listed = _entry(AccessRules.load(workspace), principal) is not None
        return cls(**_named_in(principal), listed=listed, since=audit.now())

    @property
    def principal(self) -> Principal:
        """The principal at the start, for identity only, not for present rights."""
        groups, roles = frozenset(self.groups), frozenset(self.roles)
        return Principal(self.tenant, self.user, groups, roles, self.token_id, tuple(self.makers))

    def of_today(self, principal: Principal) -> Self:
        """Return the standing with another token of the same person; what held at the start stays."""
        return self.model_validate({**_named_in(principal), "listed": self.listed, "since": self.since})

    def now(self, workspace: Workspace) -> Principal:
        """Return the principal with the rights that remain.

        Raises: HIVE-417 where its token was revoked, all that the person had was ended, or `access/*.json` no longer
        names them; the faults of these files.
        """
        principal = self.principal
        if self.tenant == LOCAL_TENANT:
            return principal
        state = proofs.state(workspace, "token", self.token_id, self.tenant, self.user)
        if state.ended:
            raise _withdrawn(f"the token of {self.user} was revoked")
        if state.all_ended_at is not None and self.since <= state.all_ended_at:
            raise _withdrawn(f"all that {self.user} of {self.tenant} had begun was ended")
        rules = AccessRules.load(workspace)
        if rules.faults:
            raise HiveError(rules.faults, exit_code=3)
        return _present(workspace, rules, principal, self.listed, _withdrawn)


def _named_in(principal: Principal) -> dict[str, Any]:
    return {**principal.to_json(), "token_id": principal.token_id, "makers": list(principal.makers)}


def _present(
    workspace: Workspace, rules: AccessRules, principal: Principal, listed: bool, refusal: Callable[[str], HiveError]
) -> Principal:
    """Return the principal with the rights that the rules grant now; `listed` is whether they were named before.

    Raises: what `refusal` returns, where they have none.
    """
    entry = _entry(rules, principal)
    if entry is not None:
        return _within(principal, entry)
    if listed:
        raise refusal(f"access/*.json no longer names {principal.user} of {principal.tenant}")
    if workspace.settings.access.unlisted == "refuse":
        raise refusal(f"access/*.json doesn't name {principal.user} of {principal.tenant}")
    return principal


def _within(principal: Principal, entry: Principal) -> Principal:
    if principal.groups <= entry.groups and principal.roles <= entry.roles:
        return principal
    return replace(principal, groups=principal.groups & entry.groups, roles=principal.roles & entry.roles)


def _entry(rules: AccessRules, principal: Principal) -> Principal | None:
    entry = rules.principal(principal.user)
    return entry if entry is not None and entry.tenant == principal.tenant else None


def _withdrawn(why: str) -> RightsWithdrawn:
    fix = "let somebody who may do this begin it anew"
    return RightsWithdrawn.of("HIVE-417", f"this goes no further: {why}", fix=fix, exit_code=3)
