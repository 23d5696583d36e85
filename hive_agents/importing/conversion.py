"""One file, whatever its kind, as Markdown."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from hive_agents.files import Exceeded, JobFailed, Sandbox
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
_SANDBOX = Sandbox(seconds=120.0, memory=2_000_000_000)
_OURS = ("markdown", "text")

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
    if kind in _OURS:
        imported = converted(str(path), kind)
    else:
        try:
            imported = _SANDBOX.call(__name__, "converted", str(path), kind)
        except Exceeded as exceeded:
            raise ImportFailure(f"{exceeded}; split it") from None
        except JobFailed as failed:
            if failed.kind == ImportFailure.__name__:
                raise ImportFailure(str(failed)) from None
            if failed.module is not None:
                install = "pip install 'hive-agents[import]'"
                why = f"reading {kind} files needs the import extra: {install} (no module {failed.module})"
                raise ImportFailure(why) from None
            # A parser of a foreign format may raise anything at all over a broken file.
            detail = " ".join(str(failed).split())[:200] or failed.kind
            raise ImportFailure(f"not a readable {kind} file: {detail}") from None
    markdown, title, metadata = imported
    if not markdown.strip():
        raise ImportFailure("no text in it")
    return Imported(markdown, title, metadata)


def converted(path: str, kind: str) -> tuple[str, str | None, dict[str, Any]]:
    """Return markdown, title and metadata of a file; what is not our own reader's is called in a `Sandbox` only."""
    module, function = _CONVERTERS[kind]
    found: Imported = getattr(import_module(f"hive_agents.importing.{module}"), function)(_read(Path(path)))
    return found.markdown, found.title, found.metadata


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
