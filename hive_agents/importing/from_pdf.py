"""PDF: the text layer, page by page."""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Iterator

from pypdf import PdfReader
from pypdf.errors import DependencyError, PyPdfError

from hive_agents.importing.imported import Imported, ImportFailure
from hive_agents.importing.markdown import escape, plain_lines

_BULLET = re.compile(r"^[•●▪◦‣]\s*")
_SHORT = 0.7  # of the page's longest line: a shorter one ends its paragraph

logging.getLogger("pypdf").setLevel(logging.ERROR)  # it warns of flaws that it mends by itself


def from_pdf(data: bytes) -> Imported:
    if b"%PDF-" not in data[:1024]:
        raise ImportFailure("not a PDF file, whatever its name says")
    try:
        reader = PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            raise ImportFailure("encrypted: save a copy without a password, then import that")
        pages = [page.extract_text() for page in reader.pages]
        title = (reader.metadata.title if reader.metadata else None) or ""
    except DependencyError:
        raise ImportFailure("encrypted: save a copy without a password, then import that") from None
    except PyPdfError as error:
        raise ImportFailure(f"a broken PDF: {error}; open it and print it to a new PDF") from error
    if not any(page.strip() for page in pages):
        raise ImportFailure("no text layer (a scan?): run it through OCR, then import the result")
    paragraphs = [paragraph for page in pages for paragraph in _paragraphs(page)]
    return Imported("\n\n".join(paragraphs) + "\n", " ".join(str(title).split()) or None)


def _paragraphs(page: str) -> Iterator[str]:
    """The page's paragraphs, their lines put together again; a PDF knows lines only."""
    lines = [" ".join(line.split()) for line in page.replace("\0", "").splitlines()]
    while lines and (not lines[-1] or lines[-1].isdigit()):
        lines.pop()  # the page number
    longest = max(map(len, lines), default=0)
    paragraph = ""
    for line in lines:
        if not line or _BULLET.match(line):
            yield from _ended(paragraph)
            paragraph = ""
        if re.search(r"[^\W\d]-$", paragraph) and line[:1].islower():
            paragraph = paragraph[:-1] + line
        else:
            paragraph = f"{paragraph} {line}".strip()
        if len(line) < longest * _SHORT:
            yield from _ended(paragraph)
            paragraph = ""
    yield from _ended(paragraph)


def _ended(paragraph: str) -> Iterator[str]:
    if not paragraph:
        return
    item = _BULLET.sub("", paragraph)
    yield f"- {escape(item)}" if item != paragraph else plain_lines(escape(paragraph))
