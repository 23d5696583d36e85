"""The doc_id and the text of the document of a file."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from hive_agents.base.files import frontmatter
from hive_agents.readers import KINDS, Imported, registry

ORIGIN = "source_file"
_ESCAPED = re.compile(r"\\udc([89a-f][0-9a-f])")
_MARKS = "".join(chr(place) for place in range(0x300, 0x1B00) if unicodedata.category(chr(place))[0] == "M")
_LONGEST = 180  # bytes: names of files have at most 255, additions included


def places(relative: PurePosixPath) -> Iterator[str]:
    """Yield the doc_ids that a file may have, without end and best first, so that files of similar names don't collide.

    No part is hidden, empty, or leads out of the folder.

    >>> names = places(PurePosixPath("HR Team/Leave Policy (2024).docx"))
    >>> [next(names) for _ in range(3)]
    ['hr-team/leave-policy-2024.md', 'hr-team/leave-policy-2024-docx.md', 'hr-team/leave-policy-2024-2.md']
    >>> next(places(PurePosixPath("lib.NEWS.gz")))
    'lib-news.md'
    """
    relative = _legible(relative)
    stem, suffix = relative.stem, relative.suffix
    if suffix == ".gz":
        stem, suffix = PurePosixPath(stem).stem, PurePosixPath(stem).suffix or suffix
    if suffix.lower() not in KINDS and registry.is_plain_name(
        suffix[1:]
    ):  # it says what the text is, not how it is written
        stem, suffix = f"{stem}-{suffix[1:]}", ""
    *folders, name = [_slug(part) for part in (*relative.parts[:-1], stem)]
    yield "/".join([*folders, f"{name}.md"])
    if suffix:
        yield "/".join([*folders, f"{name}-{_slug(suffix)}.md"])
    number = 2
    while True:
        yield "/".join([*folders, f"{name}-{number}.md"])
        number += 1


def _title_from_name(file: PurePosixPath) -> str:
    """Return a title from the file's name, with the folder's name for common names such as README.

    >>> _title_from_name(PurePosixPath("hr/leave_policy.txt")), _title_from_name(PurePosixPath("adduser/changelog.gz"))
    ('leave policy', 'adduser: changelog')
    >>> _title_from_name(PurePosixPath("fhs-3.0.pdf.gz")), _title_from_name(PurePosixPath("release.notes.gz"))
    ('fhs 3.0', 'release.notes')
    """
    packed = PurePosixPath(file.stem) if file.suffix.lower() == ".gz" else file
    stem = packed.stem if packed.suffix.lower() in KINDS else file.stem
    name = re.sub(r"[-_\s]+", " ", stem).strip()
    return f"{file.parent.name}: {name}" if registry.is_plain_name(file.name) and file.parent.name else name


def _legible(file: PurePosixPath) -> PurePosixPath:
    r"""Return a path whose escaped bytes, which aren't UTF-8, are decoded as Windows-1252.

    >>> _legible(PurePosixPath(r"caf\udce9.txt"))
    PurePosixPath('café.txt')
    """
    return PurePosixPath(_ESCAPED.sub(lambda byte: bytes.fromhex(byte[1]).decode("windows-1252", "replace"), str(file)))


def _slug(part: str) -> str:
    folded = unicodedata.normalize("NFC", part).lower()
    slug = re.sub(r"[^\w.]+", _between, folded).encode()[:_LONGEST].decode(errors="ignore")
    return slug.strip("-.") or "unnamed"


def _between(separators: re.Match[str]) -> str:
    """Return the replacement of a run of other characters; combining marks of the letter before stay, as in Hindi."""
    rest = separators[0].lstrip(_MARKS) if separators.start() else separators[0]
    return separators[0][: len(separators[0]) - len(rest)] + ("-" if rest else "")


def document_text(imported: Imported, file: PurePosixPath, metadata: Mapping[str, Any]) -> str:
    """Return the text of a file's document, front matter included."""
    if imported.source is not None:
        return frontmatter.render({**imported.metadata, **metadata}, imported.markdown) if metadata else imported.source
    title = imported.title or _title_from_name(_legible(file))
    return frontmatter.render({"title": title, **imported.metadata, **metadata, ORIGIN: file.name}, imported.markdown)
