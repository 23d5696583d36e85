"""How much of what others wrote is taken in: bytes of a file, depth and size of a value, parts of an archive.

Time and memory of what can't be bounded beforehand, such as a reader of a foreign format, are bounded by `Sandbox`.
"""

from __future__ import annotations

import math
import os
import zipfile
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_FILE_BYTES = 256_000_000
MAX_DEPTH = 100
MAX_UNPACKED = 1_000_000_000
MAX_MARKUP = 200_000_000
MAX_RATIO = 200
_SMALL = 10_000_000


class Exceeded(ValueError):
    """More than is taken in; the message says of what."""


def require_bounded(value: Any, *, depth: int = MAX_DEPTH, size: int) -> int:
    """Return the size of a JSON value: the characters of its texts and keys, and one for each part.

    Raises: Exceeded for one that is deeper or larger.
    """
    total, level, left = 0, 0, [value]
    while left:
        level += 1
        if level > depth:
            raise Exceeded(f"it is nested more than {depth} levels deep")
        below: list[Any] = []
        for one in left:
            total += 1 + (len(one) if isinstance(one, str) else 0)
            if isinstance(one, Mapping):
                total += sum(len(key) if isinstance(key, str) else 1 for key in one)
                below += one.values()
            elif isinstance(one, (list, tuple)):
                below += one
            if total + len(below) > size:
                raise Exceeded(f"it has more than {size:,} characters and parts")
        left = below
    return total


def require_archive(archive: zipfile.ZipFile) -> None:
    """Raise Exceeded for an archive that unpacks to more than it should: by its size, its markup or its ratio."""
    members = archive.infolist()
    unpacked = sum(member.file_size for member in members)
    packed = sum(member.compress_size for member in members)
    markup = sum(member.file_size for member in members if member.filename.lower().endswith((".xml", ".rels")))
    if unpacked > MAX_UNPACKED or markup > MAX_MARKUP:
        raise Exceeded(f"it unpacks to {unpacked // 1_000_000} MB")
    if unpacked > _SMALL and unpacked > MAX_RATIO * max(packed, 1):
        raise Exceeded(f"it unpacks to {unpacked // max(packed, 1)} times its size")


def load_arrays(file: BinaryIO) -> dict[str, NDArray[Any]]:
    """Return the arrays of an `.npz` file whose shapes are borne out by their bytes.

    Raises: Exceeded, and what numpy and zipfile raise for a damaged file.
    """
    from numpy.lib import format as npy

    arrays = {}
    size = file.seek(0, os.SEEK_END)
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            if member.compress_size > size or member.file_size > max(_SMALL, MAX_RATIO * member.compress_size):
                raise Exceeded(f"{member.filename} unpacks to too much")
            with archive.open(member) as stream:
                version = npy.read_magic(stream)
                read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
                shape, _, dtype = read(stream)
            # An array is allocated before it is read: no larger than what is there.
            if dtype.hasobject or math.prod(shape) * dtype.itemsize > member.file_size:
                raise Exceeded(f"{member.filename} says that it is larger than it is")
            with archive.open(member) as stream:
                arrays[member.filename.removesuffix(".npy")] = npy.read_array(stream, allow_pickle=False)
    return arrays


def read_bounded(handle: int, most: int = MAX_FILE_BYTES) -> bytes:
    """Return all bytes of an open file, and close it. Raises: Exceeded."""
    with os.fdopen(handle, "rb") as file:
        if os.fstat(handle).st_size > most:
            raise Exceeded(f"it has more than {most // 1_000_000} MB")
        data = file.read(most + 1)
    if len(data) > most:
        raise Exceeded(f"it has more than {most // 1_000_000} MB")
    return data
