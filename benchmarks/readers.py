"""How many of the words that a file shows are in its Markdown, or in what its reader counts as left out.

    python benchmarks/readers.py FOLDER... [--kinds KIND...] [--most N] [--each N] [--largest N] [--missing N]

Up to `--most` files of each kind, taken evenly from the folders right below each FOLDER. What they show is said by
others: Chromium for HTML (its `innerText`, without scripts), `pdftotext` for PDF, the texts in the XML of Office's
formats. A word that is missing is counted only if it is in a part that the reader says it left out: for HTML and PDF
the words of the very parts that it removed, for the others passages, rows, sheets and slides of the kind that it names.
Words are compared as often as they occur; of a workbook, those of cells with text.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import signal
import sys
import tempfile
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.shown_by_office import shown
from benchmarks.shown_words import OFFICE, ORACLES, Told, pages, rendered, saved, words
from hive_agents.readers import from_html, from_mail, from_markdown, from_pdf, html_shown, kind_of
from hive_agents.readers.conversion import convert_bytes, converted
from hive_agents.readers.imported import ImportFailure
from hive_agents.readers.registry import READERS

KINDS = ("html", "pdf", "docx", "xlsx", "pptx", "odt", "ods", "odp", "csv", "mail", "markdown", "rst", "text")
LEAST_SHARE = 0.995
SECONDS = 30
LARGEST = 150_000  # bytes of a file, so that many files take few minutes
_MARKUP = re.compile(r"\\([^\w\s])|[*`]|\]\([^)]*\)|(?<!\\)</?(?:br|su[bp])>")
_RAISED = re.compile(r"[\^_]\(?|(?<=\w)\[(?=\w+\])")


def squeezed(text: str) -> str:
    return "".join(re.findall(r"[^\W_]+", unicodedata.normalize("NFKC", text).casefold()))


# What the reader gives


def read(path: Path, kind: str) -> tuple[str, Counter[str], dict[str, int]]:
    """Return the Markdown of a file, the words of the HTML that was left out and counted, and what was counted."""
    removed: Counter[str] = Counter()
    remove = html_shown.remove

    def watched(elements: Any, left_out: Any = None, name: str = "", **how: Any) -> None:
        listed = list(elements)
        if left_out is not None:
            for element in listed:
                if not element.decomposed:
                    removed.update(words(element.get_text("\n")))
        remove(listed, left_out, name, **how)

    def without(dropping: Any) -> Any:
        def dropped(pages: Any) -> Any:
            before = words("\n".join(line.text for page in pages for line in page))
            after = dropping(pages)
            removed.update(before - words("\n".join(line.text for page in after for line in page)))
            return after

        return dropped

    def called(spans: Any, known: Any, text: str) -> str:
        listed = list(spans)
        removed.update(word for begin, end in listed for word in words(text[begin:end]).elements())
        return drop(listed, known, text)

    markdown_reader: Any = from_markdown
    drop, markdown_reader._dropped = markdown_reader._dropped, called
    pdf: Any = from_pdf
    html: Any = from_html
    shown: Any = html_shown
    running, contents, leader = pdf._without_running_lines, pdf.without_contents, pdf.LEADER
    shown.remove = html.remove = watched
    pdf._without_running_lines, pdf.without_contents = without(running), without(contents)
    pdf.LEADER = _Watched(leader, removed)
    try:
        markdown, title, _, _, left_out = converted(path.read_bytes(), kind, [])
    finally:
        shown.remove = html.remove = remove
        markdown_reader._dropped = drop
        pdf._without_running_lines, pdf.without_contents, pdf.LEADER = running, contents, leader
    if "hidden" in READERS[kind].settings and any(name.startswith("hidden") for name in left_out):
        removed.update(words(converted(path.read_bytes(), kind, ["hidden"])[0]) - words(markdown))
    return "\n".join([title or "", markdown, *attached_texts(path, kind, removed)]), removed, left_out


def attached_texts(path: Path, kind: str, removed: Counter[str]) -> Iterator[str]:
    """Yield the texts of a mail's attachments, which an import makes documents of their own."""
    for name, data in from_mail.attached(path.read_bytes()) if kind == "mail" else ():
        try:
            yield convert_bytes(name, data or b"").markdown
        except ImportFailure:  # is told for each file by an import
            removed.update(words((data or b"").decode("utf-8", "replace")))
            removed.update(words((data or b"").decode("latin-1")))


