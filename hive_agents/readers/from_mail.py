"""EML and mbox to Markdown: subject, main headers, text, and names of attachments."""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Iterator, Set
from email import message_from_bytes, policy
from email.message import EmailMessage, Message
from email.utils import getaddresses
from typing import Any, BinaryIO

from hive_agents.readers.imported import Imported, ImportFailure
from hive_agents.readers.mail_parts import BROKEN, MailTexts, content_of, header, heads, name_of
from hive_agents.readers.mail_wrapped import TNEF, packed_files, uuencoded, wrapped_mail
from hive_agents.readers.markdown import escape

_BETWEEN = re.compile(rb"From \S[^\n]*\d\d:\d\d[^\n]*\n")
_ID = re.compile(r"<([^<>\s]+)>")
_DEEPEST = 5
_LONGEST_LINE = 1_000_000
_QUOTED_FROM = re.compile(rb"^>(>*From )", re.M)


def from_mail(data: bytes, settings: Set[str] = frozenset()) -> Imported:
    message = message_from_bytes(data, policy=policy.default)
    if not isinstance(message, EmailMessage) or not any(name in message for name in ("From", "Subject", "Date")):
        raise ImportFailure("holds no mail: it has neither From nor Subject nor Date")
    subject = " ".join(str(header(message, "Subject") or "").split())
    said = MailTexts(settings)
    said.add(message)
    parts = [f"# {escape(subject)}" if subject else "", heads(message), *said.blocks]
    if said.attached:
        parts.append("Attached: " + escape(", ".join(said.attached)))
    sent = getattr(header(message, "Date"), "datetime", None)
    metadata: dict[str, Any] = {
        "from": next(iter(_addresses(message, "From")), None),
        "to": _addresses(message, "To", "Cc"),
        "date": sent.date().isoformat() if sent is not None else None,
        "thread": thread_of(message),
        "attachments": said.attached,
    }
    metadata = {name: value for name, value in metadata.items() if value}
    return Imported(
        "\n\n".join(part for part in parts if part) + "\n", subject or None, metadata, left_out=said.left_out
    )


def attached(data: bytes) -> list[tuple[str, bytes | None]]:
    """Return the name and the content of each part of a mail that has a name; None for what can't be decoded."""
    try:
        return list(_files(message_from_bytes(data, policy=policy.default)))
    except BROKEN:
        return []


def _files(message: Message, depth: int = 0) -> Iterator[tuple[str, bytes | None]]:
    for part in list(message.walk()):
        name = name_of(part)
        inner = wrapped_mail(part)
        packed = packed_files(content_of(part)) if _is_packed(part, name) else []
        if inner is not None and depth < _DEEPEST and not (name and part.is_multipart()):
            yield from _files(inner, depth + 1)
        elif packed:
            yield from packed
        elif name:
            yield name, _content(part)
        elif part.get_content_maintype() == "text":
            yield from ((each, content) for each, content in uuencoded(_plain(part)) if each)


def _is_packed(part: Message, name: str) -> bool:
    return part.get_content_type() in TNEF or name.lower() == "winmail.dat"


def _plain(part: Message) -> str:
    return content_of(part).decode("latin-1").replace("\r\n", "\n")


def _content(part: Message) -> bytes | None:
    try:
        if part.is_multipart():
            inner = wrapped_mail(part)
            held: Any = part.get_payload(0) if part.get_content_maintype() == "message" else None
            return bytes(inner) if inner is not None else None if held is None else bytes(held)
        content = part.get_payload(decode=True)
    except BROKEN:  # of the headers of an attached mail
        return None
    return content if isinstance(content, bytes) else None


def thread_of(message: Message) -> str | None:
    """Return the id of the mail that a thread begins with."""
    for name in ("References", "In-Reply-To", "Message-ID"):
        found = _ID.search(str(header(message, name) or ""))
        if found:
            return found[1]
    return None


def _addresses(message: EmailMessage, *names: str) -> list[str]:
    found = getaddresses([str(header(message, name) or "") for name in names])
    return list(dict.fromkeys(address.lower() for _, address in found if "@" in address))


def from_mailbox(data: bytes) -> Imported:
    """Return the mails of a packed mbox file, each under its subject, in their order. Raises: ImportFailure."""
    mails: list[str] = []
    left_out: Counter[str] = Counter()
    for start, length in mails_of(io.BytesIO(data)):
        try:
            imported = from_mail(unquoted_mail(data[start : start + length]))
            left_out += Counter(imported.left_out)
            mails.append(imported.markdown if imported.title else f"# (no subject)\n\n{imported.markdown}")
        except (ImportFailure, *BROKEN) as error:
            mails.append(f"# (not readable)\n\nMail {len(mails) + 1}: {escape(str(error))}\n")
    return Imported("\n".join(mails), left_out=left_out)


def mails_of(mailbox: BinaryIO) -> Iterator[tuple[int, int]]:
    """Yield the place and the length of each mail of an mbox file, which isn't read whole. Raises: ImportFailure."""
    start, at, blank = -1, 0, True
    while line := mailbox.readline(_LONGEST_LINE):
        if blank and _BETWEEN.fullmatch(line):
            if start >= 0:
                yield start, at - start
            start = at + len(line)
        elif start < 0 and line.strip():
            raise ImportFailure("holds no mailbox: its first line is not `From ADDRESS DATE`")
        at += len(line)
        blank = line in (b"\n", b"\r\n")
    if start >= 0:
        yield start, at - start


def unquoted_mail(data: bytes) -> bytes:
    """Return a mail of an mbox file as it was sent."""
    return _QUOTED_FROM.sub(rb"\1", data)
