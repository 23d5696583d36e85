"""A folder of a server that is reached by sftp; a host whose key isn't known is refused."""

from __future__ import annotations

import io
import os
import stat
import time
from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal
from urllib.parse import unquote, urlsplit

from hive_agents.base.files import AnyCase
from hive_agents.readers import MAX_BYTES
from hive_agents.sources.contract import (
    Denied,
    DocumentSource,
    MissedItem,
    SeenItems,
    SourceAccess,
    SourceFailure,
    SourceItem,
    SourceOptions,
    SourcePlace,
)
from hive_agents.sources.from_folder import posix_access, posix_groups

_SECONDS = 30
_SETTLED = 3.0
_USERS, _GROUPS = "/etc/passwd", "/etc/group"
_LONGEST = 10_000_000
_MOST_FOLDERS, _MOST_ENTRIES, _DEEPEST = 100_000, 200_000, 200


class SftpOptions(SourceOptions):
    """`known_hosts` is a file of keys of hosts, by default the user's own. With `access` "posix" modes say who reads a
    file, as `user:UID`, `group:GID` and everyone; the members of groups are the server's, where it lists them."""

    known_hosts: str = "~/.ssh/known_hosts"
    access: Annotated[Literal["", "posix"], AnyCase] = ""


def _key(text: str) -> Any:
    """Return a private key. Raises: SSHException where it is none that is known, or has a passphrase."""
    import paramiko

    for kind in (paramiko.Ed25519Key, paramiko.ECDSAKey, paramiko.RSAKey):
        try:
            return kind.from_private_key(io.StringIO(text))
        except (paramiko.SSHException, ValueError):
            continue
    raise paramiko.SSHException("the secret is no private key without a passphrase")


