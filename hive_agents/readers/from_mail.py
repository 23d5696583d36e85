"""EML and mbox to Markdown: subject, main headers, text, and names of attachments."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Set
from email import message_from_bytes, policy
from email.message import EmailMessage, Message
from email.utils import getaddresses
from typing import Any, BinaryIO

from hive_agents.readers.from_text import text_as_markdown
from hive_agents.readers.imported import Imported, ImportFailure
from hive_agents.readers.markdown import escape

_BETWEEN = re.compile(rb"From \S[^\n]*\d\d:\d\d[^\n]*\n")
_ID = re.compile(r"<([^<>\s]+)>")
_LONGEST_LINE = 1_000_000
_QUOTED_FROM = re.compile(rb"^>(>*From )", re.M)
_HEADERS = ("From", "To", "Cc", "Date")


def from_mail(data: bytes, settings: Set[str] = frozenset()) -> Imported:
    message = message_from_bytes(data, policy=policy.default)
    if not isinstance(message, EmailMessage) or not any(name in message for name in ("From", "Subject", "Date")):
        raise ImportFailure("holds no mail: it has neither From nor Subject nor Date")
    subject = " ".join(str(message.get("Subject", "")).split())
    headers = [f"- {name}: {escape(' '.join(str(message[name]).split()))}" for name in _HEADERS if message.get(name)]
    attached = [str(part.get_filename()) for part in message.iter_attachments() if part.get_filename()]
    parts = [f"# {escape(subject)}" if subject else "", "\n".join(headers), _body(message, settings)]
    if attached:
        parts.append("Attached: " + escape(", ".join(attached)))
    sent = getattr(message.get("Date"), "datetime", None)
    metadata: dict[str, Any] = {
        "from": next(iter(_addresses(message, "From")), None),
        "to": _addresses(message, "To", "Cc"),
        "date": sent.date().isoformat() if sent is not None else None,
        "thread": thread_of(message),
        "attachments": attached,
    }
    metadata = {name: value for name, value in metadata.items() if value}
    return Imported("\n\n".join(part for part in parts if part) + "\n", subject or None, metadata)


def attached(data: bytes) -> list[tuple[str, bytes | None]]:
    """Return the name and the content of each part of a mail that has a name; None for what can't be decoded."""
    try:
        message = message_from_bytes(data, policy=policy.default)
        parts = [(str(part.get_filename() or ""), part) for part in message.walk()]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):  # of a broken header
        return []
    decoded = [(name, part.get_payload(decode=True)) for name, part in parts if name]
    return [(name, content if isinstance(content, bytes) else None) for name, content in decoded]


def thread_of(message: Message) -> str | None:
    """Return the id of the mail that a thread begins with."""
    for name in ("References", "In-Reply-To", "Message-ID"):
        found = _ID.search(str(message.get(name, "")))
        if found:
            return found[1]
    return None


def _addresses(message: EmailMessage, *names: str) -> list[str]:
    found = getaddresses([str(value) for name in names for value in message.get_all(name, [])])
    return list(dict.fromkeys(address.lower() for _, address in found if "@" in address))


def from_mailbox(data: bytes) -> Imported:
    """Return the mails of a packed mbox file, each under its subject, in their order. Raises: ImportFailure."""
    mails: list[str] = []
    for start, length in mails_of(io.BytesIO(data)):
        try:
            imported = from_mail(unquoted_mail(data[start : start + length]))
            mails.append(imported.markdown if imported.title else f"# (no subject)\n\n{imported.markdown}")
        except (ImportFailure, ValueError, LookupError) as error:  # of a header or a charset
            mails.append(f"# (not readable)\n\nMail {len(mails) + 1}: {escape(str(error))}\n")
    return Imported("\n".join(mails))


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


def _without_quote(text: str) -> str:
    """Return a mail's text without the quote that it ends with, and the line that introduces that."""
    lines = text.rstrip().split("\n")
    end = len(lines)
    while end and (lines[end - 1].startswith(">") or not lines[end - 1].strip()):
        end -= 1
    if end == len(lines):
        return text
    while end and lines[end - 1].rstrip().endswith(":") and len(lines) > end:
        end -= 1
        if end and lines[end - 1].strip() and lines[end - 1].lstrip().lower().startswith(("on ", "am ", "le ")):
            end -= 1
        break
    return "\n".join(lines[:end])


def _body(message: EmailMessage, settings: Set[str]) -> str:
    plain = message.get_body(("plain",))
    if plain is not None:
        text = str(plain.get_content())
        return text_as_markdown(_without_quote(text) if "unquoted" in settings else text)
    markup = message.get_body(("html",))
    if markup is None:
        return ""
    from hive_agents.readers.from_html import from_markup

    return from_markup(str(markup.get_content())).markdown.strip()
