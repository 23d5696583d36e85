"""One file, whatever its kind, as Markdown."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from hive_agents.importing.imported import Imported, ImportFailure

KINDS = {
    ".md": "markdown",
    ".markdown": "markdown",
    ".txt": "text",
    ".rst": "rst",
    ".html": "html",
    ".htm": "html",
    ".pdf": "pdf",
    ".docx": "docx",
    ".pptx": "pptx",
}
MAX_BYTES = 200_000_000

# Loaded when first needed: most imports need one of these libraries, and the extra may be missing.
_CONVERTERS = {
    "markdown": ("from_text", "from_markdown"),
    "text": ("from_text", "from_text"),
    "rst": ("from_text", "from_rst_bytes"),
    "html": ("from_html", "from_html"),
    "pdf": ("from_pdf", "from_pdf"),
    "docx": ("from_docx", "from_docx"),
    "pptx": ("from_pptx", "from_pptx"),
}


def convert(path: Path, kind: str | None = None) -> Imported:
    """The file as Markdown; `kind` overrides what the suffix says.

    Raises: ImportFailure, whose message is for the person who owns the file.
    """
    kind = kind or KINDS.get(path.suffix.lower())
    if kind not in _CONVERTERS:
        known = ", ".join(sorted(KINDS if kind is None else _CONVERTERS))
        raise ImportFailure(f"{path.suffix or 'a file without suffix'} is not supported; supported: {known}")
    data = _read(path)
    module, function = _CONVERTERS[kind]
    try:
        imported: Imported = getattr(import_module(f"hive_agents.importing.{module}"), function)(data)
    except ImportFailure:
        raise
    except ModuleNotFoundError as error:
        raise ImportFailure(
            f"reading {kind} files needs the import extra: pip install 'hive-agents[import]' (no module {error.name})"
        ) from error
    except Exception as error:  # a parser of a foreign format may raise anything at all over a broken file
        detail = " ".join(str(error).split())[:200] or type(error).__name__
        raise ImportFailure(f"not a readable {kind} file: {detail}") from error
    if not imported.markdown.strip():
        raise ImportFailure("no text in it")
    return imported


def _read(path: Path) -> bytes:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ImportFailure(f"larger than {MAX_BYTES // 1_000_000} MB; split it")
        data = path.read_bytes()
    except FileNotFoundError:
        raise ImportFailure("no such file") from None
    except OSError as error:
        raise ImportFailure(f"cannot be read: {error.strerror}") from error
    if not data.strip():
        raise ImportFailure("the file is empty")
    return data
