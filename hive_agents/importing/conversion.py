"""One file, whatever its kind, as Markdown."""

from __future__ import annotations

import re
import zlib
from importlib import import_module
from pathlib import Path, PurePath
from typing import Any

from hive_agents.files import Exceeded, JobFailed, Sandbox
from hive_agents.importing.imported import UNSUPPORTED, Imported, ImportFailure, TableRow

KINDS = {
    ".md": "markdown",
    ".markdown": "markdown",
    ".mdx": "mdx",
    ".txt": "text",
    ".text": "text",
    ".log": "text",
    ".rst": "rst",
    ".adoc": "asciidoc",
    ".asc": "asciidoc",
    ".asciidoc": "asciidoc",
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
    ".ipynb": "notebook",
    ".csv": "csv",
    ".tsv": "csv",
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".eml": "mail",
    ".mbox": "mailbox",
    ".epub": "epub",
    ".pdf": "pdf",
    ".docx": "docx",
    ".pptx": "pptx",
    ".xlsx": "xlsx",
}
MAX_BYTES = 50_000_000
VERSION = "16"
"""Of the conversion as a whole: another version makes another document of the same file."""
_SANDBOX = Sandbox(seconds=120.0, memory=2_000_000_000)
_OURS, _SMALL = ("markdown", "text"), 200_000
"""Kinds that are read right here up to so many bytes: the work of our own readers may grow faster than a text."""
_TEXTS = ("markdown", "mdx", "text", "rst", "asciidoc", "html", "notebook", "csv", "json", "jsonl")
"""Kinds whose work is known by their length: none of them unpacks anything."""
_A_LETTER = re.compile(r"[^\W_]")
_Parts = tuple[str, str | None, dict[str, Any], str | None]

# Loaded when first needed: most imports need one of these libraries, and the extra may be missing.
_READERS = {
    "markdown": ("from_markdown", "from_markdown"),
    "mdx": ("from_markdown", "from_mdx"),
    "text": ("from_text", "from_text"),
    "rst": ("rst", "from_rst_bytes"),
    "asciidoc": ("from_asciidoc", "from_asciidoc"),
    "html": ("from_html", "from_html"),
    "notebook": ("from_notebook", "from_notebook"),
    "csv": ("from_csv", "from_csv"),
    "json": ("from_json", "from_json"),
    "jsonl": ("from_json", "from_jsonl"),
    "mail": ("from_mail", "from_mail"),
    "mailbox": ("from_mail", "from_mailbox"),
    "epub": ("from_epub", "from_epub"),
    "pdf": ("from_pdf", "from_pdf"),
    "docx": ("from_docx", "from_docx"),
    "pptx": ("from_pptx", "from_pptx"),
    "xlsx": ("from_xlsx", "from_xlsx"),
}
_TABLES = {
    "csv": ("from_csv", "csv_rows"),
    "json": ("from_json", "json_rows"),
    "jsonl": ("from_json", "jsonl_rows"),
    "xlsx": ("from_xlsx", "xlsx_rows"),
}
# Plain texts that carry no suffix, or one that says nothing of their kind.
_PLAIN = re.compile(
    r"(?i)^(readme|news|changes|changelog|history|copyright|copying|licen[cs]e|authors|contributors|contributing|"
    r"credits|thanks|notice|todo|faq|hacking|install|maintainers|security|bugs|porting|upgrading|announce)\b"
)


_MANUAL = re.compile(r"(?!.*\.so\.)[^/]+\.[1-8][a-z]{0,3}(?:\.gz)?")


def kind_of(name: str) -> str | None:
    """Return the kind of file that a name stands for, None where it isn't one that can be read.

    >>> kind_of("a.HTML"), kind_of("changelog.Debian.gz"), kind_of("copyright"), kind_of("photo.jpg")
    ('html', 'text', 'text', None)
    """
    inner = PurePath(name[:-3] if name.lower().endswith(".gz") else name)
    known = KINDS.get(inner.suffix.lower())
    return known or ("text" if is_plain_name(inner.name) or not inner.suffix else None)


def unsupported(name: str) -> ImportFailure:
    """Return the refusal of a file whose kind can't be read.

    >>> str(unsupported("photo.jpg")), str(unsupported("Makefile.gz"))
    ('.jpg: not a supported kind of file', '.gz: not a supported kind of file')
    >>> str(unsupported("ls.1.gz"))
    '.1.gz (a source of `man`: import what `man` prints): not a supported kind of file'
    """
    packed = ".gz" if name.lower().endswith(".gz") else ""
    suffix = PurePath(name.removesuffix(packed)).suffix + packed
    if _MANUAL.fullmatch(name):
        suffix += " (a source of `man`: import what `man` prints)"
    return ImportFailure(f"{suffix or 'no suffix'}{UNSUPPORTED}")