class _Watched:
    """The pattern of leaders: what it finds is dropped as the page number of an entry of contents."""

    def __init__(self, pattern: re.Pattern[str], removed: Counter[str]) -> None:
        self._pattern, self._removed = pattern, removed

    def search(self, text: str) -> re.Match[str] | None:
        found = self._pattern.search(text)
        if found:
            self._removed.update(words(found["page"] or ""))
        return found


@dataclass
class Row:
    files: int = 0
    unread: Counter[str] = field(default_factory=Counter)
    shown: int = 0
    there: int = 0
    counted: int = 0
    silent: list[tuple[int, int, str, list[str]]] = field(default_factory=list)

    @property
    def share(self) -> float:
        return (self.there + self.counted) / self.shown if self.shown else 1.0


def _unpadded(counted: Counter[str]) -> Counter[str]:
    """Return words with numbers without the zeros that they begin with."""
    plain: Counter[str] = Counter()
    for word, number in counted.items():
        plain[(word.lstrip("0") or "0") if word.isdecimal() else word] += number
    return plain


def compare(
    told: Told, markdown: str, removed: Counter[str], left_out: dict[str, int], *, dates: bool = False
) -> tuple[int, Counter[str]]:
    """Return how many missing words are counted as left out, and those that aren't."""
    plain = _MARKUP.sub(r"\1", markdown)
    # A sign of code is no markup, and what is raised or a note's number is beside its word elsewhere.
    missing = told.shown - (words(plain) | words(markdown) | words(_RAISED.sub("", plain)))
    if dates:  # of a workbook: 4/12/2023 is 2023-04-12
        missing = _unpadded(told.shown) - (_unpadded(words(plain)) | _unpadded(words(markdown)))
    run = squeezed(plain) if missing else ""
    # One word here may be two there, or a part of one: `x2` beside `x^2`.
    missing = Counter({
        word: number for word, number in missing.items()
        if len(word) < 4 or run.count(word) < told.shown[word]
    })  # fmt: skip
    excused = Counter(removed)
    for kind, of_it in told.apart.items():
        if left_out.get(kind):
            excused += of_it
    silent = missing - (_unpadded(excused) if dates else excused)
    return missing.total() - silent.total(), silent


def at_once(paths: list[Path], kind: str, kept: Path, letters: bool = False) -> dict[Path, Told]:
    """Return what the files of a kind show whose program is started once for many."""
    if kind == "html":
        return asyncio.run(pages(paths))
    if kind in ("markdown", "rst"):
        return rendered(paths, kind)
    told: dict[Path, Told] = {}
    for path, text in (saved(paths) if kind == "ods" else shown(paths, kind, kept)).items():
        if letters and kind in ("xlsx", "ods"):
            text = re.sub(r"(?<![^\W_])\d+(?![^\W_])", " ", text)
        try:
            in_parts = OFFICE[kind](path) if kind in OFFICE else Told(Counter())
        except Exception:  # of an archive that LibreOffice mends
            in_parts = Told(Counter())
        text = text.replace("Error: Reference source not found", "")  # the XML has what was shown there
        seen = words(text) - in_parts.twice
        drawn = {"embedded objects": seen - in_parts.shown} if kind == "pptx" else {}
        told[path] = Told(seen | in_parts.shown, in_parts.apart | drawn)
    return told


