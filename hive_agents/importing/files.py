"""Files and folders become documents below `documents/`."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

from hive_agents.files import atomic_write_text, frontmatter, read_bytes
from hive_agents.importing.conversion import KINDS, convert
from hive_agents.importing.from_text import split
from hive_agents.importing.imported import Imported, ImportFailure

_ORIGIN = "source_file"


class Skipped(TypedDict):
    file: str
    message: str


@dataclass
class ImportReport:
    """`imported` holds doc_ids; `skipped` each file that brought no document, and why."""

    imported: list[str] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)

    def skip(self, file: Path, message: str) -> None:
        self.skipped.append({"file": str(file), "message": message})


def import_files(
    sources: Sequence[Path],
    into: Path,
    *,
    root: Path,
    metadata: Mapping[str, Any],
    overwrite: bool = False,
    kind: str | None = None,
) -> ImportReport:
    """Convert each source to a document below `into`; a folder keeps its structure.

    `root` is the documents folder that doc_ids are relative to. `metadata` goes into each document's
    front matter, over what a Markdown source says itself. `overwrite` replaces what came from a file of
    the same name, never another document.

    Raises: ImportFailure when `into` is outside `root`; HIVE-403 when the disk refuses.
    """
    if not into.resolve().is_relative_to(root.resolve()):
        raise ImportFailure(f"{into} is outside the documents folder")
    report = ImportReport()
    taken: dict[Path, Path] = {}
    for source in sources:
        for file, relative in _files(source, report):
            if kind is None and file.suffix.lower() not in KINDS:
                report.skip(file, f"{file.suffix or 'no suffix'}: not a supported kind of file")
                continue
            target = into / _slug(relative)
            if taken.get(target) == file.resolve():
                continue  # named twice
            try:
                if file.resolve().is_relative_to(root.resolve()):
                    raise ImportFailure("is in the documents folder already")
                if target in taken:
                    raise ImportFailure(f"{taken[target].name} became {target.name} already; rename one of them")
                if not target.parent.resolve().is_relative_to(root.resolve()):
                    raise ImportFailure("its place below documents/ is a link that leaves the folder")
                imported = convert(file, kind)
                is_markdown = (kind or KINDS.get(file.suffix.lower())) == "markdown"
                origin = None if is_markdown else file.name
                _check_free(target, origin, overwrite)
            except ImportFailure as failure:
                report.skip(file, str(failure))
                continue
            atomic_write_text(target, _document(imported, file, origin, metadata))
            taken[target] = file.resolve()
            report.imported.append(target.resolve().relative_to(root.resolve()).as_posix())
    return report


def _files(source: Path, report: ImportReport) -> Iterator[tuple[Path, Path]]:
    """(file, its path below the source) of each file that isn't hidden, in order of names."""
    if not source.is_dir():
        if source.exists() and not source.is_file():
            report.skip(source, "neither a file nor a folder")
        elif not source.exists():
            report.skip(source, "no such file")
        else:
            yield source, Path(source.name)
        return
    inside = source.resolve()
    for folder, subfolders, names in os.walk(source, onerror=lambda error: _unreadable(error, report)):
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
        for name in subfolders:
            if Path(folder, name).is_symlink():
                report.skip(Path(folder, name), "a link to a folder; import the folder itself")
        for name in sorted(names):
            file = Path(folder, name)
            if name.startswith("."):
                continue
            if not file.resolve().is_relative_to(inside):
                report.skip(file, "a link that leaves the folder")
            elif file.is_file():
                yield file, file.relative_to(source)


def _unreadable(error: OSError, report: ImportReport) -> None:
    report.skip(Path(str(error.filename)), f"cannot be read: {error.strerror}")


def _slug(relative: Path) -> Path:
    """The document's path: no part can be hidden, empty, or lead out of the folder.

    >>> print(_slug(Path("HR Team/Leave Policy (2024).docx")))
    hr-team/leave-policy-2024.md
    """
    parts = [*relative.parts[:-1], relative.stem]
    slugs = []
    for part in parts:
        folded = unicodedata.normalize("NFC", part).lower()
        slugs.append(re.sub(r"[^\w.]+", "-", folded).strip("-.") or "unnamed")
    return Path(*slugs[:-1], f"{slugs[-1]}.md")


def _check_free(target: Path, origin: str | None, overwrite: bool) -> None:
    """Raises ImportFailure unless the place is free, or `overwrite` is given and the document came from that file."""
    if not os.path.lexists(target):
        return
    if not overwrite:
        raise ImportFailure(f"{target.name} is there already; overwrite was not asked for")
    try:
        there = split(read_bytes(target).decode())[0].get(_ORIGIN)
    except (OSError, UnicodeDecodeError, ImportFailure):
        there = None
    if there != origin:
        whose = f"from {there}" if there else "written by hand or imported as Markdown"
        raise ImportFailure(f"{target.name} is there already and is another document ({whose}); rename the file")


def _document(imported: Imported, file: Path, origin: str | None, metadata: Mapping[str, Any]) -> str:
    """Text of the document; a Markdown source without anything to add keeps every byte of its own."""
    if origin is None:
        if not metadata:
            return frontmatter.render(imported.metadata, imported.markdown) if imported.metadata else imported.markdown
        return frontmatter.render({**imported.metadata, **metadata}, imported.markdown)
    title = imported.title or re.sub(r"[-_\s]+", " ", file.stem).strip()
    return frontmatter.render({"title": title, **metadata, _ORIGIN: origin}, imported.markdown)
