"""Signed tokens, their revocation, and the present rights of principals of long runs.

Runs last for days and conversations for hours; a revoked token, a removed principal, and groups and roles that were
taken away take effect at the next turn and the next effect. Rights that are added later count only for later runs.
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
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

from hive_agents.access.keys import SigningKey, keys_of
from hive_agents.access.principal import LOCAL_TENANT, OWNER, Principal, is_name, local_user, named
from hive_agents.access.rules import AccessRules
from hive_agents.errors import HiveError, RightsWithdrawn
from hive_agents.files import Format, atomic_write, locked, read_bytes
from hive_agents.workspace import Workspace

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

    from hive_agents.settings import Access

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
    """`expires_at` is ISO 8601 in UTC; `jti` is what `hive token --revoke` takes."""

    token: str = field(repr=False)
    expires_at: str
    principal: Principal
    jti: str

    def to_json(self) -> dict[str, Any]:
        return {"token": self.token, "expires_at": self.expires_at, "principal": self.principal.to_json()}


def mint(
    workspace: Workspace,
    principal: Principal,
    ttl: int = 3600,
    *,
    maker: Principal | None = None,
    key: SigningKey | None = None,
) -> Token:
    """Return a token of `ttl` seconds for the principal, signed with `key`, or with the first key of the settings.

    It names its `maker`, by default the workspace's owner, and the makers of the maker's token.

    Raises: HIVE-409 for a ttl out of range or the reserved tenant; HIVE-411 or HIVE-417 for a key that can't sign.
    """
    import jwt

    if not 1 <= ttl <= MAX_TTL:
        raise HiveError.of("HIVE-409", f"a token can't live {ttl} s", fix=f"use 1 to {MAX_TTL} seconds", exit_code=2)
    if principal.tenant == LOCAL_TENANT:
        message = f'no token can name the tenant "{LOCAL_TENANT}": it means the owner in open mode'
        raise HiveError.of("HIVE-409", message, fix="name the tenant otherwise", exit_code=2)
    signing = key or next(iter(keys_of(workspace).values()))
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
    }
    token = jwt.encode(claims, signing.to_sign(), signing.alg, headers={"kid": signing.kid})
    if len(token) > MAX_TOKEN:
        message = f"the token would be over {MAX_TOKEN} characters"
        raise HiveError.of("HIVE-409", message, fix="name fewer groups", exit_code=2)
    return Token(token, ends.isoformat(), principal, jti)


def verify(workspace: Workspace, token: str, *, key: SigningKey | None = None) -> Principal:
    """Return the principal that a token names; errors never quote the token.

    The key, found by the token's `kid`, decides the algorithm. Issuer, audience, subject, tenant and expiry are
    required; clocks may differ by `LEEWAY`. `key` replaces the settings' keys.

    Raises: HIVE-417 for every invalid token, with exit code 2.
    """
    keys = {key.kid: key} if key else keys_of(workspace)
    claims = _claims(workspace, token, keys)
    principal = _principal(claims)
    jti, makers = claims.get("jti"), claims.get("makers", [])
    if jti is not None and not is_name(jti):
        raise refused("its jti is no printable text")
    if not isinstance(makers, list) or not all(map(is_name, makers)):
        raise refused("its makers are no list of printable texts")
    if jti is not None and is_revoked(workspace, jti, principal.tenant):
        raise refused("it was revoked")
    return replace(principal, token_id=jti, makers=tuple(makers))


def refused(why: str) -> HiveError:
    return HiveError.of("HIVE-417", f"the token is refused: {why}", fix="get a new one: `hive token`", exit_code=2)


def header_of(token: str) -> Mapping[str, Any]:
    """Return a token's unverified header. Raises: ValueError where there is none."""
    first = token.partition(".")[0].encode("ascii")
    header = json.loads(base64.urlsafe_b64decode(first + b"=" * (-len(first) % 4)))
    if not isinstance(header, dict):
        raise ValueError("no header")
    return header


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


def _claims(workspace: Workspace, token: object, keys: Mapping[str, SigningKey]) -> dict[str, Any]:
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
        raise refused("no key here has its kid")
    parts = (signing.secret(), signing.alg.encode(), access.issuer.encode(), access.audience.encode(), token.encode())
    digest = hashlib.sha256(b"".join(len(part).to_bytes(8, "big") + part for part in parts)).digest()
    claims = _verified.get(digest)
    if claims is None:
        claims = _decoded(token, signing, access)
        _verified.keep(digest, claims)
    elif int(claims["exp"]) <= time.time() - LEEWAY:  # as PyJWT has it
        raise refused(_REASONS["ExpiredSignatureError"])
    return claims


def _decoded(token: str, signing: SigningKey, access: Access) -> dict[str, Any]:
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
            issuer=access.issuer,
            audience=access.audience,
            leeway=LEEWAY,
            options={"require": _REQUIRED},
        )
    except Exception as error:  # as above: fail closed
        raise refused(_REASONS.get(type(error).__name__, "it is not valid")) from None
    return claims


def _principal(claims: Mapping[str, Any]) -> Principal:
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
        return Principal(claims["tenant"], claims["sub"], frozenset(groups), frozenset(roles))
    except (HiveError, TypeError):
        raise refused("its tenant, sub, groups or roles are not what they must be") from None


