"""A folder on this disk, with a pattern, as `hive import` reads it."""

from __future__ import annotations

import errno
import os
import stat
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
from hive_agents.sync import SourceFile, list_files

_DENIED = os.strerror(errno.EACCES)


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
            yield MissedItem(file, why, denied=why.endswith(_DENIED), alone=True)
        self._folders: dict[Path, SourceAccess] = {}
        for found in listing.found:
            if os.access(found.shown, os.R_OK):
                yield SourceItem(str(found.file), access=self._access(found), file=found)
            else:
                yield MissedItem(str(found.file), f"cannot be read: {_DENIED}", denied=True, alone=True)

    def groups(self) -> Mapping[str, Collection[str]] | None:
        import grp
        import pwd

        if self.options.access != "posix":
            return None
        listed = ((each.gr_name, str(each.gr_gid), each.gr_mem) for each in grp.getgrall())
        return posix_groups(listed, ((each.pw_name, str(each.pw_gid)) for each in pwd.getpwall()))

    def _access(self, found: SourceFile) -> SourceAccess | None:
        """Return who may read a file and enter the folders above it, up to the source's own."""
        if self.options.access != "posix":
            return None
        access = _access_of(Path(found.shown))
        for folder in Path(found.shown).parents[: len(found.file.parts) - 1]:
            if folder not in self._folders:
                self._folders[folder] = _access_of(folder)
            access = access.within(self._folders[folder])
        return access


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
    """Return who may read a file by its mode, owner and group, or enter a folder.

    >>> sorted(posix_access(0o100640, "dana", "staff").subjects), posix_access(0o040700, "dana", "staff").subjects
    (['group:staff', 'user:dana'], frozenset({'user:dana'}))
    """
    bit = 0o001 if stat.S_ISDIR(mode) else 0o004
    # What its group may not, "everyone" may not either: a mode of 604 denies it to the group's members.
    readers = ((bit << 6, f"user:{user}"), (bit << 3, f"group:{group}"), (bit << 3 | bit, "everyone"))
    return SourceAccess(frozenset(name for needed, name in readers if mode & needed == needed))


def _access_of(path: Path) -> SourceAccess:
    try:
        status = path.stat()
    except OSError:
        return SourceAccess()
    return posix_access(status.st_mode, _user(status.st_uid), _group(status.st_gid))


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
