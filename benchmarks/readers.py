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
import shutil
import signal
import subprocess
import sys
import unicodedata
import zipfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from hive_agents.readers import from_html, from_pdf, html_shown, kind_of
from hive_agents.readers.conversion import converted
from hive_agents.readers.imported import ImportFailure

KINDS = ("html", "pdf", "docx", "xlsx", "pptx")
LEAST_SHARE = 0.995
SECONDS = 30
LARGEST = 150_000  # bytes of a file, so that many files take few minutes
_SHOWN = """() => {
    document.querySelectorAll('noscript').forEach(each => each.remove());
    return document.body ? document.body.innerText : '';
}"""
"""What a browser shows that runs scripts, which this one doesn't."""
_BETWEEN = re.compile(r"(?<=\w)[-\u2010\u00ad]\s*\n\s*(?=\w)|[\u00ad\u200b-\u200d\ufeff]")
_LIGATURES = dict(zip("\x1b\x1c\x1d\x1e\x1f\x0b\x0c\x0d\x0e\x0f", ("ff", "fi", "fl", "ffi", "ffl") * 2, strict=True))
"""What pdftotext gives as control characters, of TeX's fonts."""
_MARKUP = re.compile(r"\\(?=[^\w\s])|[*`]|\]\([^)]*\)|(?<!\\)</?(?:br|su[bp])>")


@dataclass
class Told:
    """What a file shows: its words, and those of passages that belong to a kind of things left out."""

    shown: Counter[str]
    apart: dict[str, Counter[str]] = field(default_factory=dict)


def words(text: str) -> Counter[str]:
    text = unicodedata.normalize("NFKC", _BETWEEN.sub("", text)).casefold()
    return Counter(re.findall(r"[^\W_]+", text))


def squeezed(text: str) -> str:
    return "".join(re.findall(r"[^\W_]+", unicodedata.normalize("NFKC", text).casefold()))


# What a file shows


async def pages(paths: list[Path]) -> dict[Path, Told]:
    """Return what Chromium shows of HTML files."""
    from playwright.async_api import async_playwright

    shown = {}
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        context = await browser.new_context(java_script_enabled=False, offline=True)
        page = await context.new_page()
        for path in paths:
            try:
                await page.goto(path.resolve().as_uri(), wait_until="domcontentloaded", timeout=10_000)
                text = await page.evaluate(_SHOWN)
                if page.url == path.resolve().as_uri():  # else it leads to another page, which the reader wasn't given
                    shown[path] = Told(words(text))
            except Exception as error:  # a page that the browser can't open says nothing of the reader
                print(f"{path}: {str(error).splitlines()[0]}", file=sys.stderr)
                await page.close()
                page = await context.new_page()
        await browser.close()
    return shown


def printed(path: Path) -> Told:
    done = subprocess.run(["pdftotext", str(path), "-"], capture_output=True, timeout=120)
    text = done.stdout.decode("utf-8", "replace")
    # A form feed that begins a line is the end of a page.
    return Told(words(re.sub(r"[\x1b-\x1f\v\r-\x0f]|(?<=[^\n\f])\f", lambda sign: _LIGATURES[sign[0]], text)))


def _local(part: ElementTree.Element) -> str:
    return part.tag.rpartition("}")[2]


def _trees(archive: zipfile.ZipFile, pattern: str) -> Iterator[tuple[str, ElementTree.Element]]:
    for name in sorted(archive.namelist()):
        if re.fullmatch(pattern, name):
            yield name, ElementTree.fromstring(archive.read(name))


def _said(part: ElementTree.Element, within: str = "t") -> str:
    pieces = []
    for each in part.iter():
        if _local(each) == within and each.text:
            pieces.append(each.text)
        elif _local(each) in ("p", "br", "tab", "cr", "tc", "si", "noBreakHyphen"):
            pieces.append("\n")
    return "".join(pieces)


def _value_of(holder: ElementTree.Element, name: str) -> str:
    part = next((part for part in holder.iter() if _local(part) == name), None)
    return "" if part is None else "".join(part.attrib.values())


def document(path: Path) -> Told:
    """Return the words of a DOCX: its text and notes, one of the alternatives of a drawing, no deleted passages."""
    parts, contents, hidden = [], [], []
    with zipfile.ZipFile(path) as archive:
        named = {
            next((text for key, text in style.attrib.items() if key.endswith("}styleId")), ""): _value_of(style, "name")
            for _, tree in _trees(archive, r"word/styles\.xml")
            for style in tree.iter()
            if _local(style) == "style"
        }
        for _, tree in _trees(archive, r"word/(?:document|footnotes|endnotes)\d*\.xml"):
            for holder in list(tree.iter()):
                for child in list(holder):
                    if _local(child) in ("Fallback", "moveFrom"):
                        holder.remove(child)
            for paragraph in (part for part in tree.iter() if _local(part) == "p"):
                if named.get(_value_of(paragraph, "pStyle"), "").lower().startswith(("toc", "table of figures")):
                    contents.append(_said(paragraph))
            hidden += [
                _said(run)
                for run in tree.iter()
                if _local(run) == "r" and any(_local(part) in ("vanish", "webHidden") for part in run.iter())
            ]
            parts.append(_said(tree))
    apart = {"lines of contents": words("\n".join(contents)), "hidden passages": words("\n".join(hidden))}
    return Told(words("\n".join(parts)), apart)


