"""Permissions: verified principals, rules in `access/*.json`, services that fail closed."""

from hive_agents.access.documents import labels_in_file
from hive_agents.access.grants import AccessFile, Grant
from hive_agents.access.identity import Identity, known_principal, owner, principal_for
from hive_agents.access.keys import SigningKey, keys_of, uses_local_key
from hive_agents.access.labels import AccessLabels
from hive_agents.access.principal import ROLES, Principal, is_name, is_subject
from hive_agents.access.remote import PermissionFault, RemotePermissions
from hive_agents.access.revoked import revoke
from hive_agents.access.rules import AccessRules, Documents, of_tenant
from hive_agents.access.service import LocalPermissions, OpenPermissions, PermissionService, permissions_of
from hive_agents.access.tokens import Token, mint, verify

__all__ = [
    "ROLES",
    "AccessFile",
    "AccessLabels",
    "AccessRules",
    "Documents",
    "Grant",
    "Identity",
    "LocalPermissions",
    "OpenPermissions",
    "PermissionFault",
    "PermissionService",
    "Principal",
    "RemotePermissions",
    "SigningKey",
    "Token",
    "is_name",
    "is_subject",
    "keys_of",
    "known_principal",
    "labels_in_file",
    "mint",
    "of_tenant",
    "owner",
    "permissions_of",
    "principal_for",
    "revoke",
    "uses_local_key",
    "verify",
]
