"""EPUB: the book's chapters in the order of its spine."""

from __future__ import annotations

import io
import posixpath
import re
import zipfile
from urllib.parse import unquote

from bs4 import BeautifulSoup

from hive_agents.readers.decoding import decode
from hive_agents.readers.from_html import from_markup
from hive_agents.readers.imported import Imported, ImportFailure

_MAX_UNPACKED = 300_000_000
_PAGES = {"application/xhtml+xml", "text/html"}


def from_epub(data: bytes) -> Imported:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if sum(member.file_size for member in archive.infolist()) > _MAX_UNPACKED:
                raise ImportFailure(f"unpacks to over {_MAX_UNPACKED // 1_000_000} MB; split it")
            if "META-INF/encryption.xml" in archive.namelist() and "META-INF/rights.xml" in archive.namelist():
                raise ImportFailure("protected against copying: no text can be read from it")
            container = _xml(archive, "META-INF/container.xml")
            rootfile = container.find(re.compile(r"(?:.*:)?rootfile$"))
            if rootfile is None:
                raise ImportFailure("a zip archive, but no book: its container names no package")
            package = str(rootfile["full-path"])
            return _book(archive, package)
    except (zipfile.BadZipFile, KeyError) as error:
        raise ImportFailure(f"a broken .epub file: {error}") from None


def _book(archive: zipfile.ZipFile, package: str) -> Imported:
    book = _xml(archive, package)
    items = {
        str(item["id"]): item
        for item in book.find_all(re.compile(r"(?:.*:)?item$"))
        if item.get("id") and item.get("href")
    }
    parts = dict[str, str]()
    for reference in book.find_all(re.compile(r"(?:.*:)?itemref$")):
        item = items.get(str(reference.get("idref")))
        if item is None or item.get("media-type") not in _PAGES or "nav" in str(item.get("properties", "")).split():
            continue
        name = posixpath.normpath(posixpath.join(posixpath.dirname(package), unquote(str(item["href"]))))
        if name not in parts:  # a spine may name one without end
            parts[name] = from_markup(decode(archive.read(name))).markdown.strip()
    title = book.find(re.compile(r"(?:.*:)?title$"))
    chapters = filter(None, parts.values())
    return Imported("\n\n".join(chapters) + "\n", " ".join(title.get_text().split()) if title else None)


def _xml(archive: zipfile.ZipFile, name: str) -> BeautifulSoup:
    return BeautifulSoup(decode(archive.read(name)), "html.parser")
