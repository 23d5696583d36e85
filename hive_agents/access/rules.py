"""The rules of `access/*.json`: tenants, principals and grants, and their application to documents."""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, TypeVar

from pydantic import AfterValidator, Field

from hive_agents.access.globs import Globs
from hive_agents.access.principal import (
    LOCAL_TENANT,
    AccessLabels,
    Documents,
    Principal,
    PrincipalRole,
    is_name,
    is_subject,
)
from hive_agents.base import Diagnostic, HiveError, NotFound
from hive_agents.base.files import AnyCase, FileFormat, Format, guarded, load
from hive_agents.workspace import Workspace

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


T = TypeVar("T")
MAX_GLOB = 500


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


def _names(value: dict[str, T]) -> dict[str, T]:
    for name in value:
        _name(name)
    return value


def _tenants(value: dict[str, T]) -> dict[str, T]:
    for name in value:
        _tenant(name)
    return value


PrintableName = Annotated[str, AfterValidator(_name)]
TenantName = Annotated[str, AfterValidator(_tenant)]
Subject = Annotated[str, AfterValidator(_subject)]
Admin = Annotated[str, AfterValidator(_admin)]
Glob = Annotated[str, Field(min_length=1, max_length=MAX_GLOB), AfterValidator(_glob)]


class PermissionFault(Exception):
    """The reason why a permission service's answer counts as a denial."""


class TenantEntry(Format):
    """`admins` view every document of their tenant."""

    admins: list[Admin] = []


class PrincipalEntry(Format):
    tenant: TenantName
    groups: list[PrintableName] = []
    roles: list[Annotated[PrincipalRole, AnyCase]] = ["reader"]


class Grant(Format):
    """Adds `view` to every document of the tenant whose doc_id matches; see `globs.translate` for the wildcards."""

    tenant: TenantName
    match: Glob
    view: list[Subject]


class GroupEntry(Format):
    """Members of a group by user: they view as if a document named each of them. It gives nothing else, no role and no
    administrator's view."""

    tenant: TenantName
    members: list[PrintableName] = []


class AccessFile(FileFormat):
    """One file of `access/`; the workspace's rules are all its files together."""

    tenants: Annotated[dict[str, TenantEntry], AfterValidator(_tenants)] = {}
    principals: Annotated[dict[str, PrincipalEntry], AfterValidator(_names)] = {}
    groups: Annotated[dict[str, GroupEntry], AfterValidator(_names)] = {}
    grants: list[Grant] = []


FOLDER = "access"
_SETTLED = 2.0
_MOST_READ = 16
_Identity = tuple[tuple[str, tuple[int, ...]], ...]
_read: dict[str, tuple[_Identity, AccessRules]] = {}
"""The rules in each folder, with the identity of its files."""
_NOBODY: frozenset[str] = frozenset()


@dataclass(frozen=True)
class _File:
    """`data` is None where the file can't be read, and `reason` says why."""

    name: str
    data: bytes | None
    reason: str = ""


