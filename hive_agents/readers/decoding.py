"""Decoding of bytes to text."""

from __future__ import annotations

import codecs
import re

from hive_agents.readers.imported import ImportFailure

_MARKS = [
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
]
_ASCII = frozenset({"ascii", "us-ascii", "ansi_x3.4-1968"})
_DEFAULTS = _ASCII | {"iso-8859-1", "iso8859-1", "iso_8859-1", "latin1", "latin-1", "windows-1252", "cp1252"}
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f]")
_TERMINAL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|.\x08")  # colours, and the overstrikes of formatted manual pages
_FEW, _MOST = 0.02, 0.15
_HIGH = re.compile(rb"[\x80-\xff]")
# Letters of Western languages and punctuation in Windows-1252, in runs of one or two: rare in other encodings.
_SIGNS = rb"[\x85\x91-\x97\xa0\xa1\xa7\xab\xb0\xb7\xbb\xbf-\xcf\xd1-\xdc\xdf-\xef\xf1-\xfc]"
_WESTERN = re.compile(rb"(?<![\x80-\xff])" + _SIGNS + rb"{1,2}(?![\x80-\xff])")


def decode(data: bytes, declared: str | None = None) -> str:
    """Return the text with "\\n" as line ends; the encoding is that of a byte order mark, else `declared`, else UTF-8.

    Where that fails, Windows-1252 is assumed if at most 2 % of the bytes aren't ASCII, or up to 15 % that are nearly
    all Western letters in runs of one or two: a wrong guess would fill the index with words that nobody searches for.
    Raises: ImportFailure for anything else.
    """
    marked = next((name for mark, name in _MARKS if data.startswith(mark)), None)
    encoding = marked or _meant(data, declared) or _escaped(data) or "utf-8"
    try:
        text = data.decode(encoding).removeprefix("\ufeff")
    except LookupError:
        raise ImportFailure(f"its encoding is called {encoding!r}, which nothing knows; save it as UTF-8") from None
    except UnicodeDecodeError as error:
        if b"\0" in data[:4096]:
            raise ImportFailure("holds binary data, not text; does its suffix fit?") from None
        if not _is_western(data):
            line = data.count(b"\n", 0, error.start) + 1
            raise ImportFailure(f"not valid {encoding.upper()} (line {line}); save it as UTF-8") from None
        text = data.decode("windows-1252", "replace")
    text = _TERMINAL.sub("", text)
    if len(_CONTROL.findall(text)) > len(text) // 200:
        raise ImportFailure("holds binary data, not text; does its suffix fit?")
    return _CONTROL.sub("", re.sub(r"\r\n?|[\f\v\x85\u2028\u2029]", "\n", text))


def _meant(data: bytes, declared: str | None) -> str | None:
    """Return the encoding that is meant by `declared`: many programs say ASCII or Latin-1 of whatever they write."""
    if declared is None or declared.lower() not in _DEFAULTS:
        return declared
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return "windows-1252" if declared.lower() not in _ASCII else None
    return None


def _is_western(data: bytes) -> bool:
    high = len(_HIGH.findall(data))
    if high <= len(data) * _FEW:
        return True
    return high <= len(data) * _MOST and sum(map(len, _WESTERN.findall(data))) >= high * 0.95


def _escaped(data: bytes) -> str | None:
    """Return the encoding of ISO 2022 text by its escape sequences, else None."""
    if b"\x1b$)C" in data:
        return "iso2022_kr"
    return "iso2022_jp_2" if b"\x1b$B" in data or b"\x1b$@" in data else None
