"""Keys that sign and check tokens, each bound to one algorithm."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Literal

from hive_agents.base import HiveError, NoSecret, WrongUsage
from hive_agents.base.files import atomic_write, guarded, locked, read_bytes
from hive_agents.workspace import Workspace, credentials, machine, require_trust, trusted

if TYPE_CHECKING:
    from hive_agents.workspace.credentials import Secret

FILE = ".hive/local.key"
BYTES = 32
_MOST_KNOWN = 16
_known: dict[str, tuple[tuple[object, ...], bytes]] = {}
"""The key in each file, with the stamps of the file and of this machine's key."""
TOKENS = ("access.keys", "access.issuer", "access.audience")
"""The settings that decide which tokens are accepted."""


def local_key(workspace: Workspace) -> bytes:
    """Return the key, made on first use; of processes that start together one makes it, and all get the same.

    It is derived from the file and this machine's key: a file that came with somebody's files signs nothing known.

    Raises: HIVE-417 for another user than the owner of `.hive/`, and for a damaged file.
    """
    require_owner(workspace)
    place = f"{workspace.state}/local.key"
    stamps = guarded.stamp(place), guarded.stamp(f"{machine.home()}/key")
    known = _known.get(place)
    if known is None or None in stamps or known[0] != stamps:
        known = _known[place] = stamps, _read(workspace)
        if len(_known) > _MOST_KNOWN:
            del _known[next(iter(_known))]
    return known[1]


def _read(workspace: Workspace) -> bytes:
    path = workspace.state / "local.key"
    if not path.exists():
        with locked(workspace.state / "local.key.lock", "making the local key"):
            if not path.exists():
                atomic_write(path, secrets.token_hex(BYTES).encode() + b"\n", mode=0o600)
    try:
        key = bytes.fromhex(read_bytes(path).decode("ascii"))
    except (OSError, ValueError):
        key = b""
    if len(key) != BYTES:
        fix = "delete the file: a new key is made, and tokens of the old one end"
        raise HiveError.of("HIVE-417", "the local key cannot be read", file=FILE, fix=fix, exit_code=3)
    return machine.bound(key)


def require_owner(workspace: Workspace) -> None:
    """Raises: HIVE-417 for another user of this machine than the owner of `.hive/`."""
    if os.geteuid() not in (0, workspace.state.stat().st_uid):
        fix = "use a token: set HIVE_TOKEN to what `hive token` printed for the owner"
        message = "only the workspace's owner signs with the local key"
        raise HiveError.of("HIVE-417", message, file=FILE, fix=fix, exit_code=2)


MIN_SECRET = 32
MIN_RSA_BITS = 2048
Algorithm = Literal["HS256", "RS256", "ES256"]


@dataclass(frozen=True)
class SigningKey:
    """`secret` fetches the shared secret of HS256, or a PEM; a private key signs and checks, a public one checks."""

    kid: str
    alg: Algorithm
    secret: Callable[[], bytes] = field(repr=False)

    def to_sign(self) -> Any:
        """Return what PyJWT signs with. Raises: HIVE-417 where the key is unfit, or can only check."""
        private, _ = self._pair()
        if private is None:
            fix = "let the holder of the private key sign, or put the private key behind secret_ref"
            raise unfit(self.kid, "it is a public key: it checks tokens and can't sign them", fix)
        return private

    def to_check(self) -> Any:
        """Return what PyJWT checks with. Raises: HIVE-417 where the key is unfit."""
        return self._pair()[1]

    def _pair(self) -> tuple[Any, Any]:
        secret = self.secret()
        if self.alg == "HS256":
            # A public key taken for a shared secret would let everybody sign who may check.
            if len(secret) < MIN_SECRET or b"-----BEGIN " in secret:
                fix = f"use at least {MIN_SECRET} random bytes; a PEM belongs to RS256 or ES256"
                raise unfit(self.kid, "it is no secret for HS256", fix)
            return secret, secret
        return _pem_pair(self.kid, self.alg, secret)


