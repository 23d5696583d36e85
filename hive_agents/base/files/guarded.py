"""Files below a workspace are opened without following links; all others are opened as they are named.

A workspace may be untrusted: a link in it could redirect reads and writes. The workspace's own folder may be reached by
a link, since the user named it.

Untrusted input is bounded: bytes of a file, depth and size of a value, parts of an archive. Where time and memory can't
be bounded beforehand, as for parsers of foreign formats, `Sandbox` bounds them.
"""

from __future__ import annotations

import errno
import math
import os
import shutil
import stat
import zipfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from hive_agents.base.errors import HiveError

if TYPE_CHECKING:
    from numpy.typing import NDArray


_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_guarded: dict[str, Mapping[str, Path]] = {}

_Place = tuple[str, tuple[str, ...]]
"""A guarded folder, and the path from there to a file as names."""


class LinkRefused(HiveError):
    """A link in place of a workspace's own file or folder."""


def guard(root: Path, lent: Mapping[str, Path] | None = None) -> None:
    """Refuse links below `root` from now on.

    `lent` maps paths to another workspace's, such as {"documents": its documents}, which are opened there.
    """
    _guarded[os.path.realpath(root)] = dict(lent or {})


def release(root: Path) -> None:
    """End the effect of `guard`, for a folder that is about to be deleted."""
    _guarded.pop(os.path.realpath(root), None)


MAX_FILE_BYTES = 256_000_000


def read_bytes(path: Path, most: int = MAX_FILE_BYTES) -> bytes:
    """Return a file's bytes. Raises: OSError, HIVE-114 for a link below a workspace, HIVE-115 for too large a file."""
    try:
        return read_bounded(opened(path, os.O_RDONLY), most)
    except Exceeded as exceeded:
        raise _too_large(path, exceeded) from None


def read_start(path: Path, most: int) -> bytes:
    """Return the first `most` bytes of a file. Raises: as `read_bytes`, without HIVE-115."""
    handle = opened(path, os.O_RDONLY)
    try:
        return _first_bytes(handle, most)
    finally:
        os.close(handle)


def read_folder(path: Path, suffix: str) -> list[tuple[str, bytes | OSError | HiveError]]:
    """Return the visible files of a folder with this suffix, by name: the bytes of each, or its error.

    Raises: as `read_bytes`, where the folder itself can't be read.
    """
    place = _place(path / "_")
    folder = _folder_above(path / "_", place)
    contents: list[tuple[str, bytes | OSError | HiveError]] = []
    try:
        for name in sorted(os.listdir(folder)):
            if name.startswith(".") or not name.endswith(suffix):
                continue
            try:
                contents.append((name, read_bounded(_opened_in(folder, name, os.O_RDONLY, guarded=place is not None))))
            except Exceeded as exceeded:
                contents.append((name, _too_large(path / name, exceeded)))
            except OSError as error:
                contents.append((name, _explained(error, path / name, folder, (*place[1][:-1], name) if place else ())))
    finally:
        os.close(folder)
    return contents


def opened(path: Path, flags: int, mode: int = 0o666) -> int:
    """Return a descriptor of the file, to be closed by the caller. Raises: as `read_bytes`, also for a pipe."""
    place = _place(path)
    if place is None:
        return os.open(path, flags | os.O_CLOEXEC, mode)
    folder = _folder_above(path, place)
    try:
        return _opened_in(folder, place[1][-1], flags, mode)
    except OSError as error:
        raise _explained(error, path, folder, place[1]) from None
    finally:
        os.close(folder)


@contextmanager
def parent_of(path: Path, *, make: int | None = None) -> Iterator[tuple[int, str]]:
    """Yield a descriptor of the file's folder, and the file's name; with `make` missing folders are made, of that mode.

    Raises: as `read_bytes`.
    """
    place = _place(path)
    folder = _folder_above(path, place, make)
    try:
        yield folder, place[1][-1] if place is not None and place[1] else path.name
    finally:
        os.close(folder)


def _folder_above(path: Path, place: _Place | None, make: int | None = None) -> int:
    """Return a descriptor of the file's folder, to be closed by the caller. Raises: as `parent_of`."""
    if place is None:
        if make is not None:
            path.parent.mkdir(parents=True, exist_ok=True, mode=make)
        return os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    root, names = place
    handle = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for depth, name in enumerate(names[:-1], start=1):
            if make is not None:
                with suppress(FileExistsError):
                    os.mkdir(name, make, dir_fd=handle)
            try:
                inner = os.open(name, _FOLDER, dir_fd=handle)
            except OSError as error:
                raise _explained(error, path, handle, names[:depth]) from None
            os.close(handle)
            handle = inner
    except BaseException:
        os.close(handle)
        raise
    return handle


