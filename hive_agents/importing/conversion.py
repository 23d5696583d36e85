"""One file, whatever its kind, as Markdown."""

from __future__ import annotations

import re
import zlib
from importlib import import_module
from pathlib import Path, PurePath

from hive_agents.importing.imported import Imported, ImportFailure

KINDS = {
    ".md": "markdown",
    ".markdown": "markdown",
    ".mdx": "mdx",
    ".txt": "text",
    ".text": "text",
    ".log": "text",
    ".rst": "rst",
    ".adoc": "asciidoc",
    ".asciidoc": "asciidoc",
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
    ".ipynb": "notebook",
    ".csv": "csv",
    ".tsv": "csv",
    ".eml": "mail",
    ".epub": "epub",
    ".pdf": "pdf",
    ".docx": "docx",
    ".pptx": "pptx",
    ".xlsx": "xlsx",
}
MAX_BYTES = 50_000_000
VERSION = "2"
"""Of the conversion as a whole: another version makes another document of the same file."""

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
    "mail": ("from_mail", "from_mail"),
    "epub": ("from_epub", "from_epub"),
    "pdf": ("from_pdf", "from_pdf"),
    "docx": ("from_docx", "from_docx"),
    "pptx": ("from_pptx", "from_pptx"),
    "xlsx": ("from_xlsx", "from_xlsx"),
}
# Plain texts that carry no suffix, or one that says nothing of their kind.
_PLAIN = re.compile(
    r"(?i)^(readme|news|changes|changelog|history|copyright|copying|licen[cs]e|authors|contributors|contributing|"
    r"credits|thanks|notice|todo|faq|hacking|install|maintainers|security|bugs|porting|upgrading|announce)\b"
)


def kind_of(name: str) -> str | None:
    """Return the kind of file that a name stands for, None where it isn't one that can be read.

    >>> kind_of("a.HTML"), kind_of("changelog.Debian.gz"), kind_of("copyright"), kind_of("photo.jpg")
    ('html', 'text', 'text', None)
    """
    inner = PurePath(name[:-3] if name.lower().endswith(".gz") else name)
    known = KINDS.get(inner.suffix.lower())
    return known or ("text" if is_plain_name(inner.name) or not inner.suffix else None)


def is_plain_name(name: str) -> bool:
    """Return whether every project has a text of this name, such as README or copyright."""
    return _PLAIN.match(name) is not None


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
        raise ImportFailure(f"{PurePath(name).suffix or 'no suffix'}: not a supported kind of file")
    if name.lower().endswith(".gz"):
        data = _unzipped(data)
    if not data.strip():
        raise ImportFailure("the file is empty")
    module, function = _READERS[kind]
    try:
        imported: Imported = getattr(import_module(f"hive_agents.importing.{module}"), function)(data)
    except ImportFailure:
        raise
    except ModuleNotFoundError as error:
        raise ImportFailure(
            f"reading {kind} files needs the import extra: pip install 'hive-agents[import]' (no module {error.name})"
        ) from error
    except RecursionError as error:
        raise ImportFailure(f"not a readable {kind} file: nested too deeply") from error
    except Exception as error:  # a parser of a foreign format may raise anything at all over a broken file
        detail = " ".join(str(error).split())[:200] or type(error).__name__
        raise ImportFailure(f"not a readable {kind} file: {detail}") from error
    if not imported.markdown.strip():
        raise ImportFailure("no text in it")
    return imported


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


def _unzipped(data: bytes) -> bytes:
    stream = zlib.decompressobj(wbits=31)
    try:
        text = stream.decompress(data, MAX_BYTES)
    except zlib.error:
        raise ImportFailure("a broken .gz file") from None
    if stream.unconsumed_tail:
        raise ImportFailure(f"unpacks to over {MAX_BYTES // 1_000_000} MB; split it")
    return text