def keys_of(workspace: Workspace) -> dict[str, SigningKey]:
    """Return every key by kid, the signing one first; the local key where the settings name none. Secrets are fetched
    on use.

    Raises: HIVE-111 for a kid named twice, HIVE-431 where the settings of tokens aren't trusted.
    """
    require_trust(workspace, *TOKENS)
    named = workspace.settings.access.keys
    if not named:
        return {"local": own_key(workspace)}
    keys: dict[str, SigningKey] = {}
    for key in named:
        if key.kid in keys:
            message = f'two keys have the kid "{key.kid}"'
            raise HiveError.of("HIVE-111", message, file="hive.toml", path="access.keys", fix="give each its own")
        keys[key.kid] = SigningKey(key.kid, key.alg, partial(resolve, workspace, key.kid, key.secret_ref))
    return keys


def own_key(workspace: Workspace) -> SigningKey:
    """Return the local key, whatever the settings name."""
    return SigningKey("local", "HS256", partial(local_key, workspace))


def session_key(workspace: Workspace) -> SigningKey:
    """Return the key of sessions: the first of `access.keys` that can sign, which hosts share, else the local key."""
    for key in keys_of(workspace).values():
        with suppress(HiveError):
            key.to_sign()
            return key
    return own_key(workspace)


def uses_local_key(workspace: Workspace) -> bool:
    """Return whether tokens are signed by the local key: a server accepts those on loopback only."""
    return not workspace.settings.access.keys


def resolve(workspace: Workspace, kid: str, ref: str) -> bytes:
    """Return the secret behind `credential:NAME`, `env:NAME`, `keyring:SERVICE/NAME` or `aws:SECRET_ID`.

    Raises: HIVE-417 where it is missing, or in a variable that isn't for it, HIVE-411 without the keyring package,
    HIVE-409 for an invalid reference.
    """
    if (variable := ref.removeprefix("env:")) not in ("", ref) and not trusted.may_sign(variable):
        # Others may know what the variable holds, as they know PATH.
        why = f"{ref} is not named for a secret that signs tokens"
        raise unfit(kid, why, f"name it HIVE_…, or, if nobody knows it, run `hive trust --allow-env {variable}`")
    try:
        secret = _cached(workspace, ref) if ref.startswith("aws:") else credentials.resolve(workspace, ref)
    except NoSecret as error:
        diagnostic = error.diagnostics[0]
        raise unfit(kid, diagnostic.message, diagnostic.fix or "") from None
    except WrongUsage as error:
        message, fix = f'the key "{kid}" has no secret_ref that works', error.diagnostics[0].fix
        raise WrongUsage.of("HIVE-409", message, file="hive.toml", path="access.keys", fix=fix) from None
    return secret.reveal().encode()


@lru_cache(maxsize=32)
def _cached(workspace: Workspace, ref: str) -> Secret:
    """Return the secret, cached for the life of the process: a new secret comes with a new kid."""
    return credentials.resolve(workspace, ref)


def unfit(kid: str, why: str, fix: str) -> HiveError:
    message = f'the key "{kid}" cannot be used: {why}'
    return HiveError.of("HIVE-417", message, file="hive.toml", path="access.keys", fix=fix, exit_code=3)


def _pem_pair(kid: str, alg: Algorithm, pem: bytes) -> tuple[Any, Any]:
    """Return (private or None, public) of a PEM of the right kind for the algorithm."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

    fix = "put a PEM behind secret_ref: " + ("RSA of 2048 bits or more" if alg == "RS256" else "an EC key on P-256")
    private: Any = None
    public: Any
    try:
        if b"PRIVATE KEY-----" in pem:
            private = load_pem_private_key(pem, password=None)
            public = private.public_key()
        else:
            public = load_pem_public_key(pem)
    except (ValueError, TypeError, AttributeError, UnsupportedAlgorithm):
        raise unfit(kid, "it is no PEM that can be read", fix) from None
    if alg == "RS256":
        fits = isinstance(public, RSAPublicKey) and public.key_size >= MIN_RSA_BITS
    else:
        fits = isinstance(public, EllipticCurvePublicKey) and isinstance(public.curve, SECP256R1)
    if not fits:
        raise unfit(kid, f"it is of the wrong kind for {alg}", fix)
    return private, public