def _opened_in(folder: int, name: str, flags: int, mode: int = 0o666, *, guarded: bool = True) -> int:
    """Return a descriptor of a file in an open folder. Raises: OSError."""
    if not guarded:
        return os.open(name, flags | os.O_CLOEXEC, mode, dir_fd=folder)
    # Non-blocking: opening a pipe would wait for its writer.
    handle = os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, mode, dir_fd=folder)
    kind = os.fstat(handle).st_mode
    if stat.S_ISREG(kind):
        return handle
    os.close(handle)
    if stat.S_ISDIR(kind):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    raise OSError(errno.EINVAL, "it is no file")


def _too_large(path: Path, exceeded: Exceeded) -> HiveError:
    place = _place(path)
    shown = "/".join(place[1]) if place else path.name
    return HiveError.of("HIVE-115", f"{shown} is too large: {exceeded}", file=shown, path="$", fix="split it")


def stamp(path: str | Path) -> tuple[int, ...] | None:
    """Return what changes with a file, or with the link in its place; None where there is none."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def remove(path: Path) -> None:
    """Remove a file, or a link itself, if it exists. Raises: as `read_bytes`."""
    with suppress(FileNotFoundError), parent_of(path) as (folder, name):
        os.unlink(name, dir_fd=folder)


def make_folder(path: Path, mode: int = 0o777) -> None:
    """Make a folder and those above it, where they are missing. Raises: as `read_bytes`."""
    with parent_of(path / "_", make=mode):
        pass


def copy_folder(source: Path, target: Path) -> None:
    """Copy a folder: links as links, and neither pipes nor devices. Raises: OSError."""
    shutil.copytree(source, target, symlinks=True, ignore=_no_files)


def _no_files(folder: str, names: list[str]) -> list[str]:
    """Return the names of pipes and the like, which can't be copied."""
    paths = {name: Path(folder) / name for name in names}
    return [name for name, path in paths.items() if not (path.is_symlink() or path.is_file() or path.is_dir())]


def unlinked(path: Path) -> Path:
    """Return `path`, for libraries that open files by name, after a check for links; it needn't exist.

    Raises: HIVE-114.
    """
    place = _place(path)
    if place is None:
        return path
    root, names = place
    try:
        with parent_of(path) as (folder, name), suppress(FileNotFoundError):
            if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                raise _refused(names)
    except (FileNotFoundError, NotADirectoryError):
        pass  # opening it will raise
    return Path(root, *names)


def _place(path: Path) -> _Place | None:
    """Return the guarded folder above `path`, and the path from there as names; None elsewhere."""
    # Links aren't resolved: `..` is removed lexically.
    absolute = os.path.abspath(path)
    above = absolute
    while above != os.sep:
        above = above[: above.rfind(os.sep)] or os.sep
        if above in _guarded:
            break
    else:
        return None
    below = absolute[len(above) :].strip(os.sep)
    names = tuple(below.split(os.sep)) if below else ()
    lent = _guarded[above]
    for end in range(1, len(names) + 1) if lent else ():
        target = lent.get("/".join(names[:end]))
        if target is not None:
            return _place(target.joinpath(*names[end:]))
    return above, names


def _explained(error: OSError, path: Path, folder: int, names: tuple[str, ...]) -> HiveError | OSError:
    """Return the error of opening the last of `names`: LinkRefused for a link, else the OSError with the whole path."""
    if names and error.errno in (errno.ELOOP, errno.ENOTDIR):
        with suppress(OSError):
            if stat.S_ISLNK(os.stat(names[-1], dir_fd=folder, follow_symlinks=False).st_mode):
                return _refused(names)
    return OSError(error.errno, error.strerror, str(path))


def _refused(names: tuple[str, ...]) -> HiveError:
    shown = "/".join(names)
    return LinkRefused.of(
        "HIVE-114",
        f"{shown} is a link, and nothing in a workspace is opened through one",
        file=shown,
        path="$",
        fix="put the file or folder itself there, where it can be reviewed",
    )


MAX_DEPTH = 100
MAX_UNPACKED = 1_000_000_000
MAX_MARKUP = 200_000_000
MAX_RATIO = 200
_SMALL = 10_000_000
_AT_ONCE = 65_536