def revoke(workspace: Workspace, jti: str, *, expires: int | None = None, tenant: str | None = None) -> bool:
    """Revoke the token, sign-in link or session of this `jti` on disk; return whether it was valid until now.

    With a `tenant` only a token of that tenant is revoked.

    `expires` is its expiry in seconds since 1970, after which the entry may be dropped. Without it the entry stays,
    since the id doesn't tell the expiry.

    Raises: HIVE-409 for an invalid `jti`.
    """
    if not is_name(jti):
        fix = "name the id that `hive token` printed"
        raise HiveError.of("HIVE-409", "that is no token's id", fix=fix, exit_code=2)
    with _changing_revoked(workspace):
        ended = _revoked(workspace)
        new = (jti, tenant) not in ended
        if new:
            _write_revoked(workspace, ended | {(jti, tenant): expires})
    return new


def is_revoked(workspace: Workspace, jti: str, tenant: str | None = None) -> bool:
    """Return whether the id was revoked, for all tenants or for this one.

    Raises: HIVE-417 where the list can't be read: then no token is accepted.
    """
    return not {(jti, None), (jti, tenant)}.isdisjoint(_revoked(workspace))


def forget_expired(workspace: Workspace, before: float) -> int:
    """Drop the entries that expired before a time in seconds since 1970; return their number.

    Raises: HIVE-417 where the list can't be read.
    """
    if not _revoked_path(workspace).exists():
        return 0
    with _changing_revoked(workspace):
        ended = _revoked(workspace)
        unexpired = {key: expires for key, expires in ended.items() if expires is None or expires >= before}
        if len(unexpired) < len(ended):
            _write_revoked(workspace, unexpired)
    return len(ended) - len(unexpired)


def _changing_revoked(workspace: Workspace) -> AbstractContextManager[None]:
    return locked(workspace.state / "revoked_tokens.lock", "revoking a token")


def _revoked_path(workspace: Workspace) -> Path:
    return workspace.state / "revoked_tokens"


def _revoked(workspace: Workspace) -> dict[tuple[str, str | None], int | None]:
    """Return the revoked ids, each with its tenant or None, and the expiry where it is known.

    A line is `ID`, `ID,SECONDS` or `ID,SECONDS,TENANT`, where the seconds may be missing: no name has a comma.
    """
    try:
        text = read_bytes(_revoked_path(workspace)).decode()
        return dict(map(_entry_of, filter(None, map(str.strip, text.splitlines()))))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError):
        fix = "make it readable; until then no token is accepted"
        message = "the list of revoked tokens cannot be read"
        raise HiveError.of("HIVE-417", message, file=".hive/revoked_tokens", fix=fix, exit_code=3) from None


def _entry_of(line: str) -> tuple[tuple[str, str | None], int | None]:
    jti, *more = line.split(",")
    expires, tenant = (*more, None, None)[:2]
    if len(more) > 2 or (expires == "" and tenant is None):
        raise ValueError("a line that this release doesn't write")
    return (jti, tenant), int(expires) if expires else None


def _write_revoked(workspace: Workspace, ended: dict[tuple[str, str | None], int | None]) -> None:
    lines = []
    for (jti, tenant), expires in ended.items():
        seconds = "" if expires is None else str(expires)
        lines.append(f"{jti},{seconds},{tenant}" if tenant else f"{jti},{seconds}".rstrip(","))
    atomic_write(_revoked_path(workspace), "".join(f"{line}\n" for line in lines).encode(), mode=0o600)


class Listed(Format):
    """A principal's entry in `access/*.json`."""

    groups: list[str] = []
    roles: list[str] = []


class Standing(Format):
    """A principal and its entry in `access/*.json` at the start of a run; JSON, stored with the run."""

    tenant: str
    user: str
    groups: list[str] = []
    roles: list[str] = []
    token_id: str | None = None
    listed: Listed | None = None

    @classmethod
    def of(cls, workspace: Workspace, principal: Principal) -> Self:
        """Return the standing of a principal at this moment."""
        entry = _entry(AccessRules.load(workspace), principal)
        listed = Listed(groups=sorted(entry.groups), roles=sorted(entry.roles)) if entry is not None else None
        return cls(**principal.to_json(), token_id=principal.token_id, listed=listed)

    @property
    def principal(self) -> Principal:
        """The principal at the start, for identity only, not for present rights."""
        groups, roles = frozenset(self.groups), frozenset(self.roles)
        return Principal(self.tenant, self.user, groups, roles, token_id=self.token_id)

    def of_today(self, principal: Principal) -> Self:
        """Return the standing with another token of the same person; the entry at the start stays."""
        return self.model_validate({**principal.to_json(), "token_id": principal.token_id, "listed": self.listed})

    def now(self, workspace: Workspace) -> Principal:
        """Return the principal with the rights that remain.

        Raises: HIVE-417 where its token was revoked or `access/*.json` no longer names it; the faults of these files.
        """
        if self.token_id is not None and is_revoked(workspace, self.token_id, self.tenant):
            raise _withdrawn(f"the token of {self.user} was revoked")
        if self.listed is None:
            return self.principal
        rules = AccessRules.load(workspace)
        if rules.faults:
            raise HiveError(rules.faults, exit_code=3)
        entry = _entry(rules, self.principal)
        if entry is None:
            raise _withdrawn(f"access/*.json no longer names {self.user} of {self.tenant}")
        lost = frozenset(self.listed.groups) - entry.groups, frozenset(self.listed.roles) - entry.roles
        before = self.principal
        return replace(before, groups=before.groups - lost[0], roles=before.roles - lost[1])


def _entry(rules: AccessRules, principal: Principal) -> Principal | None:
    entry = rules.principal(principal.user)
    return entry if entry is not None and entry.tenant == principal.tenant else None


def _withdrawn(why: str) -> RightsWithdrawn:
    fix = "let somebody who may do this begin it anew"
    return RightsWithdrawn.of("HIVE-417", f"this goes no further: {why}", fix=fix, exit_code=3)
