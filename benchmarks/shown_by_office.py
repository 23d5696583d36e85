"""What LibreOffice shows of office files: texts as plain text, sheets as values, slides as printed pages.

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
from collections.abc import Iterable, Sequence
from pathlib import Path

_BATCH, _SECONDS = 25, 20
_TEXT, _PAGES = "txt:Text (encoded):UTF8", "pdf"
_CELLS = "csv:Text - txt - csv (StarCalc):44,34,76,1,,0,false,true,true,false,false,-1"
"""Separated by commas, as UTF-8, as shown, every sheet."""
FILTERS = {"docx": _TEXT, "odt": _TEXT, "xlsx": _CELLS, "ods": _CELLS, "pptx": _PAGES, "odp": _PAGES}


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
    texts = []
    for result in results:
        if result.suffix == ".pdf":
            done = subprocess.run(["pdftotext", str(result), "-"], capture_output=True, timeout=120)
            texts.append(done.stdout.decode("utf-8", "replace"))
        else:
            texts.append(result.read_text(encoding="utf-8", errors="replace"))
    return "\n".join(texts)
