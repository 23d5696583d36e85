"""What LibreOffice shows of office files: texts as plain text, sheets as values, slides by the texts of its own format.

A printed slide has words torn by kerning, ligatures and columns; what LibreOffice understood of it has them whole.

Files are converted in batches, since a start of LibreOffice takes seconds; one that holds it up costs its batch the
rest of its time, and is tried again alone.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from xml.etree import ElementTree

_BATCH, _SECONDS = 25, 20
_TEXT, _SLIDES = "txt:Text (encoded):UTF8", "fodp"
_CELLS = "csv:Text - txt - csv (StarCalc):44,34,76,1,,0,false,true,true,false,false,-1"
"""Separated by commas, as UTF-8, as shown, every sheet."""
_OPEN = "{urn:oasis:names:tc:opendocument:xmlns:"
_DRAW, _TEXTS = f"{_OPEN}drawing:1.0}}", f"{_OPEN}text:1.0}}"
_MASTER, _NAME = f"{_OPEN}style:1.0}}master-page", f"{_OPEN}style:1.0}}name"
_ANEW = {_DRAW + "object", "{http://openoffice.org/2009/office}annotation"} | {
    _TEXTS + name for name in ("date", "time", "page-number", "page-count", "file-name")
}
"""What LibreOffice works out itself, and comments."""
_AS_SAVED = """<?xml version="1.0" encoding="UTF-8"?>
<oor:items xmlns:oor="http://openoffice.org/2001/registry"><item oor:path="/org.openoffice.Office.Calc/Formula/Load">
<prop oor:name="ODFRecalcMode" oor:op="fuse"><value>1</value></prop>
<prop oor:name="OOXMLRecalcMode" oor:op="fuse"><value>1</value></prop></item></oor:items>
"""
"""Settings by which formulas keep the values that are saved with them."""
FILTERS = {"docx": _TEXT, "odt": _TEXT, "xlsx": _CELLS, "ods": _CELLS, "pptx": _SLIDES, "odp": _SLIDES}


def shown(paths: Sequence[Path], kind: str, kept: Path) -> dict[Path, str]:
    """Return the text that LibreOffice shows of each file that it opens; `kept` holds what it said before."""
    asked = {path: hashlib.sha256(path.read_bytes()).hexdigest()[:24] for path in paths}
    ending = FILTERS[kind].partition(":")[0]
    new = [path for path in paths if not _results(kept, asked[path], ending)]
    for start in range(0, len(new), _BATCH):
        batch = new[start : start + _BATCH]
        left = _converted(batch, asked, kind, kept, _SECONDS + 3 * len(batch))
        for path in left if len(left) < len(batch) or len(batch) == 1 else batch:
            _converted([path], asked, kind, kept, _SECONDS)
    return {path: _text(_results(kept, name, ending)) for path, name in asked.items() if _results(kept, name, ending)}


def _results(kept: Path, name: str, ending: str) -> list[Path]:
    return sorted(kept.glob(f"{name}*.{ending}"))


def _converted(batch: Iterable[Path], asked: dict[Path, str], kind: str, kept: Path, seconds: int) -> list[Path]:
    """Convert the files of a batch; return those of which nothing came."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        names = {path: Path(folder) / f"{asked[path]}.{kind}" for path in batch}
        for path, name in names.items():
            shutil.copy(path, name)
        profile = (kept / f"profile-{os.getpid()}").resolve()
        if not profile.exists():
            (profile / "user").mkdir(parents=True)
            (profile / "user" / "registrymodifications.xcu").write_text(_AS_SAVED)
        command = ["soffice", f"-env:UserInstallation={profile.as_uri()}", "--headless", "--norestore"]
        command += ["--convert-to", FILTERS[kind], "--outdir", str(kept), *map(str, names.values())]
        office = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        try:
            office.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(office.pid, signal.SIGKILL)  # its starter alone would leave it
            office.wait()
    ending = FILTERS[kind].partition(":")[0]
    return [path for path in names if not _results(kept, asked[path], ending)]


def _text(results: Iterable[Path]) -> str:
    texts: list[str] = []
    for result in results:
        if result.suffix == ".fodp":
            texts += _of_slides(ElementTree.parse(result).getroot())
        else:
            texts.append(result.read_text(encoding="utf-8", errors="replace"))
    return "\n".join(texts)


def _of_slides(deck: ElementTree.Element) -> Iterator[str]:
    """Yield the paragraphs of the slides, and those that their masters show, without dates and numbers of pages.

    Charts and other embedded objects are left out, since their axes are made up anew, and comments.
    """
    used = {page.get(_DRAW + "master-page-name") for page in deck.iter(_DRAW + "page")}
    for holder in deck.iter():
        if holder.tag == _DRAW + "page" or (holder.tag == _MASTER and holder.get(_NAME) in used):
            for frame in list(holder):
                if holder.tag != _MASTER or not any(name.endswith("}class") for name in frame.attrib):
                    yield from _paragraphs(frame)


def _paragraphs(part: ElementTree.Element) -> Iterator[str]:
    if part.tag in _ANEW:
        return
    if part.tag == _TEXTS + "p":
        yield _said(part)
    for child in part:
        yield from _paragraphs(child)


def _said(part: ElementTree.Element) -> str:
    text = "" if part.tag in _ANEW else (part.text or "")
    text += "\n" if part.tag in (_TEXTS + "line-break", _TEXTS + "tab", _TEXTS + "s") else ""
    return text + "".join(_said(child) + (child.tail or "") for child in part if part.tag not in _ANEW)
