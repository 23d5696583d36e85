"""What files show, said by other programs than the readers that are measured.

Chromium says it of HTML, and of what `cmark-gfm` makes of Markdown and Debian's docutils of reStructuredText;
`pdftotext` of PDF, LibreOffice and the texts in their XML of office files, `mshow` of mails. Plain texts and CSV say it
themselves.
"""

from __future__ import annotations

import asyncio
import binascii
import html
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unicodedata
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

_SHOWN = """() => {
    document.querySelectorAll('noscript').forEach(each => each.remove());
    return document.body ? document.body.innerText : '';
}"""
"""What a browser shows that runs scripts, which this one doesn't."""
_BETWEEN = re.compile(r"(?<=\w)[-\u2010\u00ad]\s*\n\s*(?=\w)|[\u00ad\u200b-\u200d\ufeff]")
_LIGATURES = dict(zip("\x1b\x1c\x1d\x1e\x1f\x0b\x0c\x0d\x0e\x0f", ("ff", "fi", "fl", "ffi", "ffl") * 2, strict=True))
"""What pdftotext gives as control characters, of TeX's fonts."""

_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(?:[\w.-]+:.*\n|[ \t].*\n|- .*\n|#.*\n|\s*\n)+?---[ \t]*\n")
_BY_DOCUTILS = """
import re
from docutils import nodes, utils
from docutils.core import publish_cmdline
from docutils.parsers.rst import directives, roles
from docutils.parsers.rst.directives.parts import Contents

known = roles.role
def shown(name, raw, text, number, inliner, options=None, content=None):
    titled = re.fullmatch(r'(?s)(.+?)\\s*\\x00?<[^<>]*>', text)
    return [nodes.inline(raw, utils.unescape(titled[1] if titled else text))], []
def role(name, language, number, reporter):
    found, messages = known(name, language, number, reporter)
    return (found, messages) if found else (shown, [])
roles.role = role
Contents.run = lambda self: []
publish_cmdline(writer_name='html')
"""
"""Roles of Sphinx are shown by their texts, as it shows them; a list of contents, which repeats the headings, isn't."""
_RENDERERS = {
    "markdown": ["cmark-gfm", "--unsafe", "-e", "table", "-e", "strikethrough", "-e", "autolink", "-e", "tasklist"],
    "rst": ["/usr/bin/python3", "-c", _BY_DOCUTILS, "--report=5", "--halt=5", "--no-file-insertion", "-q"],
}
_OF_MSHOW = re.compile(
    r"^(?:--- )+.*---\n|^no filter or default handler\n|^--- \d+:.*\n|(?<=\d) \(\d+ (?:year|week|day|hour|minute).*\)$",
    re.M,
)
_WITHIN = re.compile(r"^(?:--- )+\d+: message/rfc822.*\n(?P<heads>(?:[^\n]+\n)*)", re.M)
_SHOWN_HEADERS = re.compile(r"(?i)(?:from|to|cc|date|subject):")
_LABELS = re.compile(r"^Subject: |^Date: .*$|^Reply-To: .*$", re.M)
"""The subject is the title; dates are written anew by `mshow`."""
_UUENCODED = re.compile(r"^begin [0-7]{3,4} ?[^\n]*\n(?P<rows>(?:[!-`]{1,61}\n)+)(?:end[ \t]*$|\Z)", re.M)
_OF_TEXT = bytes([9, 10, 13, *range(32, 127), *range(160, 256)])
_YENCODED = re.compile(r"^=ybegin .*?(?:^=yend .*?$|\Z)", re.M | re.S)
_RICH = re.compile(r"^(?:--- )+\d+: text/(?:richtext|enriched)[^\n]*\n.*?(?=^--- |\Z)", re.M | re.S)


_MOST_REPEATED = 1_000
_OF_LINES = re.compile(r"(?:LINEW?|LCIRCLEW?)\d")
_FONT = re.compile(r'<fontspec id="(\d+)"[^>]* family="([^"]*)"')
_IN_FONT = re.compile(r'<text [^>]*font="(\d+)">(.*?)</text>')


@dataclass
class Told:
    """What a file shows: its words, and those of passages that belong to a kind of things left out."""

    shown: Counter[str]
    apart: dict[str, Counter[str]] = field(default_factory=dict)
    twice: Counter[str] = field(default_factory=Counter)
    """Of passages that were moved, where they were: LibreOffice shows them there, too."""


def words(text: str) -> Counter[str]:
    text = unicodedata.normalize("NFKC", _BETWEEN.sub("", text)).casefold()
    return Counter(re.findall(r"[^\W_]+", text))


async def pages(paths: list[Path]) -> dict[Path, Told]:
    """Return what Chromium shows of HTML files."""
    from playwright.async_api import async_playwright

    shown: dict[Path, Told] = {}
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
    """Return the words of a PDF that `pdftotext` shows in both of its orders, without pieces of lines.

    A word that only one order has it tore apart, ran together, or read backwards. The letters of LaTeX's fonts of line
    pieces are no text.
    """
    ways: list[Counter[str]] = []
    for order in ([], ["-raw"]):
        done = subprocess.run(["pdftotext", *order, str(path), "-"], capture_output=True, timeout=120)
        ways.append(printed_words(done.stdout.decode("utf-8", "replace")))
    return Told((ways[0] & ways[1]) - _pieces(path))


def _pieces(path: Path) -> Counter[str]:
    fonts = subprocess.run(["pdffonts", str(path)], capture_output=True, timeout=120).stdout.decode("utf-8", "replace")
    if not _OF_LINES.search(fonts):
        return Counter()
    command = ["pdftohtml", "-xml", "-i", "-hidden", "-fontfullname", "-stdout", str(path)]
    pages = subprocess.run(command, capture_output=True, timeout=120).stdout.decode("utf-8", "replace")
    drawing = {number for number, name in _FONT.findall(pages) if _OF_LINES.search(name)}
    return words("\n".join(html.unescape(text) for number, text in _IN_FONT.findall(pages) if number in drawing))


def printed_words(text: str) -> Counter[str]:
    # A form feed that begins a line is the end of a page.
    return words(re.sub(r"[\x1b-\x1f\v\r-\x0f]|(?<=[^\n\f])\f", lambda sign: _LIGATURES[sign[0]], text))


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
    parts, contents, hidden, moved, deleted = [], [], [], [], []
    with zipfile.ZipFile(path) as archive:
        named = {
            next((text for key, text in style.attrib.items() if key.endswith("}styleId")), ""): _value_of(style, "name")
            for _, tree in _trees(archive, r"word/styles\.xml")
            for style in tree.iter()
            if _local(style) == "style"
        }
        for _, tree in _trees(archive, r"word/(?:document|footnotes|endnotes)\d*\.xml"):
            deleted.append(_said(tree, "delText"))
            for holder in list(tree.iter()):
                for child in list(holder):
                    if _local(child) in ("Fallback", "moveFrom"):
                        moved += [_said(child)] if _local(child) == "moveFrom" else []
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
    apart["deleted passages"] = words("\n".join(deleted))
    return Told(words("\n".join(parts)), apart, words("\n".join(moved)))


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
        margins = [
            _said(shape)
            for _, tree in _trees(archive, r"ppt/notesSlides/notesSlide\d+\.xml")
            for shape in tree.iter()
            if _local(shape) == "sp" and any(part.get("type") in ("hdr", "ftr") for part in shape.iter())
        ]
    of_notes = {"headers and footers of notes": words("\n".join(margins))}
    return Told(words("\n".join(parts)), {"hidden slides": words("\n".join(hidden))} | of_notes)


def opened(path: Path) -> Told:
    """Return the words of an OpenDocument text or deck, with its notes and boxes, without what was deleted."""
    contents, parts = [], []
    with zipfile.ZipFile(path) as archive:
        for _, tree in _trees(archive, r"content\.xml"):
            for holder in list(tree.iter()):
                for child in list(holder):
                    if _local(child) in ("tracked-changes", "annotation", "forms", "title", "desc"):
                        tail = child.tail or ""
                        child.clear()
                        child.tail = tail
                    elif _local(child).endswith(("-of-content", "-index")):
                        contents += ["".join(part.itertext()) for part in child.iter() if _local(part) == "p"]
            parts += [_drawn(part) for part in tree.iter() if _local(part) in ("p", "h")]
    return Told(words("\n".join(parts)), {"lines of contents": words("\n".join(contents))})


def _drawn(paragraph: ElementTree.Element) -> str:
    """Return a paragraph's text without those of the paragraphs within it."""
    text = paragraph.text or ""
    for part in paragraph:
        if _local(part) in ("p", "h"):
            text += "\n"
        else:
            text += ("\n" if _local(part) in ("s", "tab", "line-break", "frame") else "") + _drawn(part)
        text += part.tail or ""
    return text


def saved(paths: Sequence[Path]) -> dict[Path, str]:
    """Return the texts that the cells of OpenDocument sheets were saved with, as their program showed them.

    LibreOffice calculates formulas and writes dates, numbers and truth values anew, in its own language.
    """
    found = {}
    for path in paths:
        try:
            with zipfile.ZipFile(path) as archive:
                found[path] = "\n".join(_saved_rows(ElementTree.fromstring(archive.read("content.xml"))))
        except (zipfile.BadZipFile, KeyError, ElementTree.ParseError) as error:
            print(f"{path}: {error}", file=sys.stderr)
    return found


def _saved_rows(sheets: ElementTree.Element) -> Iterator[str]:
    for row in (part for part in sheets.iter() if _local(part) == "table-row"):
        texts = [
            _drawn(text)
            for cell in row
            if _local(cell) == "table-cell"
            for _ in range(_repeated(cell, "columns"))
            for text in cell
            if _local(text) == "p"
        ]
        yield "\n".join(texts * _repeated(row, "rows"))


def _repeated(part: ElementTree.Element, of: str) -> int:
    count = next((text for name, text in part.attrib.items() if name.endswith(f"}}number-{of}-repeated")), "1")
    return min(int(count), _MOST_REPEATED)


OFFICE = {"docx": document, "xlsx": workbook, "pptx": slides, "odt": opened, "odp": opened}
"""What the XML says beside LibreOffice, which shows no footnotes of a text, and leaves out what is hidden."""


def rendered(paths: Sequence[Path], kind: str) -> dict[Path, Told]:
    """Return what Chromium shows of Markdown by cmark-gfm, or of reStructuredText by docutils of Debian."""
    with tempfile.TemporaryDirectory() as folder:
        files = {}
        for number, path in enumerate(paths):
            text = _FRONT_MATTER.sub("", path.read_text(encoding="utf-8-sig", errors="replace"))
            page = Path(folder) / f"{number}.html"
            done = subprocess.run(_RENDERERS[kind], input=text.encode(), capture_output=True, cwd=folder)
            body = done.stdout.decode("utf-8", "replace")
            page.write_text(f"<meta charset=utf-8>{body}" if kind == "markdown" else body, encoding="utf-8")
            files[page] = path
        found = asyncio.run(pages(list(files)))
    return {files[page]: told for page, told in found.items()}


def itself(path: Path) -> Told:
    """Return the words of a text that is as it is shown."""
    data = path.read_bytes()
    wide = data[:2] in (b"\xff\xfe", b"\xfe\xff")
    try:
        return Told(words(data.decode("utf-16" if wide else "utf-8-sig")))
    except UnicodeDecodeError:
        return Told(words(data.decode("windows-1252", "replace")))


def mail(path: Path) -> Told:
    """Return what `mshow` shows of a mail, HTML by `w3m`, without its own lines about parts."""
    with tempfile.TemporaryDirectory() as folder:
        charset = '-I "${PIPE_CHARSET:-UTF-8}"'
        Path(folder, "filter").write_text(f"text/html: w3m -dump -T text/html {charset} -O UTF-8 -cols 200\n")
        done = subprocess.run(
            ["mshow", str(path)], capture_output=True, timeout=60,
            env={**os.environ, "MBLAZE": folder, "LC_ALL": "C.UTF-8"},
        )  # fmt: skip
    text = _RICH.sub(lambda part: re.sub(r"</?\w+>", "", part[0]), done.stdout.decode("utf-8", "replace"))
    text = _OF_MSHOW.sub("", _WITHIN.sub(_main_headers, text))
    # mshow shows files within a text in their encoding: their words are those of text files, once decoded.
    packed = "\n".join(_YENCODED.findall(text))
    text = _UUENCODED.sub(_decoded, _YENCODED.sub("", text))
    text = _LABELS.sub("", text)
    return Told(words(text) + words(packed), {"attachments that can't be read": words(packed)})


def _decoded(file: re.Match[str]) -> str:
    data = b"".join(map(binascii.a2b_uu, file["rows"].splitlines()))
    return data.decode("latin-1") if data.translate(None, _OF_TEXT) == b"" else ""


def _main_headers(part: re.Match[str]) -> str:
    """Return the headers of a mail within a mail that mail programs show."""
    heads = re.sub(r"\n[ \t]+", " ", part["heads"]).split("\n")
    return "\n".join(line for line in heads if _SHOWN_HEADERS.match(line)) + "\n"


ORACLES = {"pdf": printed, "csv": itself, "text": itself, "mail": mail}