@dataclass(frozen=True, eq=False)
class AccessRules:
    """The rules of a workspace at one moment; a fault in any file denies everything.

    `digest` changes with every byte of the files. `admins` maps a tenant to subjects, `groups` a tenant and user to the
    groups that name them as a member.
    """

    principals: Mapping[str, Principal]
    admins: Mapping[str, frozenset[str]]
    grants: tuple[Grant, ...]
    digest: str
    faults: tuple[Diagnostic, ...] = ()
    groups: Mapping[tuple[str, str], frozenset[str]] = field(default_factory=dict)

    @classmethod
    def changed(cls, workspace: Workspace, file: str, text: str) -> AccessRules:
        """Return the rules as they would be with this text in one of the files."""
        kept = [one for one in _files(workspace) if one.name != file]
        return _merged(tuple(sorted([*kept, _File(file, text.encode())], key=lambda one: one.name)))

    @classmethod
    def load(cls, workspace: Workspace) -> AccessRules:
        """Return the rules in the files, which are read again once one of them changed. Never raises: errors are in
        `faults`."""
        folder = f"{workspace.root}/{FOLDER}"  # a joined path takes longer than the rest
        known = _read.get(folder)
        if known is not None and _is_unchanged(known[0]):
            return known[1]
        before = _identity(folder)
        rules = _merged(tuple(_files(workspace)))
        if before is not None and before == _identity(folder):
            _read[folder] = (before, rules)
            if len(_read) > _MOST_READ:
                _read.pop(next(iter(_read)))
        return rules

    def principal(self, user: str) -> Principal | None:
        return self.principals.get(user)

    def tenant_of(self, user: str) -> str:
        """Return the tenant of a person; of one whom the files don't name, such as who left, the only one of the files.

        Raises: HIVE-409 where they have several or none, or the faults of the files; exit code 2.
        """
        if self.faults:
            raise HiveError(self.faults, exit_code=2)
        if (principal := self.principal(user)) is not None:
            return principal.tenant
        tenants = sorted({*self.admins, *(one.tenant for one in self.principals.values())})
        if len(tenants) != 1:
            known = f"one of {', '.join(tenants[:20])}" if tenants else "that of `hive token list`"
            why = f'no file names the tenant of "{user}"'
            raise NotFound.of("HIVE-409", why, file="access", fix=f"name the tenant, {known}")
        return tenants[0]

    def subjects(self, principal: Principal) -> frozenset[str]:
        """Return the subjects by which the principal views: their own, and the groups that name them."""
        return principal.subjects | self.groups.get((principal.tenant, principal.user), _NOBODY)

    def administers(self, principal: Principal) -> bool:
        """Return whether the principal views every document of their tenant."""
        return not principal.subjects.isdisjoint(self.admins.get(principal.tenant, _NOBODY))

    def may_view(self, principal: Principal, doc_id: str, labels: AccessLabels) -> bool:
        """Return whether the principal may view the document, as `visible` for one."""
        return bool(self.visible(principal, [(doc_id, labels)])[0])

    def visible(self, principal: Principal, documents: Documents) -> NDArray[np.bool_]:
        """Return which of `documents` (doc_id, labels) the principal may view, in their order, shape (n,)."""
        import numpy as np

        if self.faults:
            return np.zeros(len(documents), np.bool_)
        granted = self._granted(principal.tenant, self.subjects(principal))
        # Cached by identity, which is fast: equal labels from `AccessLabels.of` are one object.
        # The labels are kept, so that no other object can reuse an id.
        decided: dict[int, tuple[bool | None, AccessLabels]] = {}
        allowed = []
        for doc_id, labels in documents:
            cached = decided.get(id(labels))
            if cached is None:
                cached = decided[id(labels)] = (self._by_labels(principal, labels), labels)
            verdict = cached[0]
            allowed.append(granted.match(doc_id) if verdict is None and granted is not None else bool(verdict))
        return np.array(allowed, np.bool_)

    def readers(self, doc_id: str, labels: AccessLabels) -> frozenset[tuple[str, str]]:
        """Return (tenant, subject) of all who may view a document, consistent with `visible`."""
        if self.faults:
            return frozenset()
        admins = {(tenant, admin) for tenant in labels.tenants for admin in self.admins.get(tenant, _NOBODY)}
        readers: set[tuple[str, str]] = set()
        if not labels.fault:
            readers |= {(tenant, subject) for tenant in labels.tenants for subject in labels.view}
            for grant in self.grants:
                if grant.tenant in labels.tenants and Globs([grant.match]).match(doc_id):
                    readers |= {(grant.tenant, subject) for subject in grant.view}
        members = {
            (tenant, f"user:{user}")
            for (tenant, user), groups in self.groups.items()
            if any((tenant, group) in readers for group in groups)
        }
        return frozenset(admins | readers | members)

    def sharing(self, doc_ids: Iterable[str]) -> str:
        """Return the tenant whose grants match each of these documents; "" where there is none, or not one alone."""
        found = {frozenset(grant.tenant for grant in self.grants if Globs([grant.match]).match(one)) for one in doc_ids}
        (tenant, *more) = {one for tenants in found for one in tenants} or {""}
        return "" if more or frozenset() in found else tenant

    def of_tenant(self, principal: Principal, documents: Documents) -> NDArray[np.bool_]:
        """Return which of `documents` belong to the principal's tenant, whoever may view them, shape (n,)."""
        import numpy as np

        if self.faults:
            return np.zeros(len(documents), np.bool_)
        return of_tenant(principal, documents)

    def unseen(self, documents: Documents) -> NDArray[np.bool_]:
        """Return which of `documents` nobody but a tenant's admins can see, shape (n,); with faults all of them."""
        import numpy as np

        if self.faults:
            return np.ones(len(documents), np.bool_)
        granted = {grant.tenant: self._granted(grant.tenant) for grant in self.grants}

        def seen(doc_id: str, labels: AccessLabels) -> bool:
            if labels.fault:
                return False
            opened = (granted.get(tenant) for tenant in labels.tenants)
            return bool(labels.tenants and labels.view) or any(globs and globs.match(doc_id) for globs in opened)

        return np.array([not seen(doc_id, labels) for doc_id, labels in documents], np.bool_)

    def _by_labels(self, principal: Principal, labels: AccessLabels) -> bool | None:
        """Return the decision by labels alone; None where a grant may still allow it."""
        if principal.tenant not in labels.tenants:
            return False
        if self.administers(principal):
            return True
        if labels.fault:
            return False
        return True if self.subjects(principal) & labels.view else None

    def _granted(self, tenant: str, subjects: frozenset[str] | None = None) -> Globs | None:
        """Return the globs that the tenant's grants open to one of `subjects`, or to anybody; None where there are
        none."""
        globs = frozenset(
            grant.match
            for grant in self.grants
            if grant.tenant == tenant and (grant.view if subjects is None else not subjects.isdisjoint(grant.view))
        )
        return _compiled(globs) if globs else None


def known_principal(workspace: Workspace, user: str) -> Principal:
    """Return the principal of that name in `access/*.json`. Raises: HIVE-409, or the faults of the files; exit code
    2."""
    rules = AccessRules.load(workspace)
    if rules.faults:
        raise HiveError(rules.faults, exit_code=2)
    principal = rules.principal(user)
    if principal is None:
        fix = known_names(rules)
        raise NotFound.of("HIVE-409", f'there is no principal "{user}"', file="access", fix=fix)
    return principal


