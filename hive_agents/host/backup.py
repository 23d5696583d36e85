"""Back up a workspace to one archive, while other processes use it.

Each part is a consistent snapshot. Their order is one that a crash may leave, too, and that resuming can deal with:
checkpoints, records, the head of the audit log, then files, the log among them.
"""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import stat
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from hive_agents.base import HiveError, one_line
from hive_agents.base.files import disk_errors, opened, unlinked
from hive_agents.store import Progress, connected, database_errors
from hive_agents.workspace import RemoteDatabase
from hive_agents.workspace.credentials import login_options, resolve

if TYPE_CHECKING:
    from hive_agents.workspace import Workspace

FOLDER = "backups"
SUFFIX = ".tar.gz"
SUFFIXES = (SUFFIX, ".tgz")
DATABASES = ("checkpoints.db", "hive.db")
"""In the order in which they are copied."""
DUMP = "records.dump"
"""Of records on a server, for `pg_restore --no-owner`."""
_FIRST = "audit.head"
LOCAL_KEY = "local.key"
"""Signs tokens on this machine; a new one is made where it is missing."""
LEFT_OUT = ("holders", "serving", FOLDER)
"""Files of live processes, and earlier backups."""
_TEMPORARY = (".lock", ".holder", ".tmp")


@dataclass(frozen=True)
class Backup:
    """`files` counts the databases, too; `left_out` are files that have to be kept or made elsewhere."""

    path: Path
    bytes: int
    files: int
    left_out: tuple[str, ...]


def back_up(workspace: Workspace, to: Path | None = None, *, progress: Progress) -> Backup:
    """Write a backup to a new file, or into an existing folder; by default into `.hive/backups/`.

    `tar -xzf FILE -C FOLDER`, then `hive trust -w FOLDER`, makes a workspace of it.

    Raises: HIVE-409 (exit code 2) for an existing file or one inside the workspace, for a name that is neither a
    folder's nor an archive's, and where `pg_dump` is missing for records on a server; HIVE-402 while the index is
    written; HIVE-403, HIVE-407 for what can't be read.
    """
    path, records = _target(workspace, to), workspace.records
    with workspace.exclusive("making a backup"), _beside(path) as folder:
        head = workspace.state / _FIRST
        copies: dict[str, Path | None] = {}
        if isinstance(records, RemoteDatabase):
            if head.exists():  # before the dump, which has the log: a head may lag behind, and never lead
                head = copies[_FIRST] = Path(shutil.copy(head, folder / _FIRST))
            copies[DUMP] = _dumped(workspace, records, folder / DUMP)
        copies |= {name: _copied(workspace.state / name, folder / name) for name in DATABASES}
        paths = [*([] if _FIRST in copies else [head]), *_files(workspace)]
        whole = folder / path.name
        with _private(whole) as stream, tarfile.open(whole, "w:gz", fileobj=stream, compresslevel=6) as archive:
            for name, copy in copies.items():
                if copy is not None:
                    archive.add(copy, f".hive/{name}", filter=_owners)
            for n, file in enumerate(paths, start=1):
                _add(archive, workspace, file)
                progress("packing", n, len(paths))
            files = sum(not member.isdir() for member in archive.getmembers())
        _place(whole, path)
        size = path.stat().st_size
    left_out = (f".hive/{LOCAL_KEY}",) if (workspace.state / LOCAL_KEY).exists() else ()
    return Backup(path, size, files, left_out)


def _dumped(workspace: Workspace, records: RemoteDatabase, target: Path) -> Path:
    """Return a dump of the records' schema, in pg_dump's own format, which is one snapshot.

    Raises: HIVE-409 without pg_dump, for one older than its server, and where the server has to prove itself first.
    """
    with connected(records):  # trusted, within reach, and nobody else's
        pass
    program = shutil.which("pg_dump")
    by_hand = f"dump them by yourself: pg_dump --schema {records.schema}; then copy the files (docs/scale.md)"
    if program is None:
        message = f"the records are in {records.name}, and there is no pg_dump here"
        fix = f"install PostgreSQL's client programs, or {by_hand}"
        raise HiveError.of("HIVE-409", message, fix=fix, exit_code=2)
    if login_options(records.url):  # an older pg_dump would send its password to whoever answers
        fix = f"add sslmode=verify-full to the url; or {by_hand}"
        message = f"{records.name} doesn't prove which server it is"
        raise HiveError.of("HIVE-409", message, fix=fix, exit_code=2)
    reference = workspace.settings.storage.password_ref
    secret = {"PGPASSWORD": resolve(workspace, reference).reveal()} if reference else {}
    words = [program, "--format=custom", "--no-owner", f"--schema={records.schema}", f"--file={target}", records.url]
    ran = subprocess.run(words, env=os.environ | secret, capture_output=True, text=True, errors="replace", check=False)
    if ran.returncode:
        message = f"pg_dump failed: {one_line(ran.stderr, 300)}"
        raise HiveError.of("HIVE-409", message, file=records.name, fix=f"mend that, or {by_hand}", exit_code=2)
    return target