def is_plain_name(name: str) -> bool:
    """Return whether every project has a text of this name, such as README or copyright."""
    return _PLAIN.match(name) is not None


def is_table(name: str) -> bool:
    """Return whether a file of this name may hold rows that are documents."""
    return kind_of(name) in _TABLES


def convert(path: Path, kind: str | None = None) -> Imported:
    """Return the file as Markdown; `kind` overrides what the name says.

    Raises: ImportFailure, whose message is for the person who owns the file.
    """
    return convert_bytes(path.name, read(path), kind)


def convert_bytes(name: str, data: bytes, kind: str | None = None) -> Imported:
    """Return a file's content as Markdown: the one place that calls a reader of a foreign format.

    Raises: ImportFailure, whose message is for the person who owns the file.
    """
    kind = kind or kind_of(name)
    if kind not in _READERS:
        raise unsupported(name)
    data = _content(name, data)
    small = kind in _OURS and len(data) <= _SMALL
    imported = Imported(*(converted(data, kind) if small else _bounded("converted", data, kind)))
    if not _A_LETTER.search(imported.markdown):  # an empty table is markup alone
        raise ImportFailure("no text in it")
    return imported


def rows_in(name: str, data: bytes) -> list[TableRow] | None:
    """Return the documents that a table's rows are; None of what is no table, or whose rows are no texts.

    Raises: ImportFailure, whose message is for the person who owns the file.
    """
    kind = kind_of(name)
    parts = _bounded("split", _content(name, data), kind) if kind in _TABLES else None
    return None if parts is None else [TableRow(*each) for each in parts]


def split(data: bytes, kind: str) -> list[tuple[str, ...]] | None:
    """Return the parts of each `TableRow`; a reader of a foreign format is called in a `Sandbox` only."""
    module, function = _TABLES[kind]
    rows: list[TableRow] | None = getattr(import_module(f"hive_agents.importing.{module}"), function)(data)
    return None if rows is None else [tuple(row) for row in rows]


def converted(data: bytes, kind: str) -> _Parts:
    """Return the parts of `Imported`; a reader of a foreign format is called in a `Sandbox` only."""
    module, function = _READERS[kind]
    found: Imported = getattr(import_module(f"hive_agents.importing.{module}"), function)(data)
    return found.markdown, found.title, found.metadata, found.source


def _bounded(function: str, data: bytes, kind: str) -> Any:
    """Call a function of this module in a process of its own, with bounds of time and memory. Raises: ImportFailure."""
    try:
        return _SANDBOX.call(__name__, function, data, kind, work=_work(data, kind))
    except Exceeded as exceeded:
        raise ImportFailure(f"{exceeded}; split it") from None
    except JobFailed as failed:
        if failed.kind == ImportFailure.__name__:
            raise ImportFailure(str(failed)) from None
        if failed.module is not None:
            install = "pip install 'hive-agents[import]'"
            raise ImportFailure(
                f"reading {kind} files needs the import extra: {install} (no module {failed.module})"
            ) from None
        if failed.kind == RecursionError.__name__:
            raise ImportFailure(f"not a readable {kind} file: nested too deeply") from None
        # A parser of a foreign format may raise anything at all over a broken file.
        detail = " ".join(str(failed).split())[:200] or failed.kind
        raise ImportFailure(f"not a readable {kind} file: {detail}") from None


def _work(data: bytes, kind: str) -> int | None:
    """Return the seconds of computing that a file may take: of a text ten times what long ones took, of an archive
    any."""
    return 10 + len(data) // 20_000 if kind in _TEXTS else None


def read(path: Path) -> bytes:
    """Return the file's bytes. Raises: ImportFailure for one that is too large, gone or not readable."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ImportFailure(f"larger than {MAX_BYTES // 1_000_000} MB; split it")
        return path.read_bytes()
    except FileNotFoundError:
        raise ImportFailure("no such file") from None
    except OSError as error:
        raise ImportFailure(f"cannot be read: {error.strerror}") from error


def _content(name: str, data: bytes) -> bytes:
    """Return what a file holds, unpacked. Raises: ImportFailure where that is nothing, or too much."""
    if name.lower().endswith(".gz"):
        data = _unzipped(data)
    if not data.strip():
        raise ImportFailure("the file is empty")
    return data


def _unzipped(data: bytes) -> bytes:
    stream = zlib.decompressobj(wbits=31)
    try:
        text = stream.decompress(data, MAX_BYTES)
    except zlib.error:
        raise ImportFailure("a broken .gz file") from None
    if stream.unconsumed_tail:
        raise ImportFailure(f"unpacks to over {MAX_BYTES // 1_000_000} MB; split it")
    return text