def measured(
    folders: list[Path], kinds: list[str], most: int, each: int, largest: int, kept: Path, letters: bool
) -> dict[str, Row]:
    rows = {}
    for kind in kinds:
        paths = list(taken(folders, kind, most, each, largest))
        told_at_once = kind not in ORACLES
        told_of = at_once(paths, kind, kept, letters) if told_at_once and paths else {}
        row = rows[kind] = Row()
        for path in paths:
            if path not in told_of and told_at_once:
                row.unread["not shown"] += 1
                continue
            signal.alarm(SECONDS)  # here is no sandbox, and some files are made to hold one up
            try:
                markdown, removed, left_out = read(path, kind)
            except ImportFailure as failure:
                row.unread[str(failure)[:60]] += 1
                continue
            except Exception as error:  # what a sandbox would report
                row.unread[f"{type(error).__name__}: {error}"[:60]] += 1
                continue
            finally:
                signal.alarm(0)
            try:
                told = told_of[path] if told_at_once else ORACLES[kind](path)
            except Exception as error:
                row.unread[f"no oracle: {type(error).__name__}"] += 1
                continue
            counted, silent = compare(told, markdown, removed, left_out, dates=kind in ("xlsx", "ods"))
            row.files += 1
            row.shown += told.shown.total()
            row.counted += counted
            row.there += told.shown.total() - counted - silent.total()
            if silent:
                row.silent.append(
                    (silent.total(), told.shown.total(), str(path), [w for w, _ in silent.most_common(12)])
                )
    return rows


def taken(folders: list[Path], kind: str, most: int, each: int, largest: int) -> Iterator[Path]:
    groups = [
        sorted(path for path in (below.rglob("*") if below.is_dir() else [below])
               if kind_of(path.name) == kind and path.is_file() and not path.is_symlink()
               and path.suffix != ".gz" and 0 < path.stat().st_size <= largest)
        for folder in folders
        for below in sorted(folder.iterdir())
    ]  # fmt: skip
    chosen = [group[:: max(1, len(group) // each)][:each] for group in groups if group]
    yield from [path for at in range(each) for group in chosen for path in group[at : at + 1]][:most]


def _late(*_: object) -> None:
    raise TimeoutError(f"longer than {SECONDS} seconds")


def main() -> int:
    signal.signal(signal.SIGALRM, _late)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--most", type=int, default=400)
    parser.add_argument("--each", type=int, default=40, help="files of each folder")
    parser.add_argument("--largest", type=int, default=LARGEST, help="bytes of a file")
    parser.add_argument("--missing", type=int, default=0, help="show so many files of each kind that miss most")
    parser.add_argument("--kept", type=Path, default=Path(tempfile.mkdtemp()), help="what LibreOffice showed before")
    parser.add_argument("--letters", action="store_true", help="of workbooks no numbers, which programs calculate anew")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    rows = measured(given.folders, given.kinds, given.most, given.each, given.largest, given.kept, given.letters)
    print("| kind | files | not read | words shown | in the Markdown | counted | neither | share |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for kind, row in rows.items():
        lost = row.shown - row.there - row.counted
        figures = [row.files, row.unread.total(), row.shown, row.there, row.counted, lost]
        print(f"| {kind} | " + " | ".join(f"{figure:,}" for figure in figures) + f" | {row.share:.2%} |")
    for kind, row in rows.items():
        for why, number in row.unread.most_common(given.missing):
            print(f"{kind}: not read {number} × {why}")
        for lost, of, path, some in sorted(row.silent, reverse=True)[: given.missing]:
            print(f"{kind}: {lost} of {of} {path}: {' '.join(some)}")
    if given.json:
        found = {kind: {"files": row.files, "shown": row.shown, "share": row.share} for kind, row in rows.items()}
        given.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return int(any(row.files and row.share < LEAST_SHARE for row in rows.values()))


if __name__ == "__main__":
    sys.exit(main())
