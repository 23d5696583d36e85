"""The credential store: `.hive/credentials.json`, each value encrypted separately."""

from __future__ import annotations

import json
import os
import re
import secrets as random
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pydantic import ConfigDict

from hive_agents.base import HiveError, did_you_mean
from hive_agents.base.files import NAME_PATTERN, Format, Name, atomic_write, load, locked, read_bytes
from hive_agents.workspace import machine
from hive_agents.workspace.credentials.secret import Secret
from hive_agents.workspace.workspace import Workspace

if TYPE_CHECKING:
    from cryptography.fernet import Fernet

FILE = ".hive/credentials.json"
KEY_VARIABLE = "HIVE_CREDENTIAL_KEY"
SERVICE = "hive-agents"
LONGEST = 64_000
_MAKE_KEY = f"set {KEY_VARIABLE} to 32 random bytes: openssl rand -base64 32 | tr '+/' '-_'"


class _KeyringFile(Format):
    """`key` is the user name of the store's key in the OS keyring; a token encrypts `{"name", "value"}`."""

    model_config = ConfigDict(hide_input_in_errors=True)

    version: int = 1
    key: str
    credentials: dict[Name, str] = {}


class CredentialStore:
    """Secrets of a workspace by name, encrypted with Fernet (AES-128-CBC and HMAC-SHA256).

    The key is `HIVE_CREDENTIAL_KEY`, else one in the OS keyring, created on first use, if the package keyring is
    installed, else one that this machine alone derives; a first secret is encrypted with that only where it is
    `unattended`, for whoever can't set the variable. Only the file's owner can read the file (0600). Names are not
    encrypted: listing them needs no key.
    """

    def __init__(
        self, workspace: Workspace, environment: Mapping[str, str] | None = None, *, unattended: bool = False
    ) -> None:
        self._path = workspace.state / "credentials.json"
        self._environment = os.environ if environment is None else environment
        self._unattended = unattended

    def set(self, name: str, value: str) -> None:
        """Store `value`, replacing an earlier one.

        Raises: HIVE-113 for an invalid name, HIVE-409 for an empty or overlong value, HIVE-421 without a key, with
        another key than that of the other credentials, and for a damaged file.
        """
        if not re.fullmatch(NAME_PATTERN, name):
            fix = 'use lower-case letters, digits, ".", "_" and "-", at most 64'
            raise HiveError.of("HIVE-113", "that can't be the name of a credential", fix=fix, exit_code=2)
        if not value or len(value) > LONGEST:
            why = f"a credential has 1 to {LONGEST} characters"
            raise HiveError.of("HIVE-409", why, fix="give a value on standard input, or at the prompt", exit_code=2)
        with locked(self._path.with_name("credentials.lock"), "writing credentials"):
            file = self._read()
            others = sorted({*file.credentials} - {name})
            fernet = self._fernet(file, create=not others)
            for other in others[:1]:  # or the store would need two keys
                self._decrypted(fernet, other, file.credentials[other], f"`hive credentials delete {other}`")
            token = fernet.encrypt(json.dumps({"name": name, "value": value}).encode()).decode()
            self._write(file, {**file.credentials, name: token})

    def get(self, name: str) -> Secret:
        """Return a secret. Raises: HIVE-421 for an unknown name, without its key, and for a damaged file."""
        file = self._read()
        if name not in file.credentials:
            raise _unknown(name, file.credentials)
        return self._decrypted(self._fernet(file), name, file.credentials[name])

    def delete(self, name: str) -> None:
        """Delete a secret. Raises: HIVE-421 for an unknown name, and for a damaged file."""
        with locked(self._path.with_name("credentials.lock"), "writing credentials"):
            file = self._read()
            if name not in file.credentials:
                raise _unknown(name, file.credentials)
            self._write(file, {other: token for other, token in file.credentials.items() if other != name})

    def names(self) -> list[str]:
        """Return the sorted names of the secrets. Raises: HIVE-421 for a damaged file."""
        return sorted(self._read().credentials)

    def _read(self) -> _KeyringFile:
        try:
            return load(_KeyringFile, read_bytes(self._path), FILE)
        except FileNotFoundError:
            return _KeyringFile(key=random.token_hex(8))
        except (HiveError, OSError):
            # Diagnostics could quote the file's text.
            fix = f"bring {FILE} back from a backup, or delete it and set the credentials again"
            raise fault("the credential store cannot be read", fix) from None

    def _write(self, file: _KeyringFile, credentials: dict[str, str]) -> None:
        text = json.dumps({"version": file.version, "key": file.key, "credentials": credentials}, indent=2)
        atomic_write(self._path, text.encode() + b"\n", mode=0o600)

    def _fernet(self, file: _KeyringFile, *, create: bool = False) -> Fernet:
        from cryptography.fernet import Fernet

        key = self._environment.get(KEY_VARIABLE, "").strip() or _from_keyring(file.key, create)
        if not key and create and not self._unattended:
            raise fault("there is no key for the credential store", _MAKE_KEY)
        key = key or urlsafe_b64encode(machine.bound(f"credentials {file.key}".encode())).decode()
        try:
            return Fernet(key)
        except ValueError:
            raise fault(f"{KEY_VARIABLE} is no key: it has to be 32 bytes in base64", _MAKE_KEY) from None

    def _decrypted(self, fernet: Fernet, name: str, token: str, otherwise: str = "set the credential again") -> Secret:
        from cryptography.fernet import InvalidToken

        try:
            stored = json.loads(fernet.decrypt(token))
        except (InvalidToken, ValueError):
            fix = f"set {KEY_VARIABLE} to the key that it was stored with, or {otherwise}"
            raise fault(f'the credential "{name}" cannot be decrypted: wrong key, or damaged', fix) from None
        if not isinstance(stored, dict) or stored.get("name") != name or not isinstance(stored.get("value"), str):
            raise fault(f'what is stored as "{name}" is another credential', "set the credential again")
        return Secret(stored["value"], f"credential:{name}")


def fault(message: str, fix: str, *, file: str | None = FILE) -> HiveError:
    return HiveError.of("HIVE-421", message, file=file, fix=fix, exit_code=3)


def _unknown(name: str, known: Mapping[str, str]) -> HiveError:
    # An invalid name may be a secret in the wrong place.
    shown = f'credential "{name}"' if re.fullmatch(NAME_PATTERN, name) else "such credential"
    fix = did_you_mean(name, known, "store it with `hive credentials set NAME`")
    return HiveError.of("HIVE-421", f"there is no {shown}", file=FILE, fix=fix, exit_code=2)


def _from_keyring(user: str, create: bool) -> str | None:
    """Return the key in the OS keyring; None without the package, a working backend, or a key."""
    from importlib import import_module

    try:
        keyring = import_module("keyring")
        key: str | None = keyring.get_password(SERVICE, user)
        if key is None and create:
            from cryptography.fernet import Fernet

            key = Fernet.generate_key().decode()
            keyring.set_password(SERVICE, user, key)
    except Exception:  # every backend has its own failures
        return None
    return key
