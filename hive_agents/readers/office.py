"""Checks of Office Open XML packages: DOCX, PPTX, XLSX."""

from __future__ import annotations

import io
import re
import zipfile

from hive_agents.base.files import Exceeded, require_archive
from hive_agents.readers.imported import ImportFailure

_STRICT = re.compile(rb"http://purl\.oclc\.org/ooxml/(\w+)/")
"""Names of the strict variant of these formats, which their libraries don't know."""
_PROLOG = re.compile(r"\ufeff?\s*+(?>(?:<\?.*?\?>|<!--.*?-->)\s*+)*+<\w", re.S)
"""What may stand before a part's first element: no declaration of entities, which these formats don't have."""
_LONGEST_PROLOG = 64_000
_OLD_OFFICE = bytes.fromhex("d0cf11e0a1b11ae1")


def checked_package(data: bytes, kind: str) -> io.BytesIO:
    """Return a stream of the archive's bytes. Raises: ImportFailure where it can't be a file of this kind."""
    if data.startswith(_OLD_OFFICE):
        raise ImportFailure(f"protected by a password, or older than Office 2007: save it as a plain .{kind}")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = archive.namelist()
            require_archive(archive)
            for name in names:
                if name.endswith((".xml", ".rels")):
                    _require_no_entities(archive, name, kind)
            if "_rels/.rels" in names and _STRICT.search(archive.read("_rels/.rels")):
                data = _transitional(archive)
    except zipfile.BadZipFile:
        raise ImportFailure(f"a broken .{kind} file: save it anew from the program that wrote it") from None
    except Exceeded as exceeded:
        raise ImportFailure(f"{exceeded}; split it, or take out its media") from None
    if "[Content_Types].xml" not in names:
        raise ImportFailure(f"a zip archive, but no .{kind} file")
    return io.BytesIO(data)


def _require_no_entities(archive: zipfile.ZipFile, name: str, kind: str) -> None:
    """Raises: ImportFailure for a part that begins with more than comments, such as entities that grow or lead out."""
    with archive.open(name) as part:
        begins = part.read(_LONGEST_PROLOG)
    wide = begins[:2] in (b"\xff\xfe", b"\xfe\xff")
    text = begins.decode("utf-16" if wide else "utf-8", "replace")
    if begins and not _PROLOG.match(text):
        raise ImportFailure(f"not a readable .{kind} file: {name} declares entities, or is no XML")


def _transitional(archive: zipfile.ZipFile) -> bytes:
    """Return a package of the strict variant with the names that all programs know."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as rewritten:
        for name in archive.namelist():
            content = archive.read(name)
            if name.endswith((".xml", ".rels")):
                content = _STRICT.sub(rb"http://schemas.openxmlformats.org/\1/2006/", content)
            rewritten.writestr(name, content)
    return out.getvalue()