class Exceeded(ValueError):
    """Input beyond a limit, which the message names."""


def require_bounded(value: Any, *, depth: int = MAX_DEPTH, size: int) -> int:
    """Return the size of a JSON value: the characters of its texts and keys, and one for each part.

    Raises: Exceeded for a deeper or larger one.
    """
    total, level, values = 0, 0, [value]
    while values:
        level += 1
        if level > depth:
            raise Exceeded(f"it is nested more than {depth} levels deep")
        below: list[Any] = []
        for each in values:
            total += 1 + (len(each) if isinstance(each, str) else 0)
            if isinstance(each, Mapping):
                total += sum(len(key) if isinstance(key, str) else 1 for key in each)
                below += each.values()
            elif isinstance(each, (list, tuple)):
                below += each
            if total + len(below) > size:
                raise Exceeded(f"it has more than {size:,} characters and parts")
        values = below
    return total


def require_archive(archive: zipfile.ZipFile) -> None:
    """Raise Exceeded for an archive whose unpacked size, markup or compression ratio is too large."""
    members = archive.infolist()
    unpacked = sum(member.file_size for member in members)
    packed = sum(member.compress_size for member in members)
    markup = sum(member.file_size for member in members if member.filename.lower().endswith((".xml", ".rels")))
    if unpacked > MAX_UNPACKED or markup > MAX_MARKUP:
        raise Exceeded(f"it unpacks to {unpacked // 1_000_000} MB")
    if unpacked > _SMALL and unpacked > MAX_RATIO * max(packed, 1):
        raise Exceeded(f"it unpacks to {unpacked // max(packed, 1)} times its size")


def load_arrays(file: BinaryIO, *names: str) -> dict[str, NDArray[Any]]:
    """Return the arrays of an `.npz` file, whose shapes are checked against their bytes; nothing is unpickled.

    With `names` no others are read. Raises: OSError; ValueError for any file that isn't one, Exceeded among them.
    """
    with _as_value_errors():
        return _arrays(file, names)


def mapped_array(path: Path) -> NDArray[Any]:
    """Return the memory-mapped array of an `.npy` file; nothing is unpickled.

    Raises: OSError, where the path is a link, too; ValueError for any file that isn't one.
    """
    from numpy.lib import format as npy

    with _as_value_errors():
        # np.load would take an archive, too.
        mapped: NDArray[Any] = npy.open_memmap(unlinked(path), mode="r")
        return mapped


@contextmanager
def _as_value_errors() -> Iterator[None]:
    """Turn whatever numpy and zipfile raise for a hostile file into ValueError."""
    try:
        yield
    except (OSError, ValueError, HiveError):
        raise
    except Exception as error:
        raise ValueError(f"no array file: {type(error).__name__}: {error}"[:300]) from error


def _arrays(file: BinaryIO, names: Collection[str]) -> dict[str, NDArray[Any]]:
    from numpy.lib import format as npy

    arrays = {}
    size = file.seek(0, os.SEEK_END)
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            if names and member.filename.removesuffix(".npy") not in names:
                continue
            if member.compress_size > size or member.file_size > max(_SMALL, MAX_RATIO * member.compress_size):
                raise Exceeded(f"{member.filename} unpacks to too much")
            with archive.open(member) as stream:
                version = npy.read_magic(stream)
                read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
                shape, _, dtype = read(stream)
            # The array is allocated before it is read, so its declared size is checked.
            if dtype.hasobject or math.prod(shape) * dtype.itemsize > member.file_size:
                raise Exceeded(f"{member.filename} says that it is larger than it is")
            with archive.open(member) as stream:
                arrays[member.filename.removesuffix(".npy")] = npy.read_array(stream, allow_pickle=False)
    return arrays


def read_bounded(handle: int, most: int = MAX_FILE_BYTES) -> bytes:
    """Return all bytes of an open file, and close it. Raises: Exceeded."""
    try:
        data = _first_bytes(handle, most + 1) if os.fstat(handle).st_size <= most else None
    finally:
        os.close(handle)
    if data is None or len(data) > most:
        raise Exceeded(f"it has more than {most // 1_000_000} MB")
    return data


def _first_bytes(handle: int, most: int) -> bytes:
    # os.read: file objects around many small files cost more than the reading.
    at_once = max(os.fstat(handle).st_size + 1, _AT_ONCE)
    parts, remaining = [], most
    while remaining and (part := os.read(handle, min(remaining, at_once))):
        parts.append(part)
        remaining -= len(part)
    return b"".join(parts)
