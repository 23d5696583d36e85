"""The format of `access/*.json`: tenants, principals and grants."""

from __future__ import annotations

from typing import Annotated, TypeVar

from pydantic import AfterValidator, Field

from hive_agents.access.globs import MAX_GLOB
from hive_agents.access.principal import LOCAL_TENANT, Role, is_name, is_subject
from hive_agents.files import FileFormat, Format

Value = TypeVar("Value")


def _name(value: str) -> str:
    if not is_name(value):
        raise ValueError("a name is printable, at most 256 characters, without commas")
    return value


def _tenant(value: str) -> str:
    if value == LOCAL_TENANT:
        raise ValueError(f'"{LOCAL_TENANT}" means the owner of a workspace in open mode; name the tenant otherwise')
    return _name(value)


def _subject(value: str) -> str:
    if not is_subject(value):
        raise ValueError("use user:ID, group:ID or tenant")
    return value


def _admin(value: str) -> str:
    if value == "tenant":
        raise ValueError("use user:ID or group:ID: a whole tenant can't be its own admins")
    return _subject(value)


def _glob(value: str) -> str:
    if value.startswith(("/", "./", "documents/")):
        raise ValueError("a glob is over doc_ids, which are paths below documents/")
    if {"", ".", ".."} & set(value.split("/")):
        raise ValueError('no doc_id has an empty part, "." or ".." in it, so that the glob matches nothing')
    return value


def _names(value: dict[str, Value]) -> dict[str, Value]:
    for name in value:
        _name(name)
    return value


def _tenants(value: dict[str, Value]) -> dict[str, Value]:
    for name in value:
        _tenant(name)
    return value


Name = Annotated[str, AfterValidator(_name)]
TenantName = Annotated[str, AfterValidator(_tenant)]
Subject = Annotated[str, AfterValidator(_subject)]
Admin = Annotated[str, AfterValidator(_admin)]
Glob = Annotated[str, Field(min_length=1, max_length=MAX_GLOB), AfterValidator(_glob)]


class TenantEntry(Format):
    """`admins` view every document of their tenant."""

    admins: list[Admin] = []


class PrincipalEntry(Format):
    tenant: TenantName
    groups: list[Name] = []
    roles: list[Role] = ["reader"]


class Grant(Format):
    """Adds `view` to every document of the tenant whose doc_id matches; see `globs.translate` for the wildcards."""

    tenant: TenantName
    match: Glob
    view: list[Subject]


class AccessFile(FileFormat):
    """One file of `access/`; the workspace's rules are all its files together."""

    tenants: Annotated[dict[str, TenantEntry], AfterValidator(_tenants)] = {}
    principals: Annotated[dict[str, PrincipalEntry], AfterValidator(_names)] = {}
    grants: list[Grant] = []
