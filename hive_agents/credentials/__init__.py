"""Secrets by reference: stored encrypted, resolved on use, never shown."""

from hive_agents.credentials.references import is_reference, resolve
from hive_agents.credentials.secret import HIDDEN, Secret, redacted
from hive_agents.credentials.store import CredentialStore

__all__ = ["HIDDEN", "CredentialStore", "Secret", "is_reference", "redacted", "resolve"]
