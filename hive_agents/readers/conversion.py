"""Conversion of files of all kinds to Markdown."""

from __future__ import annotations

import re
import zlib
from importlib import import_module
from pathlib import Path, PurePath
from typing import Any

from hive_agents.base.files import Exceeded, JobFailed, Sandbox
from hive_agents.readers.imported import UNSUPPORTED, Imported, ImportFailure, TableRow

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
VERSION = "17"
"""Of the conversion as a whole; raised when it gives other documents for the same files."""
_SANDBOX = Sandbox(seconds=120.0, memory=2_000_000_000)
_OURS, _SMALL = ("markdown", "text"), 200_000
"""Kinds that are converted in this process, up to this size in bytes: time may grow faster than the size."""
_TEXTS = ("markdown", "mdx", "text", "rst", "asciidoc", "html", "notebook", "csv", "json", "jsonl")
"""Kinds whose work is bounded by their size: none of them unpacks anything."""
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
# Names of plain texts without a suffix that tells their kind.
_PLAIN = re.compile(
    r"(?i)^(readme|news|changes|changelog|history|copyright|copying|licen[cs]e|authors|contributors|contributing|"
    r"credits|thanks|notice|todo|faq|hacking|install|maintainers|security|bugs|porting|upgrading|announce)\b"
)
_MANUAL = re.compile(r"(?!.*\.so\.)[^/]+\.[1-8][a-z]{0,3}(?:\.gz)?")


def kind_of(name: str) -> str | None:
    """Return the kind of a file by its name, None for kinds that can't be read.

    >>> kind_of("a.HTML"), kind_of("changelog.Debian.gz"), kind_of("copyright"), kind_of("photo.jpg")
    ('html', 'text', 'text', None)
    """
    inner = PurePath(name[:-3] if name.lower().endswith(".gz") else name)
    kind = KINDS.get(inner.suffix.lower())
    return kind or ("text" if is_plain_name(inner.name) or not inner.suffix else None)


def unsupported(name: str) -> ImportFailure:
    """Return the failure of a file whose kind can't be read.

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
    """Return whether a name is that of a plain text in many projects, such as README or copyright."""
    return _PLAIN.match(name) is not None


def is_table(name: str) -> bool:
    """Return whether a file of this name may have rows that become documents."""
    return kind_of(name) in _TABLES


def convert(path: Path, kind: str | None = None) -> Imported:
    """Return the file as Markdown; `kind` overrides that of its name.

    Raises: ImportFailure, whose message is for the person who owns the file.
    """
    return convert_bytes(path.name, read(path), kind)


def convert_bytes(name: str, data: bytes, kind: str | None = None) -> Imported:
    """Return a file's content as Markdown.

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
    """Return the rows of a table as documents; None for what is no table, or whose rows are no texts.

    Raises: ImportFailure, whose message is for the person who owns the file.
    """
    kind = kind_of(name)
    rows = _bounded("split", _content(name, data), kind) if kind in _TABLES else None
    return None if rows is None else [TableRow(*row) for row in rows]


def split(data: bytes, kind: str) -> list[tuple[str, ...]] | None:
    """Return the fields of each `TableRow`; called in a sandbox."""
    module, function = _TABLES[kind]
    rows: list[TableRow] | None = getattr(import_module(f"hive_agents.readers.{module}"), function)(data)
    return None if rows is None else [tuple(row) for row in rows]


def converted(data: bytes, kind: str) -> _Parts:
    """Return the fields of `Imported`; called in a sandbox, but for small files of kinds in _OURS."""
    module, function = _READERS[kind]
    imported: Imported = getattr(import_module(f"hive_agents.readers.{module}"), function)(data)
    return imported.markdown, imported.title, imported.metadata, imported.source


def _bounded(function: str, data: bytes, kind: str) -> Any:
    """Call a function of this module in a process with limits of time and memory. Raises: ImportFailure."""
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
        # Parsers may raise anything for a broken file.
        detail = " ".join(str(failed).split())[:200] or failed.kind
        raise ImportFailure(f"not a readable {kind} file: {detail}") from None


def _work(data: bytes, kind: str) -> int | None:
    """Return the limit of CPU seconds for a text, ten times what long texts took; None for other kinds."""
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
    """Return a file's unpacked content. Raises: ImportFailure where it is empty or too large."""
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
