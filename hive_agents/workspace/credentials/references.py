"""References to secrets: `credential:NAME`, `env:NAME`, `keyring:SERVICE/NAME`, `aws:SECRET_ID`."""

from __future__ import annotations

import os
from collections.abc import Mapping

from hive_agents.base import HiveError
from hive_agents.workspace.credentials.secret import Secret
from hive_agents.workspace.credentials.store import CredentialStore, fault
from hive_agents.workspace.workspace import Workspace

SCHEMES = ("credential", "env", "keyring", "aws")
FORMS = "credential:NAME, env:NAME, keyring:SERVICE/NAME or aws:SECRET_ID"


def is_reference(text: str) -> bool:
    """Return whether a text has the form of a reference.

    >>> is_reference("credential:github"), is_reference("keyring:x"), is_reference("hunter2")
    (True, False, False)
    """
    scheme, _, name = text.partition(":")
    return scheme in SCHEMES and bool(name) and (scheme != "keyring" or "/" in name)


def resolve(workspace: Workspace, reference: str, environment: Mapping[str, str] | None = None) -> Secret:
    """Return the secret that `reference` names; `environment` replaces `os.environ`.

    Raises: HIVE-409 for what is no reference, HIVE-421 for a missing secret or a store that can't be opened, HIVE-411
    where the package keyring is missing. No message has a text that is no reference: it may be a secret.
    """
    if not is_reference(reference):
        raise HiveError.of("HIVE-409", "that is no reference to a secret", fix=f"use {FORMS}", exit_code=2)
    environment = os.environ if environment is None else environment
    scheme, _, name = reference.partition(":")
    if scheme == "credential":
        return CredentialStore(workspace, environment).get(name)
    if scheme == "env":
        value = environment.get(name)
    else:
        value = _from_keyring(name) if scheme == "keyring" else _from_aws(name)
    if not value:
        raise fault(f"there is nothing behind {reference}", "set it, or name another reference", file=None)
    return Secret(value, reference)


def _from_keyring(name: str) -> str | None:
    from importlib import import_module

    try:
        keyring = import_module("keyring")
    except ImportError:
        message, fix = "the package keyring is not installed", "pip install keyring, or use env:NAME"
        raise HiveError.of("HIVE-411", message, fix=fix) from None
    service, _, user = name.rpartition("/")
    try:
        value: str | None = keyring.get_password(service, user)
    except Exception:  # every backend has its own failures
        return None
    return value


def _from_aws(name: str) -> str:
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError

    bounds = Config(connect_timeout=2, read_timeout=2, retries={"total_max_attempts": 2})
    try:
        answer = boto3.client("secretsmanager", config=bounds).get_secret_value(SecretId=name)
    except (BotoCoreError, ClientError) as error:
        why = f"AWS Secrets Manager did not give aws:{name} ({type(error).__name__})"
        raise fault(why, "check the secret's name, region and permissions", file=None) from None
    return str(answer.get("SecretString", ""))
