"""Permissions: verified principals, rules in `access/*.json`, services that fail closed."""

from hive_agents.access.documents import labels_in_file
from hive_agents.access.gate import TurnGate, ViewGate
from hive_agents.access.grants import AccessFile, Grant
from hive_agents.access.keys import SigningKey, keys_of, uses_local_key
from hive_agents.access.labels import AccessLabels
from hive_agents.access.people import asked_by, person, same_person
from hive_agents.access.principal import LOCAL_TENANT, ROLES, Principal, is_name, is_subject
from hive_agents.access.remote import PermissionFault, RemotePermissions
from hive_agents.access.revoked import revoke
from hive_agents.access.rules import AccessRules, Documents, of_tenant
from hive_agents.access.service import LocalPermissions, OpenPermissions, PermissionService, permissions_of
from hive_agents.access.tokens import Token, mint, verify
from hive_agents.access.who import (
    TOKEN,
    Asker,
    Caller,
    Decider,
    known_principal,
    local_user,
    owner,
    require_proof,
    service_principal,
)

__all__ = [
    "LOCAL_TENANT",
    "ROLES",
    "TOKEN",
    "AccessFile",
    "AccessLabels",
    "AccessRules",
    "Asker",
    "Caller",
    "Decider",
    "Documents",
    "Grant",
    "LocalPermissions",
    "OpenPermissions",
    "PermissionFault",
    "PermissionService",
    "Principal",
    "RemotePermissions",
    "SigningKey",
    "Token",
    "TurnGate",
    "ViewGate",
    "asked_by",
    "is_name",
    "is_subject",
    "keys_of",
    "known_principal",
    "labels_in_file",
    "local_user",
    "mint",
    "of_tenant",
    "owner",
    "permissions_of",
    "person",
    "require_proof",
    "revoke",
    "same_person",
    "service_principal",
    "uses_local_key",
    "verify",
]
