"""Values of the form fields of a PDF's page, and its free texts, where they stand."""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import pypdfium2
import pypdfium2.raw as pdfium

from hive_agents.readers.imported import ImportFailure

_PASSWORD = 1 << 13
_MOST = 5000  # annotations of a page


class PrintedRoom:
    """How much a PDF may show: what its bytes may hold, and a million characters.

    A page, or a form within one, may be shown any number of times, each of which the file names in a few bytes.
    """

    PAGE, BYTE = 5_000, 30
    """What a page counts, and how many characters a byte may stand for: packed text has fewer."""

    def __init__(self, size: int) -> None:
        self._left = 1_000_000 + self.BYTE * size

    def take(self, shown: int) -> None:
        """Count characters. Raises: ImportFailure for more than the file may show."""
        self._left -= shown
        if self._left < 0:
            raise ImportFailure("it shows the same parts too many times; print the pages that count to a new PDF")


@dataclass(frozen=True)
class FormEntry:
    """A value on a page, in points."""

    text: str
    left: float
    bottom: float
    top: float

    @property
    def middle(self) -> float:
        return (self.bottom + self.top) / 2


def form_entries(page: pypdfium2.PdfPage, left_out: Counter[str], room: PrintedRoom) -> list[FormEntry]:
    """Return the values on a page from top to bottom; count the comments on it. Raises: as `room.take`."""
    return sorted(_entries(page, left_out, room), key=lambda entry: (-round(entry.middle / 4), entry.left))


def _entries(page: pypdfium2.PdfPage, left_out: Counter[str], room: PrintedRoom) -> Iterator[FormEntry]:
    for number in range(min(pdfium.FPDFPage_GetAnnotCount(page), _MOST)):
        annotation = pdfium.FPDFPage_GetAnnot(page, number)
        if not annotation:
            continue
        try:
            kind = pdfium.FPDFAnnot_GetSubtype(annotation)
            if kind == pdfium.FPDF_ANNOT_LINK:
                continue
            is_field = kind == pdfium.FPDF_ANNOT_WIDGET and page.formenv is not None
            text = _widget(page.formenv, annotation, left_out) if is_field else _contents(annotation)
            room.take(len(text))
            if not is_field and kind != pdfium.FPDF_ANNOT_FREETEXT:
                left_out["comments"] += bool(text.strip())
                continue
            if text.strip():
                box = pdfium.FS_RECTF()
                pdfium.FPDFAnnot_GetRect(annotation, box)
                low, high = sorted((box.bottom, box.top))
                yield FormEntry(" ".join(text.split()), box.left, low, high)
        finally:
            pdfium.FPDFPage_CloseAnnot(annotation)


def _widget(form: pypdfium2.PdfFormEnv, annotation: object, left_out: Counter[str]) -> str:
    kind = pdfium.FPDFAnnot_GetFormFieldType(form, annotation)
    if kind in (pdfium.FPDF_FORMFIELD_CHECKBOX, pdfium.FPDF_FORMFIELD_RADIOBUTTON):
        return "[x]" if pdfium.FPDFAnnot_IsChecked(form, annotation) else "[ ]"
    if kind == pdfium.FPDF_FORMFIELD_LISTBOX:
        options = range(max(pdfium.FPDFAnnot_GetOptionCount(form, annotation), 0))
        chosen = [at for at in options if pdfium.FPDFAnnot_IsOptionSelected(form, annotation, at)]
        left_out["options that aren't chosen"] += len(options) - len(chosen)
        return ", ".join(_text(pdfium.FPDFAnnot_GetOptionLabel, form, annotation, at) for at in chosen)
    if kind == pdfium.FPDF_FORMFIELD_COMBOBOX or (
        kind == pdfium.FPDF_FORMFIELD_TEXTFIELD and not pdfium.FPDFAnnot_GetFormFieldFlags(form, annotation) & _PASSWORD
    ):
        return _text(pdfium.FPDFAnnot_GetFormFieldValue, form, annotation)
    return ""


def _contents(annotation: object) -> str:
    return _text(pdfium.FPDFAnnot_GetStringValue, annotation, b"Contents")


def _text(function: object, *arguments: object) -> str:
    """Return what a function of PDFium writes, in UTF-16, to a buffer whose size it tells first."""
    size = function(*arguments, None, 0)  # type: ignore[operator]
    buffer = ctypes.create_string_buffer(size)
    function(*arguments, ctypes.cast(buffer, ctypes.POINTER(pdfium.FPDF_WCHAR)), size)  # type: ignore[operator]
    return buffer.raw.decode("utf-16-le", "replace").rstrip("\0")
