"""Tables and mailboxes, listed like folders: a file for each row, mail and attachment."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Callable, Iterator, Set
from contextlib import AbstractContextManager
from dataclasses import replace
from email import message_from_bytes, policy
from functools import lru_cache, partial
from pathlib import PurePosixPath
from typing import BinaryIO

from hive_agents.readers import MAX_BYTES, ImportFailure, TableRow, conversion, from_mail, kind_of, path_part, registry
from hive_agents.sync.sources import Listing, SourceFile

_HEAD = 64_000
_MOST_ATTACHED = 1_000
"""Files of one mail: a mail of some kB names hundreds of thousands."""
_ID = re.compile(rb"(?im)^message-id:\s*(<[^<>\s]+>)")
_ANSWERS = re.compile(rb"(?im)^in-reply-to:\s*(<[^<>\s]+>)")
_ATTACHED = re.compile(rb"(?i)\b(?:file)?name\*?\d?\*?=")
_Contents = Callable[[Callable[[], bytes]], list[tuple[str, bytes | None]]]


def with_parts(listing: Listing, settings: Set[str]) -> Listing:
    """Return the listing with tables of texts replaced by their rows, and mailboxes by their mails and attachments.

    A table that can't be read is refused, so that its documents don't count as deleted.
    """
    found: list[SourceFile] = []
    refused = dict(listing.refused)

    @lru_cache(maxsize=1)  # attachments are read one after another, and their mail once for all of them
    def contents(read: Callable[[], bytes]) -> list[tuple[str, bytes | None]]:
        return conversion.attachments_of(read())

    @lru_cache(maxsize=1)  # a mailbox that isn't a file on disk, such as one of a revision, once for all of its mails
    def whole(read: Callable[[], bytes]) -> bytes:
        return read()

    for file in listing.found:
        kind = kind_of(file.file.name)
        packed = file.file.name.lower().endswith(".gz")
        try:
            if registry.is_table(file.file.name):
                found += _rows(file, settings)
            elif kind == "mailbox" and not packed:
                found += _mails(file, partial(whole, file.read), contents, refused)
            elif kind == "mail" and not packed:
                found += [file, *_attachments(file, file.read(), file.read, 0, contents)]
            else:
                found.append(file)
        except ImportFailure as failure:
            refused[str(file.file)] = str(failure)
    return replace(listing, found=found, refused=refused)


def _rows(table: SourceFile, settings: Set[str]) -> Iterator[SourceFile]:
    rows = conversion.rows_in(table.file.name, table.read(), settings=settings)
    if rows is None:
        yield table
        return
    for row in rows:
        shown = f"{table.shown} ({row.title})"
        yield SourceFile(table.file / row.key, shown, _bytes(row), row, 1, PurePosixPath(row.name))


def _bytes(row: TableRow) -> Callable[[], bytes]:
    return lambda: f"{row.title}\n\n{row.markdown}".encode()


def _mails(
    mailbox: SourceFile, whole: Callable[[], bytes], contents: _Contents, refused: dict[str, str]
) -> Iterator[SourceFile]:
    """Yield the mails of a mailbox, and what is attached to them; of a file on disk one mail is read at a time.

    A mail whose attachments can't be read is the reason for no other: `refused` has it.
    """
    with _opened(mailbox, whole) as stream:
        places = list(from_mail.mails_of(stream))
        heads = [_head(stream, place) for place in places]
        ids = {found[1] for head in heads if (found := _ID.search(head))}
        taken: dict[str, int] = {}
        for place, head in zip(places, heads, strict=True):
            found, answers = _ID.search(head), _ANSWERS.search(head)
            key = hashlib.sha256(found[1] if found else head).hexdigest()[:20]
            taken[key] = taken.get(key, 0) + 1
            key += f"-{taken[key]}" if taken[key] > 1 else ""
            subject = " ".join(str(message_from_bytes(head, policy=policy.default).get("Subject", "")).split())
            read = _reader(mailbox, whole, place)
            mail = SourceFile(
                mailbox.file / f"{key}.eml",
                f"{mailbox.shown} ({subject or 'no subject'})",
                read,
                within=1,
                part=PurePosixPath(f"{path_part(subject) if subject else 'no-subject'}.eml"),
                settings=frozenset({"unquoted"} if answers and answers[1] in ids else ()),
            )
            yield mail
            if place[1] <= MAX_BYTES:
                try:
                    yield from _attachments(mail, _slice(stream, place), read, 1, contents)
                except ImportFailure as failure:
                    refused[str(mail.file.with_suffix(""))] = f"attachments: {failure}"


def _opened(mailbox: SourceFile, whole: Callable[[], bytes]) -> AbstractContextManager[BinaryIO]:
    return conversion.streamed(mailbox.path) if mailbox.path is not None else io.BytesIO(whole())


def _head(stream: BinaryIO, place: tuple[int, int]) -> bytes:
    stream.seek(place[0])
    return stream.read(min(place[1], _HEAD)).replace(b"\r\n", b"\n").partition(b"\n\n")[0]


def _slice(stream: BinaryIO, place: tuple[int, int]) -> bytes:
    stream.seek(place[0])
    return from_mail.unquoted_mail(stream.read(place[1]))


def _reader(mailbox: SourceFile, whole: Callable[[], bytes], place: tuple[int, int]) -> Callable[[], bytes]:
    def read() -> bytes:
        if place[1] > MAX_BYTES:
            raise ImportFailure(f"larger than {MAX_BYTES // 1_000_000} MB")
        with _opened(mailbox, whole) as stream:
            return _slice(stream, place)

    return read


def _attachments(
    mail: SourceFile, data: bytes, read: Callable[[], bytes], within: int, contents: _Contents
) -> Iterator[SourceFile]:
    """Yield the attachments of a mail that can be documents. Raises: ImportFailure for a mail that takes too long, or
    has more than `_MOST_ATTACHED` of them."""
    if not _ATTACHED.search(data):
        return
    named = enumerate(name for name, _ in conversion.attachments_of(data))
    kept = [(number, name) for number, name in named if kind_of(name) is not None and name != mail.file.name]
    if len(kept) > _MOST_ATTACHED:
        raise ImportFailure(f"more than {_MOST_ATTACHED:,} files are attached")
    for number, name in kept:
        safe = f"{path_part(PurePosixPath(name).stem)}{PurePosixPath(name).suffix}"
        yield SourceFile(
            mail.file.with_suffix("") / f"{number}-{safe}" if within else mail.file / f"{number}-{safe}",
            f"{mail.shown}: {name}",
            lambda number=number: _content(contents(read), number),  # type: ignore[misc]
            within=within + 1,
            part=PurePosixPath(mail.part.with_suffix("") if mail.part else "") / safe,
        )


def _content(attachments: list[tuple[str, bytes | None]], number: int) -> bytes:
    content = attachments[number][1] if number < len(attachments) else None
    if content is None:
        raise ImportFailure("an attachment that can't be decoded")
    return content
