"""What DOCX and PPTX share: a zip archive of XML."""

from __future__ import annotations

import io
import zipfile

from hive_agents.importing.imported import ImportFailure

_OLD_OFFICE = bytes.fromhex("d0cf11e0a1b11ae1")
_MAX_UNPACKED = 1_000_000_000


def checked_package(data: bytes, kind: str) -> io.BytesIO:
    """The archive's bytes to read from; raises ImportFailure for one that can't be such a file."""
    if data.startswith(_OLD_OFFICE):
        raise ImportFailure(f"protected by a password, or older than Office 2007: save it as a plain .{kind}")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = archive.namelist()
            unpacked = sum(member.file_size for member in archive.infolist())
    except zipfile.BadZipFile:
        raise ImportFailure(f"a broken .{kind} file: save it anew from the program that wrote it") from None
    if unpacked > _MAX_UNPACKED:
        raise ImportFailure(f"unpacks to {unpacked // 1_000_000} MB; split it, or take out its media")
    if "[Content_Types].xml" not in names:
        raise ImportFailure(f"a zip archive, but no .{kind} file")
    return io.BytesIO(data)
