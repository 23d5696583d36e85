"""Conversion of files of all kinds to Markdown."""

from __future__ import annotations

import os
import re
import stat
import zlib
from collections.abc import Iterator, Set
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

from hive_agents.base.files import Exceeded, sandbox
from hive_agents.readers.imported import Imported, ImportFailure, TableRow
from hive_agents.readers.registry import MAX_BYTES, READERS, kind_of, unsupported

_LEAST_SECONDS = 10
"""PDFium follows what a file names again and again, such as forms within forms, before anything of it is shown. An
ordinary PDF of 300 kB takes a fifth of a second."""
_SANDBOX = sandbox.Sandbox(seconds=120.0, memory=2_000_000_000)
_A_LETTER = re.compile(r"[^\W_]")
_NOTHING: frozenset[str] = frozenset()
_Parts = tuple[str, str | None, dict[str, Any], str | None, dict[str, int]]


def convert(path: Path, kind: str | None = None) -> Imported:
    """Return the file as Markdown; `kind` overrides that of its name.

    Raises: ImportFailure, whose message is for the person who owns the file.
    """
    return convert_bytes(path.name, read(path), kind)


def convert_bytes(name: str, data: bytes, kind: str | None = None, *, settings: Set[str] = _NOTHING) -> Imported:
    """Return a file's content as Markdown, with what `settings`, some of SETTINGS, name.

    Raises: ImportFailure, whose message is for the person who owns the file.
    """
    kind = kind or kind_of(name)
    reader = READERS.get(kind or "")
    if reader is None:
        raise unsupported(name)
    data = _content(name, data)
    if len(data) > reader.max_bytes:
        raise ImportFailure(f"larger than {reader.max_bytes // 1_000_000} MB; split it")
    kept = sorted(reader.settings & settings)
    read_it = converted if len(data) <= reader.small else partial(_bounded, "converted")
    imported = Imported(*read_it(data, reader.kind, kept))
    if not _A_LETTER.search(imported.markdown):  # an empty table is markup alone
        beside = ", ".join(f"{kind} ({number})" for kind, number in imported.left_out.items())
        raise ImportFailure(f"no text in it; left out: {beside}" if beside else "no text in it")
    return imported


def rows_in(name: str, data: bytes, *, settings: Set[str] = _NOTHING) -> list[TableRow] | None:
    """Return the rows of a table as documents; None for what is no table, or whose rows are no texts.

    Raises: ImportFailure, whose message is for the person who owns the file.
    """
    reader = READERS.get(kind_of(name) or "")
    if reader is None or reader.rows is None:
        return None
    rows = _bounded("split", _content(name, data), reader.kind, sorted(reader.settings & settings))
    return None if rows is None else [TableRow(*row) for row in rows]


def attachments_of(mail: bytes) -> list[tuple[str, bytes | None]]:
    """Return the name and the content of each attachment of a mail; None for what can't be decoded.

    Raises: ImportFailure, whose message is for the person who owns the file.
    """
    named: list[tuple[str, bytes | None]] = _bounded("attached", mail, "mail", [])
    return named


def attached(data: bytes, kind: str, kept: list[str]) -> list[tuple[str, bytes | None]]:
    """Return what `attachments_of` returns; called in a sandbox."""
    from hive_agents.readers import from_mail

    return from_mail.attached(data)


def split(data: bytes, kind: str, kept: list[str]) -> list[tuple[Any, ...]] | None:
    """Return the fields of each `TableRow`; called in a sandbox."""
    rows: list[TableRow] | None = _called(READERS[kind].rows or "", data, kind, kept)
    return None if rows is None else [tuple(row) for row in rows]


def converted(data: bytes, kind: str, kept: list[str]) -> _Parts:
    """Return the fields of `Imported`; called in a sandbox, but for small files of some kinds."""
    imported: Imported = _called(READERS[kind].read, data, kind, kept)
    left_out = {name: number for name, number in imported.left_out.items() if number}
    return imported.markdown, imported.title, imported.metadata, imported.source, left_out


def _called(place: str, data: bytes, kind: str, kept: list[str]) -> Any:
    module, _, function = place.partition(":")
    reader = getattr(import_module(f"hive_agents.readers.{module}"), function)
    return reader(data, frozenset(kept)) if READERS[kind].settings else reader(data)


def _bounded(function: str, data: bytes, kind: str, kept: list[str]) -> Any:
    """Call a function of this module in a process with limits of time and memory. Raises: ImportFailure."""
    try:
        return _SANDBOX.call(__name__, function, data, kind, kept, work=_work(data, kind))
    except Exceeded as exceeded:
        raise ImportFailure(f"{exceeded}; split it") from None
    except sandbox.JobFailed as failed:
        if failed.kind == ImportFailure.__name__:
            raise ImportFailure(str(failed)) from None
        if failed.module is not None:
            install = f"pip install 'hive-agents[{READERS[kind].extra}]'"
            raise ImportFailure(
                f"reading {kind} files needs the {READERS[kind].extra} extra: {install} (no module {failed.module})"
            ) from None
        if failed.kind == RecursionError.__name__:
            raise ImportFailure(f"not a readable {kind} file: nested too deeply") from None
        # Parsers may raise anything for a broken file.
        detail = " ".join(str(failed).split())[:200] or failed.kind
        raise ImportFailure(f"not a readable {kind} file: {detail}") from None


def _work(data: bytes, kind: str) -> int | None:
    """Return the limit of CPU seconds for a text, ten times what long texts took, or a PDF; None for other kinds."""
    return _LEAST_SECONDS + len(data) // 20_000 if READERS[kind].flat or kind == "pdf" else None


def read(path: Path) -> bytes:
    """Return the file's bytes. Raises: ImportFailure for one that is too large, gone or not readable."""
    with streamed(path) as file:
        if path.stat().st_size > MAX_BYTES:
            raise ImportFailure(f"larger than {MAX_BYTES // 1_000_000} MB; split it")
        return file.read()


@contextmanager
def streamed(path: Path) -> Iterator[BinaryIO]:
    """Yield a file of any size. Raises: ImportFailure for one that is gone or not readable, or that no longer is."""
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ImportFailure("is no file")
            yield file
    except FileNotFoundError:
        raise ImportFailure("no such file") from None
    except OSError as error:
        raise ImportFailure(f"cannot be read: {error.strerror}") from error


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)  # a pipe would wait for its writer


def _content(name: str, data: bytes) -> bytes:
    """Return a file's unpacked content. Raises: ImportFailure where it is empty or too large."""
    if name.lower().endswith(".gz"):
        data = _unzipped(data)
    if not data.strip():
        raise ImportFailure("the file is empty")
    return data


def _unzipped(data: bytes) -> bytes:
    stream = zlib.decompressobj(wbits=31)
    try:
        text = stream.decompress(data, MAX_BYTES)
    except zlib.error:
        raise ImportFailure("a broken .gz file") from None
    if stream.unconsumed_tail:
        raise ImportFailure(f"unpacks to over {MAX_BYTES // 1_000_000} MB; split it")
    return text