def known_names(rules: AccessRules) -> str:
    """Return a sentence with the names of the principals."""
    names = sorted(rules.principals)
    if not names:
        return "access/*.json names no principals: add some"
    shown = ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
    return f"The principals are {shown}"


def is_open(workspace: Workspace) -> bool:
    """Return whether the workspace's owner reads everything: in mode "open", which may end once people are named.

    Unreadable files end it, too, since they may name people.
    """
    settings = workspace.settings.access
    if settings.mode != "open" or not settings.until_named:
        return settings.mode == "open"
    rules = AccessRules.load(workspace)
    return not (rules.principals or rules.faults)


def of_tenant(principal: Principal, documents: Documents) -> NDArray[np.bool_]:
    """Return which of `documents` carry the principal's tenant, shape (n,)."""
    import numpy as np

    return np.fromiter((principal.tenant in labels.tenants for _, labels in documents), np.bool_, len(documents))


_compiled = lru_cache(maxsize=256)(Globs)


def _identity(folder: str) -> _Identity | None:
    """Return what changes with the folder and each file in it; None where a change might not show.

    Within `_SETTLED` seconds after a change, another one may leave the same times.
    """
    try:
        paths = [folder, *(f"{folder}/{name}" for name in sorted(os.listdir(folder)))]
        found = [(path, os.lstat(path)) for path in paths]
    except OSError:
        return None
    newest = max(status.st_ctime_ns for _, status in found)
    links = any(stat.S_ISLNK(status.st_mode) for _, status in found)
    if links or newest > time.time_ns() - int(_SETTLED * 1e9):
        return None
    return tuple((path, _marks(status)) for path, status in found)


def _is_unchanged(identity: _Identity) -> bool:
    """Return whether the folder and its files are those of this identity; the folder changes with each new name."""
    try:
        return all(_marks(os.lstat(path)) == marks for path, marks in identity)
    except OSError:
        return False


def _marks(status: os.stat_result) -> tuple[int, ...]:
    return status.st_ino, status.st_size, status.st_mode, status.st_mtime_ns, status.st_ctime_ns


def _files(workspace: Workspace) -> list[_File]:
    """Return each `access/*.json` that isn't hidden, by name."""
    try:
        files = guarded.read_folder(workspace.root / FOLDER, ".json")
    except FileNotFoundError:
        return []
    except guarded.LinkRefused as error:
        return [_File(FOLDER, None, error.diagnostics[0].message)]
    except OSError as error:
        return [_File(FOLDER, None, error.strerror or "unreadable")]
    contents = []
    for name, data in files:
        file = f"{FOLDER}/{name}"
        if isinstance(data, bytes):
            contents.append(_File(file, data))
        elif isinstance(data, HiveError):
            contents.append(_File(file, None, data.diagnostics[0].message))
        else:
            contents.append(_File(file, None, data.strerror or "unreadable"))
    return contents


@lru_cache(maxsize=16)
def _merged(files: tuple[_File, ...]) -> AccessRules:
    faults: list[Diagnostic] = []
    digest = hashlib.sha256()
    principals: dict[str, Principal] = {}
    admins: dict[str, frozenset[str]] = {}
    grants: list[Grant] = []
    members: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    origin: dict[tuple[str, str], str] = {}
    for file in files:
        data = file.data if file.data is not None else b"\0" + file.reason.encode()
        digest.update(f"{file.name}\0{len(data)}\0".encode("utf-8", "surrogateescape") + data)
        if file.data is None:
            fix = "make it readable; until then nobody sees anything"
            message = f"{file.name} cannot be read: {file.reason}"
            faults.append(Diagnostic("HIVE-403", message, file.name, "$", fix))
            continue
        try:
            content = load(AccessFile, file.data, file.name)
        except HiveError as error:
            faults += error.diagnostics
            continue
        kinds = (("tenants", content.tenants), ("principals", content.principals), ("groups", content.groups))
        for kind, names in kinds:
            for name in names:
                first = origin.setdefault((kind, name), file.name)
                if first != file.name:
                    message = f'"{name}" stands in {first} already'
                    faults.append(Diagnostic("HIVE-111", message, file.name, f"{kind}.{name}", "keep one of them"))
        for name, tenant in content.tenants.items():
            admins[name] = frozenset(tenant.admins)
        for name, entry in content.principals.items():
            principals[name] = Principal(entry.tenant, name, frozenset(entry.groups), frozenset(entry.roles))
        for name, group in content.groups.items():
            for user in group.members:
                members[group.tenant, user].add(f"group:{name}")
        grants += content.grants
    if faults:
        return AccessRules(MappingProxyType({}), MappingProxyType({}), (), digest.hexdigest(), tuple(faults))
    groups = MappingProxyType({who: frozenset(names) for who, names in members.items()})
    people, admins_of = MappingProxyType(principals), MappingProxyType(admins)
    return AccessRules(people, admins_of, tuple(grants), digest.hexdigest(), groups=groups)
