"""Checks of Office Open XML packages: DOCX, PPTX, XLSX."""

from __future__ import annotations

import io
import zipfile

from hive_agents.base.files import Exceeded, require_archive
from hive_agents.readers.imported import ImportFailure

_OLD_OFFICE = bytes.fromhex("d0cf11e0a1b11ae1")


def checked_package(data: bytes, kind: str) -> io.BytesIO:
    """Return a stream of the archive's bytes. Raises: ImportFailure where it can't be a file of this kind."""
    if data.startswith(_OLD_OFFICE):
        raise ImportFailure(f"protected by a password, or older than Office 2007: save it as a plain .{kind}")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = archive.namelist()
            require_archive(archive)
    except zipfile.BadZipFile:
        raise ImportFailure(f"a broken .{kind} file: save it anew from the program that wrote it") from None
    except Exceeded as exceeded:
        raise ImportFailure(f"{exceeded}; split it, or take out its media") from None
    if "[Content_Types].xml" not in names:
        raise ImportFailure(f"a zip archive, but no .{kind} file")
    return io.BytesIO(data)