class SftpSource(DocumentSource[SftpOptions]):
    """The url is `sftp://user@host:port/folder`, the secret a password, or a private key as text."""

    def __init__(self, place: SourcePlace, options: SftpOptions) -> None:
        super().__init__(place, options)
        import paramiko

        parts = urlsplit(place.settings.url)
        if parts.scheme != "sftp" or not parts.hostname or not parts.username:
            raise SourceFailure("write its url as sftp://user@host/folder")
        self._root = PurePosixPath(unquote(parts.path) or ".")
        self._client = paramiko.SSHClient()
        known = os.path.expanduser(options.known_hosts)
        try:
            if os.path.exists(known):
                self._client.load_host_keys(known)
            self._client.set_missing_host_key_policy(paramiko.RejectPolicy())
            secret = place.secret.reveal() if place.secret is not None else None
            login: dict[str, Any] = {}
            if secret is not None and secret.startswith("-----BEGIN"):
                login["pkey"] = _key(secret)
            elif secret is not None:
                login["password"] = secret
            self._client.connect(
                parts.hostname,
                parts.port or 22,
                unquote(parts.username),
                timeout=_SECONDS,
                banner_timeout=_SECONDS,
                auth_timeout=_SECONDS,
                allow_agent=secret is None,
                look_for_keys=secret is None,
                **login,
            )
            self._sftp = self._client.open_sftp()
            channel = self._sftp.get_channel()
            if channel is not None:
                channel.settimeout(_SECONDS)
        except (paramiko.SSHException, OSError, EOFError, ValueError) as error:
            self._client.close()
            raise SourceFailure(f"{type(error).__name__}: {error}") from None

    def discover(self, seen: SeenItems) -> Iterator[SourceItem | MissedItem]:
        waiting = [(PurePosixPath(), SourceAccess(frozenset({"everyone"})))]
        for number, (folder, access) in enumerate(waiting):
            if number >= _MOST_FOLDERS or len(folder.parts) > _DEEPEST:
                yield MissedItem(str(folder), "its folders have no end")
                return
            yield from self._in(folder, access, waiting)

    def _in(
        self, folder: PurePosixPath, entering: SourceAccess, waiting: list[tuple[PurePosixPath, SourceAccess]]
    ) -> Iterator[SourceItem | MissedItem]:
        """Yield the items of a folder, which some may enter; its own folders wait."""
        try:
            entries = sorted(self._asked(self._entries_of, folder), key=lambda entry: entry.filename)
        except Denied as denied:
            if folder == PurePosixPath():
                raise
            yield MissedItem(str(folder), str(denied), denied=True, alone=True)
            return
        for entry in entries:
            if "/" in entry.filename:
                self.ignored["outside of the folder"] = self.ignored.get("outside of the folder", 0) + 1
                continue
            path, mode = folder / entry.filename, entry.st_mode or 0
            if entry.filename.startswith(".") or stat.S_ISLNK(mode):
                why = "hidden" if entry.filename.startswith(".") else "links"
                self.ignored[why] = self.ignored.get(why, 0) + 1
            elif stat.S_ISDIR(mode):
                waiting.append((path, self._access(entry).within(entering)))
            elif stat.S_ISREG(mode):
                # Times are in seconds: what changed just now may change again without another one.
                recent = abs(time.time() - (entry.st_mtime or 0)) < _SETTLED
                revision = "" if recent else f"{entry.st_mtime}-{entry.st_size}"
                access = self._access(entry).within(entering) if self.options.access else None
                yield SourceItem(str(path), revision, entry.st_size or 0, access)

    def _entries_of(self, path: str) -> list[Any]:
        entries = list(islice(self._sftp.listdir_iter(path), _MOST_ENTRIES + 1))
        if len(entries) > _MOST_ENTRIES:
            raise SourceFailure(f"a folder lists more than {_MOST_ENTRIES:,} files")
        return entries

    def _access(self, entry: Any) -> SourceAccess:
        return posix_access(entry.st_mode or 0, str(entry.st_uid), str(entry.st_gid))

    def groups(self) -> Mapping[str, Collection[str]] | None:
        if not self.options.access:
            return None
        users, groups = self._entries(_USERS), self._entries(_GROUPS)
        if users is None or groups is None:  # a server that shows its folders alone
            return None
        ids = {name: uid for name, _, uid, *_ in users}
        listed = ((gid, gid, [ids[one] for one in names.split(",") if one in ids]) for _, _, gid, names, *_ in groups)
        return posix_groups(listed, ((uid, gid) for _, _, uid, gid, *_ in users))

    def _entries(self, path: str) -> list[list[str]] | None:
        """Return the fields of each line of a list that the server shows, which name, password and number begin."""

        def read(path: str) -> bytes | None:
            try:
                with self._sftp.open(path, "rb") as file:
                    return bytes(file.read(_LONGEST))
            except (FileNotFoundError, PermissionError):
                return None

        content = self._asked(read, PurePosixPath(path))
        lines = content.decode("utf-8", "replace").splitlines() if content is not None else []
        entries = [line.split(":") for line in lines]
        return None if content is None else [each for each in entries if len(each) > 3 and each[2].isdigit()]

    def fetch(self, item: SourceItem) -> bytes:
        def read(path: str) -> bytes:
            with self._sftp.open(path, "rb") as file:
                file.prefetch(item.size)
                content = bytes(file.read(MAX_BYTES + 1))
                if len(content) > MAX_BYTES:
                    raise SourceFailure(f"larger than {MAX_BYTES // 1_000_000} MB")
                return content

        return bytes(self._asked(read, PurePosixPath(item.key)))

    def close(self) -> None:
        self._client.close()

    def _asked(self, ask: Any, path: PurePosixPath) -> Any:
        import paramiko

        try:
            return ask(str(self._root / path))
        except PermissionError as error:
            raise Denied(error.strerror or "the server denies it") from None
        except (paramiko.SSHException, OSError, EOFError) as error:
            raise SourceFailure(f"{type(error).__name__}: {error}") from None