def workbook(path: Path) -> Told:
    parts, hidden = [], []
    with zipfile.ZipFile(path) as archive:
        texts = [
            "".join(t.text or "" for r in item for t in ([r] if _local(r) == "t" else r if _local(r) == "r" else [])
                    if _local(t) == "t")
            for _, tree in _trees(archive, r"xl/sharedStrings\.xml")
            for item in tree
        ]  # fmt: skip
        states = [
            each.get("state") for _, tree in _trees(archive, r"xl/workbook\.xml") for each in tree.iter()
            if _local(each) == "sheet"
        ]  # fmt: skip
        out_of_sight = any(state in ("hidden", "veryHidden") for state in states)
        for _, tree in _trees(archive, r"xl/worksheets/sheet\d*\.xml"):
            for row in (part for part in tree.iter() if _local(part) == "row"):
                for cell in row:
                    value = next((part.text or "" for part in cell if _local(part) == "v"), "")
                    kind = cell.get("t")
                    text = (
                        texts[int(value)] if kind == "s" and value.strip().isdigit() and int(value) < len(texts)
                        else value if kind == "str" else _said(cell) if kind == "inlineStr" else ""
                    )  # fmt: skip
                    parts.append(text)
                    if row.get("hidden") in ("1", "true"):
                        hidden.append(text)
            spans = [part for part in tree.iter() if _local(part) == "col" and part.get("hidden") in ("1", "true")]
            out_of_sight = out_of_sight or bool(spans)
    everything = words("\n".join(parts))
    # Which sheet and column is hidden is not resolved here: where one is, its words can't be told from the others'.
    some = everything if out_of_sight else Counter()
    return Told(everything, {"hidden rows": words("\n".join(hidden)), "hidden sheets": some, "hidden columns": some})


def slides(path: Path) -> Told:
    parts, hidden = [], []
    with zipfile.ZipFile(path) as archive:
        for _, tree in _trees(archive, r"ppt/slides/slide\d+\.xml"):
            text = _said(tree)
            parts.append(text)
            if tree.get("show") in ("0", "false"):
                hidden.append(text)
    return Told(words("\n".join(parts)), {"hidden slides": words("\n".join(hidden))})


ORACLES: dict[str, Any] = {"pdf": printed, "docx": document, "xlsx": workbook, "pptx": slides}


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

    running, contents, leader = from_pdf._without_running_lines, from_pdf.without_contents, from_pdf.LEADER
    html_shown.remove = from_html.remove = watched  # type: ignore[attr-defined]
    from_pdf._without_running_lines, from_pdf.without_contents = without(running), without(contents)
    from_pdf.LEADER = _Watched(leader, removed)  # type: ignore[assignment]
    try:
        markdown, title, _, _, left_out = converted(path.read_bytes(), kind, [])
    finally:
        html_shown.remove = from_html.remove = remove  # type: ignore[attr-defined]
        from_pdf._without_running_lines, from_pdf.without_contents, from_pdf.LEADER = running, contents, leader
    return f"{title or ''}\n{markdown}", removed, left_out


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


def compare(told: Told, markdown: str, removed: Counter[str], left_out: dict[str, int]) -> tuple[int, Counter[str]]:
    """Return how many missing words are counted as left out, and those that aren't."""
    plain = _MARKUP.sub("", markdown)
    missing = told.shown - words(plain)
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
    silent = missing - excused
    return missing.total() - silent.total(), silent


def measured(folders: list[Path], kinds: list[str], most: int, each: int, largest: int) -> dict[str, Row]:
    rows = {}
    for kind in kinds:
        paths = list(taken(folders, kind, most, each, largest))
        shown = asyncio.run(pages(paths)) if kind == "html" and paths else {}
        row = rows[kind] = Row()
        for path in paths:
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
                told = shown[path] if kind == "html" else ORACLES[kind](path)
            except Exception as error:
                row.unread[f"no oracle: {type(error).__name__}"] += 1
                continue
            counted, silent = compare(told, markdown, removed, left_out)
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
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    rows = measured(given.folders, given.kinds, given.most, given.each, given.largest)
    print("| kind | files | not read | words shown | in the Markdown | counted | neither | share |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for kind, row in rows.items():
        lost = row.shown - row.there - row.counted
        figures = [row.files, row.unread.total(), row.shown, row.there, row.counted, lost]
        print(f"| {kind} | " + " | ".join(f"{figure:,}" for figure in figures) + f" | {row.share:.2%} |")
    for kind, row in rows.items():
        for why, number in row.unread.most_common(given.missing):
            print(f"{kind}: not read {number} × {why}")
        for lost, shown, path, some in sorted(row.silent, reverse=True)[: given.missing]:
            print(f"{kind}: {lost} of {shown} {path}: {' '.join(some)}")
    if given.json:
        found = {kind: {"files": row.files, "shown": row.shown, "share": row.share} for kind, row in rows.items()}
        given.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return int(any(row.files and row.share < LEAST_SHARE for row in rows.values()))


if __name__ == "__main__":
    sys.exit(main())
