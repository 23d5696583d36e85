"""A folder on this disk, with a pattern, as `hive import` reads it."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from hive_agents.readers import ImportFailure
from hive_agents.sources.contract import (
    DocumentSource,
    MissedItem,
    SeenItems,
    SourceAccess,
    SourceFailure,
    SourceItem,
    SourceOptions,
)
from hive_agents.sync import list_files


class FolderOptions(SourceOptions):
    """`pattern` is a glob below the folder. With `access` "posix" the owner, the group and everybody else who may read
    a file on this machine are its readers, as far as `subjects` maps them; the members of groups are this machine's."""

    pattern: str = ""
    access: str = ""


class FolderSource(DocumentSource[FolderOptions]):
    local = True

    def discover(self, seen: SeenItems) -> Iterator[SourceItem | MissedItem]:
        path = self.place.workspace.root / os.path.expanduser(self.place.settings.url)
        if path.resolve().is_relative_to(self.place.workspace.documents.resolve()):
            raise SourceFailure("the folder is the documents folder, or within it")
        try:
            listing = list_files(Path(os.path.abspath(path)), self.options.pattern, workspace=self.place.workspace.root)
        except ImportFailure as failure:
            raise SourceFailure(str(failure)) from None
        self.ignored = listing.ignored
        for file, why in listing.refused.items():
            yield MissedItem(file, why, alone=True)
        for found in listing.found:
            yield SourceItem(str(found.file), access=self._access(Path(found.shown)), file=found)

    def groups(self) -> Mapping[str, Collection[str]] | None:
        import grp
        import pwd

        if self.options.access != "posix":
            return None
        listed = ((each.gr_name, str(each.gr_gid), each.gr_mem) for each in grp.getgrall())
        return posix_groups(listed, ((each.pw_name, str(each.pw_gid)) for each in pwd.getpwall()))

    def _access(self, path: Path) -> SourceAccess | None:
        if self.options.access != "posix":
            return None
        try:
            status = path.stat()
        except OSError:
            return SourceAccess()
        return posix_access(status.st_mode, _user(status.st_uid), _group(status.st_gid))


def posix_groups(
    groups: Iterable[tuple[str, str, Iterable[str]]], users: Iterable[tuple[str, str]]
) -> dict[str, set[str]]:
    """Return the members of each group, of (name, number, users) and of users with the number of their first group.

    >>> found = posix_groups([("staff", "50", ["dana"]), ("qa", "51", [])], [("lee", "50"), ("max", "9")])
    >>> found == {"staff": {"dana", "lee"}, "qa": set()}
    True
    """
    members: dict[str, set[str]] = {}
    names: dict[str, list[str]] = {}
    for name, number, listed in groups:
        members.setdefault(name, set()).update(listed)
        names.setdefault(number, []).append(name)
    for user, number in users:
        for name in names.get(number, ()):
            members[name].add(user)
    return members


def posix_access(mode: int, user: str, group: str) -> SourceAccess:
    """Return who may read a file by its mode, owner and group.

    >>> sorted(posix_access(0o640, "dana", "staff").subjects)
    ['group:staff', 'user:dana']
    """
    readers = ((0o400, f"user:{user}"), (0o040, f"group:{group}"), (0o004, "everyone"))
    return SourceAccess(frozenset(name for bit, name in readers if mode & bit))


def _user(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _group(gid: int) -> str:
    import grp

    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)
