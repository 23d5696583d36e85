"""Checks of Office Open XML packages: DOCX, PPTX, XLSX."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Sequence
from xml.etree import ElementTree

from hive_agents.base.files import Exceeded, guarded
from hive_agents.readers.imported import ImportFailure

_STRICT = re.compile(rb"http://purl\.oclc\.org/ooxml/(\w+)/")
"""Names of the strict variant of these formats, which their libraries don't know."""
_NUMBERED = re.compile(
    r"(word/(?:_rels/)?(?:document|styles|numbering|comments|footnotes|endnotes|settings))\d+(?=\.xml)"
)
"""Parts of a text as Word in a browser may call them: `word/document22.xml`."""
_DRESS = re.compile(
    r"docProps/\w+\.xml|word/(?:styles|settings|webSettings|fontTable|theme/theme\d*)\.xml|xl/theme/theme\d*\.xml"
)
"""Parts without words; programs open a file in which they are broken."""
_MENDED = re.compile(rf"{_DRESS.pattern}|\[Content_Types\]\.xml|.*\.rels")
_OTHER_USES = re.compile(
    rb"application/vnd\.(?:openxmlformats-officedocument\.presentationml|ms-powerpoint)\."
    rb"(?:presentation|slideshow|template)(?:\.macroEnabled)?\.main\+xml"
)
_PRESENTATION = b"application/vnd.openxmlformats-officedocument.presentationml.presentation.main+xml"
_UNTYPED = re.compile(rb"<w:style(?=[\s/>])(?![^<>]*\sw:type=)")
_NAMELESS = re.compile(rb"<w:style(?=[\s/>])(?![^<>]*\sw:styleId=)")
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
            guarded.require_archive(archive)
            for name in names:
                if name.endswith((".xml", ".rels")):
                    _require_no_entities(archive, name, kind)
            names = list(_usual_names(names).values())
            data = _mended(archive) or data
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


def _usual_names(names: Sequence[str]) -> dict[str, str]:
    """Return for each name of a part the one by which the libraries find it."""
    usual: dict[str, str] = {}
    taken = {name.replace("\\", "/") for name in names}
    for name in names:
        shown = name.replace("\\", "/")
        short = _NUMBERED.sub(r"\1", shown)
        usual[name] = shown if short in taken else short
        taken.add(usual[name])
    return usual


def _mended(archive: zipfile.ZipFile) -> bytes | None:
    """Return a package as the libraries read it, None for one that is so already.

    Names of the strict variant become those that all programs know, parts have their usual names, shows and templates
    are presentations, styles without a type are those of paragraphs, and broken parts without words go.
    """
    usual = _usual_names(archive.namelist())
    renamed = {_file(old): _file(new) for old, new in usual.items() if _file(old) != _file(new)}
    strict = "_rels/.rels" in usual and _STRICT.search(archive.read("_rels/.rels")) is not None
    mended: dict[str, bytes | None] = {}
    for old, name in usual.items():
        if not _MENDED.fullmatch(name):
            continue  # sheets and texts may be large: they are read once, by the library
        given = archive.read(old)
        content: bytes | None = given
        if _DRESS.fullmatch(name) and not _is_xml(given):
            content = None
        elif name == "word/styles.xml":
            content = _UNTYPED.sub(b'<w:style w:type="paragraph"', given)
            content = _NAMELESS.sub(lambda found: b'<w:style w:styleId="nameless-%d"' % found.start(), content)
        elif not _DRESS.fullmatch(name):
            content = _OTHER_USES.sub(_PRESENTATION, given)
            for before, after in renamed.items():
                content = re.sub(rb"(?<=[\"'/])" + re.escape(before) + rb"(?=[\"'])", after, content)
        if content != given:
            mended[old] = content
    if not (strict or mended or any(old != name for old, name in usual.items())):
        return None
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as rewritten:
        for old, name in usual.items():
            content = mended[old] if old in mended else archive.read(old)
            if content is not None:
                is_text = name.endswith((".xml", ".rels"))
                plain = _STRICT.sub(rb"http://schemas.openxmlformats.org/\1/2006/", content) if is_text else content
                rewritten.writestr(name, plain)
    return out.getvalue()


def _file(name: str) -> bytes:
    return name.rpartition("/")[2].encode()


def _is_xml(content: bytes) -> bool:
    try:
        ElementTree.fromstring(content)
    except ElementTree.ParseError:
        return False
    return True