def _target(workspace: Workspace, to: Path | None) -> Path:
    name = f"{workspace.root.name}-{datetime.now(UTC):%Y%m%dT%H%M%S}{SUFFIX}"
    if to is None:
        return workspace.state_folder(FOLDER) / name
    path = to.resolve() / name if to.is_dir() else to.parent.resolve() / to.name
    if os.path.lexists(path):
        raise _taken(path)
    if not path.name.endswith(SUFFIXES):  # often a folder on a disk that isn't mounted
        message = f"{to} is no folder that is there, and no archive's name"
        fix = f"make the folder first, or name a file that ends in {SUFFIX}"
        raise HiveError.of("HIVE-409", message, file=path.name, fix=fix, exit_code=2)
    if path.parent.is_relative_to(workspace.root):
        message = f"{path.name} would be a part of what is backed up"
        fix = "name a file outside of the workspace, or none: .hive/backups/ is left out"
        raise HiveError.of("HIVE-409", message, file=workspace.relative(path), fix=fix, exit_code=2)
    return path


def _taken(path: Path) -> HiveError:
    fix = "name another file; backups are never written over"
    return HiveError.of("HIVE-409", f"{path.name} is there already", file=path.name, fix=fix, exit_code=2)


@contextmanager
def _beside(path: Path) -> Iterator[Path]:
    """Yield a temporary folder on the same disk, from which the finished backup can be moved atomically."""
    with disk_errors(path), tempfile.TemporaryDirectory(prefix=".hive-backup-", dir=path.parent) as made:
        yield Path(made)


def _private(path: Path) -> BinaryIO:
    """Return a new file that only its owner can read: it holds every document's text."""
    return os.fdopen(opened(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb")


def _place(whole: Path, path: Path) -> None:
    """Give a backup its name, without overwriting a file that was made meanwhile."""
    try:
        try:
            os.link(whole, path)
        except FileExistsError:
            raise
        except OSError:  # no hard links, as on many removable or network disks: reserve the name first
            _private(path).close()
            os.replace(whole, path)
    except FileExistsError:
        raise _taken(path) from None


def _owners(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.mode = 0o600
    return member


def _copied(source: Path, target: Path) -> Path | None:
    """Return a consistent copy of the database, even while others write to it; None where there is none."""
    if not unlinked(source).exists():
        return None
    with database_errors(source), closing(sqlite3.connect(source)) as here, closing(sqlite3.connect(target)) as there:
        try:
            here.backup(there)
        except sqlite3.Error as error:
            if error.sqlite_errorname not in ("SQLITE_FULL", "SQLITE_IOERR_WRITE"):
                raise
            # Only the copy is written to: it is the backup's disk that fails, not the workspace's.
            code = errno.ENOSPC if error.sqlite_errorname == "SQLITE_FULL" else errno.EIO
            raise OSError(code, os.strerror(code)) from None
    return target


def _files(workspace: Workspace) -> Iterator[Path]:
    """Yield all paths but the databases and what is left out, folders before their content."""

    def refuse(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):  # deleted meanwhile
            raise _unreadable(Path(error.filename).relative_to(workspace.root).as_posix(), error)

    for folder, folders, names in os.walk(workspace.root, onerror=refuse):
        place = Path(folder)
        state = place == workspace.state
        folders[:] = sorted(name for name in folders if not (state and name in LEFT_OUT))
        links = [name for name in folders if (place / name).is_symlink()]
        if place != workspace.root:
            yield place
        for name in sorted([*names, *links]):
            made_anew = name.startswith(DATABASES) or name in (*LEFT_OUT, LOCAL_KEY, _FIRST, DUMP)
            excluded = made_anew or name.endswith(_TEMPORARY)
            if not (state and excluded):
                yield place / name


def _unreadable(name: str, error: OSError) -> HiveError:
    message = f"{name} cannot be read: {error.strerror or error}"
    return HiveError.of("HIVE-403", message, file=name, fix="make it readable, or remove it")


def _add(archive: tarfile.TarFile, workspace: Workspace, path: Path) -> None:
    """Pack a file, folder or link; skip one that was deleted meanwhile, pipes and sockets."""
    name = path.relative_to(workspace.root).as_posix()
    try:
        member = archive.gettarinfo(path, name)
        if member is not None and (member.isdir() or member.issym()):  # None is a socket
            file = None
        elif stat.S_ISREG(path.lstat().st_mode):
            file = os.fdopen(opened(path, os.O_RDONLY), "rb")
        else:
            return
    except FileNotFoundError:
        return
    except OSError as error:
        raise _unreadable(name, error) from None
    with file or nullcontext():
        if file is not None:
            member.type, member.linkname = tarfile.REGTYPE, ""  # hard links are packed as files
            member.size = os.fstat(file.fileno()).st_size
        archive.addfile(member, file)
